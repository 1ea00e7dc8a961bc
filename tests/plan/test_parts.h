/* SPDX-License-Identifier: Apache-2.0 */
/* test_parts.h: shared by the parts of test_parts. */
#ifndef TEST_PARTS_H
#define TEST_PARTS_H

#include "test_models.h"
#include "test_split.h"

/* A model in 4 parts, planned for that mesh. */
typedef Gen *PartsOpen(const char *folder, const char *mesh);

typedef struct PartsFaulty {
    PartsOpen *open;
    const char *two;   /* a mesh on which a rank has two parts */
    const char *waits; /* one whose spans wait */
    bool along[N_PARTS_AXES];
} PartsFaulty;

/* want: its bits. */
void test_parts_faults(const PartsFaulty *x, const char *folder,
                       const Interpretation *want);

#endif
