/* SPDX-License-Identifier: MIT-0 */
/* rt_math_body.h: exp, max, sigmoid and tanh for one type; included by rt_math.h for
 * float, double and vectors of either. In: RT_F the floating type, RT_I integers of its
 * lanes' width, RT_DOUBLE, RT_BITS and RT_FLOAT (reinterpret), RT_MASK (a comparison as
 * all-ones or zero). Out: RT_NAME(exp) and so on. One text for scalars and vectors, so
 * that a tail computed by scalars has the same bits. */

#define RT_SELECT(mask, yes, no)                                                         \
    RT_FLOAT((RT_BITS((RT_F){0} + (yes)) & (mask)) | (RT_BITS(no) & ~(mask)))

/* The float whose exponent field is e; unsigned, because a NaN leaves an arbitrary e. */
#define RT_POWER(e, mantissa_bits) RT_FLOAT((RT_I)((RT_U)(e) << (mantissa_bits)))

/* x = n ln 2 + r, |r| <= ln 2 / 2. exp(r) = 1 + r + r^2 Q(r); Q is near minimax (relative error of
 * exp below 2^-32 for float, 2^-61 for double). 2^n is applied in two factors, so that results from
 * the least denormal to infinity are right. */
RT_ALWAYS RT_F RT_NAME(exp)(RT_F x)
{
#if RT_DOUBLE
    const RT_I over = RT_MASK(x > 710.0), under = RT_MASK(x < -746.0);
    x = RT_SELECT(over, 710.0, x);
    x = RT_SELECT(under, -746.0, x);
    const double magic = 0x1.8p52; /* adding it rounds to an integer, in the low bits */
    const int64_t magic_bits = 0x4338000000000000;
    const RT_F shifted = x * 0x1.71547652b82fep+0 + magic, n = shifted - magic;
    const RT_F r = (x - n * 0x1.62e42feep-1) - n * 0x1.a39ef35793c76p-33;
    RT_F q = r * 2.0914717341716378e-09 + 2.5105259538448494e-08;
    q = q * r + 2.755727357010214e-07;
    q = q * r + 2.7557255297969643e-06;
    q = q * r + 2.4801587325605324e-05;
    q = q * r + 0.00019841269874901259;
    q = q * r + 0.0013888888888883731;
    q = q * r + 0.0083333333333261116;
    q = q * r + 0.041666666666666671;
    q = q * r + 0.16666666666666671;
    q = q * r + 0.5;
    const RT_F y = 1.0 + (r + r * r * q);
    const RT_I all = RT_BITS(shifted) - magic_bits;
    const RT_I half = RT_BITS(n * 0.5 + magic) - magic_bits;
    return y * RT_POWER(half + 1023, 52) * RT_POWER(all - half + 1023, 52);
#else
    const RT_I over = RT_MASK(x > 89.0f), under = RT_MASK(x < -104.0f);
    x = RT_SELECT(over, 89.0f, x);
    x = RT_SELECT(under, -104.0f, x);
    const float magic = 0x1.8p23f;
    const int32_t magic_bits = 0x4b400000;
    const RT_F shifted = x * 1.44269504f + magic, n = shifted - magic;
    const RT_F r = (x - n * 0x1.62p-1f) - n * 0.00174093056f;
    RT_F q = r * 0.000198910304f + 0.00139336858f;
    q = q * r + 0.00833331048f;
    q = q * r + 0.041666463f;
    q = q * r + 0.166666672f;
    q = q * r + 0.5f;
    const RT_F y = 1.0f + (r + r * r * q);
    const RT_I all = RT_BITS(shifted) - magic_bits;
    const RT_I half = RT_BITS(n * 0.5f + magic) - magic_bits;
    return y * RT_POWER(half + 127, 23) * RT_POWER(all - half + 127, 23);
#endif
}

/* The larger of a and b; b if either is NaN. */
RT_ALWAYS RT_F RT_NAME(max)(RT_F a, RT_F b)
{
    const RT_I mask = RT_MASK(a > b);
    return RT_SELECT(mask, a, b);
}

/* 1 / (1 + exp(-x)) */
RT_ALWAYS RT_F RT_NAME(sigmoid)(RT_F x)
{
#if RT_DOUBLE
    return 1.0 / (1.0 + RT_NAME(exp)(-x));
#else
    return 1.0f / (1.0f + RT_NAME(exp)(-x));
#endif
}

/* |x| < 0.625: x + x^3 P(x^2); else sign(x) (1 - 2 / (exp(2|x|) + 1)). */
RT_ALWAYS RT_F RT_NAME(tanh)(RT_F x)
{
#if RT_DOUBLE
    const RT_I sign = RT_BITS(x) & INT64_MIN;
    const RT_F size = RT_FLOAT(RT_BITS(x) & INT64_MAX), z = x * x;
    RT_F p = z * -2.4365865605863497e-06 + 1.2204868570057292e-05;
    p = p * z + -3.7076101839761541e-05;
    p = p * z + 9.6038291847420692e-05;
    p = p * z + -0.00023888844776970479;
    p = p * z + 0.00058998158112746012;
    p = p * z + -0.0014558283631233406;
    p = p * z + 0.0035921275038310256;
    p = p * z + -0.0088632354995575435;
    p = p * z + 0.021869488535123899;
    p = p * z + -0.053968253968235722;
    p = p * z + 0.13333333333333319;
    p = p * z + -0.33333333333333331;
    const RT_F near = x + x * z * p;
    const RT_F far = 1.0 - 2.0 / (RT_NAME(exp)(size + size) + 1.0);
    const RT_I is_near = RT_MASK(size < 0.625);
#else
    const RT_I sign = RT_BITS(x) & INT32_MIN;
    const RT_F size = RT_FLOAT(RT_BITS(x) & INT32_MAX), z = x * x;
    RT_F p = z * 0.00229177042f + -0.00834308565f;
    p = p * z + 0.0217686556f;
    p = p * z + -0.0539592281f;
    p = p * z + 0.133333027f;
    p = p * z + -0.333333343f;
    const RT_F near = x + x * z * p;
    const RT_F far = 1.0f - 2.0f / (RT_NAME(exp)(size + size) + 1.0f);
    const RT_I is_near = RT_MASK(size < 0.625f);
#endif
    return RT_FLOAT((RT_BITS(near) & is_near) | (RT_BITS(far) & ~is_near) | sign);
}

#undef RT_SELECT
#undef RT_NAME
#undef RT_F
#undef RT_I
#undef RT_U
#undef RT_POWER
#undef RT_DOUBLE
#undef RT_BITS
#undef RT_FLOAT
#undef RT_MASK
