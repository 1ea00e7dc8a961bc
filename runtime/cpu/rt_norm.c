/* SPDX-License-Identifier: MIT-0 */
/* rt_norm.c: the exact gradient norm and the step's one small exchange.
 *
 * In: this rank's shards of the summed gradient, the losses of its micro-batches. Out:
 * loss, gradient norm and clip factor, equal in every bit on all ranks and for all world
 * sizes.
 *
 * 1. Squares are summed in double over chunks of 1024 elements of one parameter (element
 *    0 starts a chunk; a shard boundary never cuts one). Element i of the chunk goes to
 *    lane i mod 16, in order; then the lanes are added as a tree, upper half onto lower
 *    half.
 * 2. Chunk sums are added as integers, so their order does not matter. The
 *    superaccumulator covers the whole range of double: digit i has weight 2^(32 i -
 *    1088) and 64 bits, so 2^31 chunks fit before a carry could be lost. Carries are
 *    propagated once, at the end.
 * 3. Its last words count values that were not finite. */
#include "cpu/rt_cpu.h"

#include <string.h>

enum { DIGITS = 70, NON_FINITE = 70, BIAS = 1088, LANES = 16 };
_Static_assert(NON_FINITE < RT_SUPERACC_WORDS, "the superaccumulator fits its words");

/* ---- the superaccumulator -------------------------------------------------------- */

void rt_superacc_add(uint64_t *acc, double x)
{
    const uint64_t bits = (uint64_t)rt_bits_f64(x);
    const int exponent = (int)(bits >> 52 & 0x7FF);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 0x7FF) {
        acc[NON_FINITE]++;
        return;
    }
    if (exponent > 0)
        mantissa |= UINT64_C(1) << 52;
    /* x = mantissa * 2^(e - 1075), where e >= 1 */
    const int shift = (exponent > 0 ? exponent : 1) - 1075 + BIAS;
    const int digit = shift / 32;
    const unsigned __int128 wide = (unsigned __int128)mantissa << shift % 32;
    acc[digit] += (uint32_t)wide;
    acc[digit + 1] += (uint32_t)(wide >> 32);
    acc[digit + 2] += (uint32_t)(wide >> 64);
}

/* mantissa * 2^exponent for a mantissa of at most 53 bits: exact, subnormals included. */
static double scaled(uint64_t mantissa, int exponent)
{
    double x = (double)mantissa;
    for (; exponent > 0; exponent--)
        x *= 2.0;
    for (; exponent < 0; exponent++)
        x *= 0.5;
    return x;
}

/* The nearest double, ties to even. */
double rt_superacc_round(const uint64_t *acc)
{
    uint32_t d[DIGITS + 2] = {0};
    uint64_t carry = 0;
    for (int i = 0; i < DIGITS; i++) {
        const unsigned __int128 sum = (unsigned __int128)acc[i] + carry;
        d[i] = (uint32_t)sum;
        carry = (uint64_t)(sum >> 32);
    }
    d[DIGITS] = (uint32_t)carry;
    d[DIGITS + 1] = (uint32_t)(carry >> 32);
    if (acc[NON_FINITE] != 0)
        return __builtin_nan("");
    int top = DIGITS + 1;
    while (top > 0 && d[top] == 0)
        top--;
    /* The three highest digits, 65 bits or more, and whether anything is below them. */
    unsigned __int128 m = 0;
    bool below = false;
    for (int i = top; i >= 0; i--)
        if (i > top - 3)
            m = m << 32 | d[i];
        else
            below = below || d[i] != 0;
    if (m == 0)
        return 0.0;
    int exponent =
        32 * (top > 2 ? top - 2 : 0) - BIAS; /* value = m * 2^exponent + below */
    while (m >> 95 == 0) {
        m <<= 1;
        exponent--;
    }
    /* Bits that a double does not have at this size: 43, and more for subnormals. */
    int cut = 43;
    if (exponent + cut < -1074)
        cut = -1074 - exponent;
    if (cut > 96)
        return 0.0; /* less than half of the smallest double */
    const unsigned __int128 half = (unsigned __int128)1 << (cut - 1);
    const unsigned __int128 rest = m & (2 * half - 1);
    uint64_t q = (uint64_t)(m >> cut);
    if (rest > half || (rest == half && (below || (q & 1) != 0)))
        q++;
    return scaled(q, exponent + cut);
}

/* ---- squares --------------------------------------------------------------------- */

static double lanes_sum(double *lane)
{
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lane[l] += lane[l + half];
    return lane[0];
}

#define SQUARES(name, type, load)                                                        \
    static double name(const type *g, int64_t n)                                         \
    {                                                                                    \
        double lane[LANES] = {0};                                                        \
        int64_t i = 0;                                                                   \
        for (; i + LANES <= n; i += LANES) {                                             \
            for (int l = 0; l < LANES; l++) {                                            \
                const double x = (double)load(g[i + l]);                                 \
                lane[l] += x * x;                                                        \
            }                                                                            \
        }                                                                                \
        for (int l = 0; i + l < n; l++) {                                                \
            const double x = (double)load(g[i + l]);                                     \
            lane[l] += x * x;                                                            \
        }                                                                                \
        return lanes_sum(lane);                                                          \
    }
SQUARES(squares_f32, float, )
SQUARES(squares_f64, double, )
SQUARES(squares_bf16, rt_bf16, rt_f32_from_bf16)

static double squares(RtDtype d, const char *g, int64_t n)
{
    if (d == RT_F32)
        return squares_f32((const float *)g, n);
    if (d == RT_F64)
        return squares_f64((const double *)g, n);
    return squares_bf16((const rt_bf16 *)g, n);
}

typedef struct NormShard {
    Rt *rt;
    const char *grad;
} NormShard;

static void norm_run(void *ctx, const RtRun *run)
{
    const NormShard *s = ctx;
    const RtDtype d = s->rt->trainer->reduce_dtype;
    const int64_t item = (int64_t)rt_dtype_bytes(d);
    const char *grad = s->grad + run->shard_offset_elems * item;
    uint64_t *total = s->rt->state->superacc;
#pragma omp parallel
    {
        uint64_t mine[RT_SUPERACC_WORDS] = {0};
#pragma omp for schedule(static)
        for (int64_t at = 0; at < run->elems; at += RT_GRAIN_ELEMS) {
            const int64_t left = run->elems - at;
            rt_superacc_add(mine, squares(d, grad + at * item,
                                          left < RT_GRAIN_ELEMS ? left : RT_GRAIN_ELEMS));
        }
#pragma omp critical
        for (int i = 0; i < RT_SUPERACC_WORDS; i++)
            total[i] += mine[i];
    }
}

void rt_norm_add(Rt *rt, int segment)
{
    NormShard s = {rt, rt_grad_shard(rt, segment)};
    rt_share_stored(rt, segment, norm_run, &s);
}

/* ---- the exchange ---------------------------------------------------------------- */

/* Control area: the superaccumulator, the number of targets, then the losses. One rank
 * computed each loss, and it is zero elsewhere, so adding them is exact. */
static double exchange_norm(Rt *rt, uint64_t *total)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const size_t loss_bytes = (size_t)t->micro_batches * sizeof *st->losses;
    const int64_t targets_at = t->control_offset + (int64_t)sizeof st->superacc;
    const int64_t losses_at = targets_at + (int64_t)sizeof st->targets;
    rt_exchange_begin(rt);
    memcpy(rt_symmetric(rt, t->control_offset), st->superacc, sizeof st->superacc);
    memcpy(rt_symmetric(rt, targets_at), &st->targets, sizeof st->targets);
    memcpy(rt_symmetric(rt, losses_at), st->losses, loss_bytes);
    rt_exchange_publish(rt, 0); /* of the ranks of one machine */
    double loss = 0;
    st->valid_tokens = 0;
    for (int r = 0; r < rt->world_size; r++) {
        const uint64_t *part = (const uint64_t *)(rt->peer[r] + t->control_offset);
        for (int i = 0; i < RT_SUPERACC_WORDS; i++)
            total[i] += part[i];
    }
    const int data_ranks = rt_group_ranks(t->data);
    for (int k = 0; k < data_ranks; k++) {
        const int r = rt_group_rank(t->data, rt->rank, k);
        st->valid_tokens += *(const int64_t *)(rt->peer[r] + targets_at);
    }
    for (int64_t i = 0; i < t->micro_batches; i++) {
        double one = 0;
        for (int k = 0; k < data_ranks; k++) {
            const int r = rt_group_rank(t->data, rt->rank, k);
            one += ((const double *)(rt->peer[r] + losses_at))[i];
        }
        loss += one; /* in the order of micro-batches */
    }
    rt_exchange_end(rt);
    memset(st->superacc, 0, sizeof st->superacc);
    memset(st->losses, 0, loss_bytes);
    st->targets = 0;
    return loss;
}

/* The gradient is that of the sum of token losses; norm, clipping and loss refer to the
 * mean over the targets of the whole step. If all are masked there is no mean: the loss
 * is unknown, the norm is 0, and nothing is updated. */
void rt_norm_reduce(Rt *rt)
{
    RtState *st = rt->state;
    uint64_t total[RT_SUPERACC_WORDS] = {0};
    const double clip = rt->trainer->optimizer.clip;
    const double sum = exchange_norm(rt, total);
    const double tokens = (double)st->valid_tokens;
    st->skip = st->valid_tokens == 0;
    if (st->skip) {
        st->loss = __builtin_nan("");
        st->grad_norm = 0;
        return;
    }
    st->loss = sum / tokens;
    st->grad_norm = rt_sqrt(rt_superacc_round(total)) / tokens / rt_scale(rt);
    st->clip_factor = 1.0;
    if (clip > 0 && st->grad_norm + 1e-6 > clip)
        st->clip_factor = clip / (st->grad_norm + 1e-6);
    st->skip = !rt_is_finite(st->loss) || !rt_is_finite(st->grad_norm);
    if (st->skip)
        rt_scale_overflow(rt);
}

double rt_loss_take(Rt *rt)
{
    const double loss = *rt_loss_slot(rt);
    *rt_loss_slot(rt) = 0;
    return loss;
}

double *rt_loss_slot(Rt *rt)
{
    return &rt->state->losses[rt->state->micro_batch];
}
