#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_logs.py KIND FILE [STEPS]: a log as `trainer --log` writes it, the same on every machine.

KIND: plain; wide, another run; spikes, with f16, skipped updates and losses that are not finite;
resumed, of which steps 31 to 40 were computed twice; twice, which was resumed at steps 31 and 61, then
with other numerics; hostile, whose texts are markup.
"""
import json
import sys

state = 12345


def noise():
    global state
    state = (state * 1103515245 + 12345) % 2**31
    return state / 2**30 - 1


def number(x):
    return float(f"{x:.9g}")


def line(step, kind, steps):
    slow = 0.55 if kind == "wide" else 0.5
    loss = 1.6 + 4.0 / (1 + step / 40) ** slow + 0.12 * noise() * (1 + 2 / (1 + step / 20))
    norm = 0.35 + 2.5 / (1 + step / 15) + 0.08 * abs(noise())
    rate = (31000 if kind == "wide" else 38000) * (1 + 0.02 * noise())
    o = {"step": step, "loss": number(loss), "loss_hex": number(loss).hex(),
         "grad_norm": number(norm), "grad_norm_hex": number(norm).hex(),
         "lr": number(3e-3 * min(1, step / 20) * (1 - 0.9 * step / steps)),
         "skipped": 0, "tokens": 4096 * step, "step_seconds": number(4096 / rate),
         "tokens_per_second": number(rate), "mfu": None, "memory_bytes": 31457280 + 4096 * min(step, 50)}
    if kind == "wide":
        o["mfu"] = number(0.41 + 0.01 * noise())
    if kind == "spikes":
        bad = step % 37 == 0
        o["skipped"] = step // 37
        o["loss_scale"] = 65536.0 / 2 ** min(step // 37, 16)
        if bad:
            o["loss"] = o["loss_hex"] = o["grad_norm"] = o["grad_norm_hex"] = None
        if step % 50 == 3:
            o["grad_norm"] = number(norm * 40)
    if step % max(steps // 10, 1) == 0 and kind != "spikes":
        o["eval_loss"] = number(loss + 0.07)
        o["eval_tokens"] = 8192
    return o


def again(record, step, **others):
    return json.dumps({"run": {**record, "first_step": step, "resumed_from": f"ck/step-{step:08d}", **others}}) + "\n"


def main():
    kind, path = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 400
    names = {"hostile": "</script><script>alert(1)</script>"}
    record = {"model": names.get(kind, "demo"), "numerics": "73de73a80d95f0f3",
              "mesh": {"replicate": 1, "shard": 4 if kind == "wide" else 2}, "steps": steps}
    if kind == "hostile":
        record["<img src=x onerror=alert(1)>"] = "\u202e\u001b]0;x\u0007 & \"quoted\" 'text' \u2028"
    with open(path, "w") as f:
        if kind != "plain":
            f.write(json.dumps({"run": record}) + "\n")
        for step in range(1, steps + 1):
            f.write(json.dumps(line(step, kind, steps)) + "\n")
            if kind == "resumed" and step == 40:
                f.write(json.dumps({"run": record}) + "\n")
                for second in range(31, 41):
                    f.write(json.dumps(line(second, kind, steps)) + "\n")
            if kind == "twice" and step == 30:
                f.write(again(record, 30, threads=4))
            if kind == "twice" and step == 60:
                f.write(again(record, 60, numerics="0123456789abcdef", mesh={"replicate": 1, "shard": 4}))


main()
