/* SPDX-License-Identifier: MIT-0 */
/* rt_mask.c: which tokens are targets. In: X.mask beside a file X of tokens. Out: its
 * bits, mapped; or why they cannot belong to X.
 *
 * X.mask has a bit per token, low bit first, 1 if the token is to be predicted; bits
 * after the last token's are 0. After them `fsdpgen tokenize` records which tokens they
 * were made for (rt_mask.h): a mask of another file, whatever its size, is refused, and
 * so is a damaged one. If there are only bits, only their number can be checked. */
#include "data/rt_tokens.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* For wrong masks: fsdpgen writes a file and its mask together. */
#define MAKE_AGAIN                                                                       \
    "make both again: fsdpgen tokenize --force --template NAME -o %s INPUT... (or put "  \
    "the files of one run of it side by side)"

static bool read_trailer(RtTokenFile *f, const char *name, int64_t bits_bytes,
                         char *error)
{
    RtMaskTrailer t;
    memcpy(&t, f->mask.at + bits_bytes, sizeof t);
    if (memcmp(t.magic, rt_mask_magic, sizeof t.magic) != 0) {
        return rt_tokens_wrong(error,
                               "%s: %d bytes follow the bits of %s's %lld tokens, and "
                               "they are not what fsdpgen tokenize writes there",
                               name, RT_MASK_TRAILER_BYTES, f->name,
                               (long long)f->tokens);
    }
    if (t.version != RT_MASK_VERSION || t.trailer_bytes != RT_MASK_TRAILER_BYTES) {
        return rt_tokens_wrong(error,
                               "%s: what it says of its tokens is of version %u; this "
                               "trainer knows version %d",
                               name, t.version, RT_MASK_VERSION);
    }
    if (t.check != rt_mask_check(&t)) {
        return rt_tokens_wrong(error,
                               "%s: what it says of its tokens is damaged; " MAKE_AGAIN,
                               name, f->name);
    }
    if (t.tokens != f->tokens || t.bytes != f->map.bytes) {
        return rt_tokens_wrong(
            error,
            "%s was made for other tokens than %s has: for %lld in %lld bytes, not %lld "
            "in %lld; " MAKE_AGAIN,
            name, f->name, (long long)t.tokens, (long long)t.bytes, (long long)f->tokens,
            (long long)f->map.bytes, f->name);
    }
    f->mask_of = t;
    return true;
}

/* The bits and what may follow them. */
static bool read_mask(RtTokenFile *f, const char *name, char *error)
{
    const int64_t bytes = f->tokens / 8 + (f->tokens % 8 != 0);
    if (f->mask.bytes == bytes + RT_MASK_TRAILER_BYTES) {
        if (!read_trailer(f, name, bytes, error))
            return false;
        f->mask.bytes = bytes;
    } else if (f->mask.bytes != bytes) {
        return rt_tokens_wrong(
            error,
            "%s: %s has %lld tokens, so %lld bytes of mask, a bit for each token (and %d "
            "more where fsdpgen tokenize wrote it), but the mask has %lld",
            name, f->name, (long long)f->tokens, (long long)bytes, RT_MASK_TRAILER_BYTES,
            (long long)f->mask.bytes);
    }
    if (f->tokens % 8 != 0 && f->mask.at[bytes - 1] >> f->tokens % 8 != 0) {
        return rt_tokens_wrong(
            error,
            "%s: a bit after that of the last token, %lld, is not 0: is the "
            "low bit of a byte its first token's?",
            name, (long long)(f->tokens - 1));
    }
    return true;
}

bool rt_mask_map(RtTokenFile *f, const char *name, char *error)
{
    if (access(name, F_OK) != 0) {
        return rt_tokens_wrong(
            error,
            "%s: %s; the trainer's loss.mask wants it beside %s: a bit for each "
            "token, low bit first, 1 where the token is to be predicted",
            name, strerror(errno), f->name);
    }
    return rt_mapped_open(&f->mask, name, error) && read_mask(f, name, error);
}

bool rt_mask_agrees(const RtTokenFile *f, uint64_t tokens_digest, uint64_t bits_digest,
                    char *error)
{
    const RtMaskTrailer *t = &f->mask_of;
    if (t->version != 0 && t->bits != bits_digest) {
        return rt_tokens_wrong(
            error, "%s: its bits are not those that were written; " MAKE_AGAIN,
            f->mask.name, f->name);
    }
    if (t->version != 0 && t->digest != tokens_digest) {
        return rt_tokens_wrong(error,
                               "%s was made for other tokens than %s has, though for as "
                               "many: their digest is "
                               "%016llx there and %016llx here; " MAKE_AGAIN,
                               f->mask.name, f->name, (unsigned long long)t->digest,
                               (unsigned long long)tokens_digest, f->name);
    }
    return true;
}
