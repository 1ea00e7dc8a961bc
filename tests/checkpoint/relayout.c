/* SPDX-License-Identifier: Apache-2.0 */
/* relayout.c, linked into a trainer (--wrap=rt_main): the same model over RANKS ranks,
 * any number of them, whose steps compute nothing. Such a run loads a checkpoint, goes a
 * step on, and saves it: weights, masters and moments must come out as they went in,
 * whatever number of ranks cuts them where.
 *
 * AXES=n: of the ranks, the n highest bits' worth hold parts of the parameters, cut along
 * one of their dims in turn, where it divides. WIDE=1: vectors lie in segments of f32. So
 * each segment becomes up to four, one for each key. */
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_rt_main(const RtTrainer *trainer, int argc, char **argv);
int __wrap_rt_main(const RtTrainer *trainer, int argc, char **argv);

static RtTrainer t;
static RtSegment *segments;
static RtParam *params;
static int *ids, n_segments, n_ids, ranks, parts, wide;

static int number(const char *name, int otherwise)
{
    const char *text = getenv(name);

    return text ? atoi(text) : otherwise;
}

static int64_t reserve(int64_t *end, int64_t bytes)
{
    int64_t at = *end;

    *end += (bytes + 255) / 256 * 256;
    return at;
}

static void nothing(Rt *rt)
{
    (void)rt;
}

static int64_t item_bytes(RtDtype d)
{
    return d == RT_F64 ? 8 : d == RT_F32 ? 4 : 2;
}

/* The last dim that has equal parts, or of every other parameter the first; -1: none. */
static int cut_of(const RtParam *p)
{
    int found = -1;

    for (int d = 0; d < p->n_dims && parts > 1; d++)
        if (p->dim[d] % parts == 0 && (found < 0 || (p - t.params) % 2 == 0))
            found = d;
    return found;
}

static bool is_wide(const RtParam *p)
{
    return wide && p->n_dims == 1;
}

/* Where a rank has what of the segment. */
static void lay(RtSegment *s, int64_t elems)
{
    const int shards = ranks / rt_group_ranks(s->axes);
    const bool own_master = s->dtype == RT_F32 && t.master_dtype != RT_F64;
    int64_t of[] = {item_bytes(t.master_dtype), item_bytes(t.moments_dtype),
                    item_bytes(t.moments_dtype)};
    int64_t *place[] = {&s->master, &s->moment1, &s->moment2};

    s->within = (RtGroup)shards - 1;
    s->shards = shards;
    s->params_whole = false;
    s->across = s->between = 0;
    s->shard_elems = (elems + (int64_t)shards * RT_GRAIN_ELEMS - 1) /
                     (shards * RT_GRAIN_ELEMS) * RT_GRAIN_ELEMS;
    s->elems = s->shard_elems * shards;
    s->param_shard = reserve(&t.symmetric_bytes, s->shard_elems * item_bytes(s->dtype));
    if (own_master)
        s->master = -1;
    for (int k = 0; k < 3; k++)
        if (*place[k] >= 0)
            *place[k] = reserve(&t.local_bytes, s->shard_elems * of[k]);
    s->grad_shard = reserve(&t.local_bytes, s->shard_elems * item_bytes(t.reduce_dtype));
}

/* Those of a segment's parameters that have this key, in its order. */
static void key(const RtSegment *from, bool is_cut, bool is_f32)
{
    RtSegment *s = &segments[n_segments];
    int64_t end = 0;

    *s = *from;
    s->first_param = n_ids;
    s->n_params = 0;
    s->axes = is_cut ? (RtGroup)(ranks - ranks / parts) : 0;
    s->dtype = is_f32 ? RT_F32 : from->dtype;
    for (int i = 0; i < from->n_params; i++) {
        int id = t.segment_params[from->first_param + i];
        RtParam *p = &params[id];

        if ((cut_of(&t.params[id]) >= 0) != is_cut || is_wide(p) != is_f32)
            continue;
        p->cut_dim = is_cut ? cut_of(&t.params[id]) : 0;
        p->segment = n_segments;
        p->offset_elems = (end + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS * RT_GRAIN_ELEMS;
        end = p->offset_elems + p->elems / rt_group_ranks(s->axes);
        ids[n_ids++] = id;
        s->n_params++;
    }
    if (s->n_params > 0) {
        lay(s, end);
        n_segments++;
    }
}

int __wrap_rt_main(const RtTrainer *trainer, int argc, char **argv)
{
    t = *trainer;
    ranks = number("RANKS", 1);
    parts = number("AXES", 1);
    wide = number("WIDE", 0);
    segments = calloc((size_t)t.n_segments * 4, sizeof *segments);
    params = calloc((size_t)t.n_params, sizeof *params);
    ids = calloc((size_t)t.n_params, sizeof *ids);
    if (!segments || !params || !ids || ranks < 1 || ranks > RT_MAX_RANKS || parts < 1 ||
        ranks % parts != 0 || t.n_batches > 0)
        return 70;
    memcpy(params, t.params, (size_t)t.n_params * sizeof *params);
    t.world_size = ranks;
    t.node_ranks = 0;
    t.replicate = 0;
    t.data = (RtGroup)(ranks / parts) - 1;
    t.symmetric_bytes = t.local_bytes = 0;
    t.control_offset = reserve(&t.symmetric_bytes, RT_CONTROL_BYTES(t.micro_batches));
    for (int i = 0; i < trainer->n_segments; i++)
        for (int k = 0; k < 4; k++)
            key(&trainer->segments[i], k & 1, k & 2);
    t.segments = segments;
    t.params = params;
    t.segment_params = ids;
    t.n_segments = n_segments;
    t.step = t.setup = nothing;
    return __real_rt_main(&t, argc, argv);
}
