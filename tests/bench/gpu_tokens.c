/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_tokens.c: tokens for tests/bench/gpu.sh: the id at rank k of a language is drawn
 * about 1/k times as often as the first, as words are, and ids of one frequency lie all
 * over the vocabulary. gpu_tokens VOCAB COUNT writes a token file of llm.c to stdout;
 * each call the same. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Of ids of 16 bits, and of 32. */
enum { HEAD_WORDS = 256, NARROW = 20240520, WIDE = 20240801 };

/* Steele, Lea, Flood (2014): splitmix64. In 0 to 1. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

int main(int argc, char **argv)
{
    const int64_t vocab = argc == 3 ? atoll(argv[1]) : 0,
                  count = vocab ? atoll(argv[2]) : 0;
    const bool wide = vocab > UINT16_MAX;
    int32_t head[HEAD_WORDS] = {wide ? WIDE : NARROW, wide ? 7 : 1, (int32_t)count};
    uint64_t state = 1;

    if (vocab < 2 || vocab > INT32_MAX || count < 1 || count > INT32_MAX) {
        fprintf(stderr, "usage: gpu_tokens VOCAB COUNT >FILE\n");
        return 2;
    }
    fwrite(head, sizeof head, 1, stdout);
    for (int64_t i = 0; i < count; i++) {
        const uint64_t rank = (uint64_t)exp(draw(&state) * log((double)vocab)) - 1;
        const uint32_t id = (uint32_t)(rank * 2654435761u % (uint64_t)vocab);
        const uint16_t narrow = (uint16_t)id;

        if (wide)
            fwrite(&id, sizeof id, 1, stdout);
        else
            fwrite(&narrow, sizeof narrow, 1, stdout);
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
