/* SPDX-License-Identifier: MIT-0 */
/* rt_device.h: everything a kernel needs from the device. In: nothing; it includes no header of the
 * toolkit, so that nvcc and NVRTC compile the same text in the same short time. Out: types,
 * conversions and functions with the names of rt_math.h, sums over a warp and a block in a fixed
 * order, and each piece of PTX behind a named function.
 *
 * Kernels contain no PTX and use, apart from these names, only threadIdx, blockIdx, blockDim and
 * gridDim. So other definitions of the names can run the same kernels elsewhere: with
 * RT_DEVICE_SIMULATED, they come from the simulated device's header. */
#ifndef RT_DEVICE_H
#define RT_DEVICE_H

#ifdef RT_DEVICE_SIMULATED
#include "sim_device.h"
#else

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
#if defined(__CUDACC_RTC__) || !defined(_STDINT_H)
typedef long int64_t; /* as in the host's LP64 */
typedef unsigned long uint64_t;
#endif

#define RT_DEVICE static __device__ __forceinline__
#define RT_GLOBAL(threads) extern "C" __global__ void __launch_bounds__(threads)
/* Replaces RT_GLOBAL if another program has the kernel (rt_jit.c). */
#define RT_ABSENT(threads) static __device__ __attribute__((unused)) void
/* An array shared by the threads of a block. Every thread of the block must reach it. */
#define RT_SHARED(type, name, elems) __shared__ __align__(16) type name[elems]
/* The block's shared bytes, whose number is given at launch. */
#define RT_SHARED_BYTES(name) extern __shared__ __align__(128) char name[]
/* Before a loop of constant length: unrolls every round, or n at a time. */
#define RT_UNROLL _Pragma("unroll")
#define RT_PRAGMA(text) _Pragma(#text)
#define RT_UNROLL_BY(n) RT_PRAGMA(unroll n)

/* ---- bits ------------------------------------------------------------------------ */

RT_DEVICE float rt_f32_from_bits(int32_t bits)
{
    return __int_as_float(bits);
}

RT_DEVICE int32_t rt_bits_f32(float x)
{
    return __float_as_int(x);
}

RT_DEVICE double rt_f64_from_bits(int64_t bits)
{
    return __longlong_as_double(bits);
}

RT_DEVICE int64_t rt_bits_f64(double x)
{
    return __double_as_longlong(x);
}

/* ---- PTX ------------------------------------------------------------------------- */

RT_DEVICE uint16_t rt_bf16_from_f32(float x) /* to nearest even */
{
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

RT_DEVICE uint16_t rt_f16_from_f32(float x) /* to nearest even */
{
    uint16_t y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

RT_DEVICE uint32_t rt_f16x2_from_f32(float low, float high)
{
    uint32_t y;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

RT_DEVICE float rt_f32_from_f16(uint16_t x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}

/* Two floats to bf16, to nearest even: lo in the low half. */
RT_DEVICE uint32_t rt_bf16x2_from_f32(float lo, float hi)
{
    uint32_t y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(hi), "f"(lo));
    return y;
}

RT_DEVICE float rt_exp2f(float x) /* within 2 units in the last place; below 2^-126 it is 0 */
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* d[16, 8] += a[16, 16] b[16, 8], as fragments over a warp (mma.m16n8k16, row.col). */
RT_DEVICE void rt_mma_bf16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

RT_DEVICE uint32_t rt_shared_address(const void *shared)
{
    return (uint32_t)__cvta_generic_to_shared(shared);
}

/* Four 8x8 matrices of 16-bit elements; lane l gives the address of row l % 8 of matrix l / 8. */
RT_DEVICE void rt_ldmatrix_x4(uint32_t r[4], const void *shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(rt_shared_address(shared))
                 : "memory");
}

RT_DEVICE void rt_ldmatrix_x4_trans(uint32_t r[4], const void *shared)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(rt_shared_address(shared))
                 : "memory");
}

/* 16 bytes from global to shared memory, bypassing registers; bytes beyond `valid` become zero.
 * Complete after rt_cp_async_wait(n): all but the last n committed groups. */
RT_DEVICE void rt_cp_async_16(void *shared, const void *global, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     rt_shared_address(shared)),
                 "l"(global), "r"(valid)
                 : "memory");
}

RT_DEVICE void rt_cp_async_commit(void)
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

#define rt_cp_async_wait(n) asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory")

/* 16 bytes to global memory in one access. The compiler might split a plain copy of a struct. */
RT_DEVICE void rt_write_16(void *global, const uint32_t word[4])
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(global), "r"(word[0]),
                 "r"(word[1]), "r"(word[2]), "r"(word[3])
                 : "memory");
}

/* ---- the threads of a warp and a block ------------------------------------------- */

RT_DEVICE void rt_block_sync(void)
{
    __syncthreads();
}

RT_DEVICE void rt_warp_sync(void)
{
    __syncwarp();
}

/* The value of the lane whose number differs by the bits of `mask`, or of lane `lane`. */
#define rt_shuffle_xor(v, mask) __shfl_xor_sync(0xffffffffu, v, mask)
#define rt_shuffle(v, lane) __shfl_sync(0xffffffffu, v, lane)
/* Is p true on every lane? */
#define rt_warp_all(p) __all_sync(0xffffffffu, p)

/* Integers only, because their sum and their maximum do not depend on the order. */
RT_DEVICE void rt_atomic_add_u64(uint64_t *p, uint64_t v)
{
    atomicAdd((unsigned long long *)p, (unsigned long long)v);
}

RT_DEVICE void rt_atomic_max_i32(int32_t *p, int32_t v)
{
    atomicMax(p, v);
}

/* ---- functions: float, and double without f -------------------------------------- */

RT_DEVICE float rt_fmaf(float a, float b, float c) { return __fmaf_rn(a, b, c); }
RT_DEVICE double rt_fma(double a, double b, double c) { return __fma_rn(a, b, c); }
RT_DEVICE float rt_maxf(float a, float b) { return fmaxf(a, b); }
RT_DEVICE float rt_expf(float x) { return expf(x); }
RT_DEVICE float rt_logf(float x) { return logf(x); }
RT_DEVICE float rt_tanhf(float x) { return tanhf(x); }
RT_DEVICE float rt_sqrtf(float x) { return __fsqrt_rn(x); }
RT_DEVICE double rt_exp(double x) { return exp(x); }
RT_DEVICE double rt_log(double x) { return log(x); }
RT_DEVICE double rt_tanh(double x) { return tanh(x); }
RT_DEVICE double rt_sqrt(double x) { return sqrt(x); }
RT_DEVICE double rt_sin(double x) { return sin(x); }
RT_DEVICE double rt_cos(double x) { return cos(x); }

#endif

/* ---- built on the above: the same on every device -------------------------------- */

typedef uint16_t rt_bf16, rt_f16;
typedef struct __attribute__((aligned(16))) RtVec16 { uint32_t word[4]; } RtVec16;

/* What an optimizer's kernel reads of the step, in device memory; explained in rt.h. */
typedef struct RtUpdate {
    float scale, lr, bias1, bias2;
    double scale64, lr64, bias1_64, bias2_64;
    uint64_t noise;
    int64_t skip; /* not 0: weights and moments stay */
} RtUpdate;
enum { RT_NOISE_MASTER = 5, RT_NOISE_MOMENT1, RT_NOISE_MOMENT2 };

RT_DEVICE float rt_f32_from_bf16(uint16_t x)
{
    return rt_f32_from_bits((int32_t)((uint32_t)x << 16));
}

/* How an optimizer rounds; explained in rt_math.h. */
RT_DEVICE uint16_t rt_bf16_from_master(float x)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x);
    const uint32_t nan = -(uint32_t)((bits & 0x7fffffffu) > 0x7f800000u);
    return (uint16_t)((((bits + 0x8000u) & ~nan) | ((bits | 0x400000u) & nan)) >> 16);
}

RT_DEVICE uint16_t rt_split_rest(float master)
{
    return (uint16_t)(uint32_t)rt_bits_f32(master);
}

RT_DEVICE float rt_f32_from_split(uint16_t weight, uint16_t rest)
{
    const uint32_t negative = rest >> 15; /* the weight was rounded up */
    return rt_f32_from_bits((int32_t)(((uint32_t)weight - negative) << 16 | rest));
}

RT_DEVICE uint16_t rt_bf16_noisy(float x, uint16_t noise)
{
    const uint32_t bits = (uint32_t)rt_bits_f32(x);
    const uint32_t special = -(uint32_t)((bits & 0x7f800000u) == 0x7f800000u);
    const uint32_t nan = -(uint32_t)((bits & 0x7fffffffu) > 0x7f800000u) & 0x400000u;
    return (uint16_t)(((bits | nan) + (noise & ~special)) >> 16);
}

RT_DEVICE float rt_f32_noisy(float x, uint16_t noise)
{
    return rt_f32_from_bf16(rt_bf16_noisy(x, noise));
}

RT_DEVICE float rt_sigmoidf(float x)
{
    return 1 / (1 + rt_expf(-x));
}

RT_DEVICE double rt_sigmoid(double x)
{
    return 1 / (1 + rt_exp(-x));
}

/* As in rt_math.h. */
RT_DEVICE float rt_softplusf(float x)
{
    const float e = rt_expf(x > 0 ? -x : x), u = 1 + e;
    return (x <= 0 ? 0 : x) + (rt_logf(u) + (e - (u - 1)) / u);
}

RT_DEVICE double rt_softplus(double x)
{
    const double e = rt_exp(x > 0 ? -x : x), u = 1 + e;
    return (x <= 0 ? 0 : x) + (rt_log(u) + (e - (u - 1)) / u);
}

/* Philox4x32-10, as in rt_philox.h. */
RT_DEVICE void rt_philox(uint64_t seed, uint32_t site, uint64_t index, uint32_t stream,
                         uint32_t w[4])
{
    uint32_t k0 = (uint32_t)seed, k1 = site;
    w[0] = (uint32_t)index;
    w[1] = (uint32_t)(index >> 32);
    w[2] = stream;
    w[3] = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)w[0] * 0xD2511F53u, p1 = (uint64_t)w[2] * 0xCD9E8D57u;
        w[0] = (uint32_t)(p1 >> 32) ^ w[1] ^ k0;
        w[2] = (uint32_t)(p0 >> 32) ^ w[3] ^ k1;
        w[1] = (uint32_t)p1;
        w[3] = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* The noise of eight elements of a parameter, from element 8 * block on: 16 bits each, two in a
 * word, low half first. site: RT_NOISE_*; stream: rt_noise_stream(run). A run starts at a multiple
 * of 1024 elements; but a matrix that is part of its parameter starts anywhere. */
RT_DEVICE void rt_noise(const RtUpdate *u, int site, int64_t block, uint32_t stream,
                        uint32_t noise[4])
{
    rt_philox(u->noise, (uint32_t)site, (uint64_t)block, stream, noise);
}

/* Overloaded, for templates. */
RT_DEVICE float rt_exp_of(float x)
{
    return rt_expf(x);
}

RT_DEVICE float rt_log_of(float x)
{
    return rt_logf(x);
}

RT_DEVICE double rt_exp_of(double x)
{
    return rt_exp(x);
}

RT_DEVICE double rt_log_of(double x)
{
    return rt_log(x);
}

/* The sum over the warp, on every lane, by the tree of neighbours 16, 8, 4, 2, 1 apart. */
template <typename T> RT_DEVICE T rt_warp_sum(T v)
{
    for (int apart = 16; apart > 0; apart /= 2)
        v += rt_shuffle_xor(v, apart);
    return v;
}

template <typename T> RT_DEVICE T rt_warp_max(T v)
{
    for (int apart = 16; apart > 0; apart /= 2) {
        const T other = rt_shuffle_xor(v, apart);
        v = v > other ? v : other;
    }
    return v;
}

/* NaN if a lane has it, where rt_warp_max may skip it. */
template <typename T> RT_DEVICE T rt_warp_max_or_nan(T v)
{
    for (int apart = 16; apart > 0; apart /= 2) {
        const T other = rt_shuffle_xor(v, apart);
        v = v > other || v != v ? v : other;
    }
    return v;
}

/* The sum over a block of `threads`, on every thread: warps in order, added one after the other.
 * part: shared memory for one value per warp; free again when the call returns. */
template <int threads, typename T> RT_DEVICE T rt_block_sum(T v, T *part)
{
    const int warps = threads / 32;
    v = rt_warp_sum(v);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    rt_block_sync();
    T sum = part[0];
    for (int i = 1; i < warps; i++)
        sum += part[i];
    rt_block_sync();
    return sum;
}

template <int threads, typename T> RT_DEVICE T rt_block_max(T v, T *part)
{
    const int warps = threads / 32;
    v = rt_warp_max(v);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = v;
    rt_block_sync();
    T top = part[0];
    for (int i = 1; i < warps; i++)
        top = part[i] > top ? part[i] : top;
    rt_block_sync();
    return top;
}

/* The sum over `lanes` adjacent lanes of a warp, on each of them. lanes: a power of two up to 32;
 * the whole warp must call it. */
template <int lanes, typename A> RT_DEVICE A rt_lanes_sum(A v)
{
    for (int apart = lanes / 2; apart > 0; apart /= 2)
        v += rt_shuffle_xor(v, apart);
    return v;
}

#include "rt_rows.h"

#endif
