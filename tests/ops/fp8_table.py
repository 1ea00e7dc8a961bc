# SPDX-License-Identifier: Apache-2.0
"""fp8_table.py: the two forms of fp8 as ml_dtypes has them, for fp8_test.c.

    python3 -m venv V && V/bin/pip install ml_dtypes==0.6.0
    V/bin/python tests/ops/fp8_table.py >tests/ops/fp8_table.h

For each code without sign, up to the largest finite value: the bits of its value as a float, and
those of the smallest positive float that is rounded to it. Conversion never decreases, so these
bounds are all of it; they are found by bisection over the bits of floats.
"""
import ml_dtypes
import numpy as np


def value(dtype, code):
    return np.array([code], np.uint8).view(dtype).astype(np.float32)


def code_of(dtype, bits):
    return int(np.array([bits], np.uint32).view(np.float32).astype(dtype).view(np.uint8)[0])


def first(dtype, code):
    low, high = 0, int(value(dtype, code).view(np.uint32)[0])  # high is rounded to the code
    while low < high:
        middle = (low + high) // 2
        if code_of(dtype, middle) >= code:
            high = middle
        else:
            low = middle + 1
    return low


def table(name, dtype, largest):
    print(f"\nstatic const Fp8Row {name}_rows[] = {{ /* value, first float */")
    for code in range(largest + 1):
        bits = int(value(dtype, code).view(np.uint32)[0])
        print(f"    {{0x{bits:08x}, 0x{first(dtype, code):08x}}},")
    print("};")


print("/* SPDX-License-Identifier: Apache-2.0 */")
print(f"/* fp8_table.h: written by fp8_table.py with ml_dtypes {ml_dtypes.__version__}. */")
print("typedef struct Fp8Row {\n    uint32_t value, first;\n} Fp8Row;")
table("e4m3", ml_dtypes.float8_e4m3fn, 0x7E)
table("e5m2", ml_dtypes.float8_e5m2, 0x7B)
