/* SPDX-License-Identifier: Apache-2.0 */
/* sim_device.h: the names of rt_device.h (runtime/cuda/) on the simulated device.
 * Included by rt_device.h itself where RT_DEVICE_SIMULATED is defined, as C++ for the
 * CPU. */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "sim_private.h"

#include <math.h>
#include <string.h>

#define RT_DEVICE static inline
#define RT_UNROLL
#define RT_UNROLL_BY(n)
/* simcc, which finds the kernels in the preprocessed text, registers them. */
#ifdef SIM_LIST
#define RT_GLOBAL(threads) SIM_GLOBAL(threads)
#else
#define RT_GLOBAL(threads) extern "C" void
#endif
#define RT_ABSENT(threads) static __attribute__((unused)) void
#define RT_SHARED(type, name, elems)                                                     \
    static char sim_site_##name;                                                         \
    type(&name)[elems] =                                                                 \
        *(type(*)[elems])sim_shared(&sim_site_##name, sizeof(type), elems, #name)
#define RT_SHARED_BYTES(name) char *const name = (char *)sim_shared_bytes()

#define threadIdx sim_thread_index()
#define blockIdx sim_block_index()
#define blockDim sim_block_dim()
#define gridDim sim_grid_dim()

/* What the simulation itself reads is no access of the kernel. */
#define SIM_INSIDE static __attribute__((noipa, unused, no_sanitize("thread")))

/* ---- bits ------------------------------------------------------------------------ */

RT_DEVICE float rt_f32_from_bits(int32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

RT_DEVICE int32_t rt_bits_f32(float x)
{
    int32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

RT_DEVICE double rt_f64_from_bits(int64_t bits)
{
    double x;
    memcpy(&x, &bits, 8);
    return x;
}

RT_DEVICE int64_t rt_bits_f64(double x)
{
    int64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

#define rt_bf16_from_f32 sim_bf16_from_f32
#define rt_f16_from_f32 sim_f16_from_f32
#define rt_f32_from_f16 sim_f32_from_f16

RT_DEVICE uint32_t rt_bf16x2_from_f32(float lo, float hi)
{
    return rt_bf16_from_f32(lo) | (uint32_t)rt_bf16_from_f32(hi) << 16;
}

RT_DEVICE uint32_t rt_f16x2_from_f32(float lo, float hi)
{
    return rt_f16_from_f32(lo) | (uint32_t)rt_f16_from_f32(hi) << 16;
}

/* ---- a warp together ------------------------------------------------------------- */

#define rt_block_sync() sim_block_sync(__FILE__, __LINE__)
#define rt_warp_sync() sim_warp_sync(__FILE__, __LINE__)
#define rt_shuffle(v, lane) sim_shuffle(v, lane, __FILE__, __LINE__)
#define rt_shuffle_xor(v, mask)                                                          \
    sim_shuffle(v, (int)(sim_thread_index().x % 32) ^ (mask), __FILE__, __LINE__)

template <typename T> SIM_INSIDE T sim_shuffle(T v, int lane, const char *file, int line)
{
    T out;
    memcpy(&out, sim_warp_gather(&v, sizeof v, "rt_shuffle", file, line)[lane & 31].bytes,
           sizeof v);
    return out;
}

SIM_INSIDE bool sim_warp_all(bool p, const char *file, int line)
{
    const SimSlot *slot = sim_warp_gather(&p, sizeof p, "rt_warp_all", file, line);
    for (int lane = 0; lane < 32; lane++)
        if (!slot[lane].bytes[0])
            return false;
    return true;
}
#define rt_warp_all(p) sim_warp_all(p, __FILE__, __LINE__)

SIM_INSIDE float sim_bf16_of(uint32_t pair, int high)
{
    return rt_f32_from_bits((int32_t)(high ? pair & 0xffff0000u : pair << 16));
}

/* Lane l holds of a rows l / 4 and l / 4 + 8, of b column l / 4, of d the pairs beside
 * (PTX: matrix fragments for mma.m16n8k16). Sums: f32, k in order. */
SIM_INSIDE void sim_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2],
                             const char *file, int line)
{
    uint32_t mine[6];
    memcpy(mine, a, 16);
    memcpy(mine + 4, b, 8);
    const SimSlot *slot = sim_warp_gather(mine, sizeof mine, "rt_mma_bf16", file, line);
    const int lane = (int)(sim_thread_index().x % 32);
    for (int i = 0; i < 4; i++) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; k++) {
            uint32_t of_a[6], of_b[6];
            memcpy(of_a, slot[row % 8 * 4 + k % 8 / 2].bytes, sizeof of_a);
            memcpy(of_b, slot[column * 4 + k % 8 / 2].bytes, sizeof of_b);
            d[i] += sim_bf16_of(of_a[row / 8 + k / 8 * 2], k % 2) *
                    sim_bf16_of(of_b[4 + k / 8], k % 2);
        }
    }
}
#define rt_mma_bf16(d, a, b) sim_mma_bf16(d, a, b, __FILE__, __LINE__)

/* Lane l gives a row of 16 bytes; of matrix m it gets the pair l % 4 of row l / 4, or,
 * transposed, element l / 4 of rows l % 4 * 2 and the next. */
SIM_INSIDE void sim_ldmatrix_x4(uint32_t r[4], const void *row, bool transposed,
                                const char *file, int line)
{
    const void *pc = __builtin_return_address(0);
    if ((uintptr_t)row % 16 != 0 || !sim_is_shared(row, 16)) {
        sim_fail(pc,
                 "ldmatrix of a row that is not in shared memory or not aligned to 16");
    }
    sim_touch(row, 16, false, pc);
    const SimSlot *slot = sim_warp_gather(&row, sizeof row, "rt_ldmatrix", file, line);
    const int lane = (int)(sim_thread_index().x % 32);
    for (int m = 0; m < 4; m++) {
        uint16_t pair[2];
        for (int i = 0; i < 2; i++) {
            const int from = transposed ? lane % 4 * 2 + i : lane / 4;
            const int at = transposed ? lane / 4 : lane % 4 * 2 + i;
            const char *bytes;
            memcpy(&bytes, slot[m * 8 + from].bytes, sizeof bytes);
            memcpy(&pair[i], bytes + at * 2, 2);
        }
        r[m] = pair[0] | (uint32_t)pair[1] << 16;
    }
}
#define rt_ldmatrix_x4(r, p) sim_ldmatrix_x4(r, p, false, __FILE__, __LINE__)
#define rt_ldmatrix_x4_trans(r, p) sim_ldmatrix_x4(r, p, true, __FILE__, __LINE__)

RT_DEVICE void rt_write_16(void *global, const uint32_t word[4])
{
    struct alignas(16) Words {
        uint32_t word[4];
    };
    Words words;
    memcpy(words.word, word, 16);
    *(Words *)global = words;
}

#define rt_cp_async_16 sim_cp_async_16
#define rt_cp_async_commit sim_cp_async_commit
#define rt_cp_async_wait(n) sim_cp_async_wait(n)
#define rt_atomic_add_u64 sim_atomic_add_u64
#define rt_atomic_max_i32 sim_atomic_max_i32

/* ---- functions: the C library's -------------------------------------------------- */

RT_DEVICE float rt_fmaf(float a, float b, float c)
{
    return fmaf(a, b, c);
}
RT_DEVICE double rt_fma(double a, double b, double c)
{
    return fma(a, b, c);
}
RT_DEVICE float rt_maxf(float a, float b)
{
    return fmaxf(a, b);
}
RT_DEVICE float rt_exp2f(float x)
{
    return exp2f(x);
}
RT_DEVICE float rt_expf(float x)
{
    return expf(x);
}
RT_DEVICE float rt_logf(float x)
{
    return logf(x);
}
RT_DEVICE float rt_tanhf(float x)
{
    return tanhf(x);
}
RT_DEVICE float rt_sqrtf(float x)
{
    return sqrtf(x);
}
RT_DEVICE double rt_exp(double x)
{
    return exp(x);
}
RT_DEVICE double rt_log(double x)
{
    return log(x);
}
RT_DEVICE double rt_tanh(double x)
{
    return tanh(x);
}
RT_DEVICE double rt_sqrt(double x)
{
    return sqrt(x);
}
RT_DEVICE double rt_sin(double x)
{
    return sin(x);
}
RT_DEVICE double rt_cos(double x)
{
    return cos(x);
}

/* ---- kernels from outside -------------------------------------------------------- */

template <int... I> struct SimNumbers {
};
template <int n, int... I> struct SimCount : SimCount<n - 1, n - 1, I...> {
};
template <int... I> struct SimCount<0, I...> {
    typedef SimNumbers<I...> Numbers;
};
template <typename T> struct SimBare {
    typedef T Type;
};
template <typename T> struct SimBare<const T> {
    typedef T Type;
};
template <typename... P> constexpr int sim_n_params(void (*)(P...))
{
    return sizeof...(P);
}
template <typename... P> struct SimParams {
    static const int bytes[sizeof...(P) + 1];
};
template <typename... P> const int SimParams<P...>::bytes[] = {(int)sizeof(P)..., 0};
template <typename... P> const int *sim_param_bytes(void (*)(P...))
{
    return SimParams<P...>::bytes;
}

template <typename... P, int... I>
SIM_INSIDE void sim_apply(void (*kernel)(P...), void **args, SimNumbers<I...>)
{
    (void)args;
    kernel(*(typename SimBare<P>::Type *)args[I]...);
}
template <typename... P> SIM_INSIDE void sim_call(void (*kernel)(P...), void **args)
{
    sim_apply(kernel, args, typename SimCount<sizeof...(P)>::Numbers());
}

#ifdef __SANITIZE_THREAD__
#define SIM_CHECKED true
#else
#define SIM_CHECKED false
#endif

#define SIM_KERNEL(kernel, declared_threads)                                             \
    static void sim_call_##kernel(void **args)                                           \
    {                                                                                    \
        sim_call(kernel, args);                                                          \
    }                                                                                    \
    extern "C" const SimKernel sim_kernel_##kernel;                                      \
    const SimKernel sim_kernel_##kernel = {#kernel,                                      \
                                           declared_threads,                             \
                                           sim_n_params(kernel),                         \
                                           sim_param_bytes(kernel),                      \
                                           sim_call_##kernel,                            \
                                           SIM_CHECKED};

#endif
