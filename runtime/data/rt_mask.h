/* SPDX-License-Identifier: MIT-0 */
/* rt_mask.h: what a mask records about the tokens it was made for. In: the tokens. Out: bytes after
 * the bits of X.mask, which `fsdpgen tokenize` writes and trainers verify:
 *
 *    "fsdpmask", u32 version 1, u32 bytes of this trailer, i64 tokens of X, i64 bytes of
 *    X, u64 digest of X (rt_hash.h), u64 digest of the bits, u64 rt_hash64 of everything
 *    before it in the trailer; little-endian
 *
 * A mask without it is only bits, as other programs write it. */
#ifndef RT_MASK_H
#define RT_MASK_H

#include "rt_hash.h"

enum { RT_MASK_TRAILER_BYTES = 56, RT_MASK_VERSION = 1 };

typedef struct RtMaskTrailer {
    char magic[8];
    uint32_t version, trailer_bytes;
    int64_t tokens, bytes;
    uint64_t digest, bits, check;
} RtMaskTrailer;
_Static_assert(sizeof(RtMaskTrailer) == RT_MASK_TRAILER_BYTES, "as it lies in the file");

static const char rt_mask_magic[8] = {'f', 's', 'd', 'p', 'm', 'a', 's', 'k'};

static inline uint64_t rt_mask_check(const RtMaskTrailer *t)
{
    return rt_hash64(t, offsetof(RtMaskTrailer, check), 4);
}

static inline RtMaskTrailer rt_mask_trailer(int64_t tokens, int64_t bytes,
                                            uint64_t digest, uint64_t bits)
{
    RtMaskTrailer t = {.version = RT_MASK_VERSION,
                       .trailer_bytes = RT_MASK_TRAILER_BYTES,
                       .tokens = tokens,
                       .bytes = bytes,
                       .digest = digest,
                       .bits = bits};
    memcpy(t.magic, rt_mask_magic, sizeof t.magic);
    t.check = rt_mask_check(&t);
    return t;
}

#endif
