/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* hash_test.c: the hashes that checkpoints on people's disks carry do not change, and a
 * chunk that comes in pieces has the hash of the whole. The expected values are an
 * independent program's (Python, from the words of rt_hash.c's header):
 *
 *   def mix(x):
 *       x = (x + 0x9E3779B97F4A7C15) % 2**64
 *       x = ((x ^ x >> 30) * 0xBF58476D1CE4E5B9) % 2**64
 *       x = ((x ^ x >> 27) * 0x94D049BB133111EB) % 2**64
 *       return x ^ x >> 31
 *   def words(b): return [int.from_bytes(b[i:i+8], "little") for i in range(0, len(b), 8)]
 *   def hash64(b, h):
 *       h = mix(h ^ mix(len(b)))
 *       for w in words(b): h = mix(h ^ w)
 *       return h
 *   def lanes(b, seed):
 *       one = mix(seed ^ mix(len(b)))
 *       lane = [mix((one + k) % 2**64) for k in range(4)]
 *       whole = len(b) // 32 * 32
 *       for i, w in enumerate(words(b[:whole])): lane[i % 4] = mix(lane[i % 4] ^ w)
 *       for k in range(4): one = mix(one ^ lane[k])
 *       return hash64(b[whole:], one)
 *   data = bytes((i * i * 7 + i) % 256 ^ i >> 8 & 255 for i in range(5000))
 *   for n in 0, 1, 31, 32, 33, 64, 1000, 4999, 5000:
 *       print(n, hex(hash64(data[:n], 3)), hex(lanes(data[:n], 3))) */
/* clang-format on */
#include "../../runtime/rt_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { BYTES = 5000, SEED = 3 };
static unsigned char data[BYTES];

static const struct Known {
    size_t bytes;
    uint64_t one, lanes;
} known[] = {
    {0, UINT64_C(0xc810565020d09481), UINT64_C(0x3cb6d94ecee3a65b)},
    {1, UINT64_C(0xd5159b73432a2795), UINT64_C(0x9e680a8e0608b634)},
    {31, UINT64_C(0xaa0527275d72d1a7), UINT64_C(0x0ea3484e29b7c236)},
    {32, UINT64_C(0x6b1f12107083b1f8), UINT64_C(0x39d169b0edad8d8a)},
    {33, UINT64_C(0x22fea54c865a1e74), UINT64_C(0x8db5720a8fba77b0)},
    {64, UINT64_C(0x042b28e6e2f278f1), UINT64_C(0x0fb3ddbf718edda8)},
    {1000, UINT64_C(0x13b9a4141b32bd4f), UINT64_C(0x114c50dd42168a32)},
    {4999, UINT64_C(0x1b9a881ed971d7c3), UINT64_C(0x7ad59ec32963dbd0)},
    {5000, UINT64_C(0x94ec35a16858fff0), UINT64_C(0xcb9217780f18ed44)},
};
enum { KNOWN = sizeof known / sizeof *known };

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(((i * i * 7 + i) % 256) ^ ((i >> 8) & 255));
    return 0;
}

static void known_answers(void **state)
{
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        RtLanes h;
        rt_lanes_begin(&h, known[i].bytes, SEED);
        assert_true(rt_hash64(data, known[i].bytes, SEED) == known[i].one);
        assert_true(rt_lanes_end(&h, data, known[i].bytes) == known[i].lanes);
    }
}

static void pieces_are_the_whole(void **state)
{
    enum { TURN = 8 * RT_LANES };
    (void)state;
    for (int i = 0; i < KNOWN; i++) {
        for (size_t piece = TURN; piece < known[i].bytes; piece += 3 * TURN) {
            RtLanes h;
            size_t at = 0;
            rt_lanes_begin(&h, known[i].bytes, SEED);
            for (; known[i].bytes - at > piece; at += piece)
                rt_lanes_more(&h, data + at, piece);
            assert_true(rt_lanes_end(&h, data + at, known[i].bytes - at) ==
                        known[i].lanes);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(pieces_are_the_whole),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
