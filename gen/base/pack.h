/* SPDX-License-Identifier: Apache-2.0 */
/* pack.h: gives each item an offset; some pairs conflict (pack.c). */
#ifndef PACK_H
#define PACK_H

#include "base/base.h"

/* The problem: n items of bytes (multiples of the alignment), conflict bit (i, j). Stress tests use
 * it too. */
typedef struct PackProblem {
    int n, words;
    const int64_t *bytes;
    const uint64_t *conflict;    /* n rows of `words` words, symmetric, diagonal clear */
    const int *start, *duration; /* used by the orders */
    int64_t lower_bound;         /* stop when reached; 0: unknown */
} PackProblem;
int64_t pack_items(Gen *g, const PackProblem *pr, int64_t *offset); /* returns the peak */

#endif
