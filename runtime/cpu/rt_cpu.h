/* SPDX-License-Identifier: MIT-0 */
/* rt_cpu.h: what the files of this folder share. */
#ifndef RT_CPU_H
#define RT_CPU_H

#include "job/rt_job.h"
#include "rt_target.h"
#include "state/rt_state.h"

/* ---- rt_comm.c ------------------------------------------------------------------- */

/* Waits until this many operations started on the stream, over the run, are complete. */
void rt_comm_wait(Rt *rt, int stream, uint64_t started);

/* Returns when every rank of the group has called it as often as this one; drives the queues. */
void rt_comm_join(Rt *rt, RtGroup group);

/* ---- rt_pull.c ------------------------------------------------------------------- */

/* Runs one round of an operation whose group has published it; and the number of its rounds. */
void rt_pull(Rt *rt, const RtOp *op, int round);
int rt_pull_rounds(const Rt *rt, const RtOp *op);

/* ---- rt_sum.c -------------------------------------------------------------------- */

enum { RT_SUM_ELEMS = 1024 }; /* a block in the tree: at most 8 KiB of double */
/* out[n] = the sum of count parts of n <= RT_SUM_ELEMS elements; count is a power of two, at least
 * 2; out may be one of the parts. By the balanced tree, or in the order of ranks. */
typedef void RtSumFn(RtDtype d, void *out, const char *const *parts, int count,
                     int64_t n);
RtSumFn rt_sum_tree, rt_sum_in_order;

/* ---- rt_norm.c ------------------------------------------------------------------- */

void rt_superacc_add(uint64_t *acc, double x); /* x >= 0, or not finite */
double rt_superacc_round(const uint64_t *acc); /* NaN if something was not finite */

#endif
