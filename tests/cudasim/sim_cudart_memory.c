/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudart_memory.c: memory of the CUDA runtime on the simulated device: allocations,
 * host memory that is pinned or registered, copies and fills. */
#include "sim_cudart.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

cudaError_t sim_result(cudaError_t e);

#define BEGIN                                                                            \
    SIM_LOCKED;                                                                          \
    if (sim_planted(__func__))                                                           \
    return sim_result(cudaErrorUnknown)

size_t sim_memory_bytes(void)
{
    return (size_t)sim_setting("CUDASIM_MEMORY", (int64_t)80 << 30);
}

/* ---- memory ---------------------------------------------------------------------- */

static size_t used_bytes;
static struct Piece {
    void *p;
    size_t bytes;
    bool host, registered; /* registered: not ours */
    struct Piece *next;
} * pieces;

static const struct Piece *piece_of(const void *p)
{
    for (const struct Piece *x = pieces; x; x = x->next)
        if ((const char *)p >= (char *)x->p && (const char *)p < (char *)x->p + x->bytes)
            return x;
    return NULL;
}

static void *new_piece(size_t bytes, bool host)
{
    struct Piece *x = malloc(sizeof *x);

    if (!x)
        return NULL;
    *x = (struct Piece){.bytes = bytes, .host = host, .next = pieces};
    x->p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (x->p == MAP_FAILED) {
        free(x);
        return NULL;
    }
    memset(x->p, 0xff, bytes); /* NaN in every dtype: what nobody wrote is seen */
    pieces = x;
    sim_memory_add(x->p, bytes, host ? "pinned host memory" : "device memory");
    return x->p;
}

static cudaError_t free_piece(void *p)
{
    struct Piece **at = &pieces, *x;

    if (!p)
        return cudaSuccess;
    sim_wait_all();
    while (*at && (*at)->p != p)
        at = &(*at)->next;
    x = *at;
    if (!x)
        return cudaErrorInvalidValue;
    *at = x->next;
    used_bytes -= x->host ? 0 : x->bytes;
    sim_memory_remove(p);
    if (!x->registered)
        munmap(p, x->bytes);
    free(x);
    return cudaSuccess;
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
    struct Piece *x;
    BEGIN_UNCAPTURED;

    (void)flags;
    if (!p || !bytes || piece_of(p))
        return sim_result(cudaErrorInvalidValue);
    x = malloc(sizeof *x);
    if (!x)
        return sim_result(cudaErrorMemoryAllocation);
    *x = (struct Piece){.p = p, .bytes = bytes, .host = true, .next = pieces};
    x->registered = true;
    pieces = x;
    sim_memory_add(p, bytes, "registered host memory");
    return sim_result(cudaSuccess);
}

cudaError_t cudaHostUnregister(void *p)
{
    BEGIN_UNCAPTURED;
    return sim_result(free_piece(p));
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    BEGIN_UNCAPTURED;
    if (bytes > sim_memory_bytes() - used_bytes)
        return sim_result(cudaErrorMemoryAllocation);
    *p = new_piece(bytes ? bytes : 1, false);
    if (!*p)
        return sim_result(cudaErrorMemoryAllocation);
    used_bytes += bytes;
    return sim_result(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    BEGIN_UNCAPTURED;
    (void)flags;
    *p = new_piece(bytes ? bytes : 1, true);
    return sim_result(*p ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
    return cudaHostAlloc(p, bytes, 0);
}

cudaError_t cudaFree(void *p)
{
    BEGIN_UNCAPTURED;
    return sim_result(free_piece(p));
}

cudaError_t cudaFreeHost(void *p)
{
    BEGIN_UNCAPTURED;
    return sim_result(free_piece(p));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    BEGIN;
    *total = sim_memory_bytes();
    *free_bytes = *total - used_bytes;
    return sim_result(cudaSuccess);
}

/* ---- copies ---------------------------------------------------------------------- */

typedef struct Copy {
    void *to;
    const void *from; /* NULL: fill with `byte`, or take `text` */
    int64_t bytes;
    int byte;
    char *text; /* pageable memory, as it was when the copy was enqueued */
    bool to_device;
} Copy;

static SimResult run_copy(SimOp *op)
{
    const Copy *c = op->work.payload;

    if (c->from)
        sim_touch(c->from, c->bytes, false, NULL);
    if (c->to_device)
        sim_touch(c->to, c->bytes, true, NULL);
    if (sim_problem())
        return SIM_OP_DONE;
    if (c->from || c->text)
        memmove(c->to, c->from ? c->from : c->text, (size_t)c->bytes);
    else
        memset(c->to, c->byte, (size_t)c->bytes);
    free(c->text);
    sim_clock_us += 1e-6 * (double)c->bytes;
    if (!c->from && !c->text && c->bytes >= sim_setting("CUDASIM_L2", 50 << 20))
        sim_cache_cold = true;
    return SIM_OP_DONE;
}

static cudaError_t copy(void *to, const void *from, size_t bytes, SimStream *s)
{
    Copy c = {.to = to, .bytes = (int64_t)bytes, .to_device = piece_of(to)};
    SimWork work = {.run = run_copy, .payload = &c, .payload_bytes = sizeof c};

    if (bytes == 0)
        return cudaSuccess;
    if (s->capture && !(piece_of(from) && piece_of(to))) { /* pageable memory */
        sim_capture_spoilt();
        return cudaErrorStreamCaptureUnsupported;
    }
    if (piece_of(from)) {
        c.from = from;
    } else {
        c.text = malloc(bytes);
        if (!c.text)
            return cudaErrorMemoryAllocation;
        memcpy(c.text, from, bytes);
    }
    snprintf(work.what, sizeof work.what, "a copy of %zu bytes", bytes);
    sim_enqueue(s, &work);
    if (!c.to_device)
        sim_wait(s->last); /* into pageable memory: not before it is there */
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                            enum cudaMemcpyKind kind, cudaStream_t stream)
{
    BEGIN;
    (void)kind;
    return sim_result(copy(to, from, bytes, sim_stream(stream)));
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    SimStream *s = sim_stream(NULL);
    cudaError_t e;
    BEGIN_UNCAPTURED;

    (void)kind;
    e = copy(to, from, bytes, s);
    sim_wait(s->last);
    return sim_result(e);
}

typedef struct Rows {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, row_bytes, rows;
} Rows;

static SimResult run_copy_rows(SimOp *op)
{
    const Rows *r = op->work.payload;

    for (size_t i = 0; i < r->rows; i++) {
        sim_touch(r->from + i * r->from_pitch, (int64_t)r->row_bytes, false, NULL);
        sim_touch(r->to + i * r->to_pitch, (int64_t)r->row_bytes, true, NULL);
    }
    if (sim_problem())
        return SIM_OP_DONE;
    for (size_t i = 0; i < r->rows; i++)
        memmove(r->to + i * r->to_pitch, r->from + i * r->from_pitch, r->row_bytes);
    sim_clock_us += 1e-6 * (double)(r->row_bytes * r->rows);
    return SIM_OP_DONE;
}

/* Within the device's memory alone. */
cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from,
                              size_t from_pitch, size_t row_bytes, size_t rows,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    Rows r = {to, from, to_pitch, from_pitch, row_bytes, rows};
    SimWork work = {.run = run_copy_rows, .payload = &r, .payload_bytes = sizeof r};
    BEGIN;

    if (kind != cudaMemcpyDeviceToDevice || !piece_of(to) || !piece_of(from) ||
        row_bytes > to_pitch || row_bytes > from_pitch)
        return sim_result(cudaErrorInvalidValue);
    snprintf(work.what, sizeof work.what, "a copy of %zu rows of %zu bytes", rows,
             row_bytes);
    if (rows > 0 && row_bytes > 0)
        sim_enqueue(sim_stream(stream), &work);
    return sim_result(cudaSuccess);
}

static cudaError_t fill(void *to, int byte, size_t bytes, SimStream *s)
{
    const Copy c = {.to = to, .byte = byte, .bytes = (int64_t)bytes, .to_device = true};
    const SimWork work = {.run = run_copy,
                          .payload = (void *)(uintptr_t)&c,
                          .payload_bytes = sizeof c,
                          .what = "a fill"};

    if (bytes > 0)
        sim_enqueue(s, &work);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    BEGIN;
    return sim_result(fill(to, byte, bytes, sim_stream(stream)));
}

cudaError_t cudaMemset(void *to, int byte, size_t bytes)
{
    BEGIN_UNCAPTURED;
    return sim_result(fill(to, byte, bytes, sim_stream(NULL)));
}
