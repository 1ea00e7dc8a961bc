#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts for the tokenizer's normal form C, and what Python's unicodedata makes of them.

    nfc.py QWEN_JSON DIR TEXTS SEED [UNICODE]

DIR/nfc.json: the tokenizer with no merges, so that an id is a byte. DIR/nfc.jsonl: one chat a line,
of TEXTS random texts and of everything that composes, cut into parts of which each second one is a
target. DIR/nfc.ids, nfc.mask: the bytes of the whole text's normal form; a byte is a target if it
lies between the lengths of the normal forms of what ends where a target begins, and of what ends
where it ends. DIR/marks.txt, marks.ids: a letter with 400,000 marks in the wrong order, and its
normal form. UNICODE: the version that the tokenizer knows; if Python knows a newer one, with more that
composes, the exit code is 3."""
import json
import os
import random
import struct
import sys
import unicodedata

POINTS = [chr(c) for c in range(0x110000)
          if not 0xD800 <= c < 0xE000 and unicodedata.category(chr(c)) != "Cn"]
MARKS = [c for c in POINTS if unicodedata.combining(c)]
APART = [c for c in POINTS if unicodedata.normalize("NFD", c) != c]
LATER = sorted({d for c in APART for d in unicodedata.normalize("NFD", c)[1:]})


def nfc(text):
    return unicodedata.normalize("NFC", text).encode()


def one_text(r):
    pools = (POINTS, MARKS, APART, LATER, "aeiouAEIOU \n", "aeiou")
    return "".join(r.choice(r.choice(pools)) for _ in range(r.choice((1, 5, 20, 60))))


def parts_of(r, text):
    parts = []
    while text:
        n = r.choice((1, 1, 2, 3, 7, 30))
        parts.append(text[:n])
        text = text[n:]
    return parts


def mask_of(parts):
    whole = nfc("".join(parts))
    mask = [False] * len(whole)
    before = ""
    for i, part in enumerate(parts):
        if i % 2:
            begin, end = len(nfc(before)), len(nfc(before + part))
            for k in range(begin, end):
                mask[k] = True
        before += part
    return whole, mask


def main(qwen, folder, texts, seed):
    r = random.Random(seed)

    def path(name):
        return os.path.join(folder, name)

    with open(qwen, encoding="utf-8") as f:
        t = json.load(f)
    t["model"]["merges"] = []
    t["added_tokens"] = [a for a in t["added_tokens"] if a["special"]]
    with open(path("nfc.json"), "w", encoding="utf-8") as f:
        json.dump(t, f, ensure_ascii=False)
    # the ids of bytes, in the letters that GPT-2 has for them
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in plain}
    for b in range(256):
        letters.setdefault(b, chr(256 + len(letters) - len(plain)))
    id_of = [t["model"]["vocab"][letters[b]] for b in range(256)]
    chats = [parts_of(r, one_text(r)) for _ in range(texts)]
    # everything that composes, each in a part of its own, and each point of it
    for at in range(0, len(APART), 400):
        chats.append([unicodedata.normalize("NFD", c) for c in APART[at:at + 400]])
        chats.append([d for c in APART[at:at + 400] for d in unicodedata.normalize("NFD", c)])
    ids, bits = [], []
    with open(path("nfc.jsonl"), "w") as f:
        for parts in chats:
            f.write(json.dumps({"messages": [{"role": "user", "content": "x"}],
                                "parts": parts}) + "\n")
            whole, mask = mask_of(parts)
            ids += [id_of[b] for b in whole]
            bits += mask
    with open(path("nfc.ids"), "wb") as f:
        f.write(struct.pack("<%dH" % len(ids), *ids))
    with open(path("nfc.mask"), "wb") as f:
        f.write(bytes(sum(b << i for i, b in enumerate(bits[k:k + 8]))
                      for k in range(0, len(bits), 8)))
    def marks(n):
        return "e" + "\u0301\u0323" * n, "\u1eb9" + "\u0323" * (n - 1) + "\u0301" * n

    assert nfc(marks(9)[0]) == marks(9)[1].encode()
    text, normal = marks(200000)
    with open(path("marks.txt"), "w", encoding="utf-8") as f:
        f.write(text)
    with open(path("marks.ids"), "wb") as f:
        normal = normal.encode()
        f.write(struct.pack("<%dH" % len(normal), *(id_of[b] for b in normal)))


if "".join(sys.argv[5:]) and int(unicodedata.unidata_version.split(".")[0]) > int(sys.argv[5].split(".")[0]):
    print(f"it has Unicode {unicodedata.unidata_version}, utf8proc {sys.argv[5]}")
    sys.exit(3)
main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
