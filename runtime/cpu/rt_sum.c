/* SPDX-License-Identifier: MIT-0 */
/* rt_sum.c: sums of gradients, a block of elements at a time.
 *
 * In: the parts of a block, in order of ranks; or the node of a finished leaf. Out: their
 * sum. There are two orders, and the description's `reduction` chooses: the balanced
 * tree, whose nodes are all rounded to the reduce dtype, so that it does not matter which
 * rank adds a node; and, as in a library, one rank after the other, which is a single
 * pass over the parts but depends on their number. */
#include "cpu/rt_cpu.h"

#include <string.h>

/* ---- the tree -------------------------------------------------------------------- */

/* dst[i] = round(a[i] + b[i]); dst may be a. */
static void add_f32(float *dst, const float *a, const float *b, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

static void add_f64(double *dst, const double *a, const double *b, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        dst[i] = a[i] + b[i];
}

static void add_bf16(rt_bf16 *dst, const rt_bf16 *a, const rt_bf16 *b, int64_t n)
{
    int64_t i = 0;
    for (; i + RT_WF_LANES <= n; i += RT_WF_LANES)
        rt_wf_store_bf16(dst + i, rt_wf_load_bf16(a + i) + rt_wf_load_bf16(b + i));
    for (; i < n; i++)
        dst[i] = rt_bf16_from_f32(rt_f32_from_bf16(a[i]) + rt_f32_from_bf16(b[i]));
}

static void add_parts(RtDtype d, void *dst, const void *a, const void *b, int64_t n)
{
    if (d == RT_F32)
        add_f32(dst, a, b, n);
    else if (d == RT_F64)
        add_f64(dst, a, b, n);
    else
        add_bf16(dst, a, b, n);
}

/* A block in the tree: at most 8 KiB of double. */
enum { MAX_LEVELS = 6 };
typedef union Block {
    double f64[RT_SUM_ELEMS];
    float f32[RT_SUM_ELEMS];
    rt_bf16 bf16[RT_SUM_ELEMS];
} Block;

/* out = the balanced tree over parts[0..count), count a power of two, at least 2:
 * neighbours first, every node rounded to the dtype. scratch: one block per level above
 * the leaves. out may be one of the parts: it is written only after they are read. */
static void tree_block(RtDtype d, void *out, const char *const *parts, int count,
                       int64_t n, Block *scratch)
{
    if (count == 2) {
        add_parts(d, out, parts[0], parts[1], n);
        return;
    }
    tree_block(d, scratch, parts, count / 2, n, scratch + 2);
    tree_block(d, scratch + 1, parts + count / 2, count / 2, n, scratch + 2);
    add_parts(d, out, scratch, scratch + 1, n);
}

void rt_sum_tree(RtDtype d, void *out, const char *const *parts, int count, int64_t n)
{
    Block scratch[2 * MAX_LEVELS];
    tree_block(d, out, parts, count, n, scratch);
}

/* ---- one rank after the other ---------------------------------------------------- */

/* ((p0 + p1) + p2) + ..., bf16 in f32 and rounded once. out may be one of the parts: an
 * element is written when all its parts have been read. */
void rt_sum_in_order(RtDtype d, void *out, const char *const *parts, int count, int64_t n)
{
    Block sum;
    for (int r = 0; r < count; r++) {
        for (int64_t i = 0; d == RT_BF16 && i < n; i++) {
            const float x = rt_f32_from_bf16(((const rt_bf16 *)parts[r])[i]);
            sum.f32[i] = r == 0 ? x : sum.f32[i] + x;
        }
        if (d != RT_BF16 && r == 0)
            memcpy(&sum, parts[0], (size_t)n * rt_dtype_bytes(d));
        else if (d != RT_BF16)
            add_parts(d, &sum, &sum, parts[r], n);
    }
    if (d != RT_BF16)
        memcpy(out, &sum, (size_t)n * rt_dtype_bytes(d));
    for (int64_t i = 0; d == RT_BF16 && i < n; i++)
        ((rt_bf16 *)out)[i] = rt_bf16_from_f32(sum.f32[i]);
}

/* ---- merging leaves -------------------------------------------------------------- */

void rt_round(Rt *rt, int64_t round)
{
    rt->state->round = round;
}

void rt_merge(Rt *rt, void *node, void *partials, int64_t elems)
{
    const RtDtype d = rt->trainer->reduce_dtype;
    const int64_t item = (int64_t)rt_dtype_bytes(d);
    const int64_t round = rt->state->round;
    const bool last = rt_is_last_round(rt, round);
    const int levels = rt_merge_levels(round);
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < elems; at += RT_SUM_ELEMS) {
        const int64_t n = elems - at < RT_SUM_ELEMS ? elems - at : RT_SUM_ELEMS;
        char *v = (char *)node + at * item;
        char *p = (char *)partials + at * item;
        for (int l = 0; l < levels; l++)
            add_parts(d, v, p + l * elems * item, v, n);
        if (!last)
            memcpy(p + levels * elems * item, v, (size_t)(n * item));
    }
}
