/* SPDX-License-Identifier: Apache-2.0 */
/* sim_nccl.c: NCCL's functions by their own names and prototypes: communicators, and
 * calls in groups (sim_nccl.h). */
#include "sim_cudart.h"
#include "sim_nccl.h"

#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define BEGIN                                                                            \
    SIM_LOCKED;                                                                          \
    if (sim_planted(__func__))                                                           \
    return ncclSystemError

static size_t board_bytes(void)
{
    return (sizeof(Board) + 4095) / 4096 * 4096;
}

static size_t file_bytes(int ranks)
{
    return board_bytes() + 2 * SIM_HALF_BYTES * (size_t)ranks;
}

/* ---- communicators --------------------------------------------------------------- */

ncclResult_t ncclGetVersion(int *version)
{
    *version = (int)sim_setting("CUDASIM_NCCL", NCCL_VERSION_CODE);
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    return result == ncclSuccess       ? "no error"
           : result == ncclSystemError ? "unhandled system error"
           : result == ncclInProgress  ? "NCCL operation in progress"
                                       : "an error of NCCL";
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return sim_problem() ? sim_problem() : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    const char *folder = getenv("TMPDIR");
    int fd;
    BEGIN;

    if (getenv("NCCL_COMM_ID")) /* it would be the word: a stranger's too */
        return ncclSystemError;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, PATH_BYTES, "%s/cudasim-nccl-XXXXXX",
             folder ? folder : "/tmp");
    fd = mkstemp(id->internal);
    if (fd < 0)
        return ncclSystemError;
    close(fd);
    return ncclSuccess;
}

static bool all_joined(const ncclComm_t c)
{
    return atomic_load(&c->board->joined) >= c->ranks;
}

static void rest(void)
{
    const struct timespec t = {.tv_nsec = 200 * 1000};

    sim_unlock();
    nanosleep(&t, NULL);
    sim_lock();
}

static ncclResult_t join(ncclComm_t *comm, const char *path, int rank, int ranks,
                         bool block)
{
    ncclComm_t c = calloc(1, sizeof *c);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    char *map;

    if (!c || ranks > MAX_RANKS || fd < 0 || ftruncate(fd, (off_t)file_bytes(ranks)))
        return ncclSystemError;
    map = mmap(NULL, file_bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return ncclSystemError;
    *c = (struct ncclComm){.rank = rank, .ranks = ranks, .board = (Board *)map};
    c->data = map + board_bytes();
    snprintf(c->path, sizeof c->path, "%s", path);
    *comm = c;
    if (atomic_fetch_add(&c->board->joined, 1) + 1 == ranks)
        unlink(path);
    while (block && !all_joined(c))
        rest();
    return all_joined(c) ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks, ncclUniqueId id,
                                    int rank, ncclConfig_t *config)
{
    BEGIN;
    return join(comm, id.internal, rank, ranks, !config || config->blocking != 0);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, ranks, id, rank, NULL);
}

/* NCCL's kernels have at most 32 blocks. */
static bool config_is_legal(const ncclConfig_t *c)
{
    const int least = c->minCTAs == NCCL_CONFIG_UNDEF_INT ? 1 : c->minCTAs;
    const int most = c->maxCTAs == NCCL_CONFIG_UNDEF_INT ? 32 : c->maxCTAs;

    return 1 <= least && least <= most && most <= 32;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t *comm,
                           ncclConfig_t *config)
{
    Seat *seat = parent->board->seat, *mine = &seat[parent->rank];
    const int64_t n = ++parent->splits;
    int rank = 0, ranks = 0;
    char path[PATH_BYTES + 40];
    BEGIN;

    if (sim_capture_spoilt()) /* it allocates */
        return ncclUnhandledCudaError;
    if (config && !config_is_legal(config))
        return ncclInvalidArgument;
    mine->color = color;
    mine->key = key;
    atomic_store(&mine->splits, 2 * n - 1);
    for (int r = 0; r < parent->ranks; r++)
        while (atomic_load(&seat[r].splits) < 2 * n - 1)
            rest();
    for (int r = 0; r < parent->ranks; r++) {
        const bool before = seat[r].key < key || (seat[r].key == key && r < parent->rank);

        ranks += seat[r].color == color;
        rank += seat[r].color == color && before;
    }
    atomic_store(&mine->splits, 2 * n); /* the next split may change what we read */
    for (int r = 0; r < parent->ranks; r++)
        while (atomic_load(&seat[r].splits) < 2 * n)
            rest();
    *comm = NULL;
    if (color == NCCL_SPLIT_NOCOLOR)
        return ncclSuccess;
    snprintf(path, sizeof path, "%.100s.%d.%d", parent->path, (int)n, color);
    const ncclResult_t result = join(comm, path, rank, ranks, true);
    if (result == ncclSuccess && config) {
        (*comm)->by_copy_engines = config->CTAPolicy == NCCL_CTA_POLICY_ZERO;
        if (config->maxCTAs != NCCL_CONFIG_UNDEF_INT)
            (*comm)->most_ctas = config->maxCTAs;
    }
    return result;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->ranks;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *result)
{
    BEGIN;
    *result = sim_broken()        ? ncclUnhandledCudaError
              : !all_joined(comm) ? ncclInProgress
                                  : ncclSuccess;
    return ncclSuccess;
}

/* ---- calls ----------------------------------------------------------------------- */

/* Between ncclGroupStart and ncclGroupEnd calls of one communicator become one. */
static __thread struct {
    int depth, count;
    struct {
        Call *call;
        SimStream *stream;
    } items[MAX_RANKS];
} group;

static ncclResult_t add(ncclComm_t comm, SimStream *s, const Part *part)
{
    Call *call = NULL;

    if (sim_nccl_bytes(part->type) == 0 || part->peer >= comm->ranks ||
        (part->op != ncclSum && part->op != ncclMax))
        return ncclInvalidArgument;
    for (int i = 0; i < group.count && !call; i++)
        if (group.items[i].call->comm == comm && group.items[i].stream == s)
            call = group.items[i].call;
    if (!call) {
        call = calloc(1, sizeof *call);
        if (!call || group.count == MAX_RANKS)
            return ncclSystemError;
        call->comm = comm;
        group.items[group.count].call = call;
        group.items[group.count++].stream = s;
    }
    if (call->n_parts == MAX_PARTS)
        return ncclInternalError;
    call->part[call->n_parts++] = *part;
    return group.depth > 0 ? ncclSuccess : (group.depth++, ncclGroupEnd());
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    BEGIN;
    if (--group.depth > 0)
        return ncclSuccess;
    for (int i = 0; i < group.count; i++) {
        sim_nccl_enqueue(group.items[i].call, group.items[i].stream);
        free(group.items[i].call);
    }
    group.count = 0;
    return sim_broken() ? ncclUnhandledCudaError : ncclSuccess;
}

static bool in_window(ncclComm_t c, const void *p, int64_t bytes)
{
    const char *at = p;

    return c->window && at >= c->window && at + bytes <= c->window + c->window_bytes;
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    BEGIN;
    if (comm->by_copy_engines &&
        (!in_window(comm, from, (int64_t)count * sim_nccl_bytes(type)) ||
         !in_window(comm, to, (int64_t)count * sim_nccl_bytes(type) * comm->ranks)))
        return ncclInvalidUsage;
    return add(comm, sim_stream(stream),
               &(Part){GATHER, type, ncclSum, (int64_t)count, 0, 0, from, to});
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream)
{
    BEGIN;
    return add(comm, sim_stream(stream),
               &(Part){SCATTER_SUM, type, op, (int64_t)count, 0, 0, from, to});
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    BEGIN;
    return add(comm, sim_stream(stream),
               &(Part){SUM, type, op, (int64_t)count, 0, 0, from, to});
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream)
{
    BEGIN;
    return add(comm, sim_stream(stream),
               &(Part){BROADCAST, type, ncclSum, (int64_t)count, 0, root, from, to});
}

ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    BEGIN;
    return add(comm, sim_stream(stream),
               &(Part){SEND, type, ncclSum, (int64_t)count, 0, peer, from, NULL});
}

ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream)
{
    BEGIN;
    return add(comm, sim_stream(stream),
               &(Part){RECEIVE, type, ncclSum, (int64_t)count, 0, peer, NULL, to});
}

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 0)
ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream)
{
    BEGIN;
    return add(comm, sim_stream(stream),
               &(Part){ALL_TO_ALL, type, ncclSum, (int64_t)count, 0, 0, from, to});
}
#endif

/* ---- the end --------------------------------------------------------------------- */

static ncclResult_t leave(ncclComm_t comm, const char *how)
{
    if (sim_nccl_captured(comm))
        sim_fail(NULL,
                 "%s before the graphs that captured its communicator are destroyed: "
                 "NCCL hangs",
                 how);
    if (!comm->aborted)
        sim_wait_all();
    return sim_broken() ? ncclUnhandledCudaError : ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    BEGIN;
    return leave(comm, "ncclCommFinalize");
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    BEGIN;
    return leave(comm, "ncclCommDestroy");
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    BEGIN;
    comm->aborted = true;
    return leave(comm, "ncclCommAbort");
}

enum { MAX_OWN = 8 };
static struct {
    char *at;
    size_t bytes;
} own[MAX_OWN];

ncclResult_t ncclMemAlloc(void **p, size_t bytes)
{
    if (cudaMalloc(p, bytes) != cudaSuccess)
        return ncclUnhandledCudaError;
    for (int i = 0; i < MAX_OWN; i++)
        if (!own[i].at) {
            own[i].at = *p;
            own[i].bytes = bytes;
            return ncclSuccess;
        }
    return ncclInternalError;
}

ncclResult_t ncclMemFree(void *p)
{
    for (int i = 0; i < MAX_OWN; i++)
        if (own[i].at == p) {
            own[i].at = NULL;
            return cudaFree(p) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
        }
    return ncclInvalidArgument;
}

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *p, size_t bytes, void **handle)
{
    (void)comm, (void)bytes;
    *handle = p;
    return ncclSuccess;
}

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    (void)comm, (void)handle;
    return ncclSuccess;
}

ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *p, size_t bytes,
                                    ncclWindow_t *w, int flags)
{
    char *at = p;

    for (int i = 0; i < MAX_OWN; i++)
        if (own[i].at && at >= own[i].at && at + bytes <= own[i].at + own[i].bytes &&
            (uintptr_t)p % NCCL_WIN_REQUIRED_ALIGNMENT == 0 &&
            flags == NCCL_WIN_COLL_SYMMETRIC) {
            comm->window = p;
            comm->window_bytes = (int64_t)bytes;
            *w = (ncclWindow_t)p;
            return ncclSuccess;
        }
    return ncclInvalidArgument;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t w)
{
    if (comm->window != (const char *)w)
        return ncclInvalidArgument;
    comm->window = NULL;
    return ncclSuccess;
}
