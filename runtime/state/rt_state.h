/* SPDX-License-Identifier: MIT-0 */
/* rt_state.h: the state of a run: weights, the optimizer around its kernel, what each rank has of
 * them, the step's results and their log. */
#ifndef RT_STATE_H
#define RT_STATE_H

#include "rt_private.h"
#include "state/rt_map.h"

/* ---- rt_collective.c ------------------------------------------------------------- */

/* Where this rank has its contribution to a gather. */
static inline char *rt_own_part(const Rt *rt, const RtOp *op)
{
    const int64_t bytes = op->elems * (int64_t)rt_dtype_bytes(op->dtype);
    const int before =
        op->kind == RT_OP_GATHER_IN_PLACE ? rt_group_index(op->group, rt->rank) : 0;
    return rt_symmetric(rt, op->from + before * bytes);
}

/* The two hops of a sum; NULL: it takes one. */
const RtHops *rt_hops(const Rt *rt, const RtOp *op);
/* Counts bytes that this rank has read from another, or from each rank of a group. */
void rt_count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter);
void rt_count_group(Rt *rt, RtGroup group, int64_t bytes, int64_t *counter);

/* ---- the tree of sums over leaves ------------------------------------------------ */

/* How many partial sums the node of a round joins: its trailing ones. */
static inline int rt_merge_levels(int64_t round)
{
    return __builtin_ctzll(~(unsigned long long)round);
}
static inline bool rt_is_last_round(const Rt *rt, int64_t round)
{
    return round == rt->trainer->rounds - 1;
}

/* ---- rt_update.c, rt_schedule.c -------------------------------------------------- */

int64_t rt_sum_bytes(const RtTrainer *t); /* bytes of a number in the dtype of sums */
/* The summed gradient of this rank's shard. */
char *rt_grad_shard(const Rt *rt, int segment);
double rt_learning_rate(const RtTrainer *t, int64_t step);
/* The step's update is complete or skipped: advances the optimizer's t and counters. */
void rt_update_end(Rt *rt);
bool rt_is_finite(double x);
int64_t rt_step_tokens(const RtTrainer *t);

/* ---- rt_scale.c ------------------------------------------------------------------ */

double rt_scale(const Rt *rt);  /* factor by which gradients are too large; 1: none */
void rt_scale_overflow(Rt *rt); /* a gradient is not finite: a smaller scale may help */
void rt_scale_step(Rt *rt);     /* at the end of a step, after its log */

/* ---- rt_init.c, rt_hash.c, rt_debug.c -------------------------------------------- */

void rt_init_weights(Rt *rt);
/* If each rank holds all weights: fetches the parts that others wrote. Then makes all codes.
 * Collective. */
void rt_complete_weights(Rt *rt);
/* base[i] = x in dtype d. rest: it is the weight of an f32 master, which may keep the remainder. */
void rt_store(RtDtype d, char *base, int64_t i, double x, bool rest);
uint64_t rt_weights_hash(Rt *rt); /* collective */
void rt_debug_gradients(Rt *rt, const char *path); /* collective */

/* ---- rt_sample.c, rt_evaluated.c ------------------------------------------------- */

/* False, with the reason: the flags ask for something impossible. */
bool rt_sample_check(const RtTrainer *t, const RtFlags *f, char *error);
void rt_sample(Rt *rt); /* collective */
/* Is it a model of bytes, whose tokens are text? */
static inline bool rt_is_of_bytes(const RtTrainer *t)
{
    return t->vocab <= 256;
}
void rt_evaluated(Rt *rt); /* collective: `trainer eval` */

/* ---- rt_calibrate.c: --calibrate ------------------------------------------------- */

void rt_calibrate(Rt *rt); /* collective */

/* ---- rt_log.c: --log, --stats ---------------------------------------------------- */

void rt_log_start(Rt *rt);
/* The run whose record a log begins with. False: unknown. */
bool rt_log_whose(const char *path, int64_t *seed, uint64_t *numerics);
void rt_log_step(Rt *rt, double seconds);
void rt_log_end(Rt *rt); /* collective */
/* The fraction of the device's peak that a step of this duration reached; 0: unknown. */
double rt_mfu(const Rt *rt, double seconds);

/* ---- rt_screen.c, rt_next.c: stdout ---------------------------------------------- */

void rt_screen_start(Rt *rt);
void rt_screen_step(Rt *rt, double seconds);
void rt_screen_eval(Rt *rt);              /* for a run that computes no step */
void rt_screen_end(Rt *rt, bool stopped); /* stopped: it ended before the last step */
void rt_next_print(const Rt *rt, bool stopped);

/* ---- rt_events.c: --tensorboard -------------------------------------------------- */

/* Without the flag, and on other ranks than the first, these do nothing. */
void rt_events_check(const Rt *rt); /* before anything is computed: can DIR be written? */
void rt_events_open(Rt *rt);        /* when the run's first step is known */
void rt_events_step(Rt *rt, double seconds);
void rt_events_close(Rt *rt);

#endif
