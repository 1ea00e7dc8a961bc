# SPDX-License-Identifier: Apache-2.0
"""fp8_curves.py WORK SVG MODEL: the losses that fp8_curves.sh logged. Draws them; prints rows of Markdown."""
import json
import sys

work, svg, model = sys.argv[1:]
RUNS = [("f32", "#57606a", "f32"), ("bf16", "#0969da", "bf16"), ("fp8", "#cf222e", "bf16, products in fp8")]
LEFT, TOP, WIDTH, HEIGHT = 48, 16, 640, 280


def losses(run):
    with open(f"{work}/{run}.jsonl", encoding="utf-8") as f:
        rows = [json.loads(line) for line in f]
    return [row["loss"] for row in rows if "loss" in row]


def mean(curve, at, n):
    part = curve[max(0, at - n):at]
    return sum(part) / len(part)


curves = {run: losses(run) for run, _, _ in RUNS}
steps = min(len(c) for c in curves.values())
smooth = {run: [mean(c, i + 1, 10) for i in range(steps)] for run, c in curves.items()}
low = min(min(c) for c in smooth.values())
high = max(max(c) for c in smooth.values())
low, high = int(low * 2) / 2, int(high * 2 + 1) / 2


def x(step):
    return LEFT + WIDTH * step / (steps - 1)


def y(loss):
    return TOP + HEIGHT * (high - loss) / (high - low)


out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 16} {TOP + HEIGHT + 40}" '
       'font-family="sans-serif" font-size="12" fill="#57606a" role="img">',
       f"<title>Losses of {model} in f32, in bf16, and in bf16 with products in fp8</title>"]
loss = low
while loss <= high:
    out.append(f'<path d="M{LEFT} {y(loss):.1f}H{LEFT + WIDTH}" stroke="#d0d7de"/>'
               f'<text x="{LEFT - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:g}</text>')
    loss += 0.5
for step in range(0, steps + 1, max(1, steps // 6)):
    out.append(f'<text x="{x(min(step, steps - 1)):.1f}" y="{TOP + HEIGHT + 18}" text-anchor="middle">{step}</text>')
out.append(f'<text x="{LEFT + WIDTH / 2}" y="{TOP + HEIGHT + 34}" text-anchor="middle">step; '
           "loss, mean of 10 steps</text>")
for i, (run, colour, label) in enumerate(RUNS):
    points = " ".join(f"{x(k):.1f},{y(v):.2f}" for k, v in enumerate(smooth[run]))
    out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
               f'<path d="M{LEFT + WIDTH - 190} {TOP + 20 + 18 * i}h24" stroke="{colour}" stroke-width="2"/>'
               f'<text x="{LEFT + WIDTH - 158}" y="{TOP + 24 + 18 * i}">{label}</text>')
out.append("</svg>\n")
with open(svg, "w", encoding="utf-8") as f:
    f.write("\n".join(out))

marks = [m for m in (10, 20) if m <= steps < 50] + [m for m in (50, 100, 150, 200, 250, 300, 400, 500) if m <= steps]
print("| mean loss of the 10 steps before | " + " | ".join(f"step {m}" for m in marks) + " |")
print("|---|" + "---|" * len(marks))
for run, _, label in RUNS:
    print(f"| {label} | " + " | ".join(f"{mean(curves[run], m, 10):.4f}" for m in marks) + " |")
