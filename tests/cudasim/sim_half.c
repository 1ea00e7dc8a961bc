/* SPDX-License-Identifier: Apache-2.0 */
/* sim_half.c: the 16-bit formats, rounded to nearest even; NaN is 0x7fff, as PTX has it.
 */
#include "sim_private.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, 4);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, 4);
    return x;
}

uint16_t sim_bf16_from_f32(float x)
{
    const uint32_t bits = bits_of(x);

    if (x != x)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t sim_f16_from_f32(float x)
{
    const uint32_t bits = bits_of(x), size = bits & 0x7fffffff;
    const uint32_t sign = bits >> 16 & 0x8000;

    if (x != x)
        return 0x7fff;
    if (size >= bits_of(65520.0f))
        return (uint16_t)(sign | 0x7c00);
    if (size < bits_of(6.103515625e-05f)) /* subnormal: a whole number of 2^-24 */
        return (uint16_t)(sign | (uint32_t)nearbyintf(fabsf(x) * 16777216.0f));
    return (uint16_t)(sign | (((size + 0xfff + (bits >> 13 & 1)) >> 13) - (112 << 10)));
}

float sim_f32_from_f16(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16;
    const uint32_t exponent = x >> 10 & 31, fraction = x & 0x3ff;

    if (exponent == 0)
        return float_of(sign | bits_of((float)fraction * 5.9604644775390625e-08f));
    return float_of(sign | (exponent == 31 ? 255 : exponent + 112) << 23 |
                    fraction << 13);
}
