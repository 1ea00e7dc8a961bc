/* SPDX-License-Identifier: MIT-0 */
/* rt_rows.h: rows distributed over threads, for kernels. In: rt_device.h, which includes it. Out:
 * accesses of adjacent elements, 16 bytes at once; rows held by threads, or read in passes; sums of
 * columns.
 *
 * Constants are template arguments, so that a thread's elements stay in registers. */
#ifndef RT_ROWS_H
#define RT_ROWS_H

/* ---- adjacent elements ----------------------------------------------------------- */

/* rt_load<RtBf16, 8>(v, x) reads 8 adjacent elements of that dtype into floats by one access of 16
 * bytes; x is aligned to the size of the access. rt_store<RtBf16, 8>(y, v) rounds and writes. */

template <typename T, int n> struct alignas(n * sizeof(T) < 16 ? n * sizeof(T) : 16) RtPack {
    T v[n];
};

/* n whole words to 4 n aligned bytes, at most 16 at a time. */
template <int n> RT_DEVICE void rt_write_words(void *y, const uint32_t *word)
{
    if (n % 4 == 0) {
        RT_UNROLL
        for (int i = 0; i < n; i += 4)
            rt_write_16((char *)y + 4 * i, word + i);
    } else {
        RtPack<uint32_t, n> pack;
        memcpy(&pack, word, sizeof pack);
        *(RtPack<uint32_t, n> *)y = pack;
    }
}

/* Two 16-bit elements become one word. */
#define RT_WRITE_PAIRS(pair)                                                               \
    template <int n, typename A> RT_DEVICE void write(T *y, const A *v)                    \
    {                                                                                      \
        uint32_t word[(n + 1) / 2];                                                        \
        RT_UNROLL                                                                          \
        for (int k = 0; k < n - 1; k += 2) {                                               \
            word[k / 2] = pair((float)v[k], (float)v[k + 1]);                              \
        }                                                                                  \
        if (n == 1) {                                                                      \
            *y = store((float)v[0]);                                                       \
        } else {                                                                           \
            rt_write_words<(n + 1) / 2>(y, word);                                          \
        }                                                                                  \
    }

#define RT_WRITE_WORDS                                                                     \
    template <int n, typename A> RT_DEVICE void write(T *y, const A *v)                    \
    {                                                                                      \
        T pack[n];                                                                         \
        uint32_t word[n * sizeof(T) / 4];                                                  \
        RT_UNROLL                                                                          \
        for (int k = 0; k < n; k++) {                                                      \
            pack[k] = store((T)v[k]);                                                      \
        }                                                                                  \
        memcpy(word, pack, sizeof word);                                         \
        rt_write_words<n * sizeof(T) / 4>(y, word);                                        \
    }

struct RtBf16 {
    typedef rt_bf16 T;
    RT_DEVICE float load(T x) { return rt_f32_from_bf16(x); }
    RT_DEVICE T store(float v) { return rt_bf16_from_f32(v); }
    RT_WRITE_PAIRS(rt_bf16x2_from_f32)
};

struct RtF16 {
    typedef rt_f16 T;
    RT_DEVICE float load(T x) { return rt_f32_from_f16(x); }
    RT_DEVICE T store(float v) { return rt_f16_from_f32(v); }
    RT_WRITE_PAIRS(rt_f16x2_from_f32)
};

struct RtF32 {
    typedef float T;
    RT_DEVICE float load(T x) { return x; }
    RT_DEVICE T store(float v) { return v; }
    RT_WRITE_WORDS
};

struct RtF64 {
    typedef double T;
    RT_DEVICE double load(T x) { return x; }
    RT_DEVICE T store(double v) { return v; }
    RT_WRITE_WORDS
};

template <typename D, int n, typename A> RT_DEVICE void rt_load(A *v, const typename D::T *x)
{
    const RtPack<typename D::T, n> pack = *(const RtPack<typename D::T, n> *)x;
    RT_UNROLL
    for (int k = 0; k < n; k++)
        v[k] = (A)D::load(pack.v[k]);
}

template <typename D, int n, typename A> RT_DEVICE void rt_store(typename D::T *y, const A *v)
{
    D::template write<n>(y, v);
}

/* Copies bytes unchanged. */
template <int n, typename T> RT_DEVICE void rt_copy(T *y, const T *x)
{
    *(RtPack<T, n> *)y = *(const RtPack<T, n> *)x;
}

/* n elements unconverted, of which only `count` exist; the others read as 0 and are not written. */
template <int n, typename T> RT_DEVICE void rt_read(T *v, const T *x, int count)
{
    RtPack<T, n> pack = {};
    if (count == n) {
        pack = *(const RtPack<T, n> *)x;
    } else {
        RT_UNROLL
        for (int k = 0; k < n; k++)
            pack.v[k] = k < count ? x[k] : 0;
    }
    RT_UNROLL
    for (int k = 0; k < n; k++)
        v[k] = pack.v[k];
}

template <int n, typename T> RT_DEVICE void rt_write(T *y, const T *v, int count)
{
    if (count == n) {
        uint32_t word[n * sizeof(T) / 4];
        memcpy(word, v, sizeof word);
        rt_write_words<n * sizeof(T) / 4>(y, word);
        return;
    }
    RT_UNROLL
    for (int k = 0; k < n; k++) {
        if (k < count)
            y[k] = v[k];
    }
}

/* Of the n elements at x those from `from` up to `to`; the others read as 0 and are not written. x
 * is aligned to the size of the access. */
template <int n, typename T> RT_DEVICE void rt_read_between(T *v, const T *x, int from, int to)
{
    if (from == 0) {
        rt_read<n>(v, x, to);
        return;
    }
    RT_UNROLL
    for (int k = 0; k < n; k++)
        v[k] = k >= from && k < to ? x[k] : 0;
}

template <int n, typename T> RT_DEVICE void rt_write_between(T *y, const T *v, int from, int to)
{
    if (from == 0) {
        rt_write<n>(y, v, to);
        return;
    }
    RT_UNROLL
    for (int k = 0; k < n; k++) {
        if (k >= from && k < to)
            y[k] = v[k];
    }
}

/* ---- rows ------------------------------------------------------------------------ */

/* A row of `cols` elements over `threads` adjacent threads: each holds `width` adjacent elements
 * of every threads * width, rt_row_part of them in all. Beyond the row it holds 0, and writes
 * nothing. */

#define RT_ROW template <typename D, int cols, int threads, int width, typename A> RT_DEVICE

/* The column of a thread's k-th element. */
template <int threads, int width> RT_DEVICE int rt_row_col(int k)
{
    return (k / width * threads + (int)(threadIdx.x % threads)) * width + k % width;
}

RT_ROW void rt_row_load(A *v, const typename D::T *x)
{
    RT_UNROLL
    for (int k = 0; k * threads < cols; k += width) {
        const int j = rt_row_col<threads, width>(k);
        if (cols % (threads * width) == 0 || j < cols) {
            rt_load<D, width>(v + k, x + j);
        } else {
            RT_UNROLL
            for (int i = 0; i < width; i++)
                v[k + i] = 0;
        }
    }
}

RT_ROW void rt_row_store(typename D::T *y, const A *v)
{
    RT_UNROLL
    for (int k = 0; k * threads < cols; k += width) {
        const int j = rt_row_col<threads, width>(k);
        if (cols % (threads * width) == 0 || j < cols)
            rt_store<D, width>(y + j, v + k);
    }
}

/* A row on its way: rt_row_fetch begins its loads, rt_row_unpack waits for them and converts. Between
 * the two a kernel computes with another row. */
template <typename D, int cols, int threads, int width>
RT_DEVICE void rt_row_fetch(RtPack<typename D::T, width> *next, const typename D::T *x)
{
    RT_UNROLL
    for (int k = 0; k * threads * width < cols; k++) {
        const int j = rt_row_col<threads, width>(k * width);
        if (cols % (threads * width) == 0 || j < cols)
            next[k] = *(const RtPack<typename D::T, width> *)(x + j);
        else
            next[k] = {};
    }
}

RT_ROW void rt_row_unpack(A *v, const RtPack<typename D::T, width> *next)
{
    RT_UNROLL
    for (int k = 0; k * threads < cols; k += width) {
        RT_UNROLL
        for (int i = 0; i < width; i++)
            v[k + i] = (A)D::load(next[k / width].v[i]);
    }
}

/* A long row, read in passes. If width does not divide cols, the row is padded in memory.
 *
 * log(sum(exp(x))), relative to the largest element so far. part: a value per warp. */
RT_ROW A rt_row_lse(const typename D::T *x, A *part)
{
    const A least = (A)-3e38f;
    A top = least, sum = 0;
    for (int j = threadIdx.x * width; j < cols; j += threads * width) {
        A v[width], most = top;
        rt_load<D, width>(v, x + j);
        for (int k = 0; k < width; k++) {
            v[k] = cols % width == 0 || j + k < cols ? v[k] : least;
            most = v[k] > most ? v[k] : most;
        }
        sum *= rt_exp_of(top - most);
        top = most;
        for (int k = 0; k < width; k++)
            sum += rt_exp_of(v[k] - top);
    }
    const A most = rt_block_max<threads>(top, part);
    const A total = rt_block_sum<threads>(sum * rt_exp_of(top - most), part);
    return most + rt_log_of(total);
}

RT_ROW A rt_row_sum(const typename D::T *x, A *part)
{
    A sum = 0;
    RT_UNROLL_BY(4)
    for (int j = threadIdx.x * width; j < cols; j += threads * width) {
        A v[width];
        rt_load<D, width>(v, x + j);
        for (int k = 0; k < width; k++)
            sum += cols % width == 0 || j + k < cols ? v[k] : 0;
    }
    return rt_block_sum<threads>(sum, part);
}

/* dx = scale exp(x - lse) - share - hot onehot(target): the gradient of a token's loss, from the
 * row's end, which was read last, so it is cached. What an access has behind the row becomes 0. dx
 * may be x. */
RT_ROW void rt_row_softmax_minus(const typename D::T *x, typename D::T *dx, A lse, int target,
                                 A scale, A share, A hot)
{
    const int step = threads * width;
    RT_UNROLL_BY(2)
    for (int from = (cols - 1) / step * step; from >= 0; from -= step) {
        const int j = from + threadIdx.x * width;
        if (cols % step == 0 || j < cols) {
            A v[width];
            rt_load<D, width>(v, x + j);
            for (int k = 0; k < width; k++)
                v[k] = rt_exp_of(v[k] - lse) * scale - share - (j + k == target ? hot : 0);
            rt_store<D, width>(dx + j, v);
        }
    }
    if (cols % width != 0 && threadIdx.x == cols / width % threads) { /* had the last access */
        const A zero[1] = {};
        for (int j = cols; j % width != 0; j++)
            rt_store<D, 1>(dx + j, zero);
    }
}

/* Zeros, for a token without a target. */
RT_ROW void rt_row_zero(typename D::T *dx)
{
    const A zeros[width] = {};
    for (int j = threadIdx.x * width; j < cols; j += threads * width)
        rt_store<D, width>(dx + j, zeros);
}

/* ---- columns --------------------------------------------------------------------- */

/* The sum of column 32 blockIdx.x + threadIdx.x % 32 of part[rows][cols], on every thread of a
 * block of 1024: warps take rows in turn, then warps are added in order. shared: 1024 values. */
template <typename A>
RT_DEVICE A rt_column_sum(const A *part, int rows, int cols, A *shared)
{
    const int lane = threadIdx.x % 32, j = blockIdx.x * 32 + lane;
    A sum = 0;
    if (j < cols) {
        RT_UNROLL_BY(8)
        for (int i = threadIdx.x / 32; i < rows; i += 32)
            sum += part[(int64_t)i * cols + j];
    }
    shared[threadIdx.x] = sum;
    rt_block_sync();
    sum = shared[lane];
    for (int warp = 1; warp < 32; warp++)
        sum += shared[warp * 32 + lane];
    return sum;
}

#endif
