# SPDX-License-Identifier: Apache-2.0
"""An image as nvcc writes it, without code: what `plan --kernels --image` reads of one.

  image.py KERNELS_C OUT [RESERVED [MORE]]

Kernel i of kernels.c has 16 + i registers and 32 * i bytes of static shared memory, every fifth a
stack of 8 * i bytes. RESERVED: as for sm_90 and later, whose sizes include 1024 bytes of the driver; MORE:
kernels of other names.
Prints a line for each: name, registers, shared memory with that of its launch, stack, threads."""
import re
import struct
import sys

text = open(sys.argv[1]).read()
reserved = bool(sys.argv[3:4] and sys.argv[3])
kernels = [(m[1], int(m[2]), int(m[4] or 0)) for m in re.finditer(
    r'\.name = "(\w+)",\n    \.threads = (\d+)(, \.shared_bytes = (\d+))?,', text)]
kernels.append(("rt_merge_kernel", 0, 0))
kernels += [("more_%d" % i, 0, 0) for i in range(int(*sys.argv[4:]))]
identity = re.search(r"MATH_IDENTITY != 0x([0-9a-f]{16})", text)[1]
names = [k[0] for k in kernels] + ["math_" + identity]

strings = b"\0"


def string(s):
    global strings
    at = len(strings)
    strings += s.encode() + b"\0"
    return at


symbols = struct.pack("<IBBHQQ", 0, 0, 0, 0, 0, 0)
info = struct.pack("<BBH", 3, 0x37, 0x82)  # a record without payload
for i, name in enumerate(names):
    symbols += struct.pack("<IBBHQQ", string(name), 0x12, 0, 0, 0, 0)
    info += struct.pack("<BBHII", 4, 0x2f, 8, i + 1, 16 + i)
    if i % 5 == 0:
        info += struct.pack("<BBHII", 4, 0x11, 8, i + 1, 8 * i)
# (name, kind, data or size, link)
sections = [("", 0, b"", 0), (".strtab", 3, None, 0), (".symtab", 2, symbols, 1), (".nv.info", 0x70000000, info, 2)]
if reserved:
    sections.append((".nv.shared.reserved.0", 8, 0, 0))
for i, name in enumerate(names):
    if i:
        sections.append((".nv.shared." + name, 8, 32 * i + 1024 * reserved, 0))
places = [string(s[0]) for s in sections]
sections[1] = (".strtab", 3, strings, 0)
body, heads = b"", b""
for place, (name, kind, data, link) in zip(places, sections):
    size = data if kind == 8 else len(data)
    heads += struct.pack("<IIQQQQIIQQ", place, kind, 0, 0, 64 + len(body), size, link, 0, 1, 0)
    body += b"" if kind == 8 else data + b"\0" * (-len(data) % 8)
head = b"\x7fELF\2\1\1\x41\x08" + b"\0" * 7 + struct.pack(
    "<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(body), 0x6005a04, 64, 56, 0, 64, len(sections), 1)
open(sys.argv[2], "wb").write(head + body + heads)
for i, (name, threads, launch) in enumerate(kernels):
    print(name, 16 + i, 32 * i + launch, 8 * i if i % 5 == 0 else 0, threads)
