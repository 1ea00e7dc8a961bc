/* SPDX-License-Identifier: Apache-2.0 */
/* drive.h: the passes in their order, and the loop that plans a step. In: options
 * (g->opt). Out: what they ask for: files in g->base.files, a dump or a plan on stdout. */
#ifndef DRIVE_H
#define DRIVE_H

#include "plan/plan.h"

/* Every pass, each with its checks. Returns an exit code; runs in the child process. */
int drive(Gen *g);
enum { N_PASSES = 16 };
const char *drive_pass_name(int i); /* NULL after the last */

/* Prints to stdout what print writes. */
void drive_print(Gen *g, void (*print)(Gen *g, Text *t));

/* For drive and the tests: the pass "policy", which under recompute = "auto" plans each
 * choice that the search proposes. */
void drive_policy(Gen *g);
/* The cost of the choices as they stand: plans them, and forgets the program again. */
Cost drive_try(Gen *g);

#endif
