/* SPDX-License-Identifier: Apache-2.0 */
/* pair.c: pair FILE says what a trainer with loss.mask makes of a token file and its
 * mask: `good TOKENS`, `bare TOKENS` of a mask that says nothing of them, or why it
 * refuses them (exit code 1). All of both is hashed, as the trainer does. */
#include "data/rt_tokens.h"

static uint64_t digest(const RtMapped *m)
{
    uint64_t sum = 0;

    for (int64_t at = 0; at < m->bytes; at += RT_DIGEST_CHUNK_BYTES) {
        int64_t left = m->bytes - at;

        sum += rt_digest_chunk(
            m->at + at,
            (size_t)(left < RT_DIGEST_CHUNK_BYTES ? left : RT_DIGEST_CHUNK_BYTES),
            at / RT_DIGEST_CHUNK_BYTES);
    }
    return sum;
}

int main(int argc, char **argv)
{
    char error[RT_ERROR_BYTES] = "pair FILE";
    RtTokenFile f;

    if (argc != 2 || !rt_token_file_open(&f, argv[1], RT_FILE_BY_NAME, true, error) ||
        !rt_mask_agrees(&f, digest(&f.map), digest(&f.mask), error)) {
        printf("%s\n", error);
        return 1;
    }
    printf("%s %lld\n", f.mask_of.version != 0 ? "good" : "bare", (long long)f.tokens);
    return 0;
}
