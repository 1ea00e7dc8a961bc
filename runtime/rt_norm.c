/* SPDX-License-Identifier: MIT-0 */
/* rt_norm.c: the exact gradient norm and the step's one small exchange.
 *
 * In: this rank's shards of the summed gradient, the losses of its micro-batches. Out: loss,
 * gradient norm and clip factor, equal in every bit on all ranks and for all world sizes.
 *
 * Squares are summed in double over chunks of 1024 elements that lie within one parameter, in
 * eight lanes and a fixed tree; a shard boundary never cuts a chunk. Chunk sums are added as
 * integers into a superaccumulator that spans all of double, so their order is free: digit i
 * weighs 2^(32 i - 1088), digits are 64 bits wide and carry only at the end. */
#include "rt_private.h"

#include <stdlib.h>
#include <string.h>

enum { DIGITS = 70, NON_FINITE = 70, BIAS = 1088 };

static void superacc_add(uint64_t *acc, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    const int exponent = (int)(bits >> 52 & 0x7FF);
    uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
    if (exponent == 0x7FF) {
        acc[NON_FINITE]++;
        return;
    }
    if (exponent > 0)
        mantissa |= UINT64_C(1) << 52;
    /* x = mantissa * 2^(e - 1075), e >= 1 */
    const int shift = (exponent > 0 ? exponent : 1) - 1075 + BIAS;
    const int digit = shift / 32;
    const unsigned __int128 wide = (unsigned __int128)mantissa << shift % 32;
    acc[digit] += (uint32_t)wide;
    acc[digit + 1] += (uint32_t)(wide >> 32);
    acc[digit + 2] += (uint32_t)(wide >> 64);
}

/* The accumulator as the nearest double, ties to even; NaN when something was not finite. */
static double superacc_round(const uint64_t *acc)
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
    if (acc[NON_FINITE])
        return __builtin_nan("");
    int top = DIGITS + 1;
    while (top > 0 && d[top] == 0)
        top--;
    /* 96 bits from the top digit, and whether anything lies below */
    unsigned __int128 m = 0;
    for (int i = top; i > top - 3; i--)
        m = m << 32 | (i >= 0 ? d[i] : 0);
    bool below = false;
    for (int i = top - 3; i >= 0; i--)
        below = below || d[i] != 0;
    if (m == 0)
        return 0.0;
    int exponent = 32 * (top - 2) - BIAS; /* value = m * 2^exponent */
    while (m >> 95 == 0) {
        m <<= 1;
        exponent--;
    }
    m = m << 1 | below; /* sticky; one bit wider now: 97 bits */
    uint64_t q = (uint64_t)(m >> 44);   /* 53 bits */
    const uint64_t rest = (uint64_t)(m & ((UINT64_C(1) << 44) - 1));
    const uint64_t half = UINT64_C(1) << 43;
    if (rest > half || (rest == half && q & 1))
        q++;
    exponent += 43;
    double x = (double)q;
    for (; exponent > 0; exponent--)
        x *= 2.0;
    for (; exponent < 0; exponent++)
        x *= 0.5; /* exact above the subnormals, where no norm of interest lies */
    return x;
}

/* ---- squares ------------------------------------------------------------------------------- */

static double tree8(const double *lane)
{
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) +
           ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

#define SQUARES(name, type, load)                                \
    static double name(const type *g, int64_t n)                 \
    {                                                            \
        double lane[8] = {0};                                    \
        int64_t i = 0;                                           \
        for (; i + 8 <= n; i += 8)                               \
            for (int l = 0; l < 8; l++) {                        \
                const double x = (double)load(g[i + l]);         \
                lane[l] += x * x;                                \
            }                                                    \
        for (int l = 0; i + l < n; l++) {                        \
            const double x = (double)load(g[i + l]);             \
            lane[l] += x * x;                                    \
        }                                                        \
        return tree8(lane);                                      \
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

typedef struct NormRun { Rt *rt; const char *grad; } NormRun;

static void norm_run(void *ctx, const RtRun *run)
{
    const NormRun *n = ctx;
    const RtDtype d = n->rt->trainer->reduce_dtype;
    const int64_t item = (int64_t)rt_dtype_bytes(d);
    const char *grad = n->grad + run->shard_offset_elems * item;
    uint64_t *total = n->rt->state->superacc;
#pragma omp parallel
    {
        uint64_t mine[RT_SUPERACC_WORDS] = {0};
#pragma omp for schedule(static)
        for (int64_t at = 0; at < run->elems; at += RT_GRAIN_ELEMS) {
            const int64_t left = run->elems - at;
            superacc_add(mine, squares(d, grad + at * item,
                                       left < RT_GRAIN_ELEMS ? left : RT_GRAIN_ELEMS));
        }
#pragma omp critical
        for (int i = 0; i < RT_SUPERACC_WORDS; i++)
            total[i] += mine[i];
    }
}

void rt_norm_add(Rt *rt, int segment)
{
    const RtSegment *s = &rt->trainer->segments[segment];
    if (s->shards == 1 && rt->rank > 0)
        return; /* every rank holds the same sum: counted once */
    NormRun n = {rt, rt_local(rt, s->grad_shard)};
    rt_shard_runs(rt, segment, norm_run, &n);
}

/* ---- the exchange -------------------------------------------------------------------------- */

static bool finite64(double x)
{
    return x - x == 0.0;
}

void rt_norm_reduce(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    const size_t words = sizeof st->superacc;
    const int64_t losses_at = t->control_offset + (int64_t)words;
    rt_exchange_begin(rt);
    memcpy(rt_symmetric(rt, t->control_offset), st->superacc, words);
    memcpy(rt_symmetric(rt, losses_at), st->losses,
           (size_t)t->micro_batches * sizeof *st->losses);
    rt_exchange_publish(rt);
    uint64_t total[RT_SUPERACC_WORDS] = {0};
    for (int r = 0; r < rt->world_size; r++) {
        const uint64_t *part = (const uint64_t *)(rt->peer[r] + t->control_offset);
        for (int i = 0; i < RT_SUPERACC_WORDS; i++)
            total[i] += part[i];
    }
    double loss = 0; /* in the order of micro-batches; each was computed by one rank */
    for (int64_t i = 0; i < t->micro_batches; i++) {
        double one = 0;
        for (int r = 0; r < rt->world_size; r++)
            one += ((const double *)(rt->peer[r] + losses_at))[i];
        loss += one;
    }
    rt_exchange_end(rt);
    const double tokens =
        (double)(t->micro_batches * t->micro_batch * t->seq_tokens);
    st->loss = loss / tokens;
    st->grad_norm = __builtin_sqrt(superacc_round(total)) / tokens;
    const double clip = t->optimizer.clip;
    st->clip_factor = 1.0;
    if (clip > 0 && st->grad_norm + 1e-6 > clip)
        st->clip_factor = clip / (st->grad_norm + 1e-6);
    memset(st->superacc, 0, words);
    memset(st->losses, 0, (size_t)t->micro_batches * sizeof *st->losses);
    if (!finite64(st->loss) || !finite64(st->grad_norm)) {
        if (rt->rank == 0)
            rt_fail(rt, RT_EXIT_ERROR,
                    "step %lld: %s is not finite; the weights are those of the step before. "
                    "Lower the learning rate, or look at the data of this step",
                    (long long)st->step, finite64(st->loss) ? "the gradient norm" : "the loss");
        _Exit(RT_EXIT_ERROR);
    }
}

double *rt_loss_slot(Rt *rt)
{
    return &rt->state->losses[rt->state->micro_batch];
}
