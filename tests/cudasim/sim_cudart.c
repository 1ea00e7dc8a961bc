/* SPDX-License-Identifier: Apache-2.0 */
/* sim_cudart.c: the functions of the CUDA runtime that trainers call, by their own names
 * and prototypes, on the simulated device: devices, errors, kernels. Memory:
 * sim_cudart_memory.c; streams, events and graphs: sim_cudart_stream.c. */
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
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
     "operation failed due to a previous error during capture"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
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

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int d)
{
    const int arch = (int)sim_setting("CUDASIM_ARCH", 90);
    BEGIN;

    *p = (struct cudaDeviceProp){.totalGlobalMem = sim_memory_bytes(),
                                 .major = arch / 10,
                                 .minor = arch % 10,
                                 .multiProcessorCount =
                                     (int)sim_setting("CUDASIM_MULTIPROCESSORS", 132),
                                 .sharedMemPerBlockOptin = SIM_SHARED_BYTES,
                                 .sharedMemPerBlock = SIM_STATIC_SHARED_BYTES,
                                 .warpSize = SIM_WARP,
                                 .maxThreadsPerBlock = SIM_MAX_THREADS,
                                 .l2CacheSize = (int)sim_setting("CUDASIM_L2", 50 << 20),
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
    BEGIN_UNCAPTURED;

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
    BEGIN_UNCAPTURED;
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
    sim_clock_us += (double)sim_setting("CUDASIM_KERNEL_US", 0);
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
