/* SPDX-License-Identifier: Apache-2.0 */
/* test_models.h: shared by test_models and test_parts, and by their parts (models.c). */
#ifndef TEST_MODELS_H
#define TEST_MODELS_H

#include "test_plan.h"

void models_check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A description of the folder with overrides; all passes before emit, each with its check
 * (r: shuffles what policy chose); two steps with the ops' references. */
Gen *models_open(const char *folder, const char *name, const char *const *sets);
void models_plan(Gen *g, uint64_t *r);
typedef void ModelsAfter(Gen *g, const char *pass);
void models_plan_case(Gen *g, uint64_t *r, ModelsAfter *after);
Interpretation models_run(Gen *g, uint64_t order);
/* Losses stand last in the state: NaN everywhere would equal NaN everywhere. */
bool models_finite(const Gen *g, const Interpretation *run);

/* One more override. */
void models_set(Gen *g, const char *set);
int64_t models_pick(uint64_t *r, int64_t lo, int64_t hi);
/* mesh: "{shard=4},grad": also the strategy, or how many ranks reshard. Returns all sets. */
const char *models_choose(Gen *g, uint64_t *r, const char *mesh);
enum { MODELS_WRAPS = 13 };
extern const char *const models_wraps[MODELS_WRAPS];
extern int models_passed, models_failed;

void test_again(const char *folder);    /* values that are not kept but made again */
void test_ctas(const char *folder);     /* sums limited to some multiprocessors */
void test_matrices(const char *folder); /* those that an optimizer treats whole */

#endif
