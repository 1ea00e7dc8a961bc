/* SPDX-License-Identifier: MIT-0 */
/* rt_exchange.c: exchanges between ranks: from some to others, of any sizes. In: a
 * collective that lists its transfers (rt_collective.h). Out: parcels for the transport;
 * counted bytes.
 *
 * All ranks list the transfers of all groups in one order, so both ends of each pair name
 * its parcels in that order, and all know the largest amount between two ranks. */
#include "cuda/rt_gpu.h"

#include <stdlib.h>
#include <string.h>

typedef struct Exchange {
    Rt *rt;
    const RtOp *op;
    int stream;
    int n;
} Exchange;

/* Grown in the first step, which is not part of a graph. */
static RtParcel *parcels;
static int room;
static int64_t *sent; /* bytes, [from a rank][to another] */

static void add(Exchange *x, RtParcel parcel)
{
    if (x->n == room) {
        room = room > 0 ? 2 * room : 64;
        parcels = realloc(parcels, (size_t)room * sizeof *parcels);
        if (parcels == NULL)
            rt_fail(x->rt, RT_EXIT_ERROR, "no memory for %d parcels", room);
    }
    parcels[x->n++] = parcel;
}

static void add_transfer(void *ctx, const RtTransfer *t)
{
    Exchange *x = ctx;
    Rt *rt = x->rt;
    const int64_t bytes = t->elems * (int64_t)rt_dtype_bytes(x->op->dtype);
    sent[t->from_rank * rt->world_size + t->to_rank] += bytes;
    if (t->from_rank == rt->rank && t->to_rank == rt->rank) {
        RT_CUDA_CALL(rt,
                     cudaMemcpyAsync(rt_symmetric(rt, t->to), rt_symmetric(rt, t->from),
                                     (size_t)bytes, cudaMemcpyDeviceToDevice,
                                     rt_gpu.stream[x->stream]));
    } else if (t->from_rank == rt->rank) {
        add(x, (RtParcel){.peer = rt_group_index(x->op->group, t->to_rank),
                          .send = rt_symmetric(rt, t->from),
                          .send_bytes = bytes});
    } else if (t->to_rank == rt->rank) {
        add(x, (RtParcel){.peer = rt_group_index(x->op->group, t->from_rank),
                          .receive = rt_symmetric(rt, t->to),
                          .receive_bytes = bytes});
        rt_count_bytes(rt, t->from_rank, bytes, &rt->state->matrix_bytes);
    }
}

void rt_exchange(Rt *rt, int stream, const RtOp *op)
{
    const size_t ranks = (size_t)rt->world_size, pairs = ranks * ranks;
    Exchange x = {.rt = rt, .op = op, .stream = stream};
    int64_t most_bytes = 0;
    if (sent == NULL && (sent = malloc(pairs * sizeof *sent)) == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "no memory for an exchange of %zu ranks", ranks);
    memset(sent, 0, pairs * sizeof *sent);
    op->transfers(rt, op, add_transfer, &x);
    for (size_t i = 0; i < pairs; i++)
        if (i / ranks != i % ranks && sent[i] > most_bytes)
            most_bytes = sent[i];
    rt_transport->exchange(rt, stream, op->group, 0, parcels, x.n, most_bytes);
}
