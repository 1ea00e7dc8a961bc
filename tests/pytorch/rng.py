# SPDX-License-Identifier: Apache-2.0
"""The trainers' randomness again, from its description in runtime/rt_philox.h: Philox4x32-10
(Salmon et al., 2011), keyed by seed and site, counted by (parameter, element) or by sample."""
import numpy as np

U32 = np.uint64(0xFFFFFFFF)
SITE_INIT, SITE_DATA, SITE_PROJECTION = 1, 2, 3


def philox(key, c0, c1, c2, c3):
    """Ten rounds over arrays of 32-bit words held in uint64; key = (low, high)."""
    c = [np.asarray(x, np.uint64) for x in (c0, c1, c2, c3)]
    k0, k1 = np.uint64(key[0]), np.uint64(key[1])
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & U32,
             (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & U32]
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & U32, (k1 + np.uint64(0xBB67AE85)) & U32
    return c


def self_test():
    """The published test vectors."""
    assert [int(x) for x in philox((0, 0), 0, 0, 0, 0)] == [
        0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    assert [int(x) for x in philox((0xA4093822, 0x299F31D0), 0x243F6A88, 0x85A308D3,
                                   0x13198A2E, 0x03707344)] == [
        0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]


self_test()

# 1 / sqrt(8 (65536^2 - 1) / 12): eight uniforms of 16 bits have this spread.
NORMAL_SCALE = 1.8688123650118534e-05


def stream_of(name):
    """FNV-1a 32 of a parameter's name."""
    h = 2166136261
    for byte in name.encode():
        h = (h ^ byte) * 16777619 & 0xFFFFFFFF
    return h


def words(seed, site, index, stream):
    index = np.asarray(index, np.uint64)
    return philox((seed & 0xFFFFFFFF, site), index & U32, index >> np.uint64(32),
                  np.uint64(stream), np.uint64(seed >> 32))


def normal(seed, name, elems, std):
    """Initial weights, in f64."""
    w = words(seed, SITE_INIT, np.arange(elems), stream_of(name))
    h = sum((x & np.uint64(0xFFFF)) + (x >> np.uint64(16)) for x in w).astype(np.int64)
    return (h - 262140).astype(np.float64) * (std * NORMAL_SCALE)


def signs(name, elems):
    """The two projections' signs, [2, elems]."""
    w = words(0, SITE_PROJECTION, np.arange(elems), stream_of(name))
    return [1.0 - 2.0 * (x & np.uint64(1)).astype(np.float64) for x in w[:2]]


def place_of(samples, seed, epoch, place):
    """Where the place-th sample of an epoch lies: a walked four-round Feistel network."""
    half = 1
    while half < 31 and 1 << 2 * half < samples:
        half += 1
    mask, x = (1 << half) - 1, place
    while True:
        left, right = x >> half, x & mask
        for i in range(4):
            w = words(seed, SITE_DATA, right | i << 32, epoch)
            left, right = right, left ^ int(w[0]) & mask
        x = left << half | right
        if x < samples:
            return x


def sample_at(seed, data, seq, index):
    """Where global sample `index` of a run on one file begins; it has seq + 1 tokens."""
    samples = (len(data) - 1) // seq
    return place_of(samples, seed, index // samples, index % samples) * seq
