# SPDX-License-Identifier: Apache-2.0
"""Muon as Jordan describes it and torch.optim.Muon has it (PyTorch 2.9; with adjust_lr_fn), but in
the dtype of the weights where PyTorch iterates in bf16. In: a case, one parameter with its state
and its gradient, this step's learning rate. Matrices of the layers, each of Hugging Face's by
itself, are Muon's; the rest is AdamW's, with fields of its own."""
import math

import torch

import training


def newton_schulz(o, x):
    a, b, c = o.get("ns_coefficients", (3.4445, -4.775, 2.0315))
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm().clamp(min=o.get("eps", 1e-7))
    for _ in range(o.get("ns_steps", 5)):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def matrix(o, p, state, g, lr, decay):
    m = state.setdefault("m", torch.zeros_like(p))
    m.lerp_(g, 1 - o.get("momentum", 0.95))
    step = g.lerp(m, o.get("momentum", 0.95)) if o.get("nesterov", True) else m
    rows, cols = p.shape
    adjust = 0.2 * math.sqrt(max(rows, cols))
    if o.get("adjust_lr") == "original":
        adjust = math.sqrt(max(1.0, rows / cols))
    p.mul_(1 - lr * decay).add_(newton_schulz(o, step), alpha=-lr * adjust)


def parts(case, name, p):
    """Rows of a fused storage tensor: Hugging Face's tensors in it."""
    m = case["model"]
    if name.endswith("qkv_proj.weight"):
        q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
        return [q, kv, kv]
    return [m["ffn"]] * 2 if name.endswith("gate_up_proj.weight") else [p.shape[0]]


def is_matrix(name, p, how):
    half = how.get("optimizer")
    hidden = p.dim() == 2 and (".layers." in name or ".h." in name)
    return half == "muon" if half else hidden


def others(o):
    """The optimizer of the rest: the same learning rate and decay unless told."""
    return dict(dict(kind="adamw", lr=o["lr"], betas=[0.9, 0.95], eps=1e-8,
                     weight_decay=o["weight_decay"]), **o.get("adamw", {}))


def update(case, name, p, state, g, lr, how, t):
    """lr: of this step, the group's ratio in it."""
    o = case["optimizer"]
    if not is_matrix(name, p, how):
        rest = others(o)
        decay = how["weight_decay"] if how["own_decay"] or not how["decays"] else (
            rest["weight_decay"])
        training.adamw(rest, p, state, g, lr * rest["lr"] / o["lr"], decay, t)
        return
    rows, at = parts(case, name, p), 0
    for i, n in enumerate(rows):
        matrix(o, p[at:at + n], state.setdefault(i, {}), g[at:at + n], lr, how["weight_decay"])
        at += n
