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

/* ---- gathers --------------------------------------------------------------------- */

void rt_gather(Rt *rt, RtGroup group, const void *from, void *out, int64_t bytes)
{
    rt_transport->gather(rt, group, from, out, bytes);
    rt_count_group(rt, group, bytes, &rt->state->gathered_bytes);
}

/* ---- sums ------------------------------------------------------------------------ */

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
    const int mine = rt_group_index(g, rt->rank), ranks = rt_group_ranks(g);
    const int64_t slice =
        t->staging_bytes / (ranks * item) / RT_GRAIN_ELEMS * RT_GRAIN_ELEMS;
    char *staging = rt_local(rt, t->staging_offset);
    RtParcel parcel[RT_MAX_RANKS];
    for (int64_t at = 0; at < p->elems; at += slice) {
        const int64_t own = part_elems(p, mine, at, slice);
        for (int k = 0; k < ranks; k++) {
            parcel[k] = (RtParcel){k, p->base + (k * p->stride + at) * item,
                                   part_elems(p, k, at, slice) * item,
                                   staging + k * slice * item, own * item};
        }
        rt_transport->exchange(rt, RT_REDUCE, g, parcel, ranks, slice * item);
        if (own > 0) {
            rt_add_parts(rt, rt_gpu.stream[RT_REDUCE],
                         p->base + (mine * p->stride + at) * item, staging, slice, mine,
                         ranks, own, out + at * item);
        }
    }
    rt_count_group(rt, g, part_elems(p, mine, 0, p->elems) * item,
                   &rt->state->reduced_bytes);
}

/* out = the sum over the group of this rank's part of `elems` at grad, cut into equal
 * parts. */
static void sum_group(Rt *rt, RtGroup group, char *grad, int64_t part, int64_t elems,
                      char *out)
{
    const int64_t item = (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    const RtHops *h = rt_hops(rt, group);
    if (h == NULL) {
        const Parts p = {group, grad, part, part, elems};
        sum_parts(rt, &p, out);
        return;
    }
    const int near = rt_group_index(h->near, rt->rank), mates = rt_group_ranks(h->near);
    for (int node = 0; node < rt_group_ranks(h->far); node++) {
        const int64_t first = node * mates * part;
        const Parts p = {h->near, grad + first * item, part, part, elems - first};
        sum_parts(rt, &p, p.base + near * part * item);
    }
    const Parts p = {h->far, grad + near * part * item, mates * part, part,
                     elems - near * part};
    sum_parts(rt, &p, out);
}

void rt_sum_scatter(Rt *rt, RtGroup group, void *grad, void *result, int64_t part_elems)
{
    const RtTrainer *t = rt->trainer;
    const int ranks = rt_group_ranks(group);
    if (!t->library_order) {
        sum_group(rt, group, grad, part_elems, part_elems * ranks, result);
        return;
    }
    rt_transport->sum_scatter(rt, group, grad, result, part_elems);
    rt_count_group(rt, group, part_elems * (int64_t)rt_dtype_bytes(t->reduce_dtype),
                   &rt->state->reduced_bytes);
}

/* Each rank has its slice from all others. */
static void spread(Rt *rt, const Parts *p)
{
    const int64_t item = (int64_t)rt_dtype_bytes(rt->trainer->reduce_dtype);
    const int mine = rt_group_index(p->group, rt->rank);
    const int64_t own = part_elems(p, mine, 0, p->elems);
    RtParcel parcel[RT_MAX_RANKS];
    const int ranks = rt_group_ranks(p->group);
    for (int k = 0; k < ranks; k++) {
        const int64_t theirs = part_elems(p, k, 0, p->elems);
        parcel[k] = (RtParcel){k, p->base + mine * p->stride * item, own * item,
                               p->base + k * p->stride * item, theirs * item};
        rt_count_bytes(rt, rt_group_rank(p->group, rt->rank, k), theirs * item,
                       &rt->state->reduced_bytes);
    }
    rt_transport->exchange(rt, RT_REDUCE, p->group, parcel, ranks, p->elems * item);
}

void rt_sum_in_place(Rt *rt, RtGroup group, void *grad, int64_t elems)
{
    const RtTrainer *t = rt->trainer;
    const int ranks = rt_group_ranks(group);
    const int64_t item = (int64_t)rt_dtype_bytes(t->reduce_dtype);
    /* of whole grains; the last slices may be short, or empty */
    const int64_t grains = (elems + RT_GRAIN_ELEMS - 1) / RT_GRAIN_ELEMS;
    const int64_t slice = (grains + ranks - 1) / ranks * RT_GRAIN_ELEMS;
    const int64_t first = rt_group_index(group, rt->rank) * slice;
    if (t->library_order) {
        rt_transport->sum_in_place(rt, group, grad, elems);
        return;
    }
    const Parts p = {group, grad, slice, slice, elems};
    sum_group(rt, group, grad, slice, elems, (char *)grad + first * item);
    spread(rt, &p);
}
