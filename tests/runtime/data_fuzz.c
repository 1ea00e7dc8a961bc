/* SPDX-License-Identifier: Apache-2.0 */
/* data_fuzz.c: data_fuzz FOLDER COUNT SEED: token files with random sizes, headers and
 * ids, most of them nearly right. Each is opened, and if it opens, all samples are read.
 * Built with sanitizers: nothing may crash, every refusal has a message, every id
 * returned is in the vocabulary. Prints how many were refused, and `ok`. */
#define _GNU_SOURCE
#include "rt_private.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VOCAB = 300, SEQ = 8 };

static uint64_t state;

static uint32_t draw(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static void put32(unsigned char *at, uint32_t x)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (unsigned char)(x >> 8 * i);
    }
}

/* A file that is right but for what the dice say. */
static size_t make(unsigned char *file, size_t most)
{
    const int width = draw(2) == 0 ? 2 : 4;
    uint32_t count = draw(200);
    size_t bytes = 1024 + (size_t)count * (size_t)width;
    memset(file, 0, most);
    put32(file, width == 2 ? 20240520 : 20240801);
    put32(file + 4, width == 2 ? 1 : 7);
    put32(file + 8, count);
    for (uint32_t i = 0; i < count * (uint32_t)width; i += (uint32_t)width) {
        const uint32_t id = draw(3000) == 0 ? draw(1u << 30) : draw(VOCAB);
        file[1024 + i] = (unsigned char)id;
        file[1024 + i + 1] = (unsigned char)(id >> 8 & (width == 2 ? 1 : 0xFF));
    }
    switch (draw(8)) {
    case 0:
        put32(file + 4 * draw(3), draw(1u << 31) * 2 + draw(2));
        break;
    case 1:
        bytes = draw((uint32_t)most);
        break;
    case 2:
        put32(file + 8, UINT32_MAX - draw(4));
        break;
    case 3:
        file[draw(12)] ^= (unsigned char)(1u << draw(8));
        break;
    case 4:
        put32(file + 8, INT32_MAX - (int32_t)draw(4));
        break;
    default:
        break;
    }
    return bytes;
}

static int try(const char *path)
{
    char error[RT_ERROR_BYTES] = "";
    int32_t tokens[SEQ], targets[SEQ];
    RtTokens *d = rt_tokens_open(&path, 1, SEQ, VOCAB, error);
    if (d == NULL) {
        return error[0] != '\0' ? 1 : -1;
    }
    int refused = 0;
    const int64_t samples = rt_tokens_samples(d);
    for (int64_t i = 0; i < samples; i++) {
        const int64_t at = rt_tokens_place(samples, 5, i + 3 * samples);
        if (at < 0 || at >= samples) {
            refused = -1;
        } else if (!rt_tokens_read(d, at, tokens, targets, error)) {
            refused = error[0] != '\0' ? 1 : -1;
        } else {
            for (int k = 0; k < SEQ; k++) {
                if (tokens[k] < 0 || tokens[k] >= VOCAB || targets[k] < 0 ||
                    targets[k] >= VOCAB || (k > 0 && tokens[k] != targets[k - 1])) {
                    refused = -1;
                }
            }
        }
        if (refused < 0) {
            break;
        }
    }
    rt_tokens_close(d);
    return refused;
}

/* rt_data.c also has rt_load_micro_batch. */
void rt_fail(const Rt *rt, int code, const char *fmt, ...)
{
    (void)rt;
    (void)fmt;
    exit(code);
}

int main(int argc, char **argv)
{
    static unsigned char file[4096];
    char path[4096];
    if (argc != 4) {
        return 2;
    }
    state = (uint64_t)atoll(argv[3]);
    snprintf(path, sizeof path, "%s/fuzz.bin", argv[1]);
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    long refused = 0;
    for (long i = 0; i < atol(argv[2]); i++) {
        const size_t bytes = make(file, sizeof file);
        if (ftruncate(fd, (off_t)bytes) != 0 ||
            pwrite(fd, file, bytes, 0) != (ssize_t)bytes) {
            perror(path);
            return 2;
        }
        const int got = try(path);
        if (got < 0) {
            printf("file %ld: refused without a message, or an id out of range\n", i);
            return 1;
        }
        refused += got;
    }
    printf("%ld refused\nok\n", refused);
    return 0;
}
