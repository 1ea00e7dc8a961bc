/* SPDX-License-Identifier: MIT-0 */
/* rt_tree.c: gathers and sums between ranks, over whatever transport carries the bytes
 * (NCCL, or the loopback). In: groups of ranks, buffers of the arena. Out: exchanges and
 * ordered additions on the gather and the reduce stream.
 *
 * A sum has the order that the trainer's description names. The tree does not know what a
 * library would do: every rank sends the others their parts (a staged all-to-all, slice
 * by slice into a planned buffer), then a kernel adds what came, node by node. Where a
 * group spans nodes of several ranks it takes two hops, first within a node, so that a
 * part crosses once for each node: groups are numbered low bits first, so it is the same
 * tree. With reduction = "library" the transport sums. */
#include "cuda/rt_gpu.h"

const RtTransport *rt_transport;

/* ---- counters ---------------------------------------------------------------------- */

/* As rt_pull.c counts: bytes from a rank of another copy apart, those of other nodes too.
 */
void rt_count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter)
{
    const RtTrainer *t = rt->trainer;
    const int copy = rt->world_size / (t->replicate > 0 ? t->replicate : 1);
    const int node = t->node_ranks > 0 ? t->node_ranks : rt->world_size;
    if (peer == rt->rank) {
        return;
    }
    if (peer / node != rt->rank / node) {
        rt->state->node_bytes += bytes;
    }
    *(peer / copy == rt->rank / copy ? counter : &rt->state->replicate_bytes) += bytes;
}

/* ---- gathers ----------------------------------------------------------------------- */

void rt_gather(Rt *rt, RtGroup group, const void *from, void *out, int64_t bytes)
{
    rt_transport->gather(rt, group, from, out, bytes);
    for (int k = 0; k < group.ranks; k++) {
        rt_count_bytes(rt, rt_group_rank(group, rt->rank, k), bytes,
                       &rt->state->gathered_bytes);
    }
}

/* ---- sums -------------------------------------------------------------------------- */

/* Parts of a flat buffer: part k of the group's ranks begins at k * stride and has
 * `elems` elements, but none at or beyond `total`. */
typedef struct Parts {
    RtGroup group;
    char *base;
    int64_t stride, elems, total;
} Parts;

/* Elements of part k between at and at + slice. */
static int64_t part_elems(const Parts *p, int k, int64_t at, int64_t slice)
{
    int64_t n = p->total - k * p->stride;
    n = (n < p->elems ? n : p->elems) - at;
    return n < 0 ? 0 : n < slice ? n : slice;
}

/* out = the tree over the group of this rank's part of theirs; out may be that part of
 * ours. */
static void sum_parts(Rt *rt, const Parts *p, char *out)
{
    const RtTrainer *t = rt->trainer;
    const RtGroup g = p->group;
    const int64_t item = (int64_t)rt_dtype_bytes(t->reduce_dtype);
    const int mine = rt_group_index(g, rt->rank);
    const int64_t slice =
        t->staging_bytes / (g.ranks * item) / RT_GRAIN_ELEMS * RT_GRAIN_ELEMS;
    char *staging = rt_local(rt, t->staging_offset);
    RtParcel parcel[RT_MAX_RANKS];
    for (int64_t at = 0; at < p->elems; at += slice) {
        const int64_t own = part_elems(p, mine, at, slice);
        for (int k = 0; k < g.ranks; k++) {
            parcel[k] = (RtParcel){k, p->base + (k * p->stride + at) * item,
                                   part_elems(p, k, at, slice) * item,
                                   staging + k * slice * item, own * item};
        }
        rt_transport->exchange(rt, RT_REDUCE, g, parcel, g.ranks, slice * item);
        if (own > 0) {
            rt_add_parts(rt, rt_gpu.stream[RT_REDUCE],
                         p->base + (mine * p->stride + at) * item, staging, slice, mine,
                         g.ranks, own, out + at * item);
        }
    }
    for (int k = 0; k < g.ranks; k++) {
        rt_count_bytes(rt, rt_group_rank(g, rt->rank, k),
                       part_elems(p, mine, 0, p->elems) * item,
                       &rt->state->reduced_bytes);
    }
}

/* See rt_pull.c: where a group spans nodes of several ranks each. */
typedef struct Hops {
    int count;         /* 1 or 2 */
    RtGroup near, far; /* one hop: far is the whole group */
} Hops;

static Hops hops_of(const Rt *rt, RtGroup group)
{
    const int mates = rt->trainer->node_ranks / group.stride;
    if (mates < 2 || mates >= group.ranks) {
        return (Hops){1, {1, 1}, group};
    }
    return (Hops){2, {mates, group.stride}, {group.ranks / mates, group.stride * mates}};
}

/* out = the sum over the group of this rank's part of `elems` at grad, cut into equal
 * parts. */
static void sum_group(Rt *rt, RtGroup group, char *grad, int64_t part, int64_t elems,
                      char *out)
{
    const int64_t item = (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    const Hops h = hops_of(rt, group);
    const int near = rt_group_index(h.near, rt->rank);
    if (h.count == 2) {
        for (int node = 0; node < h.far.ranks; node++) {
            const int64_t first = node * h.near.ranks * part;
            const Parts p = {h.near, grad + first * item, part, part, elems - first};
            sum_parts(rt, &p, p.base + near * part * item);
        }
        const Parts p = {h.far, grad + near * part * item, h.near.ranks * part, part,
                         elems - near * part};
        sum_parts(rt, &p, out);
        return;
    }
    const Parts p = {group, grad, part, part, elems};
    sum_parts(rt, &p, out);
}

void rt_sum_scatter(Rt *rt, int segment, void *grad, void *result)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    const RtGroup group = {s->shards, 1};
    if (!t->library_order) {
        sum_group(rt, group, grad, s->shard_elems, s->elems, result);
        return;
    }
    rt_transport->sum_scatter(rt, group, grad, result, s->shard_elems);
    for (int k = 0; k < group.ranks; k++) {
        rt_count_bytes(rt, k + rt->rank / group.ranks * group.ranks,
                       s->shard_elems * (int64_t)rt_dtype_bytes(t->reduce_dtype),
                       &rt->state->reduced_bytes);
    }
}

/* Each rank has its slice from all others. */
static void spread(Rt *rt, const Parts *p)
{
    const int64_t item = (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    const int mine = rt_group_index(p->group, rt->rank);
    const int64_t own = part_elems(p, mine, 0, p->elems);
    RtParcel parcel[RT_MAX_RANKS];
    for (int k = 0; k < p->group.ranks; k++) {
        const int64_t theirs = part_elems(p, k, 0, p->elems);
        parcel[k] = (RtParcel){k, p->base + mine * p->stride * item, own * item,
                               p->base + k * p->stride * item, theirs * item};
        rt_count_bytes(rt, rt_group_rank(p->group, rt->rank, k), theirs * item,
                       &rt->state->reduced_bytes);
    }
    rt_transport->exchange(rt, RT_REDUCE, p->group, parcel, p->group.ranks,
                           p->elems * item);
}

void rt_sum_in_place(Rt *rt, int segment, void *grad)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    const RtGroup group = {rt->world_size / s->shards, s->shards};
    const int64_t elems = s->shard_elems;
    const int64_t item = (int64_t)rt_dtype_bytes(t->reduce_dtype);
    /* of whole grains; the last slices may be short, or empty */
    const int64_t grains = (elems + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS;
    const int64_t slice = (grains + group.ranks - 1) / group.ranks * RT_GRAIN_ELEMS;
    const int64_t first = rt_group_index(group, rt->rank) * slice;
    if (t->library_order) {
        rt_transport->sum_in_place(rt, group, grad, elems);
        return;
    }
    const Parts p = {group, grad, slice, slice, elems};
    sum_group(rt, group, grad, slice, elems, (char *)grad + first * item);
    spread(rt, &p);
}
