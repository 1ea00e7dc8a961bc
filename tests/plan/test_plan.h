/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan.h: shared by the parts of test_plan. */
#ifndef TEST_PLAN_H
#define TEST_PLAN_H

#include "synth.h"

extern int tests_passed, tests_failed;

void test_that(bool ok, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Runs fn(arg) in a process of its own, since the generator's arenas are never freed, and
 * adds what it counted: checks, and test_tally. A crash is a failure. */
enum { TALLY = 8 };
extern int test_tally[TALLY];
void test_forked(void (*fn)(uint64_t arg), uint64_t arg);

Gen *plan_model(const SynthShape *s, const SynthMesh *m);
Interpretation run_model(Gen *g, uint64_t seed);
bool same_state(const Interpretation *a, const Interpretation *b);

void test_mesh(uint64_t seed);
void test_layout(uint64_t seed);
void test_orders(uint64_t seed);            /* hb_same, hb_group against a plain search */
void test_waits(uint64_t seed, int models); /* every wait removed in turn */
void test_masks(uint64_t seed, int models); /* data ranks and cuts of any bits */
void test_symmetry(uint64_t seed, int models); /* two ranks along a part, or every rank */
void test_faults(uint64_t seed);            /* planted ones */

#endif
