/* SPDX-License-Identifier: Apache-2.0 */
/* test_op.h: `fsdpgen test-op DIR` (test_op.c). */
#ifndef TEST_OP_H
#define TEST_OP_H

#include "gen.h"

/* With main's arguments. Returns an exit code. */
int test_op_run(Gen *g, char **argv);

#endif
