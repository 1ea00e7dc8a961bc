/* SPDX-License-Identifier: MIT-0 */
/* rt_kernels.h: the runtime's own kernels: sums of gradients over leaves and over ranks, the exact
 * norm, the end of a step. kernels.cu includes it after defining the dtype of gradient sums. In and
 * out: see rt_comm.c, rt_norm.c of this folder.
 *
 * Sums use the trees of the CPU's runtime, rounded node by node, so that equal gradients give equal
 * bits on any number of ranks. */
#ifndef RT_KERNELS_H
#define RT_KERNELS_H

#include "rt_control.h"

/* Tells the host how far the device is; `word` is host memory. */
RT_GLOBAL(32)
rt_place_kernel(int *word, int place)
{
    if (threadIdx.x == 0)
        *word = place;
}

#if defined(RT_F64_SUMS)
typedef double RtGrad;
typedef double RtSum;
RT_DEVICE RtSum rt_grad_load(RtGrad x) { return x; }
RT_DEVICE RtGrad rt_grad_round(RtSum x) { return x; }
#elif defined(RT_BF16_SUMS)
typedef rt_bf16 RtGrad;
typedef float RtSum;
RT_DEVICE RtSum rt_grad_load(RtGrad x) { return rt_f32_from_bf16(x); }
RT_DEVICE RtGrad rt_grad_round(RtSum x) { return rt_bf16_from_f32(x); }
#elif defined(RT_F32_SUMS)
typedef float RtGrad;
typedef float RtSum;
RT_DEVICE RtSum rt_grad_load(RtGrad x) { return x; }
RT_DEVICE RtGrad rt_grad_round(RtSum x) { return x; }
#else
#error "define RT_F32_SUMS, RT_BF16_SUMS or RT_F64_SUMS: the reduce dtype"
#endif

RT_DEVICE RtSum rt_node(RtSum a, RtSum b) /* a node of a tree: rounded to the reduce dtype */
{
    return rt_grad_load(rt_grad_round(a + b));
}

/* ---- sums ------------------------------------------------------------------------ */

/* rt_merge of rt.h: node joins the partial sums of round->levels complete subtrees. */
RT_GLOBAL(256)
rt_merge_kernel(RtGrad *node, RtGrad *partials, int64_t elems, int64_t partial_elems,
                const RtRound *round)
{
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= elems)
        return;
    const int levels = round->levels;
    RtSum v = rt_grad_load(node[i]);
    for (int l = 0; l < levels; l++)
        v = rt_node(rt_grad_load(partials[l * partial_elems + i]), v);
    (round->last ? node : partials + levels * partial_elems)[i] = rt_grad_round(v);
}

/* What a thread reads or writes at once: 16 bytes of adjacent elements; and their numbers. */
enum { RT_AT_ONCE = 16 / sizeof(RtGrad) };
typedef struct alignas(16) RtGrads {
    RtGrad v[RT_AT_ONCE];
} RtGrads;
typedef struct RtSums {
    RtSum v[RT_AT_ONCE];
} RtSums;

RT_DEVICE const RtGrad *rt_part(const RtRankParts *p, int k)
{
    return k == p->mine ? (const RtGrad *)p->own : (const RtGrad *)p->staging + k * p->stride;
}

RT_DEVICE RtSums rt_nodes(const RtSums *low, const RtSums *high)
{
    RtSums node;
    RT_UNROLL
    for (int k = 0; k < RT_AT_ONCE; k++)
        node.v[k] = rt_node(low->v[k], high->v[k]);
    return node;
}

/* The balanced tree over parts first .. first + ranks - 1, for the elements from i on. */
template <int ranks> RT_DEVICE RtSums rt_tree(const RtRankParts *p, int first, int64_t i)
{
    if constexpr (ranks == 1) {
        const RtGrads part = *(const RtGrads *)(rt_part(p, first) + i);
        RtSums x;
        RT_UNROLL
        for (int k = 0; k < RT_AT_ONCE; k++)
            x.v[k] = rt_grad_load(part.v[k]);
        return x;
    } else {
        const RtSums low = rt_tree<ranks / 2>(p, first, i);
        const RtSums high = rt_tree<ranks / 2>(p, first + ranks / 2, i);
        return rt_nodes(&low, &high);
    }
}

/* The tree over 16 parts and more, 16 at a time: as in a counter, a sum joins the levels of the
 * lowest bits that are 1, and waits at the lowest that is 0. 1024 parts have 6 levels above 16. */
RT_DEVICE RtSums rt_tree_of_16s(const RtRankParts *p, int64_t i)
{
    RtSums level[6] = {}, x = {};
    for (int n = 0; n < p->ranks / 16; n++) {
        bool joins = true;
        x = rt_tree<16>(p, 16 * n, i);
        RT_UNROLL
        for (int l = 0; l < 6; l++) {
            if (joins && (n >> l & 1) != 0) {
                x = rt_nodes(&level[l], &x);
            } else if (joins) {
                level[l] = x;
                joins = false;
            }
        }
    }
    return x;
}

template <int ranks> RT_DEVICE RtSums rt_tree_of(const RtRankParts *p, int64_t i)
{
    if constexpr (ranks < 16) {
        return rt_tree<ranks>(p, 0, i);
    } else {
        return rt_tree_of_16s(p, i);
    }
}

RT_DEVICE void rt_sums_store(RtGrad *out, const RtSums *x)
{
    RtGrads rounded;
    uint32_t word[4];
    RT_UNROLL
    for (int k = 0; k < RT_AT_ONCE; k++)
        rounded.v[k] = rt_grad_round(x->v[k]);
    memcpy(word, &rounded, sizeof word);
    rt_write_16(out, word);
}

/* out = the tree over the group's parts; out may be own. However few blocks there are, they take
 * all elements, which are whole grains. */
template <int ranks, int threads>
RT_DEVICE void rt_sum_parts(const RtRankParts *p, int64_t elems, RtGrad *out)
{
    const int64_t first = (int64_t)blockIdx.x * threads + threadIdx.x;
    const int64_t step = (int64_t)gridDim.x * threads * RT_AT_ONCE;
    for (int64_t i = first * RT_AT_ONCE; i < elems; i += step) {
        const RtSums x = rt_tree_of<ranks>(p, i);
        rt_sums_store(out + i, &x);
    }
}

/* One for each number of ranks, so that each has its own registers. Those of up to 8 have 1024
 * threads, each with 4 loads of 16 bytes on their way, which a multiprocessor needs to be fast. */
RT_GLOBAL(1024)
rt_sum_2_kernel(RtRankParts parts, int64_t elems, RtGrad *out)
{
    rt_sum_parts<2, 1024>(&parts, elems, out);
}

RT_GLOBAL(1024)
rt_sum_4_kernel(RtRankParts parts, int64_t elems, RtGrad *out)
{
    rt_sum_parts<4, 1024>(&parts, elems, out);
}

RT_GLOBAL(1024)
rt_sum_8_kernel(RtRankParts parts, int64_t elems, RtGrad *out)
{
    rt_sum_parts<8, 1024>(&parts, elems, out);
}

/* Of 16 ranks and more. */
RT_GLOBAL(512)
rt_sum_16_kernel(RtRankParts parts, int64_t elems, RtGrad *out)
{
    rt_sum_parts<16, 512>(&parts, elems, out);
}

/* ---- the norm: the order of squares and digits is explained in rt_norm.c --------- */

RT_DEVICE void rt_superacc_add(uint64_t *acc, double x)
{
    const uint64_t bits = (uint64_t)rt_bits_f64(x);
    const int exponent = (int)(bits >> 52 & 0x7FF);
    uint64_t mantissa = bits & (((uint64_t)1 << 52) - 1);
    if (exponent == 0x7FF) {
        rt_atomic_add_u64(&acc[70], 1); /* not finite */
        return;
    }
    if (exponent > 0)
        mantissa |= (uint64_t)1 << 52;
    const int shift = (exponent > 0 ? exponent : 1) - 1075 + 1088;
    const int digit = shift / 32, by = shift % 32;
    const uint64_t low = mantissa << by, high = by > 0 ? mantissa >> (64 - by) : 0;
    rt_atomic_add_u64(&acc[digit], (uint32_t)low);
    rt_atomic_add_u64(&acc[digit + 1], low >> 32);
    rt_atomic_add_u64(&acc[digit + 2], high);
}

/* Half a warp squares a chunk of 1024 elements: its lanes are those of the CPU. Blocks add up their
 * chunks before they add to the control area. */
RT_GLOBAL(256)
rt_squares_kernel(const RtGrad *grad, int64_t elems, uint64_t *control)
{
    RT_SHARED(uint64_t, acc, RT_CONTROL_TARGETS);
    const int lane = threadIdx.x % 16, half = threadIdx.x / 16;
    const int64_t chunks = (elems + 1023) / 1024;
    if (threadIdx.x < RT_CONTROL_TARGETS)
        acc[threadIdx.x] = 0;
    rt_block_sync();
    for (int64_t first = (int64_t)blockIdx.x * 16; first < chunks;
         first += (int64_t)gridDim.x * 16) {
        const int64_t from = (first + half) * 1024;
        const int64_t to = elems - from < 1024 ? elems : from + 1024;
        double sum = 0;
        for (int64_t i = from + lane; i < to; i += 16) {
            const double x = (double)rt_grad_load(grad[i]);
            sum += x * x;
        }
        for (int apart = 8; apart > 0; apart /= 2)
            sum += rt_shuffle_xor(sum, apart);
        if (lane == 0 && from < elems)
            rt_superacc_add(acc, sum);
    }
    rt_block_sync();
    if (threadIdx.x < RT_CONTROL_TARGETS && acc[threadIdx.x] != 0)
        rt_atomic_add_u64(&control[threadIdx.x], acc[threadIdx.x]);
}

/* Adds the number of unmasked targets of the micro-batch. */
RT_GLOBAL(256)
rt_targets_kernel(const int32_t *targets, int64_t n, uint64_t *control)
{
    RT_SHARED(int, part, 8);
    int count = 0;
    for (int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x; i < n;
         i += (int64_t)gridDim.x * 256) {
        count += targets[i] >= 0;
    }
    count = rt_block_sum<256>(count, part);
    if (threadIdx.x == 0)
        rt_atomic_add_u64(&control[RT_CONTROL_TARGETS], (uint64_t)count);
}

/* mantissa * 2^exponent: exact, except for results too small for a normal exponent. */
RT_DEVICE double rt_scaled(uint64_t mantissa, int exponent)
{
    double x = (double)mantissa;
    for (; exponent > 0; exponent--)
        x *= 2.0;
    for (; exponent < 0; exponent++)
        x *= 0.5;
    return x;
}

/* The nearest double, ties to even; NaN if something was not finite. */
RT_DEVICE double rt_superacc_round(const uint64_t *acc)
{
    uint64_t digit[4] = {0, 0, 0, 0}; /* the last four, highest one last */
    uint64_t carry = 0;
    int top = -1; /* highest digit that is not 0 */
    bool below = false, lost = false;
    for (int i = 0; i < 72; i++) {
        /* 64 bits and a carry of little over 32: no overflow, because a word holds 2^31
         * additions */
        const uint64_t sum = (i < 70 ? acc[i] : 0) + carry;
        const uint64_t d = sum & 0xFFFFFFFFu;
        carry = sum >> 32;
        if (d == 0)
            continue;
        /* move the window up to this digit */
        const int up = top < 0 ? 4 : i - top;
        for (int k = 0; k < up; k++) {
            lost = lost || digit[0] != 0;
            digit[0] = digit[1];
            digit[1] = digit[2];
            digit[2] = digit[3];
            digit[3] = 0;
        }
        digit[3] = d;
        top = i;
    }
    if (acc[70] != 0)
        return rt_f64_from_bits(0x7FF8000000000000);
    if (top < 0)
        return 0.0;
    /* 96 bits, the highest one set: 64 in high, 32 in low */
    uint64_t high = digit[3] << 32 | digit[2], low = digit[1] << 32 | digit[0];
    int exponent = 32 * (top - 1) - 1088; /* of high's lowest bit */
    while (high >> 63 == 0) {
        high = high << 1 | low >> 63;
        low <<= 1;
        exponent--;
    }
    below = lost || low != 0;
    uint64_t q = high >> 11;
    const uint64_t rest = high & 0x7FF, half = 0x400;
    if (rest > half || (rest == half && (below || (q & 1) != 0)))
        q++;
    return rt_scaled(q, exponent + 11);
}

RT_DEVICE bool rt_is_finite(double x)
{
    return x - x == 0.0;
}

/* rt_norm_reduce of rt.h, on sums over all ranks, by one thread. Then resets the sums to 0. */
RT_GLOBAL(32)
rt_finish_kernel(uint64_t *control, int64_t micro_batches, const RtStepIn *in, RtStepOut *out,
                 RtUpdate *update)
{
    if (threadIdx.x != 0)
        return;
    double *losses = (double *)(control + RT_CONTROL_WORDS), sum = 0;
    const int64_t valid = (int64_t)control[RT_CONTROL_TARGETS];
    const double tokens = (double)valid;
    RtStepOut o = {rt_f64_from_bits(0x7FF8000000000000), 0, 1, valid, 1};
    for (int64_t i = 0; i < micro_batches; i++) {
        sum += losses[i]; /* in the order of micro-batches */
        losses[i] = 0;
    }
    if (valid > 0) {
        o.loss = sum / tokens;
        o.grad_norm = rt_sqrt(rt_superacc_round(control)) / tokens / in->scale;
        if (in->clip > 0 && o.grad_norm + 1e-6 > in->clip)
            o.clip_factor = in->clip / (o.grad_norm + 1e-6);
        o.skip = !rt_is_finite(o.loss) || !rt_is_finite(o.grad_norm);
    }
    for (int i = 0; i < RT_CONTROL_WORDS; i++)
        control[i] = 0;
    RtUpdate u = {};
    u.scale64 = o.clip_factor / tokens / in->scale;
    u.lr64 = in->lr;
    u.bias1_64 = in->bias1;
    u.bias2_64 = in->bias2;
    u.scale = (float)u.scale64;
    u.lr = (float)u.lr64;
    u.bias1 = (float)u.bias1_64;
    u.bias2 = (float)u.bias2_64;
    u.noise = in->noise;
    u.skip = o.skip;
    *update = u;
    *out = o;
}

#endif
