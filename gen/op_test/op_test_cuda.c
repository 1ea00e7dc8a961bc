/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_cuda.c: the runtime (rt_cuda.h) that the host part of an op's cuda.cu calls.
 * In: kernels by name, launches, products. Out: they run on a real device
 * (tests/ops/op_test_gpu.c), or at once on the simulated one, where products are plain
 * loops. */
#define RT_CUDA 1
#include "op_test/op_test.h"

#include "rt_cuda.h"
#include "rt_fp8.h"
#include "rt_philox.h"
#include "sim.h"

#include <dlfcn.h>
#include <string.h>

extern Rt op_test_rt;
Rt op_test_rt = {.world_size = 1};
extern float op_test_loss_scale;
float op_test_loss_scale = 64.0f; /* as in op_test.lua; read where cuda_at says */
static void *unit;
static const OpDevice *device; /* NULL: the simulated one */

const char *cuda_device(const char *so)
{
    char error[512] = "";
    void *lib = dlopen(so, RTLD_NOW | RTLD_LOCAL);
    const char *arch;

    gen_require(lib, "%s", dlerror());
    device = dlsym(lib, "op_test_gpu");
    gen_require(device, "%s", dlerror());
    arch = device->open(error, sizeof error);
    gen_require(arch, "%s", error);
    return arch;
}

void cuda_unit(void *so, const char *image)
{
    unit = so;
    if (device && image)
        device->unit(image);
}

void rt_kernel_prepare(RtKernel *k)
{
    char name[200];

    if (device) {
        device->prepare(k);
        return;
    }
    snprintf(name, sizeof name, "sim_kernel_%s", k->name);
    k->handle = dlsym(unit, name);
    gen_require(k->handle, "no kernel %s in this op's cuda.cu", k->name);
}

void rt_launch(Rt *rt, const RtKernel *k, int64_t blocks_x, int64_t blocks_y, void **args)
{
    const SimLaunch launch = {.kernel = k->handle,
                              .blocks_x = blocks_x,
                              .blocks_y = blocks_y,
                              .threads = k->threads,
                              .shared_bytes = k->shared_bytes,
                              .args = args};

    (void)rt;
    gen_require(k->handle, "%s is launched but was never prepared", k->name);
    if (device)
        device->launch(k, blocks_x, blocks_y, args);
    else
        sim_launch(&launch);
}

void rt_fill(Rt *rt, void *p, int byte, int64_t bytes)
{
    (void)rt;
    if (device)
        device->fill(p, byte, bytes);
    else
        memset(p, byte, (size_t)bytes);
}

/* ---- products -------------------------------------------------------------------- */

void rt_matmul_prepare(RtMatmul *p)
{
    if (device)
        device->matmul_prepare(p);
    else
        p->plan = p;
}

static double element(const void *p, int64_t i, int dtype)
{
    if (dtype == RT_F64)
        return ((const double *)p)[i];
    if (dtype == RT_F32)
        return ((const float *)p)[i];
    if (dtype == RT_E4M3)
        return rt_f32_from_e4m3(((const uint8_t *)p)[i]);
    if (dtype == RT_E5M2)
        return rt_f32_from_e5m2(((const uint8_t *)p)[i]);
    return dtype == RT_BF16 ? rt_f32_from_bf16(((const rt_bf16 *)p)[i])
                            : rt_f32_from_f16(((const rt_f16 *)p)[i]);
}

static void store(void *p, int64_t i, int dtype, double v)
{
    if (dtype == RT_F64)
        ((double *)p)[i] = v;
    else if (dtype == RT_F32)
        ((float *)p)[i] = (float)v;
    else if (dtype == RT_BF16)
        ((rt_bf16 *)p)[i] = rt_bf16_from_f32((float)v);
    else
        ((rt_f16 *)p)[i] = rt_f16_from_f32((float)v);
}

static void multiply(const RtMatmul *p, const void *a, const void *b, void *c, float beta,
                     double scale)
{
    const bool fp8 = p->in_dtype == RT_E4M3 || p->in_dtype == RT_E5M2;
    const int b_dtype = fp8 ? p->b_dtype : p->in_dtype;

    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;

            for (int64_t k = 0; k < p->k; k++) {
                const int64_t ia = p->op == RT_TN ? k * p->lda + i : i * p->lda + k;
                const int64_t ib = p->op == RT_NT ? j * p->ldb + k : k * p->ldb + j;

                sum += element(a, ia, p->in_dtype) * element(b, ib, b_dtype);
            }
            sum *= scale;
            if (beta != 0)
                sum += beta * element(c, i * p->ldc + j, p->out_dtype);
            store(c, i * p->ldc + j, p->out_dtype, sum);
        }
}

static char misaligned[120]; /* what is wrong with a product's pointer; "": nothing */

static void check_pointer(char which, const void *at, int stated)
{
    const int off = (int)((uintptr_t)at % (uintptr_t)stated);

    if (off)
        snprintf(misaligned, sizeof misaligned,
                 "a product's %c is %d bytes behind a multiple of the %d that it states",
                 which, off, stated);
}

static void check_call(const RtMatmul *p, const void *a, const void *b, const void *c)
{
    gen_require(p->plan, "a product is called but was never prepared");
    gen_require(p->a_align_bytes > 0 && p->b_align_bytes > 0 && p->c_align_bytes > 0,
                "a product states no alignment");
    check_pointer('A', a, p->a_align_bytes);
    check_pointer('B', b, p->b_align_bytes);
    check_pointer('C', c, p->c_align_bytes);
}

void rt_matmul(Rt *rt, const RtMatmul *p, const void *a, const void *b, void *c,
               float beta)
{
    (void)rt;
    check_call(p, a, b, c);
    if (device)
        device->matmul(p, a, b, c, beta);
    else
        multiply(p, a, b, c, beta, 1);
}

void rt_matmul_fp8(Rt *rt, const RtMatmul *p, const void *a, const float *sa,
                   const void *b, const float *sb, void *c, float beta)
{
    (void)rt;
    check_call(p, a, b, c);
    if (device)
        device->matmul_fp8(p, a, sa, b, sb, c, beta);
    else
        multiply(p, a, b, c, beta, (double)*sa * (double)*sb);
}

uint32_t rt_noise_stream(const RtUpdateRun *run)
{
    return rt_name_stream(run->param->name);
}

/* ---- around a call --------------------------------------------------------------- */

/* What was copied to a real device. */
static struct {
    const void *host;
    void *at;
    size_t bytes;
} copies[MAX_OPERANDS + 3];
static int n_copies;

static void put(const void *host, size_t bytes)
{
    copies[n_copies].host = host;
    copies[n_copies].at = device->put(host, bytes);
    copies[n_copies++].bytes = bytes;
}

char *cuda_at(const void *p)
{
    const char *at = p;

    for (int i = 0; i < n_copies; i++) {
        const char *host = copies[i].host;

        if (at >= host && at < host + copies[i].bytes)
            return (char *)copies[i].at + (at - host);
    }
    return (char *)(uintptr_t)p;
}

static size_t bytes_of(const Buf *b)
{
    return (size_t)(b->elems * dtype_bytes(b->dtype));
}

void cuda_begin(const Buf *const *bufs, int n, const RtUpdate *u, int order)
{
    static const char *const names[MAX_OPERANDS] = {
        "operand 1",  "operand 2",  "operand 3",  "operand 4",
        "operand 5",  "operand 6",  "operand 7",  "operand 8",
        "operand 9",  "operand 10", "operand 11", "operand 12",
        "operand 13", "operand 14", "operand 15", "operand 16",
    };

    misaligned[0] = '\0';
    if (device) {
        put(u, sizeof *u);
        put(&op_test_loss_scale, sizeof op_test_loss_scale);
        for (int i = 0; i < n; i++)
            if (bufs[i])
                put(bufs[i]->data, bytes_of(bufs[i]) + (size_t)buf_guard_bytes);
        return;
    }
    sim_clear();
    sim_seed((uint64_t)order);
    sim_memory_add((void *)(uintptr_t)u, sizeof *u, "the step's update");
    sim_memory_add(&op_test_loss_scale, sizeof op_test_loss_scale, "the loss scale");
    for (int i = 0; i < n; i++)
        if (bufs[i] && bufs[i]->elems > 0)
            sim_memory_add(bufs[i]->data, bytes_of(bufs[i]),
                           i < MAX_OPERANDS ? names[i] : "workspace");
}

static SimTraffic traffic[MAX_OPERANDS + 1];

void cuda_count(void)
{
    sim_traffic_count(true);
}

void cuda_traffic(int buf, int64_t counted[4])
{
    const SimTraffic *t = &traffic[buf];

    counted[0] = t->read_all;
    counted[1] = t->read_first;
    counted[2] = t->written_all;
    counted[3] = t->written_first;
}

const char *cuda_end(const Buf *const *bufs, int n, const RtUpdate *u)
{
    const char *problem = NULL;

    if (device) {
        for (int i = 0; i < n_copies; i++) {
            const char *error = device->take((void *)(uintptr_t)copies[i].host,
                                             copies[i].at, copies[i].bytes);

            problem = problem ? problem : error;
        }
        n_copies = 0;
        return problem;
    }
    sim_memory_remove((void *)(uintptr_t)u);
    sim_memory_remove(&op_test_loss_scale);
    for (int i = 0; i < n; i++) {
        traffic[i] = (SimTraffic){0};
        if (!bufs[i] || bufs[i]->elems == 0)
            continue;
        traffic[i] = sim_traffic(bufs[i]->data);
        sim_memory_remove(bufs[i]->data);
    }
    return misaligned[0] ? misaligned : sim_problem();
}
