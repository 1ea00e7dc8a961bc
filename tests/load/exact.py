# SPDX-License-Identifier: Apache-2.0
"""Values of exp, log, sin, ... for exact_test.c, by mpmath with 2300 bits.

    exact.py COUNT SEED >exact.txt

A line for a value: the function, its one or two arguments and the nearest double, as hexadecimal
floats. COUNT of each function: small and large arguments, close to 1 and to multiples of pi/2,
results near overflow, subnormal, and in the middle of two doubles."""
import math
import random
import struct
import sys

from mpmath import mp

ONE = ("exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos")


def any_double(r):
    while True:
        x = struct.unpack("<d", struct.pack("<Q", r.getrandbits(64)))[0]
        if math.isfinite(x):
            return x


def argument(name, r):
    near = r.uniform(-20, 20)
    small = r.gauss(0, 1) * 2.0 ** r.randint(-60, 3)
    if name == "exp":
        return r.choice([near, r.uniform(-746, 710), r.uniform(-1e-5, 1e-5), small])
    if name.startswith("log"):
        return r.choice([abs(any_double(r)), abs(near) + 1e-9, float(r.randint(2, 100000)),
                         1 + r.gauss(0, 1) * 2.0 ** r.randint(-52, -3),
                         10.0 ** r.randint(1, 22), 2.0 ** r.randint(-1074, 1023)])
    if name in ("asin", "acos"):
        return r.choice([r.uniform(-1, 1), 1 - r.random() * 2.0 ** -r.randint(1, 50),
                         -1 + r.random() * 2.0 ** -r.randint(1, 50), max(-1, min(1, small))])
    return r.choice([any_double(r), near, near * 1e4, float(r.randint(1, 10 ** 6)),
                     r.randint(1, 2 ** 40) * math.pi / 2])


def power(r):
    near = r.uniform(-20, 20)
    if r.random() < 0.2:  # n^3 of 54 bits, and its roots: in the middle of two doubles
        n = float(r.randrange(2 ** 17 + 1, 2 ** 18, 2))
        return r.choice([(n, 3.0), (n * n, 1.5), (float(r.randrange(2 ** 26 + 1, 2 ** 27, 2)), 2.0)])
    x = r.choice([abs(near), abs(any_double(r)), float(r.randint(2, 300000)), 10000.0,
                  1 + r.gauss(0, 1) * 2.0 ** r.randint(-40, -3)])
    log = abs(math.log2(x)) if x else 0
    return x, r.choice([near, r.uniform(-1100, 1100) / (log or 1), -2.0 * r.randint(0, 128) / 128,
                        float(r.randint(-40, 40)), 0.5, 1.5, 1 / 3, float(r.randint(2, 5))])


def nearest(v):
    if not v:
        return 0.0
    sign, man, exp, bits = v._mpf_
    if exp + bits > 1100 or exp + bits < -1200:
        x = math.inf if exp > 0 else 0.0
    else:
        try:
            x = man * 2 ** exp * 1.0 if exp >= 0 else man / 2 ** -exp
        except OverflowError:
            x = math.inf
    return -x if sign else x


def main(count, seed):
    mp.prec = 2300
    r = random.Random(seed)
    functions = {name: getattr(mp, name) for name in ONE if name != "log2"}
    functions["log2"] = lambda x: mp.log(x) / mp.log(2)
    for _ in range(count):
        rows = [(name, argument(name, r)) for name in ONE]
        rows.append(("pow",) + power(r))
        rows.append(("atan2", r.choice([any_double(r), r.uniform(-20, 20)]),
                     r.choice([any_double(r), r.uniform(-20, 20)])))
        for name, *x in rows:
            f = {"pow": mp.power, "atan2": mp.atan2}.get(name) or functions[name]
            y = f(*[mp.mpf(v) for v in x])
            print(name, *[float(v).hex() for v in x], nearest(y).hex())


main(int(sys.argv[1]), int(sys.argv[2]))
