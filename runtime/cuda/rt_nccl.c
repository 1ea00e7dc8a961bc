/* SPDX-License-Identifier: MIT-0 */
/* rt_nccl.c: gathers and sums between GPUs, by NCCL. In: groups of ranks, buffers of the
 * arena. Out: collectives on the gather and the reduce stream.
 *
 * A sum has the order that the trainer's description names. The tree does not know what a
 * library would do: every rank sends the others their parts (a staged all-to-all, slice
 * by slice into a planned buffer), then a kernel adds what came, node by node. Where a
 * group spans nodes of several ranks it takes two hops, first within a node, so that a
 * part crosses once for each node: groups are numbered low bits first, so it is the same
 * tree. With reduction = "library" NCCL sums.
 *
 * There is a communicator for each set of groups on each stream: the two streams run side
 * by side, and NCCL is told to keep the order in which the host starts them, the same on
 * all ranks. */
#include "rt_gpu.h"

#include <nccl.h>
#include <stdlib.h>
#include <string.h>

#define RT_NCCL_CALL(rt, call)                                                           \
    do {                                                                                 \
        const ncclResult_t result_ = (call);                                             \
        if (result_ != ncclSuccess) {                                                    \
            nccl_failed(rt, #call, result_);                                             \
        }                                                                                \
    } while (0)

typedef struct Comm {
    RtGroup group;
    int stream;
    ncclComm_t comm;
} Comm;
enum { MAX_COMMS = 16 };
static ncclComm_t world;
static Comm comms[MAX_COMMS];
static int n_comms;

/* ---- communicators ----------------------------------------------------------------- */

static _Noreturn void nccl_failed(const Rt *rt, const char *call, ncclResult_t result)
{
    rt_fail(rt, RT_EXIT_ERROR, "%s on GPU %d: %s: %s", call, rt_gpu.index,
            ncclGetErrorString(result), ncclGetLastError(world));
}

int rt_nccl_version(void)
{
    int version = 0;
    ncclGetVersion(&version);
    return version;
}

/* Rank 0's word reaches the others through the page that they share. */
void rt_nccl_open(Rt *rt)
{
    ncclUniqueId id;
    _Static_assert(sizeof id <= sizeof rt->state->shared->nccl_id,
                   "the page holds the id");
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0); /* two streams, one order */
    setenv("NCCL_NVLS_ENABLE", "0", 0);           /* sums differ from run to run */
    if (rt->rank == 0) {
        RT_NCCL_CALL(rt, ncclGetUniqueId(&id));
        memcpy(rt->state->shared->nccl_id, &id, sizeof id);
    }
    rt_exchange_begin(rt);
    rt_exchange_publish(rt);
    memcpy(&id, rt->state->shared->nccl_id, sizeof id);
    rt_exchange_end(rt);
    RT_NCCL_CALL(rt, ncclCommInitRank(&world, rt->world_size, id, rt->rank));
}

static ncclComm_t comm_of(Rt *rt, RtGroup g, int stream)
{
    for (int i = 0; i < n_comms; i++) {
        if (comms[i].group.ranks == g.ranks && comms[i].group.stride == g.stride &&
            comms[i].stream == stream) {
            return comms[i].comm;
        }
    }
    if (n_comms == MAX_COMMS) {
        rt_fail(rt, RT_EXIT_ERROR, "more than %d sets of groups", MAX_COMMS);
    }
    Comm *c = &comms[n_comms++];
    *c = (Comm){g, stream, NULL};
    const int color = rt->rank / (g.ranks * g.stride) * g.stride + rt->rank % g.stride;
    RT_NCCL_CALL(rt, ncclCommSplit(world, color, rt->rank, &c->comm, NULL));
    return c->comm;
}

void rt_nccl_check(const Rt *rt)
{
    ncclResult_t result = ncclSuccess;
    for (int i = -1; i < n_comms; i++) {
        const ncclComm_t comm = i < 0 ? world : comms[i].comm;
        if (ncclCommGetAsyncError(comm, &result) == ncclSuccess &&
            result != ncclSuccess && result != ncclInProgress) {
            rt_fail(rt, RT_EXIT_ERROR, "a collective failed on GPU %d: %s: %s",
                    rt_gpu.index, ncclGetErrorString(result), ncclGetLastError(comm));
        }
    }
}

void rt_nccl_close(Rt *rt)
{
    for (int i = 0; i < n_comms; i++) {
        RT_NCCL_CALL(rt, ncclCommDestroy(comms[i].comm));
    }
    n_comms = 0;
    RT_NCCL_CALL(rt, ncclCommDestroy(world));
}

/* ---- counters ---------------------------------------------------------------------- */

/* As rt_pull.c counts: bytes from a rank of another copy apart, those of other nodes too.
 */
static void count_bytes(Rt *rt, int peer, int64_t bytes, int64_t *counter)
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

void rt_nccl_gather(Rt *rt, RtGroup group, const void *from, void *out, int64_t bytes)
{
    RT_NCCL_CALL(rt,
                 ncclAllGather(from, out, (size_t)bytes, ncclInt8,
                               comm_of(rt, group, RT_GATHER), rt_gpu.stream[RT_GATHER]));
    for (int k = 0; k < group.ranks; k++) {
        count_bytes(rt, rt_group_rank(group, rt->rank, k), bytes,
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
    const ncclComm_t comm = comm_of(rt, g, RT_REDUCE);
    const cudaStream_t stream = rt_gpu.stream[RT_REDUCE];
    char *staging = rt_local(rt, t->staging_offset);
    for (int64_t at = 0; at < p->elems; at += slice) {
        const int64_t own = part_elems(p, mine, at, slice);
        RT_NCCL_CALL(rt, ncclGroupStart());
        for (int k = 0; k < g.ranks; k++) {
            const int64_t theirs = part_elems(p, k, at, slice);
            if (k != mine && theirs > 0) {
                RT_NCCL_CALL(rt, ncclSend(p->base + (k * p->stride + at) * item,
                                          (size_t)(theirs * item), ncclInt8, k, comm,
                                          stream));
            }
            if (k != mine && own > 0) {
                RT_NCCL_CALL(rt,
                             ncclRecv(staging + k * slice * item, (size_t)(own * item),
                                      ncclInt8, k, comm, stream));
            }
        }
        RT_NCCL_CALL(rt, ncclGroupEnd());
        if (own > 0) {
            rt_add_parts(rt, stream, p->base + (mine * p->stride + at) * item, staging,
                         slice, mine, g.ranks, own, out + at * item);
        }
    }
    for (int k = 0; k < g.ranks; k++) {
        count_bytes(rt, rt_group_rank(g, rt->rank, k),
                    part_elems(p, mine, 0, p->elems) * item, &rt->state->reduced_bytes);
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

static ncclDataType_t reduce_type(const Rt *rt)
{
    const RtDtype d = rt->trainer->reduce_dtype;
    return d == RT_F64 ? ncclFloat64 : d == RT_F32 ? ncclFloat32 : ncclBfloat16;
}

void rt_nccl_reduce_scatter(Rt *rt, int segment, void *grad, void *result)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    const RtGroup group = {s->shards, 1};
    if (!t->library_order) {
        sum_group(rt, group, grad, s->shard_elems, s->elems, result);
        return;
    }
    RT_NCCL_CALL(rt, ncclReduceScatter(
                         grad, result, (size_t)s->shard_elems, reduce_type(rt), ncclSum,
                         comm_of(rt, group, RT_REDUCE), rt_gpu.stream[RT_REDUCE]));
    for (int k = 0; k < group.ranks; k++) {
        count_bytes(rt, k + rt->rank / group.ranks * group.ranks,
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
    const ncclComm_t comm = comm_of(rt, p->group, RT_REDUCE);
    const cudaStream_t stream = rt_gpu.stream[RT_REDUCE];
    RT_NCCL_CALL(rt, ncclGroupStart());
    for (int k = 0; k < p->group.ranks; k++) {
        const int64_t theirs = part_elems(p, k, 0, p->elems);
        if (k != mine && own > 0) {
            RT_NCCL_CALL(rt, ncclSend(p->base + mine * p->stride * item,
                                      (size_t)(own * item), ncclInt8, k, comm, stream));
        }
        if (k != mine && theirs > 0) {
            RT_NCCL_CALL(rt,
                         ncclRecv(p->base + k * p->stride * item, (size_t)(theirs * item),
                                  ncclInt8, k, comm, stream));
            count_bytes(rt, rt_group_rank(p->group, rt->rank, k), theirs * item,
                        &rt->state->reduced_bytes);
        }
    }
    RT_NCCL_CALL(rt, ncclGroupEnd());
}

void rt_nccl_all_reduce(Rt *rt, int segment, void *grad)
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
        RT_NCCL_CALL(rt, ncclAllReduce(grad, grad, (size_t)elems, reduce_type(rt),
                                       ncclSum, comm_of(rt, group, RT_REDUCE),
                                       rt_gpu.stream[RT_REDUCE]));
        return;
    }
    const Parts p = {group, grad, slice, slice, elems};
    sum_group(rt, group, grad, slice, elems, (char *)grad + first * item);
    spread(rt, &p);
}

void rt_nccl_control(Rt *rt, void *words, int64_t n_words, void *losses, int64_t n_losses)
{
    const cudaStream_t stream = rt_gpu.stream[RT_COMPUTE];
    RT_NCCL_CALL(rt, ncclGroupStart());
    RT_NCCL_CALL(rt, ncclAllReduce(words, words, (size_t)n_words, ncclUint64, ncclSum,
                                   world, stream));
    RT_NCCL_CALL(rt, ncclAllReduce(losses, losses, (size_t)n_losses, ncclFloat64, ncclSum,
                                   world, stream));
    RT_NCCL_CALL(rt, ncclGroupEnd());
}
