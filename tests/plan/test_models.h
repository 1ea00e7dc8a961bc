/* SPDX-License-Identifier: Apache-2.0 */
/* test_models.h: shared by the parts of test_models. */
#ifndef TEST_MODELS_H
#define TEST_MODELS_H

#include "test_plan.h"

void models_check(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A description of the folder with overrides; all passes before emit, each with its check
 * (r: shuffles what policy chose); two steps with the ops' references. */
Gen *models_open(const char *folder, const char *name, const char *const *sets);
void models_plan(Gen *g, uint64_t *r);
Interpretation models_run(Gen *g, uint64_t order);

void test_matrices(const char *folder); /* those that an optimizer treats whole */

#endif
