# SPDX-License-Identifier: Apache-2.0
"""What training.py writes by hand is what PyTorch calls by the same name, where it has one:
AdamW with its decay, SGD without (PyTorch's is not decoupled), warm-up with constant, linear,
cosine, and wsd put together from them. figures.py asks before it computes anything. model.py is what transformers computes, too."""
import copy
import warnings

import torch
from torch.optim import lr_scheduler

import cases
import training

STEPS = 12


def optimizer(mine, theirs, lr, decay):
    """Both on the same random gradients, in f64."""
    torch.manual_seed(7)
    p = torch.randn(31, dtype=torch.float64)
    q = p.clone().requires_grad_(True)
    opt, state = theirs([q]), {}
    for t in range(1, STEPS + 1):
        g = torch.randn_like(p)
        q.grad = g.clone()
        opt.step()
        training.OPTIMIZERS[mine["kind"]](mine, p, state, g, lr, decay, t)
        assert torch.allclose(p, q.detach(), rtol=1e-12, atol=0), mine


def schedule(mine, theirs):
    """theirs: of an optimizer whose lr is 1, so that its rate is the ratio."""
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = theirs(opt)
    for t in range(STEPS):
        assert abs(training.ratio(mine, t) - opt.param_groups[0]["lr"]) < 1e-12, (mine, t)
        opt.step()
        scheduler.step()


def warm(opt, warmup, *then):
    """Linear growth over `warmup` steps, then (scheduler, its length), one after the other."""
    parts, ends = [], []
    if warmup:
        # W - 1 steps on from 1 / W; with one step there is nothing to grow
        parts.append(lr_scheduler.LinearLR(opt, 1 / warmup, 1.0, max(1, warmup - 1))
                     if warmup > 1 else lr_scheduler.LambdaLR(opt, lambda t: 1.0))
        ends.append(warmup)
    for make, length in then:
        parts.append(make(opt))
        ends.append((ends[-1] if ends else 0) + length)
    return lr_scheduler.SequentialLR(opt, parts, ends[:-1]) if len(parts) > 1 else parts[0]


def schedules():
    def flat(opt):
        return lr_scheduler.LambdaLR(opt, lambda t: 1.0)

    def linear(low, length):
        return lambda opt: lr_scheduler.LinearLR(opt, 1.0, low, length)

    def cosine(low, length):
        return lambda opt: lr_scheduler.LambdaLR(opt, lambda t: (
            low if t >= length else cosine_of(low, length, t)))
    for w in (0, 1, 4):
        schedule(dict(kind="constant", warmup=w), lambda o: warm(o, w, (flat, STEPS)))
        for low in (0.0, 0.25):
            schedule(dict(kind="linear", warmup=w, steps=9, min_ratio=low),
                     lambda o: warm(o, w, (linear(low, 9 - w), STEPS)))
            schedule(dict(kind="cosine", warmup=w, steps=9, min_ratio=low),
                     lambda o: warm(o, w, (cosine(low, 9 - w), STEPS)))
            schedule(dict(kind="wsd", warmup=w, steps=9, decay=3, min_ratio=low),
                     lambda o: warm(o, w, (flat, 6 - w), (linear(low, 3), STEPS)))


def cosine_of(low, length, t):
    """CosineAnnealingLR at step t; beyond its length it would rise again."""
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = lr_scheduler.CosineAnnealingLR(opt, length, eta_min=low)
    for _ in range(t):
        opt.step()
        scheduler.step()
    return opt.param_groups[0]["lr"]


def families(kept, tokens):
    """model.py has what each family has: its first step is that of transformers' own code."""
    for case in cases.CASES:
        if "family" not in case["model"]:
            continue
        mine = copy.deepcopy(case)
        mine["steps"] = 1
        del mine["model"]["family"]
        ours = training.run(mine, "f64", {"tokens": tokens, "mask": None})
        theirs = kept[case["name"]]["f64"]
        assert abs(ours["losses"][0] / theirs["losses"][0] - 1) < 1e-12, case["name"]
        for name, g in theirs["grads"].items():
            apart = max(abs(a - b) for a, b in zip(ours["grads"][name], g))
            assert apart < 1e-12 * g[0], (case["name"], name)


def everything():
    adamw = dict(kind="adamw", betas=[0.8, 0.99], eps=1e-6)
    for decay in (0.0, 0.3):
        optimizer(adamw, lambda p: torch.optim.AdamW(
            p, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=decay), 0.01, decay)
    for momentum in (0.0, 0.9):
        optimizer(dict(kind="sgd", momentum=momentum), lambda p: torch.optim.SGD(
            p, lr=0.1, momentum=momentum), 0.1, 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SequentialLR calls what LinearLR calls deprecated
        schedules()
