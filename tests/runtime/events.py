#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""events.py DIR LOG [--tensorboard]: reads the event files of `trainer --tensorboard DIR`.

Checks framing and CRCs, drops what a later START takes back, and compares every value with
the one of --log's LOG, rounded to 32 bits. --tensorboard: by TensorBoard's own reader.
"""
import json
import math
import os
import struct
import sys

TAGS = {  # tag: its value, of a line of the log
    "loss_metrics/global_avg_loss": lambda o: o["loss"],
    "grad_norm": lambda o: o["grad_norm"],
    "lr": lambda o: o["lr"],
    "n_tokens_seen": lambda o: o["tokens"],
    "tokens_per_second": lambda o: o["tokens_per_second"],
    "mfu(%)": lambda o: 100 * o["mfu"] if o["mfu"] is not None else "absent",
    "time_metrics/end_to_end(s)": lambda o: o["step_seconds"],
    "memory/max_active(GiB)": lambda o: o["memory_bytes"] / 2**30,
    "skipped_steps": lambda o: o["skipped"],
    "loss_scale": lambda o: o.get("loss_scale", "absent"),
    "validation_metrics/loss": lambda o: o.get("eval_loss", "absent"),
}
OTHER_TAGS = {"throughput(tps)", "tflops"}  # of a rank: not in the log


def crc32c(data):
    x = 0xFFFFFFFF
    for byte in data:
        x ^= byte
        for _ in range(8):
            x = x >> 1 ^ (0x82F63B78 if x & 1 else 0)
    return x ^ 0xFFFFFFFF


def masked(data):
    x = crc32c(data)
    return ((x >> 15 | x << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data, name):
    at = 0
    while at < len(data):
        head = data[at : at + 12]
        assert len(head) == 12, f"{name}: a head is cut"
        n, crc = struct.unpack("<QI", head)
        assert masked(head[:8]) == crc, f"{name}: the CRC of a length is wrong"
        body, tail = data[at + 12 : at + 12 + n], data[at + 12 + n : at + 16 + n]
        assert len(body) == n and len(tail) == 4, f"{name}: a record is cut"
        assert masked(body) == struct.unpack("<I", tail)[0], f"{name}: the CRC of a record is wrong"
        yield body
        at += 16 + n


def varint(data, at):
    x = shift = 0
    while True:
        byte = data[at]
        x |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return x, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        how = key & 7
        if how == 0:
            value, at = varint(data, at)
        elif how == 2:
            n, at = varint(data, at)
            value, at = data[at : at + n], at + n
            assert len(value) == n
        else:
            n, form = {1: (8, "<d"), 5: (4, "<f")}[how]
            value, at = struct.unpack(form, data[at : at + n])[0], at + n
        yield key >> 3, value


def read_own(folder):
    """{tag: {step: value}}, the number of files."""
    assert crc32c(b"123456789") == 0xE3069283
    seen, names = {}, sorted(os.listdir(folder))
    for name in names:
        assert name.startswith("events.out.tfevents."), name
        with open(os.path.join(folder, name), "rb") as f:
            events = [dict(fields(r)) for r in records(f.read(), name)]
        assert events[0][3] == b"brain.Event:2", f"{name}: no version"
        assert dict(fields(events[1][7])) == {1: 1}, f"{name}: no START"
        walls = [e[1] for e in events]
        assert walls == sorted(walls) and 1.6e9 < walls[0] < 5e9, f"{name}: wall times"
        for e in events[1:]:
            step = e.get(2, 0)
            if 7 in e:
                for values in seen.values():
                    for later in [s for s in values if s >= step]:
                        del values[later]
                continue
            for number, value in fields(e[5]):
                assert number == 1
                value = dict(fields(value))
                seen.setdefault(value[1].decode(), {})[step] = value[2]
    return seen, len(names)


def read_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    a = EventAccumulator(folder, size_guidance={"scalars": 0, "tensors": 0})
    a.Reload()
    return {t: {e.step: e.value for e in a.Scalars(t)} for t in a.Tags()["scalars"]}, 0


def narrow(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def main():
    folder, log = sys.argv[1:3]
    own = "--tensorboard" not in sys.argv
    seen, files = read_own(folder) if own else read_tensorboard(folder)
    lines = [json.loads(line) for line in open(log)]
    lines = [o for o in lines if "step" in o]
    compared = 0
    for tag, of in TAGS.items():
        want = {o["step"]: of(o) for o in lines if of(o) != "absent"}
        have = seen.pop(tag, {})
        assert have.keys() == want.keys(), f"{tag}: steps {sorted(have)} and {sorted(want)}"
        for step, x in want.items():
            y = have[step]
            # rates are logged with fewer digits than they are computed with
            close = 1e-4 if "second" in tag or "time" in tag or "mfu" in tag else 0
            most = close * abs(x or 0) + close
            if "memory" in tag:  # it is asked for twice, and may have grown
                most = 1e-3
            good = not math.isfinite(y) if x is None else abs(y - narrow(x)) <= most
            assert good, f"{tag}, step {step}: {y} and {x} in the log"
            compared += 1
    for tag in OTHER_TAGS:
        assert seen.pop(tag).keys() == {o["step"] for o in lines}, tag
    assert not seen, f"other tags: {sorted(seen)}"
    print(f"{compared} values of {len(lines)} steps, {files} files")


main()
