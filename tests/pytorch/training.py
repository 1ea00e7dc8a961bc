# SPDX-License-Identifier: Apache-2.0
"""A training run in plain PyTorch: batches, the step's gradient, schedules, optimizers. In: a
case (cases.py) and a dtype. Out: what the trainers are compared with. Everything is written
from the papers and from PyTorch's own definitions; the optimizers are by hand, so that nothing
depends on what a version of torch.optim calls by the same name."""
import fnmatch
import math

import numpy as np
import torch

import model
import muon
import rng

DTYPES = {"f64": torch.float64, "f32": torch.float32, "bf16": torch.bfloat16,
          "f16": torch.float32}  # rounded by model.py


# ---- schedules: of step t = 0, 1, ...; each multiplies the optimizer's lr ----------------------

def ratio(s, t):
    kind, warmup = s["kind"], s.get("warmup", 0)
    if t < warmup:
        return (t + 1) / warmup
    if kind == "constant":
        return 1.0
    if kind == "inverse_sqrt":
        return math.sqrt(max(warmup, 1) / (t + 1))
    low, steps = s["min_ratio"], s["steps"]
    begin = steps - s["decay"] if kind == "wsd" else warmup
    if t < begin:
        return 1.0
    done = min(1.0, (t - begin) / (steps - begin))
    if kind == "cosine":
        return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * done))
    return low + (1 - low) * (1 - done)


# ---- optimizers: p, state and g are one parameter's; lr and decay are of this step ---------------

def adamw(o, p, state, g, lr, decay, t):
    b1, b2 = o["betas"]
    m1 = state.setdefault("m1", torch.zeros_like(p))
    m2 = state.setdefault("m2", torch.zeros_like(p))
    m1.mul_(b1).add_(g, alpha=1 - b1)
    m2.mul_(b2).addcmul_(g, g, value=1 - b2)
    p.mul_(1 - lr * decay)
    p.addcdiv_(m1 / (1 - b1 ** t), (m2 / (1 - b2 ** t)).sqrt_().add_(o["eps"]), value=-lr)


def sgd(o, p, state, g, lr, decay, t):
    """torch.optim.SGD with momentum (no dampening), but decoupled decay."""
    m = state.setdefault("m", torch.zeros_like(p))
    m.mul_(o["momentum"]).add_(g)
    p.mul_(1 - lr * decay).add_(m, alpha=-lr)


def lion(o, p, state, g, lr, decay, t):
    """Chen et al., 2023, algorithm 2."""
    b1, b2 = o["betas"]
    m = state.setdefault("m", torch.zeros_like(p))
    direction = (b1 * m + (1 - b1) * g).sign()
    p.mul_(1 - lr * decay).add_(direction, alpha=-lr)
    m.mul_(b2).add_(g, alpha=1 - b2)


def stochastic_bf16(x):
    """f32 rounded to one of its two neighbours in bf16, the nearer one more often."""
    bits = x.view(torch.int32)
    return ((bits + torch.randint_like(bits, 1 << 16)) & -65536).view(torch.float32)


OPTIMIZERS = {"adamw": adamw, "sgd": sgd, "lion": lion}


def update(case, name, p, state, g, lr, how, t):
    """One parameter's, at this step's learning rate; how: settings()."""
    o = case["optimizer"]
    if o["kind"] == "muon":
        muon.update(case, name, p, state, g, lr, how, t)
    else:
        OPTIMIZERS[o["kind"]](o, p, state, g, lr, how["weight_decay"], t)


# ---- data ----------------------------------------------------------------------------------

def batches(case, data, step):
    """The micro-batches of a step: (tokens, targets, starts), each [micro_batch, seq]. A target
    that is masked, or belongs to the next document, is -1; starts: where the token's document
    begins in the sequence."""
    seq, micro = case["seq"], case["micro_batch"]
    count = case["global_batch"] // micro
    for i in range(count):
        rows = []
        for j in range(micro):
            at = rng.sample_at(case["seed"], data["tokens"], seq, (step * count + i) * micro + j)
            tokens = data["tokens"][at:at + seq + 1]
            targets = tokens[1:].copy()
            if data["mask"] is not None:
                targets[~data["mask"][at + 1:at + seq + 1]] = -1
            end = case["documents"]["end_id"] if case["documents"] else None
            targets[tokens[:-1] == end] = -1
            rows.append((tokens[:-1], targets, starts_of(tokens[:-1], end)))
        yield [torch.tensor(np.array(part), dtype=torch.long) for part in zip(*rows)]


def starts_of(tokens, end):
    """A token that ends a document belongs to it; a sequence begins a document."""
    starts, start = [], 0
    for i, token in enumerate(tokens):
        starts.append(start)
        if token == end:
            start = i + 1
    return starts


# ---- one run ---------------------------------------------------------------------------------

def initial_weights(case):
    weights, decayed = {}, {}
    for name, shape, init, std, decays in model.parameters(case["model"]):
        elems = int(np.prod(shape))
        if init == "normal":
            values = rng.normal(case["seed"], name, elems, std)
        else:
            values = np.full(elems, 1.0 if init == "ones" else 0.0)
        weights[name] = values.reshape(shape)
        decayed[name] = decays
    return weights, decayed


def settings(case, name, decays):
    """Of one parameter: lr ratio, weight decay, frozen. The first group that matches takes it."""
    out = {"lr": 1.0, "weight_decay": case["optimizer"]["weight_decay"] if decays else 0.0,
           "frozen": False, "decays": decays, "own_decay": False}
    for group in case["groups"]:
        globs = group["match"] if isinstance(group["match"], list) else [group["match"]]
        if any(fnmatch.fnmatchcase(name, glob) for glob in globs):
            return dict(out, own_decay="weight_decay" in group,
                        **{k: v for k, v in group.items() if k != "match"})
    return out


def step_gradient(case, params, trained, data, step, wide, scale):
    """Sum over the step's tokens: (loss, gradients times scale, tokens that count). Micro-batches
    are added in order within a leaf, leaves as a balanced tree whose nodes are rounded to the
    reduce dtype. scale: None but in f16."""
    node = DTYPES[case["reduce"]] if case["reduce"] else wide
    total, valid, sums = 0.0, 0, []
    for tokens, targets, starts in batches(case, data, step):
        loss = model.loss_sum(case, params, tokens, targets, starts, half=scale is not None)
        parts = torch.autograd.grad(loss * (scale or 1), [params[k] for k in trained])
        sums.append([g.to(wide) for g in parts])
        total += loss.item()
        valid += int((targets >= 0).sum())
    leaves = math.gcd(len(sums), 64)
    each = len(sums) // leaves
    nodes = [[sum(parts).to(node) for parts in zip(*sums[i * each:(i + 1) * each])]
             for i in range(leaves)]
    while len(nodes) > 1:
        nodes = [[(a.to(wide) + b.to(wide)).to(node) for a, b in zip(*pair)]
                 for pair in zip(nodes[::2], nodes[1::2])]
    return total, {k: g.to(wide) for k, g in zip(trained, nodes[0])}, valid


class LossScale:
    """As PyTorch documents its GradScaler: an update whose gradient is not finite is left out and
    lowers the scale; after `growth_interval` others in a row it grows. The scale is that of a
    micro-batch's mean loss; what multiplies the sum of the token losses is `by`, it over the
    largest power of two among the micro-batch's tokens. `safe`: that no gradient came so near to
    the largest number of f16 that another order of rounding would decide otherwise."""

    def __init__(self, case):
        self.s = dict(case["loss_scale"])
        self.now, self.in_a_row, self.skipped = float(self.s["init"]), 0, 0
        self.tokens = 2 ** int(math.log2(case["micro_batch"] * case["seq"]))

    def by(self):
        model.RoundedToHalf.peak = 0.0
        return self.now / self.tokens

    def update(self, finite):
        assert not 0.97 < model.RoundedToHalf.peak / 65520 < 1.03, "nobody knows what overflows"
        if not finite:
            self.now = max(self.now / self.s["factor"], self.s["min"])
            self.in_a_row = 0
            self.skipped += 1
        else:
            self.in_a_row += 1
            if self.in_a_row == self.s["growth_interval"]:
                self.now *= self.s["factor"]
                self.in_a_row = 0


def run(case, name, data):
    dtype, half = DTYPES[name], name == "f16"
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    weights, decayed = initial_weights(case)
    master = {k: torch.tensor(v, dtype=wide) for k, v in weights.items()}
    if case["master"]:
        master = {k: v.bfloat16().to(wide) for k, v in master.items()}
    how = {k: settings(case, k, decayed[k]) for k in master}
    trained = [k for k in master if not how[k]["frozen"]]
    state = {k: {} for k in trained}
    o = case["optimizer"]
    scale = LossScale(case) if half else None
    out = {"losses": [], "lrs": [], "grad_norms": []}
    if half:
        out.update(loss_scales=[], skipped=[])
    updates = 0
    for step in range(case["steps"]):
        params = {k: (v.half() if half else v.clone()).to(dtype).requires_grad_(k in state)
                  for k, v in master.items()}
        by = scale.by() if half else None
        total, grads, valid = step_gradient(case, params, trained, data, step, wide, by)
        grads = {k: g / (valid * (by or 1)) for k, g in grads.items()}
        norm = math.sqrt(sum(g.double().pow(2).sum().item() for g in grads.values()))
        finite = math.isfinite(norm)
        if step == 0:
            out["grads"] = gradient_figures(grads)
        lr = o["lr"] * ratio(case["lr"], step)
        out["losses"].append(total / valid)
        out["lrs"].append(lr)
        out["grad_norms"].append(norm if finite else None)
        if half:
            out["loss_scales"].append(scale.now)
            scale.update(finite)
            out["skipped"].append(scale.skipped)
        if not finite:  # data and schedule go on, the optimizer's t does not
            continue
        updates += 1
        clip = min(1.0, o["clip"] / (norm + 1e-6)) if o["clip"] else 1.0  # as clip_grad_norm_
        for k in trained:
            update(case, k, master[k], state[k], grads[k] * clip, lr * how[k]["lr"], how[k],
                   updates)
            if case["moments"]:
                for moment in state[k].values():
                    moment.copy_(stochastic_bf16(moment))
            if case["master"]:
                master[k].copy_(stochastic_bf16(master[k]))
    return out


def gradient_figures(grads):
    out = {}
    for name, g in grads.items():
        flat = g.double().numpy().ravel()
        out[name] = [math.sqrt(float(flat @ flat))] + [
            float(flat @ s) for s in rng.signs(name, flat.size)]
    return out
