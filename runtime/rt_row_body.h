/* SPDX-License-Identifier: MIT-0 */
/* rt_row_body.h: reductions along a row of one dtype; rt_math.h includes it for each dtype. In:
 * RT_T the element, RT_A its dtype in sums, RT_V a vector of RT_WIDTH of those, and how to load,
 * store, convert and round. Out: RT_ROW(sum) and so on.
 *
 * Order of every sum: blocks of RT_ROW_BLOCK elements; in a block, lane l of RT_LANES adds the
 * elements whose index is l modulo RT_LANES, in order; the lanes are joined by a tree; blocks are
 * added in double. The last vector is padded with a neutral value, so a tail changes no bit. */

#ifndef RT_ROW_BLOCK
#define RT_ROW_BLOCK 1024
#endif

/* The vector at x, of which only the first `lanes` elements exist. */
RT_ALWAYS RT_V RT_ROW(at)(const RT_T *x, int64_t lanes, RT_A fill)
{
    if (lanes == RT_WIDTH)
        return RT_LOAD(x);
    RT_V v = {0};
    for (int i = 0; i < RT_WIDTH; i++)
        v[i] = i < lanes ? RT_TO_ACC(x[i]) : fill;
    return v;
}

/* Sum of all lanes: upper half onto lower half, until one is left. */
RT_ALWAYS RT_A RT_ROW(join)(const RT_V *vectors)
{
    RT_A v[RT_LANES];
    memcpy(v, vectors, sizeof v);
    for (int half = RT_LANES / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; i++)
            v[i] += v[i + half];
    }
    return v[0];
}

/* Adds `term`, an expression in at and lanes, over n elements to a double `total`. The RT_LANES
 * lanes are one or more vectors. */
#define RT_ROW_TOTAL(total, n, term)                                                     \
    double total = 0;                                                                    \
    for (int64_t from = 0; from < (n); from += RT_ROW_BLOCK) {                           \
        const int64_t end = (n)-from < RT_ROW_BLOCK ? (n) : from + RT_ROW_BLOCK;         \
        const int64_t whole = end - (end - from) % RT_LANES;                             \
        RT_V lane[RT_LANES / RT_WIDTH] = {{0}};                                          \
        for (int64_t j = from; j < whole; j += RT_LANES) {                               \
            _Pragma("GCC unroll 4") for (int p = 0; p < RT_LANES / RT_WIDTH; p++)        \
            {                                                                            \
                const int64_t at = j + p * RT_WIDTH, lanes = RT_WIDTH;                   \
                lane[p] += term;                                                         \
            }                                                                            \
        }                                                                                \
        _Pragma("GCC unroll 4") for (int p = 0; p < RT_LANES / RT_WIDTH; p++)            \
        {                                                                                \
            const int64_t at = whole + p * RT_WIDTH;                                     \
            if (at < end) {                                                              \
                const int64_t lanes = end - at < RT_WIDTH ? end - at : RT_WIDTH;         \
                lane[p] += term;                                                         \
            }                                                                            \
        }                                                                                \
        total += (double)RT_ROW(join)(lane);                                             \
    }

/* sum of x */
static inline RT_A RT_ROW(sum)(const RT_T *x, int64_t n)
{
    RT_ROW_TOTAL(total, n, RT_ROW(at)(x + at, lanes, 0));
    return (RT_A)total;
}

/* sum of (x - mean)^2 */
static inline RT_A RT_ROW(sum_squares)(const RT_T *x, RT_A mean, int64_t n)
{
    RT_V v;
    RT_ROW_TOTAL(total, n, (v = RT_ROW(at)(x + at, lanes, mean) - mean, v * v));
    return (RT_A)total;
}

/* sum of a * b */
static inline RT_A RT_ROW(dot)(const RT_T *a, const RT_T *b, int64_t n)
{
    RT_ROW_TOTAL(total, n, RT_ROW(at)(a + at, lanes, 0) * RT_ROW(at)(b + at, lanes, 0));
    return (RT_A)total;
}

/* sum of a * b * (x - mean) */
static inline RT_A RT_ROW(dot_centred)(const RT_T *a, const RT_T *b, const RT_T *x,
                                       RT_A mean, int64_t n)
{
    RT_ROW_TOTAL(total, n,
                 RT_ROW(at)(a + at, lanes, 0) * RT_ROW(at)(b + at, lanes, 0) *
                     (RT_ROW(at)(x + at, lanes, mean) - mean));
    return (RT_A)total;
}

/* The largest element; NaNs are skipped. -inf if n is 0. */
static inline RT_A RT_ROW(max)(const RT_T *x, int64_t n)
{
    const RT_A none = -(RT_A)__builtin_inf();
    const int64_t whole = n - n % RT_LANES;
    RT_V top[RT_LANES / RT_WIDTH];
    RT_A most = none;
    for (int p = 0; p < RT_LANES / RT_WIDTH; p++)
        top[p] = (RT_V){0} + none;
    for (int64_t j = 0; j < whole; j += RT_LANES) {
        _Pragma("GCC unroll 4") for (int p = 0; p < RT_LANES / RT_WIDTH; p++)
        {
            top[p] = RT_VECTOR(max)(RT_LOAD(x + j + p * RT_WIDTH), top[p]);
        }
    }
    for (int i = 0; i < RT_LANES; i++) {
        const RT_A v = top[i / RT_WIDTH][i % RT_WIDTH];
        most = v > most ? v : most;
    }
    for (int64_t j = whole; j < n; j++) {
        const RT_A v = RT_TO_ACC(x[j]);
        most = v > most ? v : most;
    }
    return most;
}

/* log(sum(exp(x))), relative to the largest element */
static inline RT_A RT_ROW(lse)(const RT_T *x, int64_t n)
{
    const RT_A top = RT_ROW(max)(x, n), none = -(RT_A)__builtin_inf();
    RT_ROW_TOTAL(total, n, RT_VECTOR(exp)(RT_ROW(at)(x + at, lanes, none) - top));
    return (RT_A)((double)top + rt_log(total));
}

/* dx = scale exp(x - lse) - share - hot onehot(target): the gradient of a token's loss.
 * dx may be x. */
RT_ALWAYS void RT_ROW(softmax_minus)(const RT_T *x, RT_T *dx, int64_t n, RT_A lse,
                                     int64_t target, RT_A scale, RT_A share, RT_A hot)
{
    const RT_A p = RT_SCALAR(exp)(RT_TO_ACC(x[target]) - lse);
    const int64_t whole = n - n % RT_WIDTH;
    for (int64_t j = 0; j < whole; j += RT_WIDTH)
        RT_STORE(dx + j, RT_VECTOR(exp)(RT_LOAD(x + j) - lse) * scale - share);
    for (int64_t j = whole; j < n; j++)
        dx[j] = RT_ROUND(RT_SCALAR(exp)(RT_TO_ACC(x[j]) - lse) * scale - share);
    dx[target] = RT_ROUND(p * scale - share - hot);
}

/* The same if only the target counts; * 1 and - 0 change no bit. */
static inline void RT_ROW(softmax_minus_onehot)(const RT_T *x, RT_T *dx, int64_t n,
                                                RT_A lse, int64_t target)
{
    RT_ROW(softmax_minus)(x, dx, n, lse, target, 1, 0, 1);
}

#undef RT_ROW_TOTAL
#undef RT_ROW
#undef RT_T
#undef RT_A
#undef RT_V
#undef RT_LANES
#undef RT_WIDTH
#undef RT_TO_ACC
#undef RT_LOAD
#undef RT_STORE
#undef RT_ROUND
#undef RT_VECTOR
#undef RT_SCALAR
