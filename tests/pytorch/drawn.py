# SPDX-License-Identifier: Apache-2.0
"""Random cases, like those of cases.py: a model with several features at once, an optimizer, a
schedule, groups, a loss and a mesh. In: a number. Out: its case, by a generator of our own, so
that a number means the same in every version of Python. What families have is mixed as no family
mixes it, so model.py, not transformers, is the reference. Most are compared in f64, where a wrong
feature cannot hide in rounding; a sixth in bf16, too, by its distance to f64; a third in f32."""
import math

import cases

COUNT = 200


class Draw:
    def __init__(self, number):
        self.state = 1 + (number * 7919 + 12345) % 2147483646
        for _ in range(10):
            self.below(2)

    def below(self, n):
        self.state = self.state * 16807 % 2147483647
        return self.state * n // 2147483647

    def of(self, *items):
        return items[self.below(len(items))]

    def one_in(self, n):
        return self.below(n) == 0


def rope(d, local, head_dim):
    out = {"theta": d.of(100.0, 1e4, 5e5)}
    if d.one_in(3):
        out["scaling"] = d.of(cases.SCALING, dict(cases.SCALING, original=1))
    if d.one_in(3):
        out["fraction"] = 2 * (1 + d.below(head_dim // 2)) / head_dim
    if local and d.one_in(2):
        out["local_theta"] = d.of(50.0, 1e3)
    return out


def llama(d):
    kv, each = d.of(1, 2, 3), d.of(1, 2, 3)
    m = {"layers": 1 + d.below(3), "dim": 17 + d.below(40), "heads": kv * each, "kv_heads": kv,
         "head_dim": 2 * (2 + d.below(7)), "ffn": 20 + d.below(60), "vocab": 256 + d.below(9)}
    m.update(d.of({}, {}, {"qk_norm": True}, {"qk_norm_all": True}))
    m.update(d.of({}, {}, {"post_norm": True}, {"sandwich_norm": True}))
    for key, values in (
            ("tied", [True]), ("qkv_bias", [True]), ("window", range(2, 11)),
            ("norm_less_one", [True]), ("geglu", [True]), ("scale_embedding", [True]),
            ("attention_softcap", [0.4, 2.0]), ("logits_softcap", [0.5, 2.0]),
            ("nope_every", [1, 2]), ("embedding_multiplier", [0.5, 12.0]),
            ("attention_multiplier", [0.3, 1.0]), ("residual_multiplier", [0.22, 1.5]),
            ("logits_scaling", [0.7, 4.0]), ("scale_residual_init", [True]),
            ("init_std", [0.05]), ("norm_eps", [1e-6, 1e-2])):
        if d.one_in(3):
            m[key] = d.of(*values)
    if m["head_dim"] == m["dim"] // m["heads"]:  # what it would be if it were not given
        m["dim"] = m["heads"] * m["head_dim"]
    if "window" in m and d.one_in(2):
        m["global_every"] = 2
    if m.get("nope_every") != 1 and d.one_in(2):
        both = "global_every" in m and m["layers"] > 1 and "nope_every" not in m
        m["rope"] = rope(d, both, m["head_dim"])
    return m


def later(d):
    """What llama got after the first cases were drawn, of draws of its own: the others stay."""
    m = {}
    if d.one_in(3):
        m["attention_sinks"] = True
    if d.one_in(3):
        m["attention_chunk"] = 2 + d.below(9)
        if d.one_in(2):
            m["global_every"] = 2
    return m


def gpt2(d):
    heads = d.of(1, 2, 3, 4)
    m = {"layers": 1 + d.below(3), "dim": heads * (5 + d.below(11)), "heads": heads,
         "ffn": 20 + d.below(90), "vocab": 256 + d.below(9), "max_positions": 23 + d.below(9)}
    if d.one_in(2):
        m["tied"] = False
    return m


def optimizer(d, exact):
    """Signs and iterations enlarge roundings, so lion and muon are for f64."""
    kind, decay, clip = d.below(6 if exact else 4), d.of(0.0, 0.1, 0.4), d.of(0.0, 0.5, 1.0)
    if kind < 2:
        return dict(kind="adamw", lr=d.of(5e-4, 2e-3), betas=[d.of(0.8, 0.9), d.of(0.95, 0.99)],
                    eps=d.of(1e-8, 1e-6), weight_decay=decay, clip=clip)
    if kind < 4:
        return cases.sgd(lr=d.of(0.02, 0.1), momentum=d.of(0.0, 0.9), weight_decay=decay,
                         clip=clip)
    if kind == 4:
        return cases.lion(betas=[d.of(0.9, 0.95), 0.99], weight_decay=decay, clip=clip)
    return cases.muon(weight_decay=decay, clip=clip)


def schedule(d):
    warmup = d.below(4)
    return d.of(dict(kind="constant", warmup=warmup), dict(kind="inverse_sqrt", warmup=warmup),
                dict(kind="cosine", warmup=warmup, steps=4, min_ratio=0.25),
                dict(kind="linear", warmup=warmup, steps=4 + d.below(9), min_ratio=0.2),
                dict(kind="wsd", warmup=warmup, steps=5, decay=2, min_ratio=0.05))


def groups(d, arch):
    """One or two, in an order in which the first never takes all that the second matches."""
    names = {"llama": ["*norm*", "*.o_proj.*", "*mlp*", "model.embed_tokens.*", "*.layers.0.*"],
             "gpt2": ["*.bias", "*.ln_1.*", "*mlp*", "*.wpe.*", "transformer.h.0.*"]}[arch]
    out, at = [], d.below(len(names))
    for name in names[at:at + 1] + names[at + 1 + d.below(4):][:1]:
        out.append(dict({"match": name}, **d.of(
            {"frozen": True}, {"lr": 0.25}, {"lr": 3.0, "weight_decay": 0.0},
            {"weight_decay": 0.3})))
    return out


def mesh(d, leaves):
    """Ranks, and choices that change no result: for --set alone."""
    copies, parts = d.of(*[(p, s) for p, s in ((1, 1), (1, 2), (2, 1), (1, 4), (2, 2), (4, 1))
                           if p * s <= leaves])
    out = ["mesh={replicate=%d,shard=%d}" % (copies, parts)]
    strategy = d.of(None, None, "shard_optimizer", "shard_grad_op") if parts > 1 else None
    if strategy and (copies == 1 or strategy == "shard_optimizer"):
        out.append("strategy=" + strategy)
    elif parts > 1 and d.one_in(3):
        out.append("reshard_after_forward=%s" % d.of("false", "2" if parts > 2 else "true"))
    out.append(d.of("accumulate=sharded", "accumulate=unsharded"))
    out.append(d.of("wrap=1", "wrap=2", "wrap=root_only", "wrap=by_size(2000)"))
    out.append(d.of("prefetch=0", "prefetch=1", "prefetch=2"))
    out.append(d.of("recompute=none", "recompute=cheap", "recompute=block", "recompute=every(2)"))
    return copies * parts, out


def case(number):
    d = Draw(number)
    dtypes = d.of(["f64"], ["f64"], ["f64"], ["f64", "bf16"], ["f32"], ["f32"])
    arch = d.of("llama", "llama", "gpt2")
    model = dict(llama(d), **later(Draw(number + COUNT))) if arch == "llama" else gpt2(d)
    micro = d.of(1, 2, 3)
    how = dict(seq=8 + d.below(12), micro_batch=micro, global_batch=micro * d.of(4, 6, 8),
               optimizer=optimizer(d, dtypes == ["f64"]), lr=schedule(d))
    if d.one_in(2):
        how["groups"] = groups(d, arch)
    loss = {}
    if d.one_in(3):
        loss["z"] = d.of(0.003, 0.01)
    if d.one_in(3):
        loss["label_smoothing"] = d.of(0.1, 0.2)
    if d.one_in(3):
        loss["mask"] = True
    if loss:
        how["loss"] = loss
    if d.one_in(3):
        how["documents"] = {"end_id": d.of(32, 101)}
    ranks, choices = mesh(d, math.gcd(how["global_batch"] // micro, 8))
    c = cases.case("random_%d" % number, "tiny_" + arch, model, grads=False, steps=5,
                   dtypes=dtypes, ranks=ranks, data="masked" if "mask" in loss else "text", **how)
    c["set"] = [s for s in c["set"] if not s.startswith("steps=")] + choices
    return c


CASES = [case(number) for number in range(1, COUNT + 1)]
