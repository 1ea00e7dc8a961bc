# SPDX-License-Identifier: Apache-2.0
"""Computes the figures that tests/pytorch/run.sh compares trainers with.

    python3 tests/pytorch/figures.py LICENSE > tests/pytorch/figures.json

In: a text whose bytes are the tokens. Out: JSON; for each case of CASES and each of f64, f32,
bf16: the losses of ten AdamW steps, and for the first step's gradient of every parameter its
norm and two signed random projections. Initial weights, data order and signs are recomputed
here from the formulas of runtime/ (its headers state them), so nothing but numbers is shared
with the trainers. Made with PyTorch 1.13.1 (Debian's python3-torch); any version will do."""
import json
import math
import sys

import numpy as np
import torch

import model
import rng

LLAMA = dict(arch="llama", layers=3, dim=36, heads=3, kv_heads=3, head_dim=14, ffn=50,
             vocab=259, norm_eps=1e-5, rope={"theta": 1e4}, tied=False, qkv_bias=False,
             qk_norm=False, window=0)
GPT2 = dict(arch="gpt2", layers=3, dim=42, heads=3, ffn=168, vocab=263, max_positions=23,
            norm_eps=1e-5, tied=True)
SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original": 32}

# name, description, dimensions, what differs from the description (as --set says it)
CASES = [
    ("llama", "tiny_llama", LLAMA, {}),
    ("llama_tied", "tiny_llama", LLAMA, {"tied": True}),
    ("llama_gqa", "tiny_llama", LLAMA, {"heads": 6, "kv_heads": 2, "head_dim": 6}),
    ("llama_bias", "tiny_llama", LLAMA, {"qkv_bias": True}),
    ("llama_qk_norm", "tiny_llama", LLAMA, {"qk_norm": True}),
    ("llama_window", "tiny_llama", LLAMA, {"window": 5}),
    ("llama_scaling", "tiny_llama", LLAMA, {"rope": {"theta": 100.0, "scaling": SCALING}}),
    ("llama_all", "tiny_llama", LLAMA, {
        "tied": True, "heads": 6, "kv_heads": 3, "head_dim": 8, "qkv_bias": True,
        "qk_norm": True, "window": 7, "rope": {"theta": 100.0, "scaling": SCALING}}),
    ("gpt2", "tiny_gpt2", GPT2, {}),
    ("gpt2_untied", "tiny_gpt2", GPT2, {"tied": False}),
]
# As in tests/models/tiny_*.lua.
SEQ, MICRO_BATCH, GLOBAL_BATCH, SEED, STEPS = 19, 2, 16, 1, 10
LR, BETA1, BETA2, EPS, DECAY, CLIP, WARMUP, LENGTH, MIN_RATIO = (
    2e-3, 0.9, 0.95, 1e-8, 0.1, 1.0, 3, 20, 0.1)
DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16}


def lua(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join("%s = %s" % (k, lua(v)) for k, v in value.items()) + "}"
    return repr(value)


def learning_rate(step):
    """Of step 0, 1, ...: linear warm-up (step + 1) / warmup, then a cosine to min_ratio."""
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    done = min(1.0, (step - WARMUP) / (LENGTH - WARMUP))
    return LR * (MIN_RATIO + (1 - MIN_RATIO) * 0.5 * (1 + math.cos(math.pi * done)))


def initial_weights(m):
    weights, decay = {}, {}
    for name, shape, init, std, decayed in model.parameters(m):
        elems = int(np.prod(shape))
        if init == "normal":
            values = rng.normal(SEED, name, elems, std)
        else:
            values = np.full(elems, 1.0 if init == "ones" else 0.0)
        weights[name] = values.reshape(shape)
        decay[name] = DECAY if decayed else 0.0
    return weights, decay


def batches(data, step):
    """The micro-batches of a step: (tokens, targets), each [MICRO_BATCH, SEQ]."""
    count = GLOBAL_BATCH // MICRO_BATCH
    for i in range(count):
        rows = [rng.sample(SEED, data, SEQ, (step * count + i) * MICRO_BATCH + j)
                for j in range(MICRO_BATCH)]
        block = torch.tensor(np.array(rows), dtype=torch.long)
        yield block[:, :-1], block[:, 1:]


def run(m, dtype, data, steps):
    weights, decay = initial_weights(m)
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    master = {k: torch.tensor(v, dtype=wide) for k, v in weights.items()}
    moment1 = {k: torch.zeros_like(v) for k, v in master.items()}
    moment2 = {k: torch.zeros_like(v) for k, v in master.items()}
    losses, first = [], None
    for step in range(steps):
        params = {k: v.clone().to(dtype).requires_grad_() for k, v in master.items()}
        grads = {k: torch.zeros_like(v) for k, v in master.items()}
        total, tokens_seen = 0.0, 0
        for tokens, targets in batches(data, step):
            loss = model.loss_sum(m, params, tokens, targets)
            for (k, p), g in zip(params.items(), torch.autograd.grad(loss, params.values())):
                grads[k] += g.to(wide)
            total += loss.item()
            tokens_seen += targets.numel()
        losses.append(total / tokens_seen)
        grads = {k: g / tokens_seen for k, g in grads.items()}
        norm = math.sqrt(sum(g.double().pow(2).sum().item() for g in grads.values()))
        if first is None:
            first = dict(norm=norm, grads=gradient_figures(grads))
        scale = min(1.0, CLIP / (norm + 1e-6))  # as clip_grad_norm_ has it
        lr, t = learning_rate(step), step + 1
        for k, p in master.items():
            g = grads[k] * scale
            moment1[k].mul_(BETA1).add_(g, alpha=1 - BETA1)
            moment2[k].mul_(BETA2).addcmul_(g, g, value=1 - BETA2)
            p.mul_(1 - lr * decay[k])
            root = (moment2[k] / (1 - BETA2 ** t)).sqrt_().add_(EPS)
            p.addcdiv_(moment1[k] / (1 - BETA1 ** t), root, value=-lr)
    return losses, first


def gradient_figures(grads):
    out = {}
    for name, g in grads.items():
        flat = g.double().numpy().ravel()
        out[name] = [math.sqrt(float(flat @ flat))] + [
            float(flat @ s) for s in rng.signs(name, flat.size)]
    return out


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    data = np.frombuffer(open(sys.argv[1], "rb").read(), np.uint8).astype(np.int64)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    lines = ['{"torch": "%s",' % torch.__version__,
             ' "command": "python3 tests/pytorch/figures.py %s > tests/pytorch/figures.json",'
             % sys.argv[1], ' "cases": [']
    for name, description, base, changes in CASES:
        m = dict(base, **changes)
        sets = ["model.%s=%s" % (k, lua(v)) for k, v in changes.items()]
        lines.append('  {"name": "%s", "description": "%s", "set": %s,' % (
            name, description, json.dumps(sets)))
        for dtype_name, dtype in DTYPES.items():
            losses, first = run(m, dtype, data, STEPS)
            lines += ['   "%s": {"losses": %s,' % (dtype_name, json.dumps(losses)),
                      '    "grad_norm": %r,' % first["norm"], '    "grads": {']
            lines += ['     "%s": %s,' % (k, json.dumps(v)) for k, v in first["grads"].items()]
            lines[-1] = lines[-1][:-1] + "}},"
            print(name, dtype_name, losses[0], losses[-1], file=sys.stderr)
        lines[-1] = lines[-1][:-1] + "},"
    lines[-1] = lines[-1][:-1] + "]}"
    print("\n".join(lines))


if __name__ == "__main__":
    main()
