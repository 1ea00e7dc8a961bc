# SPDX-License-Identifier: Apache-2.0
"""Computes the figures that tests/pytorch/run.sh compares trainers with.

    python3 tests/pytorch/figures.py LICENSE [CASE...] > tests/pytorch/figures.json
    python3 tests/pytorch/figures.py LICENSE --drawn [CASE...] > tests/pytorch/drawn.json

In: a text whose bytes are the tokens. Out: JSON; for each case of cases.py and each of its
dtypes: the losses, learning rates and gradient norms of its steps, and for the first step's
gradient of every parameter its norm and two signed random projections. With names of cases, only
these are computed again; the others are kept from the committed file. --drawn: of the random
cases of drawn.py instead, without gradients: of bf16 the distance of its gradients to those of
f64. Initial weights, data order and signs are recomputed here from the formulas of runtime/ (its
headers state them), so nothing but numbers is shared with the trainers. Made with PyTorch 1.13.1 (Debian's python3-torch); any
version will do. Cases of a family need transformers, whose modelling code they run (families.py):
made with transformers 5.24.0 and PyTorch 2.15.0."""
import json
import os
import sys

import numpy as np
import torch

import cases
import check
import drawn
import training

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "figures.json")
COMMAND = "python3 tests/pytorch/figures.py LICENSE > tests/pytorch/figures.json"


def masked(kind, tokens):
    """Which tokens count as targets; run.sh writes the same bits beside its copies of the text.
    uneven: of many micro-batches, none; of some steps, none on a rank."""
    i = np.arange(len(tokens))
    if kind == "uneven":
        return ~((i // 500 % 3 > 0) | (i % 7 == 3))
    return ~((i // 23 % 4 == 1) | (i % 7 == 3)) if kind == "masked" else None


def compute(case, tokens):
    data = {"tokens": tokens, "mask": masked(case["data"], tokens)}
    out = {}
    for name in case["figures"]:
        torch.manual_seed(0)
        rounded = case
        if name == "f64":
            rounded = dict(case, reduce=None, moments=None, master=None)
        out[name] = training.run(rounded, name, data)
        print(case["name"], name, out[name]["losses"][0], out[name]["losses"][-1],
              file=sys.stderr)
    if not case["grads"]:
        grads = {name: out[name].pop("grads") for name in out}
        if "f64" in grads and "bf16" in grads:
            out["bf16"]["distance"] = distance(grads["bf16"], grads["f64"])
    return out


def distance(grads, exact):
    """Root mean square, over all parameters and projections; compare.c says why."""
    apart = [(a - b) / exact[k][0] for k in exact for a, b in zip(grads[k][1:], exact[k][1:])]
    return float(np.sqrt(np.mean(np.square(apart))))


def write(case, figures):
    """One number series a line; one parameter's gradient a line."""
    head = ['"%s": %s' % (k, json.dumps(case[k]))
            for k in ("name", "description", "set", "dtypes", "ranks", "data")]
    lines = ["  {" + ", ".join(head) + ","]
    for dtype in case["figures"]:
        f = figures[dtype]
        if dtype != "f64" and case["grads"] and (case["reduce"] or dtype in cases.LOW):
            f = dict(f, compare="distance")
        elif case["bound"]:
            f = dict(f, bound=case["bound"])
        rows = ['    "%s": %s' % (k, json.dumps(v)) for k, v in f.items() if k != "grads"]
        rows[0] = '   "%s": {%s' % (dtype, rows[0].strip())
        if "grads" in f:
            grads = ['     "%s": %s' % (k, json.dumps(v)) for k, v in f["grads"].items()]
            rows.append('    "grads": {\n' + ",\n".join(grads) + "}")
        lines.append(",\n".join(rows) + "},")
    return "\n".join(lines)[:-1] + "}"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    tokens = np.frombuffer(open(sys.argv[1], "rb").read(), np.uint8).astype(np.int64)
    only, kept, version = sys.argv[2:], {}, torch.__version__
    all_cases, command, path = cases.CASES, COMMAND, KEPT
    if only[:1] == ["--drawn"]:
        only, all_cases = only[1:], drawn.CASES
        with open(KEPT) as f:
            check.families({c["name"]: c for c in json.load(f)["cases"]}, tokens)
        command = COMMAND.replace(" >", " --drawn >").replace("figures.json", "drawn.json")
        path = KEPT.replace("figures.json", "drawn.json")
    if only:
        with open(path) as f:
            old = json.load(f)
        kept, version = {c["name"]: c for c in old["cases"]}, old["torch"]
    torch.set_num_threads(1)
    check.everything()
    out = []
    for case in all_cases:
        keep = only and case["name"] not in only and case["name"] in kept
        out.append(write(case, kept[case["name"]] if keep else compute(case, tokens)))
    print('{"torch": "%s",\n "command": "%s",\n "cases": [\n%s]}' % (
        version, command, ",\n".join(out)))


if __name__ == "__main__":
    main()
