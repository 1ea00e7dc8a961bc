/* SPDX-License-Identifier: Apache-2.0 */
/* test_split.h: shared by the parts of test_split. */
#ifndef TEST_SPLIT_H
#define TEST_SPLIT_H

#include "synth.h"

typedef struct SplitFault {
    const char *name;       /* NULL: the list ends */
    bool (*plant)(Gen *g);  /* false: the model has no such place */
    const char *named;      /* in what the checker says */
    bool gpt2;              /* only that has biases after sums */
} SplitFault;

extern const SplitFault legs_faults[]; /* test_legs.c: after span */

#endif
