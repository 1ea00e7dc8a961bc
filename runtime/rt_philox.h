/* SPDX-License-Identifier: MIT-0 */
/* rt_philox.h: the only source of randomness: Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", 2011), a keyed counter. It does not depend on mesh, rank or layout.
 *
 *    key      (low 32 bits of the seed, site)
 *    counter  (low and high 32 bits of an index, stream, high 32 bits of the seed)
 *
 *    site        index                     stream                   used for
 *    INIT        element of a parameter    FNV-1a 32 of its name    initial weights
 *    DATA        (half block, round)       epoch                    order of samples
 *    PROJECTION  element of a parameter    FNV-1a 32 of its name    --debug-gradients
 *    STEP        step, from 0              0                        the seed of its noise
 *    SAMPLE      token after the prompt    0                        trainer sample
 *    MASTER, MOMENT1, MOMENT2              FNV-1a 32 of its name    stochastic rounding
 *                element of a parameter / 8
 *
 * The seed of projections is always 0. The seed of noise is the first two words of STEP, the low
 * one first. Element e is rounded by 16 bits: half e mod 8 of its block, counted from the low half
 * of the first word.
 *
 * Initial weights: h = sum of the eight 16-bit halves of the four words; the value is
 *    (h - 262140) * (std * RT_NORMAL_SCALE)
 * in double, rounded to the master's dtype: an Irwin-Hall normal of eight uniforms, exact in
 * integers, bounded by 4.9 std. */
#ifndef RT_PHILOX_H
#define RT_PHILOX_H

#include <stdint.h>

enum { RT_SITE_INIT = 1, RT_SITE_DATA = 2, RT_SITE_PROJECTION = 3, RT_SITE_STEP = 4 };
/* RT_NOISE_* of rt.h are sites 5 to 7. */
enum { RT_SITE_SAMPLE = 8 };

/* 1 / sqrt(8 * (65536^2 - 1) / 12) */
#define RT_NORMAL_SCALE 1.8688123650118534e-05

typedef struct RtWords {
    uint32_t w[4];
} RtWords;

static inline RtWords rt_philox(uint64_t seed, uint32_t site, uint64_t index,
                                uint32_t stream)
{
    uint32_t k0 = (uint32_t)seed, k1 = site;
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = stream;
    uint32_t c3 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)c0 * 0xD2511F53u, p1 = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (RtWords){{c0, c1, c2, c3}};
}

static inline uint32_t rt_name_stream(const char *name)
{
    uint32_t h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

static inline double rt_normal(RtWords r, double scale)
{
    int64_t h = 0;
    for (int i = 0; i < 4; i++)
        h += (r.w[i] & 0xFFFF) + (r.w[i] >> 16);
    return (double)(h - 262140) * scale;
}

#endif
