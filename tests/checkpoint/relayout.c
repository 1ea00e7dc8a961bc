/* SPDX-License-Identifier: Apache-2.0 */
/* relayout.c, linked into a trainer (--wrap=rt_main): the same model over
 * RANKS ranks, any number of them, whose steps compute nothing. Such a run loads a
 * checkpoint, goes a step on, and saves it: weights, masters and moments must come out as
 * they went in, whatever number of ranks cuts them where. */
#include "rt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_rt_main(const RtTrainer *trainer, int argc, char **argv);
int __wrap_rt_main(const RtTrainer *trainer, int argc, char **argv);

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

/* The shards of one segment, in the order in which they are read anywhere. */
static void lay(RtSegment *s, RtTrainer *t, int ranks)
{
    int64_t elems = 0;

    for (int i = 0; i < s->n_params; i++) {
        const RtParam *p = &t->params[t->segment_params[s->first_param + i]];
        elems = p->offset_elems + p->elems > elems ? p->offset_elems + p->elems : elems;
    }
    s->shards = ranks;
    s->within = (RtGroup)ranks - 1;
    s->params_whole = false;
    s->across = s->between = 0;
    s->shard_elems = (elems + (int64_t)ranks * RT_GRAIN_ELEMS - 1) /
                     (ranks * RT_GRAIN_ELEMS) * RT_GRAIN_ELEMS;
    s->elems = s->shard_elems * ranks;
    s->param_shard =
        reserve(&t->symmetric_bytes, s->shard_elems * item_bytes(t->param_dtype));
    if (s->master >= 0)
        s->master =
            reserve(&t->local_bytes, s->shard_elems * item_bytes(t->master_dtype));
    if (s->moment1 >= 0)
        s->moment1 =
            reserve(&t->local_bytes, s->shard_elems * item_bytes(t->moments_dtype));
    if (s->moment2 >= 0)
        s->moment2 =
            reserve(&t->local_bytes, s->shard_elems * item_bytes(t->moments_dtype));
    s->grad_shard =
        reserve(&t->local_bytes, s->shard_elems * item_bytes(t->reduce_dtype));
}

int __wrap_rt_main(const RtTrainer *trainer, int argc, char **argv)
{
    RtTrainer t = *trainer;
    const int ranks = atoi(getenv("RANKS"));
    RtSegment *segments = calloc((size_t)t.n_segments, sizeof *segments);

    if (!segments || ranks < 1 || ranks > RT_MAX_RANKS || t.n_batches > 0)
        return 70;
    memcpy(segments, t.segments, (size_t)t.n_segments * sizeof *segments);
    t.world_size = ranks;
    t.node_ranks = 0;
    t.replicate = 0;
    t.data = (RtGroup)ranks - 1;
    t.symmetric_bytes = t.local_bytes = 0;
    t.control_offset = reserve(&t.symmetric_bytes, RT_CONTROL_BYTES(t.micro_batches));
    for (int i = 0; i < t.n_segments; i++)
        lay(&segments[i], &t, ranks);
    t.segments = segments;
    t.step = t.setup = nothing;
    return __real_rt_main(&t, argc, argv);
}
