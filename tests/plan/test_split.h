/* SPDX-License-Identifier: Apache-2.0 */
/* test_split.h: shared by the parts of test_split. */
#ifndef TEST_SPLIT_H
#define TEST_SPLIT_H

#include "synth.h"

/* Where a fault has a place. */
typedef enum { IN_ALL, IN_GPT2 /* as has biases after sums */, ALONG_TENSOR } FaultPlace;

typedef struct SplitFault {
    const char *name;      /* NULL: the list ends */
    bool (*plant)(Gen *g); /* false: the model has no such place */
    const char *named;     /* in what the checker says */
    FaultPlace place;
} SplitFault;

extern PartsAxis fault_axis;           /* whose parts the next fault damages */
extern const SplitFault legs_faults[]; /* test_legs.c: after span */
extern const SplitFault box_faults[];   /* test_split_boxes.c: of padded parameters */
extern const SplitFault scale_faults[]; /* test_split_scales.c: of products in fp8 */
/* test_split_both.c: in parts of both axes */
extern const SplitFault both_faults[];
extern const SplitFault both_legs_faults[]; /* after span */
/* The first node that reads such a meet reads what one part has. False: there is none. */
bool plant_no_meet(Gen *g, PartKind from);
/* After split: each meet in turn is removed, is along the other axis, or has other parts
 * of that. How many of these verify_split names; it prints the others. */
int split_meet_faults(Gen *g, int *unseen);

#endif
