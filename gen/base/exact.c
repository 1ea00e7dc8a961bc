/* SPDX-License-Identifier: Apache-2.0 */
/* exact.c: exp, log, pow, sin and related functions, correctly rounded. In: doubles. Out:
 * the nearest double. C libraries differ in the last bit of these functions, by version
 * and by whether the processor has FMA, and one different bit of a constant makes a
 * different trainer.
 *
 * A value is carried as the sum of two doubles, with a relative error below 2^-90, and
 * rounded once. Only +, -, *, / and sqrt are used, which IEEE 754 defines to the bit.
 * Everything is a series: slow (about a microsecond) and short. */
#include "base/exact.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "doubles are computed as doubles");

/* high + low, |low| at most half a unit in the last place of high */
typedef struct Pair {
    double high, low;
} Pair;

static const Pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};
static const Pair ln2 = {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};
static const Pair ln10 = {0x1.26bb1bbb55516p+1, -0x1.f48ad494ea3e9p-53};
/* ln 2 in parts of 40, 40 and 53 bits: their products with an exponent are exact */
static const double ln2_part[3] = {0x1.62e42fefa2p-1, 0x1.9ef35793c6p-41,
                                   0x1.673007e5ed5e8p-81};

enum {
    EXP_TERMS = 11,
    EXP_HALVINGS = 8,
    LOG_TERMS = 22,
    SIN_TERMS = 15,
    ATAN_TERMS = 17
};

static const double nan_value = NAN, inf = INFINITY;

static double from_bits(uint64_t bits)
{
    double x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint64_t bits_of(double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* ---- pairs ----------------------------------------------------------------------- */

static Pair sum(double a, double b) /* exact */
{
    const double s = a + b, t = s - a;

    return (Pair){s, (a - (s - t)) + (b - t)};
}

static Pair product(double a, double b) /* exact in the middle of the exponents' range */
{
    const double split = 0x1p27 + 1, p = a * b;
    const double as = a * split, ah = as - (as - a), al = a - ah;
    const double bs = b * split, bh = bs - (bs - b), bl = b - bh;

    return (Pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}

static Pair add(Pair a, Pair b)
{
    Pair s = sum(a.high, b.high);
    const Pair t = sum(a.low, b.low);

    s = sum(s.high, s.low + t.high);
    return sum(s.high, s.low + t.low);
}

static Pair multiply(Pair a, Pair b)
{
    const Pair p = product(a.high, b.high);

    return sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

static Pair scale(Pair a, double by) /* a power of two */
{
    return (Pair){a.high * by, a.low * by};
}

static Pair negative(Pair a)
{
    return (Pair){-a.high, -a.low};
}

static Pair divide(Pair a, Pair b)
{
    const double q = a.high / b.high;
    const Pair left = add(a, negative(multiply(b, (Pair){q, 0})));
    const double r = left.high / b.high;
    const Pair rest = add(left, negative(multiply(b, (Pair){r, 0})));

    return add(sum(q, r), (Pair){rest.high / b.high, 0});
}

static Pair square_root(Pair a) /* of a positive number */
{
    const double r = sqrt(a.high);
    const Pair left = add(a, negative(product(r, r)));

    return add((Pair){r, 0}, (Pair){left.high / (2 * r), 0});
}

static Pair whole(double x)
{
    return (Pair){x, 0};
}

/* ---- rounding -------------------------------------------------------------------- */

/* x = m * 2^*e, m in [1, 2) with x's sign; x is finite and not 0. */
static double mantissa(double x, int *e)
{
    uint64_t bits = bits_of(x);
    int more = 0;

    if ((bits >> 52 & 0x7ff) == 0) {
        bits = bits_of(x * 0x1p54);
        more = 54;
    }
    *e = (int)(bits >> 52 & 0x7ff) - 1023 - more;
    return from_bits((bits & ~(UINT64_C(0x7ff) << 52)) | UINT64_C(0x3ff) << 52);
}

/* n * 2^e: exact, or too large. n < 2^54; each product but the last is far from both ends
 * of the range. */
static double assemble(uint64_t n, int e)
{
    double x = (double)n;

    for (; e > 500; e -= 500)
        x *= 0x1p500;
    for (; e < -500; e += 500)
        x *= 0x1p-500;
    return x * from_bits((uint64_t)(e + 1023) << 52);
}

/* The double nearest to v * 2^e; v is not 0 and far from both ends of the range. v is
 * split into an integer of 63 bits and a remainder. tie: the exact value may be halfway
 * between two doubles; then a remainder as small as the error counts as a tie. */
static double rounded_tie(Pair v, int e, bool tie)
{
    int own, shift;
    uint64_t n = (uint64_t)(mantissa(fabs(v.high), &own) * 0x1p62), kept, half, rest;
    double low = (v.high < 0 ? -v.low : v.low) * from_bits((uint64_t)(1023 - own) << 52);
    const int64_t part = (int64_t)(low * 0x1p62 + (low < 0 ? -0.5 : 0.5));

    low = low * 0x1p62 - (double)part;
    low = tie && fabs(low) < 0x1p-18 ? 0 : low;
    n += (uint64_t)part;
    e += own - 62;
    shift = n >> 62 ? 10 : 9; /* a power of two less something is below it */
    if (shift + e < -1074)
        shift = -1074 - e;
    if (shift > 63)
        return v.high < 0 ? -0.0 : 0.0;
    kept = n >> shift;
    half = UINT64_C(1) << (shift - 1);
    rest = n & (2 * half - 1);
    if (rest > half || (rest == half && (low > 0 || (low == 0 && (kept & 1)))))
        kept++;
    return v.high < 0 ? -assemble(kept, e + shift) : assemble(kept, e + shift);
}

static double rounded(Pair v, int e)
{
    return rounded_tie(v, e, false);
}

/* ---- exp ------------------------------------------------------------------------- */

/* e^x = what it returns * 2^*k, for |x| < 2000. */
static Pair exp_pair(Pair x, int *k)
{
    const double n = floor(x.high / ln2.high + 0.5);
    Pair r = sum(x.high, -n * ln2_part[0]), y, p = {1, 0};

    r = add(r, whole(-n * ln2_part[1]));
    r = add(r, sum(x.low, -n * ln2_part[2]));
    y = scale(r, 1.0 / (1 << EXP_HALVINGS));
    for (int i = EXP_TERMS; i > 1; i--) /* (e^y - 1) / y */
        p = add(whole(1), multiply(p, divide(y, whole(i))));
    p = multiply(p, y);
    for (int i = 0; i < EXP_HALVINGS; i++) /* e^2y - 1 = 2 (e^y - 1) + (e^y - 1)^2 */
        p = add(scale(p, 2), multiply(p, p));
    *k = (int)n;
    return add(whole(1), p);
}

double exact_exp(double x)
{
    int k;
    Pair p;

    if (x != x)
        return nan_value;
    if (x > 710 || x < -746)
        return x > 0 ? inf : 0;
    if (fabs(x) < 0x1p-54)
        return 1;
    p = exp_pair(whole(x), &k);
    return rounded(p, k);
}

/* ---- log ------------------------------------------------------------------------- */

/* log(x) = what it returns + *e ln 2, for x > 0 and finite: with s = (m - 1) / (m + 1),
 * log(m) = 2 s (1 + s^2/3 + s^4/5 + ...), m in [sqrt(1/2), sqrt(2)]. */
static Pair log_parts(double x, int *e)
{
    double m = mantissa(x, e);
    Pair s, z, p = whole(0);

    if (m > 1.4142135) {
        m *= 0.5;
        ++*e;
    }
    m -= 1;
    if (fabs(m) <
        0x1p-45) /* m - m^2/2 + m^3/3: its tail may decide what is nearly a tie */
        return (Pair){m, m * m * (m * (1.0 / 3) - 0.5)};
    s = divide(whole(m), sum(m, 2));
    z = multiply(s, s);
    for (int i = LOG_TERMS; i >= 0; i--)
        p = add(divide(whole(1), whole(2 * i + 1)), multiply(p, z));
    return scale(multiply(s, p), 2);
}

static Pair log_pair(double x)
{
    int e;
    const Pair m = log_parts(x, &e);
    Pair sum_of = add(whole(e * ln2_part[0]), whole(e * ln2_part[1]));

    sum_of = add(sum_of, whole(e * ln2_part[2]));
    return add(sum_of, m);
}

/* The logarithm of a number that has none, or an infinite one. */
static bool log_is_special(double x, double *result)
{
    *result = x != x || x < 0 ? nan_value : x == 0 ? -inf : inf;
    return !(x > 0) || x == inf;
}

double exact_log(double x)
{
    double special;

    if (log_is_special(x, &special) || x == 1)
        return x == 1 ? 0 : special;
    return rounded(log_pair(x), 0);
}

double exact_log2(double x)
{
    double special;
    int e;
    Pair m;

    if (log_is_special(x, &special) || x == 1)
        return x == 1 ? 0 : special;
    m = log_parts(x, &e);
    return rounded(add(whole(e), divide(m, ln2)), 0);
}

double exact_log10(double x)
{
    double special;

    if (log_is_special(x, &special) || x == 1)
        return x == 1 ? 0 : special;
    return rounded(divide(log_pair(x), ln10), 0);
}

/* ---- pow ------------------------------------------------------------------------- */

static bool is_whole(double y)
{
    return floor(y) == y;
}

static bool is_odd(double y)
{
    return fabs(y) < 0x1p53 && is_whole(y) && !is_whole(y / 2);
}

/* If x or y is 0, infinite or NaN: the result of C99. */
static double pow_special(double x, double y)
{
    const double size = fabs(x);
    const double sign = bits_of(x) >> 63 && is_odd(y) ? -1 : 1;

    if (y == 0 || x == 1)
        return 1;
    if (x != x || y != y)
        return nan_value;
    if (fabs(y) == inf)
        return size == 1 ? 1 : (size > 1) == (y > 0) ? inf : 0;
    return (size == 0) == (y < 0) ? sign * inf : sign * 0.0;
}

/* Can x^y be halfway between two doubles? Then it is r^3, r^4, ... or its root, an odd
 * r^n of 54 bits, so x has few bits; or it is 2^-1075. */
static bool may_tie(double x, double y)
{
    int e;
    const double m = mantissa(x, &e);

    return m == 1 || (y > 0 && is_whole(2 * y) && is_whole(m * 0x1p36));
}

/* x^n for whole n with |n| at most 16, the common case. */
static double pow_whole(double x, int n)
{
    int e;
    const double m = mantissa(x, &e);
    Pair p = whole(m);

    for (int i = 1; i < abs(n); i++)
        p = multiply(p, whole(m));
    if (n < 0)
        p = divide(whole(1), p);
    return rounded_tie(p, e * n, n > 0 || m == 1);
}

double exact_pow(double x, double y)
{
    const double size = fabs(x);
    double about, sign = 1;
    Pair p;
    int k;

    if (y == 0 || x == 0 || x == 1 || !(size < inf) || !(fabs(y) < inf))
        return pow_special(x, y);
    if (x < 0) {
        if (!is_whole(y))
            return nan_value;
        sign = is_odd(y) ? -1 : 1;
    }
    if (size == 1)
        return sign;
    if (fabs(y) <= 16 && is_whole(y))
        return sign * pow_whole(size, (int)y);
    p = log_pair(size);
    about = p.high * y;
    if (fabs(about) > 1000)
        return about > 0 ? sign * inf : sign * 0.0;
    if (fabs(about) < 0x1p-60)
        return sign;
    p = exp_pair(add(product(p.high, y), whole(p.low * y)), &k);
    return sign * rounded_tie(p, k, may_tie(size, y));
}

/* ---- sin, cos, tan --------------------------------------------------------------- */

/* The fractional bits of 2/pi. */
static const uint64_t two_over_pi[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561,
    0xb7246e3a424dd2e0, 0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b, 0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d, 0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d,
    0xa9e391615ee61b08};

enum { WORDS = 5 };

/* 64 bits from bit `at` on, of a row of words with the highest first. */
static uint64_t bits_at(const uint64_t *word, int at)
{
    const int k = at / 64, shift = at % 64;

    return shift ? word[k] << shift | word[k + 1] >> (64 - shift) : word[k];
}

/* to = m * (256 bits of 2/pi from bit `from` on); to[0] is the highest word. */
static void times_two_over_pi(uint64_t m, int from, uint64_t to[WORDS])
{
    uint64_t carry = 0;

    for (int i = WORDS - 1; i > 0; i--) {
        const uint64_t w = bits_at(two_over_pi, from + 64 * (i - 1));
        const uint64_t low = (m & 0xffffffff) * (w & 0xffffffff);
        const uint64_t a = (m >> 32) * (w & 0xffffffff) + (low >> 32);
        const uint64_t b = (m & 0xffffffff) * (w >> 32) + (a & 0xffffffff);

        to[i] = (b << 32 | (low & 0xffffffff)) + carry;
        carry = (m >> 32) * (w >> 32) + (a >> 32) + (b >> 32) + (to[i] < carry);
    }
    to[0] = carry;
}

/* x = *quarters pi/2 + what it returns, in [-pi/4, pi/4], for |x| >= 1/2. Only the part
 * below 4 of the product with 2/pi matters, and 200 of its fractional bits. */
static Pair reduce(double x, int *quarters)
{
    int e, from, point, first = 0;
    const uint64_t m = (uint64_t)(mantissa(fabs(x), &e) * 0x1p52);
    uint64_t p[WORDS + 2] = {0}, frac[WORDS + 1] = {0};
    bool up;
    Pair r;

    e -= 52;
    from = e > 2 ? e - 2 : 0;
    times_two_over_pi(m, from, p);
    point = 64 * WORDS - (256 - (e - from)); /* bits before the point */
    *quarters = (int)(bits_at(p, point - 2) >> 62);
    for (int i = 0; i < WORDS && point + 64 * i < 64 * WORDS; i++)
        frac[i] = bits_at(p, point + 64 * i);
    up = frac[0] >> 63; /* at least a half: reduce from above */
    *quarters += up;
    for (int i = 0; up && i < WORDS; i++)
        frac[i] = ~frac[i]; /* off by one in the last place, which does not matter */
    while (first < 64 * (WORDS - 2) && !(frac[first / 64] << first % 64 >> 63))
        first++;
    r.high = assemble(bits_at(frac, first) >> 11, -first - 53);
    r.low = assemble(bits_at(frac, first + 53) >> 11, -first - 106);
    r = multiply(sum(r.high, r.low), half_pi);
    if (up != (x < 0))
        r = negative(r);
    if (x < 0)
        *quarters = -*quarters;
    return r;
}

/* sin(r) for |r| <= pi/4, or cos(r) if `cosine`. */
static Pair sin_series(Pair r, bool cosine)
{
    const Pair z = negative(multiply(r, r));
    Pair p = whole(1);

    for (int i = SIN_TERMS; i > 0; i--)
        p = add(whole(1),
                multiply(p, divide(z, whole(2 * i * (cosine ? 2 * i - 1 : 2 * i + 1)))));
    return cosine ? p : multiply(p, r);
}

/* sin(x + quarters pi/2) */
static Pair sin_turned(double x, int quarters)
{
    int turns = 0;
    const Pair r = fabs(x) < 0.5 ? whole(x) : reduce(x, &turns);
    Pair s;

    turns += quarters;
    s = sin_series(r, turns & 1);
    return turns & 2 ? negative(s) : s;
}

double exact_sin(double x)
{
    if (!(fabs(x) < inf))
        return nan_value;
    return fabs(x) < 0x1p-27 ? x : rounded(sin_turned(x, 0), 0);
}

double exact_cos(double x)
{
    if (!(fabs(x) < inf))
        return nan_value;
    return fabs(x) < 0x1p-27 ? 1 : rounded(sin_turned(x, 1), 0);
}

double exact_tan(double x)
{
    if (!(fabs(x) < inf))
        return nan_value;
    return fabs(x) < 0x1p-27 ? x : rounded(divide(sin_turned(x, 0), sin_turned(x, 1)), 0);
}

/* ---- their inverses -------------------------------------------------------------- */

/* atan(t) for t >= 0: atan(t) = 2 atan(t / (1 + sqrt(1 + t^2))), three times. */
static Pair atan_pair(Pair t)
{
    const bool large = t.high > 1;
    Pair z, p = whole(0);

    if (large)
        t = divide(whole(1), t);
    for (int i = 0; i < 3; i++)
        t = divide(t, add(whole(1), square_root(add(whole(1), multiply(t, t)))));
    z = negative(multiply(t, t));
    for (int i = ATAN_TERMS; i >= 0; i--)
        p = add(divide(whole(1), whole(2 * i + 1)), multiply(p, z));
    p = scale(multiply(p, t), 8);
    return large ? add(half_pi, negative(p)) : p;
}

double exact_asin(double x)
{
    Pair t;

    if (!(fabs(x) <= 1))
        return nan_value;
    if (fabs(x) < 0x1p-27)
        return x;
    if (fabs(x) == 1)
        return x * half_pi.high;
    t = square_root(multiply(sum(1, -x), sum(1, x)));
    t = atan_pair(divide(whole(fabs(x)), t));
    return x < 0 ? -rounded(t, 0) : rounded(t, 0);
}

double exact_acos(double x)
{
    if (!(fabs(x) <= 1))
        return nan_value;
    if (x == 1)
        return 0;
    if (x == -1)
        return 2 * half_pi.high;
    return rounded(scale(atan_pair(square_root(divide(sum(1, -x), sum(1, x)))), 2), 0);
}

/* If one of them is 0 or infinite; also what the half plane x < 0 adds. */
static double atan2_special(double y, double x)
{
    const bool behind = bits_of(x) >> 63;
    const Pair quarter = scale(half_pi, 0.5);

    if (fabs(y) == inf && fabs(x) == inf)
        return behind ? rounded(add(half_pi, quarter), 0) : quarter.high;
    if (y == 0 || fabs(x) == inf)
        return behind ? 2 * half_pi.high : 0;
    return half_pi.high;
}

double exact_atan2(double y, double x)
{
    const double sign = bits_of(y) >> 63 ? -1 : 1;
    int ey, ex;
    double my, mx;
    Pair q;

    if (x != x || y != y)
        return nan_value;
    if (x == 0 || y == 0 || fabs(x) == inf || fabs(y) == inf)
        return sign * atan2_special(y, x);
    my = mantissa(fabs(y), &ey);
    mx = mantissa(fabs(x), &ex);
    if (ey - ex > 120)
        return sign * half_pi.high;
    if (ey - ex < -120)
        return x < 0 ? sign * 2 * half_pi.high
                     : sign * rounded(divide(whole(my), whole(mx)), ey - ex);
    q = atan_pair(
        scale(divide(whole(my), whole(mx)), from_bits((uint64_t)(ey - ex + 1023) << 52)));
    if (x < 0)
        q = add(scale(half_pi, 2), negative(q));
    return sign * rounded(q, 0);
}
