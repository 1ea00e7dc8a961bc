/* SPDX-License-Identifier: Apache-2.0 */
/* sim_nccl_run.c: calls of NCCL as operations of streams (sim_nccl.h). */
#include "sim_nccl.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const kind_names[] = {"all-gather", "reduce-scatter", "all-reduce",
                                         "broadcast",  "all-to-all",     "send",
                                         "receive"};

/* ---- calls ----------------------------------------------------------------------- */

int64_t sim_nccl_bytes(ncclDataType_t t)
{
    switch (t) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclFloat16:
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    default:
        return 0;
    }
}

/* Elements that the rank shows the others, and that it receives. */
static int64_t sent(const ncclComm_t c, const Part *p)
{
    if (p->kind == SCATTER_SUM || p->kind == ALL_TO_ALL)
        return p->count * c->ranks;
    return p->kind == RECEIVE || (p->kind == BROADCAST && p->peer != c->rank) ? 0
                                                                              : p->count;
}

static int64_t received(const ncclComm_t c, const Part *p)
{
    if (p->kind == GATHER || p->kind == ALL_TO_ALL)
        return p->count * c->ranks;
    return p->kind == SEND ? 0 : p->count;
}

static char *half_of(const ncclComm_t c, int rank, int64_t n)
{
    return c->data + SIM_HALF_BYTES * (size_t)(2 * rank + n % 2);
}

static double load(const void *p, int64_t i, ncclDataType_t t)
{
    float x;

    if (t == ncclFloat64)
        return ((const double *)p)[i];
    if (t == ncclFloat32)
        return ((const float *)p)[i];
    if (t == ncclFloat16)
        return sim_f32_from_f16(((const uint16_t *)p)[i]);
    memcpy(&x, &(uint32_t){(uint32_t)((const uint16_t *)p)[i] << 16}, 4);
    return x;
}

static void store(void *p, int64_t i, ncclDataType_t t, double v)
{
    if (t == ncclFloat64)
        ((double *)p)[i] = v;
    else if (t == ncclFloat32)
        ((float *)p)[i] = (float)v;
    else
        ((uint16_t *)p)[i] =
            t == ncclFloat16 ? sim_f16_from_f32((float)v) : sim_bf16_from_f32((float)v);
}

static void combine(void *to, const void *other, int64_t n, const Part *p)
{
    const bool most = p->op == ncclMax;

    for (int64_t i = 0; i < n; i++) {
        if (p->type == ncclInt64 || p->type == ncclUint64) {
            int64_t *a = (int64_t *)to + i;
            const int64_t b = ((const int64_t *)other)[i];

            *a = !most ? (int64_t)((uint64_t)*a + (uint64_t)b) : *a > b ? *a : b;
        } else if (p->type == ncclInt32 || p->type == ncclUint32) {
            int32_t *a = (int32_t *)to + i;
            const int32_t b = ((const int32_t *)other)[i];

            *a = !most ? (int32_t)((uint32_t)*a + (uint32_t)b) : *a > b ? *a : b;
        } else {
            const double a = load(to, i, p->type), b = load(other, i, p->type);

            store(to, i, p->type, !most ? a + b : a > b ? a : b);
        }
    }
}

/* The sum of everybody's `count` elements at `skip` of the part, owner's rank last. */
static void sum_ring(const ncclComm_t c, int64_t n, int i, int owner, int64_t skip)
{
    const Part *p = &c->board->seat[c->rank].post[n % 2].part[i];
    const int64_t bytes = sim_nccl_bytes(p->type), size = p->count * bytes;

    for (int k = 1; k <= c->ranks; k++) {
        const int r = (owner + k) % c->ranks;
        const Part *theirs = &c->board->seat[r].post[n % 2].part[i];
        const char *from = half_of(c, r, n) + theirs->offset + skip * bytes;

        if (k == 1)
            memcpy(p->to, from, (size_t)size);
        else
            combine(p->to, from, p->count, p);
    }
}

/* The k-th receive from a peer gets its k-th send to us. */
static const Part *matching(const ncclComm_t c, const Post *mine, int i,
                            const Post *theirs)
{
    int k = 0;

    for (int j = 0; j < i; j++)
        k += mine->part[j].kind == RECEIVE && mine->part[j].peer == mine->part[i].peer;
    for (int j = 0; j < theirs->n_parts; j++)
        if (theirs->part[j].kind == SEND && theirs->part[j].peer == c->rank && k-- == 0)
            return &theirs->part[j];
    return NULL;
}

static void take(const ncclComm_t c, int64_t n, int i)
{
    const Post *mine = &c->board->seat[c->rank].post[n % 2];
    const Part *p = &mine->part[i], *from;
    const int64_t size = p->count * sim_nccl_bytes(p->type);
    const int first = p->kind == GATHER || p->kind == ALL_TO_ALL ? 0 : p->peer;
    const int ranks = p->kind == GATHER || p->kind == ALL_TO_ALL ? c->ranks : 1;

    if (p->kind == SCATTER_SUM)
        sum_ring(c, n, i, c->rank, c->rank * p->count);
    if (p->kind == SUM) /* in one piece: the same order on all ranks */
        sum_ring(c, n, i, 0, 0);
    if (p->kind == SCATTER_SUM || p->kind == SUM || p->kind == SEND)
        return;
    for (int r = first; r < first + ranks; r++) {
        const Post *theirs = &c->board->seat[r].post[n % 2];
        const int64_t skip = p->kind == ALL_TO_ALL ? c->rank * size : 0;

        from = p->kind == RECEIVE ? matching(c, mine, i, theirs) : &theirs->part[i];
        if (!from || from->count != p->count || from->type != p->type) {
            sim_fail(NULL,
                     "rank %d receives %lld elements from rank %d, which sends others",
                     c->rank, (long long)p->count, r);
            return;
        }
        if (p->kind == RECEIVE &&
            theirs->registered[from - theirs->part] != mine->registered[i]) {
            /* NCCL would wait for ever */
            sim_fail(NULL,
                     "rank %d receives from rank %d: one of them has registered its "
                     "buffer, the other has not",
                     c->rank, r);
            return;
        }
        memcpy((char *)p->to + (r - first) * size, half_of(c, r, n) + from->offset + skip,
               (size_t)size);
    }
}

/* All ranks of a communicator must make the same calls, in the same order. */
static bool agree(const ncclComm_t c, int64_t n)
{
    const Post *mine = &c->board->seat[c->rank].post[n % 2];

    for (int r = 0; r < c->ranks; r++) {
        const Post *theirs = &c->board->seat[r].post[n % 2];

        for (int i = 0; i < mine->n_parts || i < theirs->n_parts; i++) {
            const Part *a = &mine->part[i], *b = &theirs->part[i];

            if (i < mine->n_parts && i < theirs->n_parts &&
                ((a->kind == b->kind && a->count == b->count && a->type == b->type) ||
                 (a->kind >= SEND && b->kind >= SEND)))
                continue;
            if (i >= mine->n_parts && b->kind >= SEND)
                continue;
            if (i >= theirs->n_parts && a->kind >= SEND)
                continue;
            sim_fail(
                NULL,
                "call %lld of a communicator: rank %d asks for %s of %lld elements, rank "
                "%d for %s of %lld",
                (long long)n, c->rank, kind_names[a->kind], (long long)a->count, r,
                kind_names[b->kind], (long long)b->count);
            return false;
        }
    }
    return true;
}

/* ---- as operations of streams ---------------------------------------------------- */

static void begin_call(SimOp *op)
{
    Call *call = op->work.payload;

    op->state[0] = call->comm->enqueued++;
    op->state[1] = 0; /* not posted */
}

/* A planted fault: the process of that rank dies at its n-th call of any communicator. */
static void die_if_planted(const ncclComm_t c)
{
    static int64_t calls;
    const char *text = getenv("CUDASIM_LOST"), *n = text ? strchr(text, ':') : NULL;

    if (n && atoi(text) == c->rank && calls++ == atoll(n + 1))
        kill(getpid(), SIGKILL);
}

/* A window is a registration, too, unless registrations are switched off. */
static bool is_registered(const ncclComm_t c, const Part *p)
{
    const char *off = getenv("NCCL_LOCAL_REGISTER");
    const char *at = p->kind == SEND ? p->from : p->to;

    return p->kind >= SEND && !(off && !strcmp(off, "0")) && c->window &&
           at >= c->window && at < c->window + c->window_bytes;
}

static bool post(Call *call, int64_t n)
{
    const ncclComm_t c = call->comm;
    Seat *mine = &c->board->seat[c->rank];
    Post *said = &mine->post[n % 2];
    int64_t at = 0;

    for (int i = 0; i < call->n_parts; i++) {
        Part *p = &call->part[i];
        const int64_t bytes = sent(c, p) * sim_nccl_bytes(p->type);

        p->offset = at;
        said->registered[i] = is_registered(c, p);
        at += (bytes + 255) / 256 * 256;
        if (at > (int64_t)SIM_HALF_BYTES) {
            sim_fail(NULL,
                     "a call of more than %zu bytes: too large for the simulated NCCL",
                     SIM_HALF_BYTES);
            return false;
        }
        if (bytes > 0)
            sim_touch(p->from, bytes, false, NULL);
        if (sim_problem())
            return false;
        if (bytes > 0)
            memcpy(half_of(c, c->rank, n) + p->offset, p->from, (size_t)bytes);
    }
    said->n_parts = call->n_parts;
    memcpy(said->part, call->part, (size_t)call->n_parts * sizeof(Part));
    atomic_store(&mine->posted, n + 1);
    return true;
}

static SimResult run_call(SimOp *op)
{
    Call *call = op->work.payload;
    const ncclComm_t c = call->comm;
    Seat *seat = c->board->seat;
    const int64_t n = op->state[0];

    if (c->aborted)
        return SIM_OP_DONE;
    if (c->run != n)
        return SIM_OP_LATER;
    if (op->state[1] == 0) {
        for (int r = 0; r < c->ranks; r++) /* may still read the half that comes now */
            if (atomic_load(&seat[r].taken) < n - 1)
                return SIM_OP_LATER;
        die_if_planted(c);
        if (!post(call, n))
            return SIM_OP_DONE;
        op->state[1] = 1;
    }
    for (int r = 0; r < c->ranks; r++)
        if (atomic_load(&seat[r].posted) <= n)
            return SIM_OP_LATER;
    for (int i = 0; i < call->n_parts; i++) {
        const Part *p = &call->part[i];
        const int64_t bytes = received(c, p) * sim_nccl_bytes(p->type);

        if (bytes > 0)
            sim_touch(p->to, bytes, true, NULL);
    }
    if (!sim_problem() && agree(c, n))
        for (int i = 0; i < call->n_parts; i++)
            take(c, n, i);
    atomic_store(&seat[c->rank].taken, n + 1);
    c->run++;
    return SIM_OP_DONE;
}

static void tell_ctas(ncclComm_t c, Kind kind)
{
    const char *path = getenv("CUDASIM_CTAS");
    FILE *f = path && !c->told ? fopen(path, "a") : NULL;

    c->told = true;
    if (!f)
        return;
    fprintf(f, "%s of %d ranks: %d\n", kind_names[kind], c->ranks, c->most_ctas);
    fclose(f);
}

static void tell_order(Kind kind)
{
    const char *path = getenv("CUDASIM_ORDER");
    FILE *f = path ? fopen(path, "a") : NULL;

    if (!f)
        return;
    fprintf(f, "%d %s\n", (int)getpid(), kind_names[kind]);
    fclose(f);
}

/* Nothing orders kernels of several communicators on several streams: ranks may wait for
 * each other. NCCL's own order would, but a graph that was captured with it ends the
 * process when it is uploaded (NCCL 2.28.9, driver 580.159, H100). */
static void check_order(const SimStream *s)
{
    static const SimStream *all;
    const char *implicit = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");

    if (all && s != all)
        sim_fail(NULL, "collectives on two streams, in no order");
    if (s->capture && implicit && strcmp(implicit, "0"))
        sim_fail(NULL, "a graph with NCCL's order of launches: the driver would crash");
    all = s;
}

void sim_nccl_enqueue(Call *call, SimStream *s)
{
    SimWork work = {.run = run_call,
                    .begin = begin_call,
                    .payload = call,
                    .payload_bytes =
                        offsetof(Call, part) + (size_t)call->n_parts * sizeof(Part)};

    if (call->n_parts == 1)
        snprintf(work.what, sizeof work.what, "an %s of %lld elements",
                 kind_names[call->part[0].kind], (long long)call->part[0].count);
    else
        snprintf(work.what, sizeof work.what, "a group of %d %ss", call->n_parts,
                 kind_names[call->part[0].kind]);
    check_order(s);
    tell_ctas(call->comm, call->part[0].kind);
    tell_order(call->part[0].kind);
    sim_enqueue(s, &work);
}

static bool holds(const SimWork *work, const void *comm)
{
    return work->run == run_call && ((const Call *)work->payload)->comm == comm;
}

bool sim_nccl_captured(ncclComm_t comm)
{
    return sim_graphs_hold(holds, comm);
}
