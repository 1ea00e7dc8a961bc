/* SPDX-License-Identifier: MIT-0 */
/* rt_nccl.c: NCCL as the transport between GPUs. In: groups of ranks, buffers of the
 * arena. Out: its calls on the stream of collectives.
 *
 * 1. There is a communicator for each set of groups and each kind of collective, made at
 *    its first use, which is at the same point on all ranks. All of them use one stream,
 *    so they run in the order in which the host starts them, which is the same on all
 *    ranks. NCCL's own order between streams would be no substitute: a graph captured
 *    with it ends the process in cudaGraphUpload (NCCL 2.28.9, driver 580.159, H100).
 * 2. The symmetric space is NCCL's own memory, registered with every communicator. It has
 *    the same offsets on all ranks, so they access each other's without copies.
 * 3. Gathers use no multiprocessor: within a machine the copy engines move them, where
 *    NCCL and the links support it; elsewhere NCCL uses kernels.
 * 4. Sums beside computation take as many multiprocessors as their bytes need (RtOp.ctas,
 *    from the tables), other exchanges at most 16; for each limit there is a
 *    communicator. NCCL has memory for each channel to each rank.
 * 5. NCCL may register buffers of sends and receives only on both sides: with one side
 *    registered, ranks wait for each other for ever. So all of them, staging too, are in
 *    the symmetric space, which is registered for its windows, and nothing else is
 *    registered. */
#include "cuda/rt_gpu.h"

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

/* NCCL 2.28 is the first that gathers by copy engines. */
#define HAS_WINDOWS (NCCL_VERSION_CODE >= 22800)

typedef struct Comm {
    RtGroup group;
    int stream, ctas;
    ncclComm_t comm;
#if HAS_WINDOWS
    ncclWindow_t window;
#endif
} Comm;
enum { MAX_COMMS = 16 };
static ncclComm_t world;
static Comm comms[MAX_COMMS];
static int n_comms;

/* ---- communicators --------------------------------------------------------------- */

static _Noreturn void nccl_failed(const Rt *rt, const char *call, ncclResult_t result)
{
    rt_fail(rt, RT_EXIT_ERROR, "%s on GPU %d%s: %s: %s", call, rt_gpu.index,
            rt_gpu.during, ncclGetErrorString(result), ncclGetLastError(world));
}

static int version(void)
{
    int v = 0;
    ncclGetVersion(&v);
    return v;
}

static bool has_windows(void)
{
    return HAS_WINDOWS && version() >= 22800;
}

static const char *name(void)
{
    static char text[64];
    snprintf(text, sizeof text, "NCCL %d%s", version(),
             has_windows() ? ", symmetric windows" : "");
    return text;
}

/* ---- memory ---------------------------------------------------------------------- */

/* Before NCCL's first call, which reads them. */
static void set_variables(void)
{
    setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1); /* see 1. */
    setenv("NCCL_LOCAL_REGISTER", "0", 1);        /* see 5. */
    setenv("NCCL_GRAPH_REGISTER", "0", 1);
    setenv("NCCL_NVLS_ENABLE", "0", 1); /* else sums differ between runs */
}

static char *allocate(Rt *rt, int64_t bytes)
{
    void *at = NULL;
    set_variables();
#if HAS_WINDOWS
    if (has_windows()) {
        RT_NCCL_CALL(rt, ncclMemAlloc(&at, (size_t)bytes));
        return at;
    }
#endif
    RT_CUDA_CALL(rt, cudaMalloc(&at, (size_t)bytes));
    return at;
}

static void release(Rt *rt, char *at)
{
#if HAS_WINDOWS
    if (has_windows()) {
        RT_NCCL_CALL(rt, ncclMemFree(at));
        return;
    }
#endif
    RT_CUDA_CALL(rt, cudaFree(at));
}

/* A rank for which NCCL has no window gets NULL, and its collectives run without one. */
static void open_window(Rt *rt, Comm *c)
{
#if HAS_WINDOWS
    enum { ALIGNMENT = NCCL_WIN_REQUIRED_ALIGNMENT };
    if (has_windows()) {
        const int64_t bytes =
            (rt->trainer->symmetric_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        RT_NCCL_CALL(rt, ncclCommWindowRegister(c->comm, rt->symmetric, (size_t)bytes,
                                                &c->window, NCCL_WIN_COLL_SYMMETRIC));
    }
#else
    (void)rt, (void)c;
#endif
}

static void close_window(Rt *rt, Comm *c)
{
#if HAS_WINDOWS
    if (c->window != NULL)
        RT_NCCL_CALL(rt, ncclCommWindowDeregister(c->comm, c->window));
#else
    (void)rt, (void)c;
#endif
}

/* With NCCL_COMM_ID, ranks would meet at an address from the environment and recognise
 * each other by a constant, so that any stranger could join. */
static const char comm_id[] = "NCCL_COMM_ID";

static void forget_comm_id(const Rt *rt)
{
    if (getenv(comm_id) == NULL)
        return;
    unsetenv(comm_id);
    if (rt->rank == 0) {
        rt_say("trainer: warning: %s is not used: with it strangers could join the "
               "ranks, which find each other without it",
               comm_id);
    }
}

/* It contains a random number, by which NCCL recognises its holders. */
static void first_word(Rt *rt, ncclUniqueId *id)
{
    RT_NCCL_CALL(rt, ncclGetUniqueId(id));
    if (getenv(comm_id) != NULL) { /* NCCL's first call reads its files */
        rt_fail(rt, RT_EXIT_ERROR,
                "a file of NCCL's (/etc/nccl.conf, ~/.nccl.conf or the one that "
                "NCCL_CONF_FILE names) sets %s, with which strangers could join the "
                "ranks: take it out",
                comm_id);
    }
}

/* The others get rank 0's id through its control area. */
static void open_world(Rt *rt)
{
    ncclUniqueId id = {0};
    forget_comm_id(rt);
    if (rt->rank == 0)
        first_word(rt, &id);
    rt_exchange_begin(rt);
    memcpy(rt_control(rt, rt->rank), &id, sizeof id);
    rt_exchange_publish(rt, sizeof id);
    memcpy(&id, rt_control(rt, 0), sizeof id);
    rt_exchange_end(rt);
    RT_NCCL_CALL(rt, ncclCommInitRank(&world, rt->world_size, id, rt->rank));
}

static ncclConfig_t config_of(int stream, int ctas)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (ctas > 0)
        config.maxCTAs = ctas;
#if HAS_WINDOWS
    if (has_windows() && stream == RT_GATHER)
        config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
#else
    (void)stream;
#endif
    return config;
}

static ncclComm_t comm_of(Rt *rt, RtGroup g, int stream, int ctas)
{
    for (int i = 0; i < n_comms; i++)
        if (comms[i].group == g && comms[i].stream == stream && comms[i].ctas == ctas)
            return comms[i].comm;
    if (n_comms == MAX_COMMS)
        rt_fail(rt, RT_EXIT_ERROR, "more than %d sets of groups", MAX_COMMS);
    Comm *c = &comms[n_comms++];
    *c = (Comm){.group = g, .stream = stream, .ctas = ctas};
    const int color = (int)((RtGroup)rt->rank & ~g);
    ncclConfig_t config = config_of(stream, ctas);
    /* While the parent has work, a split might wait for ever. */
    RT_CUDA_CALL(rt, cudaStreamSynchronize(rt_gpu.stream[RT_GATHER]));
    RT_NCCL_CALL(rt, ncclCommSplit(world, color, rt->rank, &c->comm, &config));
    open_window(rt, c);
    return c->comm;
}

static void check(const Rt *rt)
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

static void close_all(Rt *rt)
{
    for (int i = 0; i < n_comms; i++) {
        close_window(rt, &comms[i]);
        RT_NCCL_CALL(rt, ncclCommDestroy(comms[i].comm));
    }
    n_comms = 0;
    RT_NCCL_CALL(rt, ncclCommDestroy(world));
}

/* ---- what ranks exchange --------------------------------------------------------- */

static void gather(Rt *rt, int stream, const RtOp *op)
{
    const size_t bytes = (size_t)op->elems * rt_dtype_bytes(op->dtype);
    RT_NCCL_CALL(rt,
                 ncclAllGather(rt_own_part(rt, op), op->to, bytes, ncclInt8,
                               comm_of(rt, op->group, stream, 0), rt_gpu.stream[stream]));
}

static void exchange(Rt *rt, int queue, RtGroup group, int ctas, const RtParcel *parcel,
                     int n, int64_t most_bytes)
{
    enum { MOST_CTAS = 16 };
    const ncclComm_t comm = comm_of(rt, group, RT_REDUCE, ctas > 0 ? ctas : MOST_CTAS);
    const cudaStream_t stream = rt_gpu.stream[queue];
    const int mine = rt_group_index(group, rt->rank);
    (void)most_bytes;
    RT_NCCL_CALL(rt, ncclGroupStart());
    for (int i = 0; i < n; i++) {
        const RtParcel *p = &parcel[i];
        if (p->peer != mine && p->send_bytes > 0) {
            RT_NCCL_CALL(rt, ncclSend(p->send, (size_t)p->send_bytes, ncclInt8, p->peer,
                                      comm, stream));
        }
        if (p->peer != mine && p->receive_bytes > 0) {
            RT_NCCL_CALL(rt, ncclRecv(p->receive, (size_t)p->receive_bytes, ncclInt8,
                                      p->peer, comm, stream));
        }
    }
    RT_NCCL_CALL(rt, ncclGroupEnd());
}

/* Headers before 2.28 may define it for C++ only; the number is fixed in NCCL's ABI. */
enum { BFLOAT16 = 9 };
#if NCCL_VERSION_CODE >= 22800
_Static_assert((int)BFLOAT16 == (int)ncclBfloat16, "what NCCL calls it");
#endif

static ncclDataType_t type_of(RtDtype d)
{
    return d == RT_F64   ? ncclFloat64
           : d == RT_F32 ? ncclFloat32
                         : (ncclDataType_t)BFLOAT16;
}

static void sum(Rt *rt, int stream, const RtOp *op)
{
    const ncclComm_t comm = comm_of(rt, op->group, stream, 0);
    const ncclDataType_t type = type_of(op->dtype);
    const void *from = rt_symmetric(rt, op->from);
    const size_t elems = (size_t)op->elems;
    if (op->kind == RT_OP_ALL_REDUCE) {
        RT_NCCL_CALL(rt, ncclAllReduce(from, op->to, elems, type, ncclSum, comm,
                                       rt_gpu.stream[stream]));
    } else {
        RT_NCCL_CALL(rt, ncclReduceScatter(from, op->to, elems, type, ncclSum, comm,
                                           rt_gpu.stream[stream]));
    }
}

static void control(Rt *rt, void *words, int64_t n_words, void *losses, int64_t n_losses)
{
    const cudaStream_t stream = rt_gpu.stream[RT_GATHER];
    RT_NCCL_CALL(rt, ncclGroupStart());
    RT_NCCL_CALL(rt, ncclAllReduce(words, words, (size_t)n_words, ncclUint64, ncclSum,
                                   world, stream));
    RT_NCCL_CALL(rt, ncclAllReduce(losses, losses, (size_t)n_losses, ncclFloat64, ncclSum,
                                   world, stream));
    RT_NCCL_CALL(rt, ncclGroupEnd());
}

static void largest(Rt *rt, int32_t *words, int64_t n_words)
{
    RT_NCCL_CALL(rt, ncclAllReduce(words, words, (size_t)n_words, ncclInt32, ncclMax,
                                   world, rt_gpu.stream[RT_GATHER]));
}

const RtTransport rt_nccl = {
    .name = name,
    .allocate = allocate,
    .release = release,
    .open = open_world,
    .gather = gather,
    .exchange = exchange,
    .sum = sum,
    .control = control,
    .largest = largest,
    .check = check,
    .close = close_all,
};
