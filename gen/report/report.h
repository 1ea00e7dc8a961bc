/* SPDX-License-Identifier: Apache-2.0 */
/* report.h: what plan_text.c, plan_json.c, plan_matrices.c, dump.c and dump_plan.c share. */
#ifndef REPORT_H
#define REPORT_H

#include "plan/plan.h"

typedef struct PlanWarnings {
    const char **items;
    int count, cap;
} PlanWarnings;
PlanWarnings plan_warnings(Gen *g);
void plan_print_matrices(Gen *g, Text *t); /* empty if the optimizer has none */
/* dump_plan.c: true if pass is one of shard, policy, unroll, schedule, place, simulate. */
bool dump_plan(Gen *g, const char *pass, Text *t);

struct json_t *json_finite(double x); /* null: more than a prediction can be */
struct json_t *plan_kernels_json(Gen *g); /* plan_kernels.c */

/* plan_image.c */
typedef struct ImageKernel {
    const char *name;
    int64_t registers;       /* of a thread */
    int64_t stack_bytes;     /* of a thread: registers that did not fit, and arrays */
    int64_t shared_bytes;    /* of a block */
    int64_t threads;         /* of a block; 0: it depends on the call */
} ImageKernel;
typedef struct KernelImage {
    ImageKernel *items;
    int count, cap;
} KernelImage;
/* Is it one of a call's kernels? kernel: the op's; NULL: call is one of the runtime's or optimizer's. */
bool image_kernel_is_of(const ImageKernel *k, const char *kernel, const char *call);

const char *plan_run_text(Gen *g); /* "80.8 h; 161.5 GPU hours, 323 USD at 2.00 an hour" */
bool plan_run_is_asked(const Gen *g); /* by --tokens or --price */
void plan_print_run(Gen *g, Text *t); /* "15 T tokens: 28.6 M steps, ..." */
struct json_t *plan_run_json(Gen *g); /* the run of --tokens and --price; NULL: not given */

#endif
