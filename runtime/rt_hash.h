/* SPDX-License-Identifier: MIT-0 */
/* rt_hash.h: hashes of bytes. In: bytes, all at once or in pieces. Out: 64 bits. The generator's
 * tokenize includes it, too, because its digest of a file must be the one that a trainer computes.
 *
 * 1. The hash of bytes: words of eight little-endian bytes (the last one padded with zeros), each
 *    mixed into the state by the finaliser of splitmix64; the length goes in first.
 * 2. Files are hashed in four lanes, word k into lane k mod 4, which a processor computes in
 *    parallel. In the end the lanes and the words after the last four are mixed into one.
 * 3. The digest of a file is the sum modulo 2^64 of the hashes of its chunks of 4 MiB, each seeded
 *    by its position, so any rank may hash any chunk, in any order.
 *
 * These hashes detect accidents. They do not protect against someone who constructs two files with
 * one hash. */
#ifndef RT_HASH_H
#define RT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "weights, tokens and hashes are little-endian, in memory as in files");

static inline uint64_t rt_mix(uint64_t x)
{
    x += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

static inline uint64_t rt_hash64(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *p = (const unsigned char *)data;
    uint64_t h = rt_mix(seed ^ rt_mix(bytes));
    for (; bytes >= 8; bytes -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = rt_mix(h ^ w);
    }
    if (bytes > 0) {
        uint64_t w = 0;
        memcpy(&w, p, bytes);
        h = rt_mix(h ^ w);
    }
    return h;
}

/* For long data, which may come in pieces: `bytes` bytes in total; each piece but the last is a
 * multiple of a turn of 8 * RT_LANES. */
enum { RT_LANES = 4 };
typedef struct RtLanes {
    uint64_t lane[RT_LANES], one;
} RtLanes;

static inline void rt_lanes_begin(RtLanes *h, size_t bytes, uint64_t seed)
{
    h->one = rt_mix(seed ^ rt_mix(bytes));
    for (int k = 0; k < RT_LANES; k++)
        h->lane[k] = rt_mix(h->one + (uint64_t)k);
}

static inline void rt_lanes_more(RtLanes *h, const void *data, size_t bytes)
{
    enum { TURN = 8 * RT_LANES };
    const unsigned char *p = (const unsigned char *)data;
    RtLanes x = *h;
    for (; bytes >= TURN; bytes -= TURN, p += TURN) {
        uint64_t w[RT_LANES];
        memcpy(w, p, TURN);
        for (int k = 0; k < RT_LANES; k++) {
            w[k] ^= x.lane[k];
            __asm__("" : "+r"(w[k])); /* not vectorised: vector products take 15 cycles, not 3 */
            x.lane[k] = rt_mix(w[k]);
        }
    }
    *h = x;
}

static inline uint64_t rt_lanes_end(RtLanes *h, const void *data, size_t bytes)
{
    const size_t whole = bytes / (8 * RT_LANES) * (8 * RT_LANES);
    uint64_t one = h->one;
    rt_lanes_more(h, data, whole);
    for (int k = 0; k < RT_LANES; k++)
        one = rt_mix(one ^ h->lane[k]);
    return rt_hash64((const unsigned char *)data + whole, bytes - whole, one);
}

/* ---- files ----------------------------------------------------------------------- */

#ifndef RT_DIGEST_CHUNK_BYTES /* tests use small ones */
#define RT_DIGEST_CHUNK_BYTES (4 << 20)
#endif

static inline void rt_digest_begin(RtLanes *h, size_t bytes, int64_t chunk)
{
    rt_lanes_begin(h, bytes, (uint64_t)chunk + 3);
}

/* The contribution of a chunk to the digest of its file. */
static inline uint64_t rt_digest_chunk(const void *data, size_t bytes, int64_t chunk)
{
    RtLanes h;
    rt_digest_begin(&h, bytes, chunk);
    return rt_lanes_end(&h, data, bytes);
}

#endif
