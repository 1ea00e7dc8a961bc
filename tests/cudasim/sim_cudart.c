/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudart.c: the functions of the CUDA runtime that trainers call, by their own names
 * and prototypes, on the simulated device: devices, memory, errors, kernels. Streams,
 * events and graphs: sim_cudart_stream.c. */
#include "sim_cudart.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_KERNELS = 4096 };

/* ---- settings and errors --------------------------------------------------------- */

static __thread cudaError_t last_error;

int64_t sim_setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? atoll(text) : otherwise;
}

bool sim_planted(const char *function)
{
    static int64_t calls;
    const char *text = getenv("CUDASIM_FAIL");
    size_t n = strlen(function);

    return text && !strncmp(text, function, n) && text[n] == ':' &&
           calls++ == atoll(text + n + 1);
}

bool sim_broken(void)
{
    static bool shown;

    if (!sim_problem())
        return false;
    if (!shown)
        fprintf(stderr, "simulated device: %s\n", sim_problem());
    shown = true;
    return true;
}

cudaError_t sim_result(cudaError_t e);
cudaError_t sim_result(cudaError_t e)
{
    if (e == cudaSuccess && sim_broken())
        e = cudaErrorLaunchFailure;
    if (e != cudaSuccess)
        last_error = e;
    return e;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t e = sim_broken() ? cudaErrorLaunchFailure : last_error;

    last_error = cudaSuccess;
    return e;
}

cudaError_t cudaPeekAtLastError(void)
{
    return sim_broken() ? cudaErrorLaunchFailure : last_error;
}

static const struct {
    cudaError_t code;
    const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorInvalidKernelImage, "cudaErrorInvalidKernelImage",
     "device kernel image is invalid"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
     "dependency created on uncaptured work in another stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
     "capturing stream has unjoined work"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

const char *cudaGetErrorName(cudaError_t e)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == e)
            return errors[i].name;
    return "cudaErrorOther";
}

const char *cudaGetErrorString(cudaError_t e)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == e)
            return errors[i].text;
    return "another error";
}

/* Each function begins with it. */
#define BEGIN                                                                            \
    SIM_LOCKED;                                                                          \
    if (sim_planted(__func__))                                                           \
    return sim_result(cudaErrorUnknown)

/* ---- devices --------------------------------------------------------------------- */

static int device;

/* Of the same major version, or a newer one. */
static bool driver_is_enough(void)
{
    return sim_setting("CUDASIM_DRIVER", CUDART_VERSION) >= CUDART_VERSION / 1000 * 1000;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    BEGIN;
    *count = 0;
    if (!driver_is_enough())
        return sim_result(cudaErrorInsufficientDriver);
    *count = (int)sim_setting("CUDASIM_DEVICES", 8);
    return sim_result(*count > 0 ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int d)
{
    BEGIN;
    if (!driver_is_enough())
        return sim_result(cudaErrorInsufficientDriver);
    if (d < 0 || d >= sim_setting("CUDASIM_DEVICES", 8))
        return sim_result(cudaErrorInvalidDevice);
    device = d;
    return sim_result(cudaSuccess);
}

cudaError_t cudaGetDevice(int *d)
{
    BEGIN;
    *d = device;
    return sim_result(cudaSuccess);
}

cudaError_t cudaDriverGetVersion(int *version)
{
    BEGIN;
    *version = (int)sim_setting("CUDASIM_DRIVER", CUDART_VERSION);
    return sim_result(cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    BEGIN;
    *version = CUDART_VERSION;
    return sim_result(cudaSuccess);
}

static size_t memory_bytes(void)
{
    return (size_t)sim_setting("CUDASIM_MEMORY", (int64_t)80 << 30);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d)
{
    const int arch = (int)sim_setting("CUDASIM_ARCH", 90);
    BEGIN;

    *p = (struct cudaDeviceProp){.totalGlobalMem = memory_bytes(),
                                 .major = arch / 10,
                                 .minor = arch % 10,
                                 .multiProcessorCount = 132,
                                 .sharedMemPerBlockOptin = SIM_SHARED_BYTES,
                                 .sharedMemPerBlock = SIM_STATIC_SHARED_BYTES,
                                 .warpSize = SIM_WARP,
                                 .maxThreadsPerBlock = SIM_MAX_THREADS,
                                 .l2CacheSize = 50 << 20,
                                 .pciBusID = d + 1};
    strcpy(p->name, "simulated device");
    return sim_result(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int d)
{
    struct cudaDeviceProp p;
    cudaError_t e = cudaGetDeviceProperties(&p, d);

    switch (attr) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = p.major;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = p.minor;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = p.multiProcessorCount;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = SIM_SHARED_BYTES;
        break;
    case cudaDevAttrL2CacheSize:
        *value = p.l2CacheSize;
        break;
    default:
        return sim_result(cudaErrorNotSupported);
    }
    return e;
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int d)
{
    BEGIN;
    snprintf(text, (size_t)bytes, "0000:%02X:00.0", d + 1);
    return sim_result(cudaSuccess);
}

/* ---- memory ---------------------------------------------------------------------- */

static size_t used_bytes;
static struct Piece {
    void *p;
    size_t bytes;
    bool host;
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
    munmap(p, x->bytes);
    free(x);
    return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
    BEGIN;
    if (bytes > memory_bytes() - used_bytes)
        return sim_result(cudaErrorMemoryAllocation);
    *p = new_piece(bytes ? bytes : 1, false);
    if (!*p)
        return sim_result(cudaErrorMemoryAllocation);
    used_bytes += bytes;
    return sim_result(cudaSuccess);
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
    BEGIN;
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
    BEGIN;
    return sim_result(free_piece(p));
}

cudaError_t cudaFreeHost(void *p)
{
    BEGIN;
    return sim_result(free_piece(p));
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
    BEGIN;
    *total = memory_bytes();
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
    return SIM_OP_DONE;
}

static cudaError_t copy(void *to, const void *from, size_t bytes, SimStream *s)
{
    Copy c = {.to = to, .bytes = (int64_t)bytes, .to_device = piece_of(to)};
    SimWork work = {.run = run_copy, .payload = &c, .payload_bytes = sizeof c};

    if (bytes == 0)
        return cudaSuccess;
    if (piece_of(from)) {
        c.from = from;
    } else {
        c.text = malloc(bytes);
        if (!c.text)
            return cudaErrorMemoryAllocation;
        memcpy(c.text, from, bytes); /* kept: a graph may replay it */
    }
    snprintf(work.what, sizeof work.what, "a copy of %zu bytes", bytes);
    sim_enqueue(s, &work);
    if (!c.to_device && !s->capture)
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
    BEGIN;

    (void)kind;
    e = copy(to, from, bytes, s);
    sim_wait(s->last);
    return sim_result(e);
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
    BEGIN;
    return sim_result(fill(to, byte, bytes, sim_stream(NULL)));
}

/* ---- kernels --------------------------------------------------------------------- */

typedef struct Kernel {
    const SimKernel *sim;
    int max_shared_bytes;
} Kernel;

static Kernel kernels[MAX_KERNELS];
static int n_kernels;

/* The image is a shared object that simcc's compiler made (tests/cudasim/nvcc): where its
 * table of sections ends, it ends. */
static size_t image_bytes(const void *code)
{
    const Elf64_Ehdr *h = code;

    if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_type != ET_DYN)
        return 0;
    return h->e_shoff + (size_t)h->e_shnum * h->e_shentsize;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
                                enum cudaJitOption *jit, void **jit_values,
                                unsigned n_jit, enum cudaLibraryOption *options,
                                void **values, unsigned n)
{
    const size_t bytes = image_bytes(code);
    char path[64];
    int fd;
    BEGIN;

    (void)jit, (void)jit_values, (void)n_jit, (void)options, (void)values, (void)n;
    fd = bytes ? memfd_create("kernels", 0) : -1;
    if (fd < 0 || write(fd, code, bytes) != (ssize_t)bytes)
        return sim_result(cudaErrorInvalidKernelImage);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*library) {
        fprintf(stderr, "simulated device: %s\n", dlerror());
        return sim_result(cudaErrorInvalidKernelImage);
    }
    return sim_result(cudaSuccess); /* fd stays open: messages look lines up in it */
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    BEGIN;
    sim_wait_all();
    dlclose(library);
    return sim_result(cudaSuccess);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library,
                                 const char *name)
{
    char symbol[256];
    const SimKernel *k;
    BEGIN;

    snprintf(symbol, sizeof symbol, "sim_kernel_%s", name);
    k = dlsym(library, symbol);
    if (!k || n_kernels == MAX_KERNELS)
        return sim_result(cudaErrorSymbolNotFound);
    kernels[n_kernels] = (Kernel){k, SIM_STATIC_SHARED_BYTES};
    *kernel = (cudaKernel_t)&kernels[n_kernels++];
    return sim_result(cudaSuccess);
}

static Kernel *kernel_of(const void *handle)
{
    Kernel *k = (Kernel *)(uintptr_t)handle;

    return k >= kernels && k < kernels + n_kernels ? k : NULL;
}

cudaError_t cudaFuncSetAttribute(const void *handle, enum cudaFuncAttribute attr,
                                 int value)
{
    Kernel *k = kernel_of(handle);
    BEGIN;

    if (!k ||
        (attr == cudaFuncAttributeMaxDynamicSharedMemorySize && value > SIM_SHARED_BYTES))
        return sim_result(cudaErrorInvalidValue);
    if (attr == cudaFuncAttributeMaxDynamicSharedMemorySize)
        k->max_shared_bytes = value;
    return sim_result(cudaSuccess);
}

/* The launch, then its arguments, one after the other at multiples of 8. */
typedef struct Launched {
    SimLaunch launch;
    char args[];
} Launched;

static SimResult run_kernel(SimOp *op)
{
    Launched *l = op->work.payload;
    SimLaunch launch = l->launch;
    const SimKernel *k = launch.kernel;
    void *args[64];
    int64_t at = 0;

    for (int i = 0; i < k->n_params; i++) {
        args[i] = l->args + at;
        at += (k->param_bytes[i] + 7) / 8 * 8;
    }
    launch.args = args;
    sim_launch(&launch);
    return SIM_OP_DONE;
}

static cudaError_t launch(const void *handle, dim3 grid, dim3 block, void **args,
                          size_t shared, SimStream *s)
{
    const Kernel *k = kernel_of(handle);
    SimWork work = {.run = run_kernel, .payload_bytes = sizeof(Launched)};
    Launched *l;
    int64_t at = 0;

    if (!k || k->sim->n_params > 64)
        return cudaErrorInvalidDeviceFunction;
    if (shared > (size_t)k->max_shared_bytes || grid.z != 1 || block.y != 1 ||
        block.z != 1)
        return cudaErrorInvalidValue;
    for (int i = 0; i < k->sim->n_params; i++)
        work.payload_bytes += (size_t)(k->sim->param_bytes[i] + 7) / 8 * 8;
    work.payload = l = calloc(1, work.payload_bytes);
    if (!l)
        return cudaErrorMemoryAllocation;
    l->launch = (SimLaunch){.kernel = k->sim,
                            .blocks_x = grid.x,
                            .blocks_y = grid.y,
                            .threads = (int)block.x,
                            .shared_bytes = (int64_t)shared};
    for (int i = 0; i < k->sim->n_params; i++) {
        memcpy(l->args + at, args[i], (size_t)k->sim->param_bytes[i]);
        at += (k->sim->param_bytes[i] + 7) / 8 * 8;
    }
    snprintf(work.what, sizeof work.what, "kernel %s", k->sim->name);
    sim_enqueue(s, &work);
    free(l);
    return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args,
                             size_t shared, cudaStream_t stream)
{
    BEGIN;
    return sim_result(launch(kernel, grid, block, args, shared, sim_stream(stream)));
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *kernel,
                                void **args)
{
    BEGIN;
    return sim_result(launch(kernel, c->gridDim, c->blockDim, args, c->dynamicSmemBytes,
                             sim_stream(c->stream)));
}
