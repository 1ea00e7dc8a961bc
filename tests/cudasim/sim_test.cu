/* SPDX-License-Identifier: Apache-2.0 */
/* sim_test.cu: kernels for sim_test.c and sim_runtime_test.c: right ones, and ones with a fault
 * each. */
#include "rt_device.h"
#include "rt_rows.h"

/* ---- right ----------------------------------------------------------------------- */

RT_GLOBAL(64)
sum_rows(const float *x, float *y, int columns)
{
    RT_SHARED(float, part, 2);
    float sum = 0;
    for (int j = threadIdx.x; j < columns; j += 64) {
        sum += x[blockIdx.x * columns + j];
    }
    sum = rt_block_sum<64>(sum, part);
    if (threadIdx.x == 0) {
        y[blockIdx.x] = sum;
    }
}

/* A row of 9 in the memory of 12. */
RT_GLOBAL(32)
minus_onehot(float *row, float lse)
{
    rt_row_softmax_minus<RtF32, 9, 32, 4>(row, row, lse, 2, 1.0f, 0.0f, 1.0f);
}

/* Within a warp rt_warp_sync is enough. */
RT_GLOBAL(64)
turn_within_warps(const int *x, int *y)
{
    RT_SHARED(int, line, 64);
    const int first = threadIdx.x / 32 * 32;
    line[threadIdx.x] = x[threadIdx.x];
    rt_warp_sync();
    y[threadIdx.x] = line[first + 31 - threadIdx.x % 32];
}

RT_GLOBAL(64)
all_of_warp(const int *x, int *y)
{
    y[threadIdx.x] = rt_warp_all(x[threadIdx.x] != 40);
}

/* d[16, 8] = a[16, 16] b[16, 8] by ldmatrix and mma, a and b through cp.async. b lies as its
 * transpose, [8, 16]. */
RT_GLOBAL(32)
multiply(const uint16_t *a, const uint16_t *b, float *d)
{
    RT_SHARED(uint16_t, sa, 256);
    RT_SHARED(uint16_t, sb, 128);
    const int lane = threadIdx.x;
    uint32_t fa[4], fb[4];
    float sum[4] = { 0, 0, 0, 0 };
    rt_cp_async_16(sa + lane * 8, a + lane * 8, 16);
    rt_cp_async_commit();
    if (lane < 16) {
        rt_cp_async_16(sb + lane * 8, b + lane * 8, 16);
    }
    rt_cp_async_commit();
    rt_cp_async_wait(1); /* a is there */
    rt_warp_sync();
    rt_ldmatrix_x4(fa, sa + lane % 16 * 16 + lane / 16 * 8);
    rt_cp_async_wait(0);
    rt_warp_sync();
    rt_ldmatrix_x4(fb, sb + lane % 8 * 16 + lane / 8 % 2 * 8);
    rt_mma_bf16(sum, fa, fb);
    for (int i = 0; i < 4; i++) {
        d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
    }
}

RT_GLOBAL(32)
transpose_by_ldmatrix(const uint16_t *x, uint16_t *y) /* four 8x8 */
{
    RT_SHARED(uint16_t, s, 256);
    uint32_t r[4];
    for (int i = 0; i < 8; i++) {
        s[threadIdx.x * 8 + i] = x[threadIdx.x * 8 + i];
    }
    rt_warp_sync();
    rt_ldmatrix_x4_trans(r, s + threadIdx.x * 8);
    for (int m = 0; m < 4; m++) {
        const int at = m * 64 + threadIdx.x / 4 * 8 + threadIdx.x % 4 * 2;
        y[at] = (uint16_t)r[m];
        y[at + 1] = (uint16_t)(r[m] >> 16);
    }
}

RT_GLOBAL(64)
scale(const float *x, float *y, float by, int n)
{
    const int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) {
        y[i] = x[i] * by;
    }
}

RT_GLOBAL(64)
count_all(uint64_t *total)
{
    RT_SHARED(uint64_t, sum, 1);
    if (threadIdx.x == 0) {
        sum[0] = 0;
    }
    rt_block_sync();
    rt_atomic_add_u64(sum, threadIdx.x + 1);
    rt_block_sync();
    if (threadIdx.x == 0) {
        rt_atomic_add_u64(total, sum[0]);
    }
}

/* ---- wrong ----------------------------------------------------------------------- */

RT_GLOBAL(64)
no_barrier(const int *x, int *y)
{
    RT_SHARED(int, line, 64);
    line[threadIdx.x] = x[threadIdx.x];
    y[threadIdx.x] = line[63 - threadIdx.x];
}

RT_GLOBAL(64)
no_second_barrier(const int *x, int *y)
{
    RT_SHARED(int, line, 64);
    for (int i = 0; i < 2; i++) {
        line[threadIdx.x] = x[threadIdx.x] + i;
        rt_block_sync();
        y[threadIdx.x] = line[63 - threadIdx.x];
    }
}

/* A warp's barrier does not order the other warp. */
RT_GLOBAL(64)
barrier_of_warp_only(const int *x, int *y)
{
    RT_SHARED(int, line, 64);
    line[threadIdx.x] = x[threadIdx.x];
    rt_warp_sync();
    y[threadIdx.x] = line[63 - threadIdx.x];
}

/* A shuffle orders no memory. */
RT_GLOBAL(32)
shuffle_as_barrier(const int *x, int *y)
{
    RT_SHARED(int, line, 32);
    line[threadIdx.x] = x[threadIdx.x];
    const int zero = rt_shuffle(0, 0);
    y[threadIdx.x] = line[31 - threadIdx.x] + zero;
}

RT_GLOBAL(64)
divergent_barrier(int *y)
{
    if (threadIdx.x < 32) {
        rt_block_sync();
    }
    y[threadIdx.x] = 1;
}

RT_GLOBAL(64)
two_barriers(int *y)
{
    if (threadIdx.x < 32) {
        rt_block_sync();
        y[threadIdx.x] = 1;
    } else {
        rt_block_sync();
        y[threadIdx.x] = 2;
    }
}

RT_GLOBAL(32)
divergent_shuffle(int *y)
{
    int v = threadIdx.x;
    if (v % 2) {
        v = rt_shuffle(v, 1);
    }
    y[threadIdx.x] = v;
}

RT_GLOBAL(64)
unwritten_shared(int *y)
{
    RT_SHARED(int, line, 64);
    if (threadIdx.x < 63) {
        line[threadIdx.x] = 1;
    }
    rt_block_sync();
    y[threadIdx.x] = line[threadIdx.x];
}

RT_GLOBAL(64)
outside_shared(int *y)
{
    RT_SHARED(int, line, 64);
    line[threadIdx.x + 1] = 1;
    y[threadIdx.x] = 0;
}

RT_GLOBAL(64)
outside_global(int *y)
{
    y[threadIdx.x + 1] = 0;
}

RT_GLOBAL(64)
misaligned(int *y)
{
    *(RtVec16 *)(y + 1 + 4 * (threadIdx.x / 32)) = RtVec16{ { 1, 2, 3, 4 } };
}

/* Two blocks add to one place. */
RT_GLOBAL(32)
blocks_add(float *y)
{
    if (threadIdx.x == 0) {
        y[0] += 1.0f;
    }
}

/* In place, and a block reads what its neighbour writes. */
RT_GLOBAL(32)
in_place_over_blocks(float *y)
{
    const int i = blockIdx.x * 32 + threadIdx.x;
    y[i] = y[(i + 32) % (32 * gridDim.x)];
}

/* Atomic adds are not ordered before the read. */
RT_GLOBAL(64)
atomic_then_read(uint64_t *y)
{
    RT_SHARED(uint64_t, sum, 1);
    if (threadIdx.x == 0) {
        sum[0] = 0;
    }
    rt_block_sync();
    rt_atomic_add_u64(sum, threadIdx.x);
    if (threadIdx.x == 0) {
        y[0] = sum[0];
    }
}

RT_GLOBAL(32)
copy_not_awaited(const float *x, float *y)
{
    RT_SHARED(float, line, 128);
    rt_cp_async_16(line + threadIdx.x * 4, x + threadIdx.x * 4, 16);
    rt_cp_async_commit();
    rt_cp_async_wait(1); /* one group too many may be under way */
    y[threadIdx.x] = line[threadIdx.x * 4];
}

RT_GLOBAL(64)
copy_over_readers(const float *x, float *y)
{
    RT_SHARED(float, line, 256);
    float sum = 0;
    for (int i = 0; i < 2; i++) {
        rt_cp_async_16(line + threadIdx.x * 4, x + threadIdx.x * 4, 16);
        rt_cp_async_commit();
        rt_cp_async_wait(0);
        rt_block_sync();
        sum += line[255 - threadIdx.x * 4];
    }
    y[threadIdx.x] = sum;
}

RT_GLOBAL(32)
too_much_shared(float *y)
{
    RT_SHARED(float, line, 16384);
    line[threadIdx.x] = 1;
    y[threadIdx.x] = line[threadIdx.x];
}
