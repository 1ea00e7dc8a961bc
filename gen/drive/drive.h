/* SPDX-License-Identifier: Apache-2.0 */
/* drive.h: the passes in their order, and the loop that plans a step. In: options (g->opt). Out:
 * what the command needs: files in g->base.files, or a dump or plan on stdout. */
#ifndef DRIVE_H
#define DRIVE_H

#include "plan/plan.h"

/* Every pass, each with its checks. Returns an exit code; runs in the child process. */
int drive(Gen *g);
/* The passes from one to another. With the command "tune", a plan over the budget ends with EXIT_FIT
 * as soon as that is certain, and no change that fits is looked for. */
int drive_passes(Gen *g, const char *first, const char *last);
enum { N_PASSES = 18 };
const char *drive_pass_name(int i); /* NULL after the last */

/* Prints print's output to stdout. */
void drive_print(Gen *g, void (*print)(Gen *g, Text *t));

/* For drive and the tests: the pass "policy"; with recompute = "auto" it plans each choice that the
 * search proposes. */
void drive_policy(Gen *g);
/* The cost of the current choices: plans them, and drops the program again. */
Cost drive_try(Gen *g);

#endif
