/* SPDX-License-Identifier: MIT-0 */
/* rt_row_body.h: reductions along a row of one dtype; included by rt_math.h for each. In:
 * RT_T the element, RT_A what it is summed in, RT_V a vector of RT_LANES of those, and
 * how to load, store, convert and round. Out: RT_ROW(sum) and so on.
 *
 * Order of every sum: blocks of RT_ROW_BLOCK elements; in a block, lane l adds the
 * elements whose index is l modulo RT_LANES, in order; the lanes join by a tree; blocks
 * are added in double. A tail is the last vector filled up with a neutral value, so it
 * changes no bit. */

#ifndef RT_ROW_BLOCK
#define RT_ROW_BLOCK 1024
#endif

/* The vector at x + j, of which only the first `lanes` elements exist. */
RT_ALWAYS RT_V RT_ROW(at)(const RT_T *x, int64_t lanes, RT_A fill)
{
    if (lanes == RT_LANES) {
        return RT_LOAD(x);
    }
    RT_V v = {0};
    for (int i = 0; i < RT_LANES; i++) {
        v[i] = i < lanes ? RT_TO_ACC(x[i]) : fill;
    }
    return v;
}

/* Adds `term`, an expression in j and lanes, over n elements into a double `total`. */
#define RT_ROW_TOTAL(total, n, term)                                                     \
    double total = 0;                                                                    \
    for (int64_t from = 0; from < (n); from += RT_ROW_BLOCK) {                           \
        const int64_t end = (n)-from < RT_ROW_BLOCK ? (n) : from + RT_ROW_BLOCK;         \
        int64_t j = from;                                                                \
        RT_V lane = {0};                                                                 \
        for (; j + RT_LANES <= end; j += RT_LANES) {                                     \
            const int64_t lanes = RT_LANES;                                              \
            lane += term;                                                                \
        }                                                                                \
        if (j < end) {                                                                   \
            const int64_t lanes = end - j;                                               \
            lane += term;                                                                \
        }                                                                                \
        total += (double)RT_VECTOR(sum)(lane);                                           \
    }

/* sum of x */
static inline RT_A RT_ROW(sum)(const RT_T *x, int64_t n)
{
    RT_ROW_TOTAL(total, n, RT_ROW(at)(x + j, lanes, 0));
    return (RT_A)total;
}

/* sum of (x - mean)^2 */
static inline RT_A RT_ROW(sum_squares)(const RT_T *x, RT_A mean, int64_t n)
{
    RT_V v;
    RT_ROW_TOTAL(total, n, (v = RT_ROW(at)(x + j, lanes, mean) - mean, v * v));
    return (RT_A)total;
}

/* sum of a * b */
static inline RT_A RT_ROW(dot)(const RT_T *a, const RT_T *b, int64_t n)
{
    RT_ROW_TOTAL(total, n, RT_ROW(at)(a + j, lanes, 0) * RT_ROW(at)(b + j, lanes, 0));
    return (RT_A)total;
}

/* sum of a * b * (x - mean) */
static inline RT_A RT_ROW(dot_centred)(const RT_T *a, const RT_T *b, const RT_T *x,
                                       RT_A mean, int64_t n)
{
    RT_ROW_TOTAL(total, n,
                 RT_ROW(at)(a + j, lanes, 0) * RT_ROW(at)(b + j, lanes, 0) *
                     (RT_ROW(at)(x + j, lanes, mean) - mean));
    return (RT_A)total;
}

/* The largest element; NaN is passed over. -inf when n is 0. */
static inline RT_A RT_ROW(max)(const RT_T *x, int64_t n)
{
    const RT_A none = -(RT_A)__builtin_inf();
    RT_V top = (RT_V){0} + none;
    for (int64_t j = 0; j < n; j += RT_LANES) {
        const RT_V v = RT_ROW(at)(x + j, n - j < RT_LANES ? n - j : RT_LANES, none);
        top = RT_VECTOR(max)(v, top);
    }
    RT_A most = none;
    for (int i = 0; i < RT_LANES; i++) {
        most = top[i] > most ? top[i] : most;
    }
    return most;
}

/* log(sum(exp(x))), from the largest element down */
static inline RT_A RT_ROW(lse)(const RT_T *x, int64_t n)
{
    const RT_A top = RT_ROW(max)(x, n), none = -(RT_A)__builtin_inf();
    RT_ROW_TOTAL(total, n, RT_VECTOR(exp)(RT_ROW(at)(x + j, lanes, none) - top));
    return (RT_A)((double)top + rt_log(total));
}

/* dx = exp(x - lse) - onehot(target): the gradient of a token's loss. dx may be x. */
static inline void RT_ROW(softmax_minus_onehot)(const RT_T *x, RT_T *dx, int64_t n,
                                                RT_A lse, int64_t target)
{
    const RT_A p = RT_SCALAR(exp)(RT_TO_ACC(x[target]) - lse);
    const int64_t whole = n - n % RT_LANES;
    for (int64_t j = 0; j < whole; j += RT_LANES) {
        RT_STORE(dx + j, RT_VECTOR(exp)(RT_LOAD(x + j) - lse));
    }
    for (int64_t j = whole; j < n; j++) {
        dx[j] = RT_ROUND(RT_SCALAR(exp)(RT_TO_ACC(x[j]) - lse));
    }
    dx[target] = RT_ROUND(p - 1);
}

#undef RT_ROW_TOTAL
#undef RT_ROW
#undef RT_T
#undef RT_A
#undef RT_V
#undef RT_LANES
#undef RT_TO_ACC
#undef RT_LOAD
#undef RT_STORE
#undef RT_ROUND
#undef RT_VECTOR
#undef RT_SCALAR
