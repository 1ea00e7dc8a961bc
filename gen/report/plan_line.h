/* SPDX-License-Identifier: Apache-2.0 */
/* plan_line.h: a planned step over time (plan_line.c), for `plan --html` and `plan --trace`. */
#ifndef PLAN_LINE_H
#define PLAN_LINE_H

#include "plan/plan.h"

/* What bytes are for; the classes of `fsdpgen plan`. */
typedef enum {
    FOR_PARAMS, FOR_GRADIENTS, FOR_OPTIMIZER, FOR_PARTIALS, FOR_ACTIVATIONS, FOR_GATHERED,
    FOR_WORKSPACE, N_FOR
} PlanFor;
extern const char *const plan_for[N_FOR]; /* their names */

typedef struct PlanMoment { int64_t ps, live[N_FOR]; } PlanMoment;

/* The last micro-step of a step and the step's end. */
typedef struct PlanLine {
    int first, count;        /* instructions */
    int64_t *start, *end;    /* of all instructions of the program, in picoseconds */
    int64_t *waits;          /* and what their kernels wait for meanwhile */
    int64_t ps;              /* all of it */
    struct { PlanMoment *items; int count, cap; } moments; /* by time, at most MAX_MOMENTS */
    int64_t *exposed;        /* by unit: what the compute stream waits for its collectives */
    int64_t waited;          /* in all, also for collectives before a meet */
} PlanLine;

enum { MAX_MOMENTS = 1500 };
PlanLine plan_line(Gen *g);
/* What a call is drawn as. */
typedef enum { CALL_FORWARD, CALL_AGAIN, CALL_BACKWARD, CALL_REST, CALL_GATHER, CALL_REDUCE, N_CALLS } PlanCall;
extern const char *const plan_call[N_CALLS];
PlanCall plan_call_of(const Instr *i);

/* plan_page.c, plan_trace.c: files of a plan. */
void plan_page(Gen *g, Text *t);
void plan_trace(Gen *g, Text *t);

#endif
