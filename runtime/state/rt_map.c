/* SPDX-License-Identifier: MIT-0 */
/* rt_map.c: which elements of which parameters a rank holds, and where. In: the tables of
 * segments and parameters. Out: runs: elements that are consecutive both in a parameter
 * and in this rank's shard. Initial weights, updates, checkpoints, hashes and debugging
 * all ask here.
 *
 * Ranks along a segment's axes hold a part of its parameters each: of each index of the
 * dims before cut_dim, a block of consecutive elements. A part's blocks follow each other
 * in the segment, whose elements are then dealt to the shards. */
#include "rt_target.h"
#include "state/rt_state.h"

size_t rt_dtype_bytes(RtDtype d)
{
    return d == RT_F64 ? 8 : d == RT_F32 ? 4 : 2;
}

static int64_t shard_first(const Rt *rt, const RtSegment *s)
{
    return rt_group_index(s->within, rt->rank) * s->shard_elems;
}

int64_t rt_param_part(const Rt *rt, const RtSegment *s)
{
    const int64_t item = (int64_t)rt_dtype_bytes(s->dtype);
    return s->param_shard + (s->params_whole ? shard_first(rt, s) * item : 0);
}

int64_t rt_held_elems(const RtSegment *s, const RtParam *p)
{
    return p->elems / rt_group_ranks(s->axes);
}

/* Elements of a part that are consecutive in their parameter. */
static int64_t block_elems(const RtSegment *s, const RtParam *p)
{
    int64_t elems = p->elems;
    for (int d = 0; s->axes != 0 && d < p->cut_dim; d++)
        elems /= p->dim[d];
    return elems / rt_group_ranks(s->axes);
}

/* Runs between elements lo and hi of the segment, where this rank's buffers begin at
 * base. */
static void runs_between(const Rt *rt, const RtSegment *s, int64_t base, int64_t lo,
                         int64_t hi, RtRunFn fn, void *ctx)
{
    const RtTrainer *t = rt->trainer;
    const int64_t parts = rt_group_ranks(s->axes),
                  part = rt_group_index(s->axes, rt->rank);
    for (int i = 0; i < s->n_params; i++) {
        const int id = t->segment_params[s->first_param + i];
        const RtParam *p = &t->params[id];
        const int64_t block = block_elems(s, p),
                      end = p->offset_elems + rt_held_elems(s, p);
        const int64_t to = end < hi ? end : hi;
        for (int64_t from = p->offset_elems > lo ? p->offset_elems : lo; from < to;) {
            const int64_t held = from - p->offset_elems, inside = held % block;
            const int64_t element = (held / block * parts + part) * block + inside;
            const int64_t elems = to - from < block - inside ? to - from : block - inside;
            const RtRun run = {p, id, from - base, element, elems};
            fn(ctx, &run);
            from += elems;
        }
    }
}

void rt_shard_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    const int64_t lo = shard_first(rt, s);
    runs_between(rt, s, lo, lo, lo + s->shard_elems, fn, ctx);
}

void rt_share_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    const RtGroup same = (RtGroup)(rt->world_size - 1) & ~s->within & ~s->axes;
    const int64_t copies = rt_group_ranks(same), copy = rt_group_index(same, rt->rank);
    const int64_t grains = (s->shard_elems + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS;
    const int64_t share = (grains + copies - 1) / copies * RT_GRAIN_ELEMS;
    const int64_t base = shard_first(rt, s);
    const int64_t end = base + s->shard_elems, lo = base + copy * share;
    runs_between(rt, s, base, lo, lo + share < end ? lo + share : end, fn, ctx);
}

void rt_run_windows(void *ctx, const RtRun *run, RtWindowFn fn)
{
    for (int64_t from = 0; from < run->elems; from += RT_WINDOW_ELEMS) {
        const int64_t left = run->elems - from;
        fn(ctx, run, from, left < RT_WINDOW_ELEMS ? left : RT_WINDOW_ELEMS);
    }
}

/* As matrix_others of gen/ deals them: each parameter's on a multiple of so many. */
enum { OTHERS_ALIGN_ELEMS = 8 };

int64_t rt_second_moment(const Rt *rt, int segment, int64_t at)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    const int64_t lo = shard_first(rt, s);
    int64_t n = 0;
    if (t->n_batches == 0)
        return at;
    for (int i = 0; i < s->n_params; i++) {
        const RtParam *p = &t->params[t->segment_params[s->first_param + i]];
        const int64_t from = p->offset_elems > lo ? p->offset_elems : lo;
        const int64_t end = p->offset_elems + rt_held_elems(s, p);
        const int64_t to = end < lo + at ? end : lo + at;
        n += p->n_matrices == 0 && from < to ? to - from : 0;
        if (end <= lo + at) /* the next parameter's are aligned */
            n = (n + OTHERS_ALIGN_ELEMS - 1) / OTHERS_ALIGN_ELEMS * OTHERS_ALIGN_ELEMS;
    }
    return n;
}
