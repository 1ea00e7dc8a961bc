/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.c: matrices that an optimizer treats whole, on their way to the ranks that
 * own them and back.
 *
 * In: tables of matrices and batches, directions in the ranks' shards. Out: in the same
 * place, what the matrix kernel made of each whole matrix; counted bytes.
 *
 * As on the CPU (../rt_matrix.c) the ranks of the owner's copy of the model send it their
 * parts, and it sends the ranks of all copies their parts of the result: one exchange for
 * a batch each way, on the gather and the reduce stream. All ranks walk a batch in one
 * order, so both ends of each pair name its parcels in that order.
 *
 * The host does not know whether the update is to be skipped. Then the kernels before and
 * after, which write moments and weights, leave them; what is computed between them, of
 * whatever lies here, nobody reads. */
#include "cuda/rt_gpu.h"
#include "state/rt_matrix.h"

#ifdef RT_NCCL
#include <stdlib.h>
#include <string.h>

typedef struct Exchange {
    Rt *rt;
    const RtBatch *batch;
    bool back;     /* from owners to holders */
    RtGroup group; /* one copy of the model; all ranks */
    int stream;
    RtParcel *parcel;
    int n;
    int64_t *bytes; /* [from a rank][to another] */
} Exchange;

/* The part of a matrix that one rank holds, between it and the owner. */
static void add_part(Exchange *x, const RtPlace *p, int holder, int64_t k)
{
    Rt *rt = x->rt;
    const RtTrainer *t = rt->trainer;
    const int owner = p->matrix->owner;
    const int from_rank = x->back ? owner : holder, to_rank = x->back ? holder : owner;
    int64_t from, to;
    if (!rt_part_of(p, k, &from, &to))
        return;
    const int64_t bytes = (to - from) * rt_sum_bytes(t);
    x->bytes[from_rank * rt->world_size + to_rank] += bytes;
    if (from_rank != rt->rank && to_rank != rt->rank)
        return;
    char *held = rt_symmetric(rt, rt_held_at(t, p, k, from));
    char *owned = rt_symmetric(rt, rt_owned_at(t, x->batch, p, from));
    char *source = x->back ? owned : held, *target = x->back ? held : owned;
    if (from_rank == to_rank) {
        RT_CUDA_CALL(rt,
                     cudaMemcpyAsync(target, source, (size_t)bytes,
                                     cudaMemcpyDeviceToDevice, rt_gpu.stream[x->stream]));
    } else if (from_rank == rt->rank) {
        x->parcel[x->n++] = (RtParcel){.peer = rt_group_index(x->group, to_rank),
                                       .send = source,
                                       .send_bytes = bytes};
    } else {
        x->parcel[x->n++] = (RtParcel){.peer = rt_group_index(x->group, from_rank),
                                       .receive = target,
                                       .receive_bytes = bytes};
        rt_count_bytes(rt, from_rank, bytes, &rt->state->matrix_bytes);
    }
}

static void add_matrix(Exchange *x, const RtPlace *p)
{
    for (int k = 0; k < rt_group_ranks(x->group); k++) {
        const int holder = rt_group_rank(x->group, p->matrix->owner, k);
        add_part(x, p, holder, rt_group_index(p->segment->within, holder));
    }
}

/* Room for any batch; made in the first step, of which no graph is. */
static void make_room(Rt *rt, Exchange *x)
{
    static RtParcel *parcels;
    static int64_t *bytes;
    const RtTrainer *t = rt->trainer;
    const size_t ranks = (size_t)rt->world_size;
    int most = 0;
    for (int b = 0; b < t->n_batches; b++)
        most = t->batches[b].n_matrices > most ? t->batches[b].n_matrices : most;
    if (parcels == NULL) {
        parcels = malloc((size_t)most * ranks * sizeof *parcels);
        bytes = malloc(ranks * ranks * sizeof *bytes);
    }
    if (parcels == NULL || bytes == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "no memory for the parcels of %d matrices", most);
    memset(bytes, 0, ranks * ranks * sizeof *bytes);
    x->parcel = parcels;
    x->bytes = bytes;
}

static void exchange(Rt *rt, int batch, bool back, RtGroup group)
{
    Exchange x = {.rt = rt,
                  .batch = &rt->trainer->batches[batch],
                  .back = back,
                  .group = group,
                  .stream = back ? RT_REDUCE : RT_GATHER};
    const int ranks = rt->world_size;
    int64_t most_bytes = 0;
    make_room(rt, &x);
    rt_start_begin(rt, x.stream);
    for (int i = 0; i < x.batch->n_matrices; i++) {
        const RtPlace p = rt_place_of(rt->trainer, x.batch, i);
        add_matrix(&x, &p);
    }
    for (int i = 0; i < ranks * ranks; i++) {
        const bool more = i / ranks != i % ranks && x.bytes[i] > most_bytes;
        most_bytes = more ? x.bytes[i] : most_bytes;
    }
    rt_transport->exchange(rt, x.stream, group, x.parcel, x.n, most_bytes);
    rt_start_end(rt, x.stream, rt->trainer->n_segments + batch);
}

/* Each batch has segments of one kind: all are cut over the ranks of a copy, or none. */
void rt_to_owners_start(Rt *rt, int batch)
{
    const RtPlace p = rt_place_of(rt->trainer, &rt->trainer->batches[batch], 0);
    exchange(rt, batch, false, p.segment->within);
}

void rt_from_owners_start(Rt *rt, int batch)
{
    exchange(rt, batch, true, (RtGroup)rt->world_size - 1);
}
#endif

/* From where the matrix lies whole: at its owner, who has gathered it, or, where each
 * rank holds all of its segment, among the directions. */
void rt_compute_matrices(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices; i++) {
        const RtPlace p = rt_place_of(t, b, i);
        char *direction = rt_symmetric(rt, rt_held_at(t, &p, 0, 0));
        char *owned = rt_symmetric(rt, rt_owned_at(t, b, &p, 0));
        if (p.matrix->owner == rt->rank) {
            p.matrix->kernel(rt, p.segment->shards > 1 ? owned : direction,
                             rt->world_size > 1 ? owned : direction,
                             rt_local(rt, b->workspace));
        }
    }
}
