/* SPDX-License-Identifier: MIT-0 */
/* rt_sha256.c: SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104). In: bytes. Out: digests.
 * It is our own because an emitted trainer builds with only a C compiler. Messages are
 * short and kernels are read once at start, so plain C is fast enough. */
#define _GNU_SOURCE
#include "job/rt_door.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

enum { BLOCK = 64 };

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t roots[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t turn(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static void take_block(uint32_t h[8], const unsigned char *block)
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) {
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    }
    for (int i = 16; i < 64; i++) {
        const uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3) + w[i - 7] +
               (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    for (int i = 0; i < 64; i++) {
        const uint32_t e = v[4], a = v[0];
        const uint32_t t = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) +
                           ((e & v[5]) ^ (~e & v[6])) + roots[i] + w[i];
        const uint32_t u = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) +
                           ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t;
        v[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        h[i] += v[i];
}

void rt_sha256_begin(RtSha256 *s)
{
    *s = (RtSha256){{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                     0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                    0,
                    {0}};
}

void rt_sha256_more(RtSha256 *s, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    while (bytes > 0) {
        const size_t at = s->bytes % BLOCK, room = BLOCK - at;
        const size_t n = bytes < room ? bytes : room;
        if (n == BLOCK) {
            take_block(s->h, p);
        } else {
            memcpy(s->block + at, p, n);
            if (at + n == BLOCK)
                take_block(s->h, s->block);
        }
        s->bytes += n;
        p += n;
        bytes -= n;
    }
}

void rt_sha256_end(RtSha256 *s, unsigned char *digest)
{
    const uint64_t bits = 8 * s->bytes;
    const unsigned char one = 0x80, zeros[BLOCK] = {0};
    unsigned char length[8];
    rt_sha256_more(s, &one, 1);
    rt_sha256_more(s, zeros, (size_t)(BLOCK + 56 - s->bytes % BLOCK) % BLOCK);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    rt_sha256_more(s, length, sizeof length);
    for (int i = 0; i < RT_DIGEST_BYTES; i++)
        digest[i] = (unsigned char)(s->h[i / 4] >> (24 - i % 4 * 8));
}

void rt_hmac_begin(RtHmac *m, const void *key, size_t bytes)
{
    unsigned char block[BLOCK] = {0};
    if (bytes > BLOCK) {
        rt_sha256_begin(&m->inner);
        rt_sha256_more(&m->inner, key, bytes);
        rt_sha256_end(&m->inner, block);
    } else {
        memcpy(block, key, bytes);
    }
    for (int i = 0; i < BLOCK; i++)
        block[i] ^= 0x36;
    rt_sha256_begin(&m->inner);
    rt_sha256_more(&m->inner, block, BLOCK);
    for (int i = 0; i < BLOCK; i++)
        block[i] ^= 0x36 ^ 0x5c;
    rt_sha256_begin(&m->outer);
    rt_sha256_more(&m->outer, block, BLOCK);
    explicit_bzero(block, sizeof block);
}

void rt_hmac_more(RtHmac *m, const void *data, size_t bytes)
{
    rt_sha256_more(&m->inner, data, bytes);
}

void rt_hmac_end(RtHmac *m, unsigned char *digest)
{
    unsigned char inner[RT_DIGEST_BYTES];
    rt_sha256_end(&m->inner, inner);
    rt_sha256_more(&m->outer, inner, sizeof inner);
    rt_sha256_end(&m->outer, digest);
    explicit_bzero(m, sizeof *m);
}

/* The time does not depend on where they differ, so it does not help to guess. */
bool rt_same_bytes(const void *a, const void *b, size_t bytes)
{
    const volatile unsigned char *x = a, *y = b;
    unsigned char differ = 0;
    for (size_t i = 0; i < bytes; i++)
        differ |= (unsigned char)(x[i] ^ y[i]);
    return differ == 0;
}

bool rt_random_bytes(void *to, size_t bytes)
{
    ssize_t n;
    do { /* up to 256 bytes come at once */
        n = getrandom(to, bytes, 0);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)bytes;
}

void rt_hex(const unsigned char *bytes, size_t n, char *text)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * n] = '\0';
}
