# SPDX-License-Identifier: Apache-2.0
"""The two architectures in plain PyTorch, written from their papers and Hugging Face's
conventions, independent of the generator. In: a case (cases.py), a dict of tensors by
parameter name (fused storage tensors as models/arch/*.lua declare them), token ids, targets (-1:
not counted), where each token's document starts. Out: the sum of the token losses. Autograd
does the rest.

Rounding follows what PyTorch users do in bf16: norms, softmax and the loss are computed in
f32 (f64 for f64), everything else in the parameters' dtype. PyTorch has no products of f16 on the
CPU, so f16 is f32 whose values, and their gradients, are rounded to f16 where an op ends: `r`
stands at these places, and does nothing in other dtypes."""
import math

import torch
import torch.nn.functional as F

import families


class RoundedToHalf(torch.autograd.Function):
    """To f16 and back, the value forward and its gradient backward; what f16 cannot hold becomes
    infinite. peak: the largest gradient since somebody set it to zero."""
    peak = 0.0

    @staticmethod
    def forward(ctx, x):
        return x.half().float()

    @staticmethod
    def backward(ctx, g):
        RoundedToHalf.peak = max(RoundedToHalf.peak, g.abs().nan_to_num(0.0, 0.0).max().item())
        return g.half().float()


def wide(x):
    """The dtype of norms, softmax and loss."""
    return x.double() if x.dtype == torch.float64 else x.float()


def rms_norm(x, w, eps, less_one=False):
    """less_one: w is kept less 1, and multiplied in the wide dtype, as Gemma does."""
    h = wide(x)
    h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + eps)
    return (h * (1 + wide(w))).to(x.dtype) if less_one else w * h.to(x.dtype)


def rope_table(positions, turned, rope, dtype, own=False):
    """cos and sin, [b, 1, s, turned], for positions [b, s]. own: with local_theta, unscaled."""
    theta = rope["local_theta"] if own else rope["theta"]
    inv = theta ** (-torch.arange(0, turned, 2, dtype=torch.float64) / turned)
    s = None if own else rope.get("scaling")
    if s:
        few, many = s.get("low_freq_factor", 1.0), s.get("high_freq_factor", 4.0)
        low, high = s["original"] / few, s["original"] / many
        length = 2 * math.pi / inv
        smooth = (s["original"] / length - few) / (many - few)
        middle = (1 - smooth) * inv / s["factor"] + smooth * inv
        inv = torch.where(length > low, inv / s["factor"],
                          torch.where(length < high, inv, middle))
    angle = positions.double()[:, None, :, None] * inv
    angle = torch.cat([angle, angle], -1)
    return angle.cos().to(dtype), angle.sin().to(dtype)


def rotate(x, cos, sin):
    """The first elements of each head, as many as cos has."""
    n = cos.shape[-1]
    h, rest = wide(x[..., :n]), x[..., n:]
    turned = torch.cat([-h[..., n // 2:], h[..., :n // 2]], -1)
    return torch.cat([(h * wide(cos) + turned * wide(sin)).to(x.dtype), rest], -1)


def bent(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def attend(q, k, v, window, starts, scale=None, cap=None, chunk=None, sinks=None):
    """q [b, h, s, d]; k, v [b, kv, s, d]; causal, within the document, at most `window` keys
    if not 0, and within a chunk of so many tokens of the document. starts [b, s]. scale: of the
    scores, otherwise 1 / sqrt(d); cap: they are bent below it. sinks [h]: scores of one more key,
    which gets weight but has no value."""
    b, h, s, d = q.shape
    k = k.repeat_interleave(h // k.shape[1], 1)
    v = v.repeat_interleave(h // v.shape[1], 1)
    i = torch.arange(s)
    mask = i[:, None] >= i[None, :]
    if window:
        mask &= i[:, None] - i[None, :] < window
    mask = mask & (i[None, None, None, :] >= starts[:, None, :, None])
    if chunk:
        of = positions_of(starts) // chunk
        mask = mask & (of[:, None, :, None] == of[:, None, None, :])
    scores = wide(q @ k.transpose(-1, -2))
    scores = scores * scale if scale else scores / math.sqrt(d)
    scores = bent(scores, cap)
    scores = scores.masked_fill(~mask, -math.inf)
    if sinks is not None:
        scores = torch.cat([scores, wide(sinks)[None, :, None, None].expand(b, h, s, 1)], -1)
    weights = scores.softmax(-1)[..., :s].to(q.dtype)
    return (weights @ v).transpose(1, 2).reshape(b, s, h * d)


def split_heads(x, heads):
    b, s, n = x.shape
    return x.view(b, s, heads, n // heads).transpose(1, 2)


def positions_of(starts):
    return torch.arange(starts.shape[1]) - starts


def llama_attention(m, w, y, tables, layer, starts, r):
    """w: a layer's parameter by its name; tables: cos and sin of all layers, and of those with
    local_theta."""
    h, kv, hd, eps = m["heads"], m["kv_heads"], m["head_dim"], m["norm_eps"]
    less_one = m.get("norm_less_one", False)
    every = m.get("global_every") and (layer + 1) % m["global_every"] == 0
    window, chunk = (0, None) if every else (m["window"], m.get("attention_chunk"))
    qkv = r(F.linear(y, w("self_attn.qkv_proj.weight"),
                     w("self_attn.qkv_proj.bias") if m["qkv_bias"] else None))
    q, k, v = qkv.split([h * hd, kv * hd, kv * hd], -1)

    def normed(x, name):
        return r(rms_norm(x, w("self_attn.%s_norm.weight" % name), eps, less_one))
    if m.get("qk_norm_all"):
        q, k = normed(q, "q"), normed(k, "k")
    q, k, v = split_heads(q, h), split_heads(k, kv), split_heads(v, kv)
    if m["qk_norm"]:
        q, k = normed(q, "q"), normed(k, "k")
    if not m.get("nope_every") or (layer + 1) % m["nope_every"]:
        cos, sin = tables[1 if window and "local_theta" in m["rope"] else 0]
        q, k = r(rotate(q, cos, sin)), r(rotate(k, cos, sin))
    o = r(attend(q, k, v, window, starts, m.get("attention_multiplier"),
                 m.get("attention_softcap"), chunk,
                 w("self_attn.sinks") if m.get("attention_sinks") else None))
    return r(F.linear(o, w("self_attn.o_proj.weight")))


def llama(m, p, tokens, starts, r):
    x = r(F.embedding(tokens, p["model.embed_tokens.weight"]))
    table_dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
    turned = int(m["head_dim"] * m["rope"].get("fraction", 1))
    tables = [rope_table(positions_of(starts), turned, m["rope"], table_dtype, own)
              for own in (False, True) if not own or "local_theta" in m["rope"]]
    if m.get("scale_embedding"):
        x = r(x * torch.tensor(math.sqrt(m["dim"]), dtype=x.dtype))
    x = r(x * m.get("embedding_multiplier", 1.0))
    post, sandwich = m.get("post_norm"), m.get("sandwich_norm")
    for i in range(m["layers"]):
        def w(name):
            return p["model.layers.%d.%s" % (i, name)]

        def norm(y, name, wanted=True):
            return r(rms_norm(y, w(name + "_layernorm.weight"), m["norm_eps"],
                              m.get("norm_less_one"))) if wanted else y

        def added(x, y):
            return r(x + r(y * m.get("residual_multiplier", 1.0)))
        y = norm(x, "input", not post)
        y = llama_attention(m, w, y, tables, i, starts, r)
        x = added(x, norm(y, "post_attention", post or sandwich))
        y = norm(x, "pre_feedforward" if sandwich else "post_attention", not post)
        gate, up = r(F.linear(y, w("mlp.gate_up_proj.weight"))).chunk(2, -1)
        gate = F.gelu(gate, approximate="tanh") if m.get("geglu") else F.silu(gate)
        y = r(F.linear(r(gate * up), w("mlp.down_proj.weight")))
        x = added(x, norm(y, "post_feedforward", post or sandwich))
    x = r(rms_norm(x, p["model.norm.weight"], m["norm_eps"], m.get("norm_less_one")))
    name = "model.embed_tokens.weight" if m["tied"] else "lm_head.weight"
    return bent(r(F.linear(x, p[name])) / m.get("logits_scaling", 1.0), m.get("logits_softcap"))


def layer_norm(x, w, b, eps):
    return F.layer_norm(wide(x), x.shape[-1:], wide(w), wide(b), eps).to(x.dtype)


def gpt2(m, p, tokens, starts, r):
    eps, h = m["norm_eps"], m["heads"]
    x = r(F.embedding(tokens, p["transformer.wte.weight"]))
    x = r(x + F.embedding(positions_of(starts), p["transformer.wpe.weight"]))
    for i in range(m["layers"]):
        def w(name):
            return p["transformer.h.%d.%s" % (i, name)]

        def conv1d(y, name):
            return y @ w(name + ".weight") + w(name + ".bias")
        y = r(layer_norm(x, w("ln_1.weight"), w("ln_1.bias"), eps))
        q, k, v = r(conv1d(y, "attn.c_attn")).chunk(3, -1)
        o = r(attend(split_heads(q, h), split_heads(k, h), split_heads(v, h), 0, starts))
        x = r(x + r(conv1d(o, "attn.c_proj")))
        y = r(layer_norm(x, w("ln_2.weight"), w("ln_2.bias"), eps))
        u = r(conv1d(y, "mlp.c_fc"))
        inner = math.sqrt(2 / math.pi) * (u + 0.044715 * u * u * u)
        x = r(x + r(conv1d(r(0.5 * u * (1 + torch.tanh(inner))), "mlp.c_proj")))
    x = r(layer_norm(x, p["transformer.ln_f.weight"], p["transformer.ln_f.bias"], eps))
    return r(F.linear(x, p["transformer.wte.weight" if m["tied"] else "lm_head.weight"]))


def loss_sum(case, p, tokens, targets, starts, half=False):
    """Sum over counted tokens of (1 - e) nll + e mean(nll of all ids) + z lse^2. half: with
    values and gradients as f16 holds them."""
    m, loss = case["model"], case["loss"]
    r = RoundedToHalf.apply if half else lambda x: x
    if "family" in m:
        logits = wide(families.logits(m, p, tokens))
    else:
        logits = wide({"llama": llama, "gpt2": gpt2}[m["arch"]](m, p, tokens, starts, r))
    logits, targets = logits.flatten(0, 1), targets.flatten()
    total = F.cross_entropy(logits, targets, reduction="sum", ignore_index=-1,
                            label_smoothing=loss["label_smoothing"])
    if loss["z"]:
        total = total + loss["z"] * logits.logsumexp(-1)[targets >= 0].pow(2).sum()
    return total


def parameters(m):
    """(name, shape, init, std, decayed) of every storage tensor, in the order of the model."""
    std, out = m.get("init_std", 0.02), []
    residual = 1 / math.sqrt(2 * m["layers"])

    def matrix(name, rows, cols, scale=1.0):
        out.append((name, (rows, cols), "normal", std * scale, True))

    def vector(name, n, init):
        out.append((name, (n,), init, 0.0, False))
    d, f, v = m["dim"], m["ffn"], m["vocab"]
    if m["arch"] == "llama":
        q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
        matrix("model.embed_tokens.weight", v, d)
        start = "zeros" if m.get("norm_less_one") else "ones"
        into = residual if m.get("scale_residual_init") else 1
        for i in range(m["layers"]):
            at = "model.layers.%d." % i
            if not m.get("post_norm"):
                vector(at + "input_layernorm.weight", d, start)
            matrix(at + "self_attn.qkv_proj.weight", q + 2 * kv, d)
            if m["qkv_bias"]:
                vector(at + "self_attn.qkv_proj.bias", q + 2 * kv, "zeros")
            if m["qk_norm"] or m.get("qk_norm_all"):
                all_of = m.get("qk_norm_all")
                vector(at + "self_attn.q_norm.weight", q if all_of else m["head_dim"], start)
                vector(at + "self_attn.k_norm.weight", kv if all_of else m["head_dim"], start)
            if m.get("attention_sinks"):
                out.append((at + "self_attn.sinks", (m["heads"],), "normal", std, False))
            matrix(at + "self_attn.o_proj.weight", d, q, into)
            vector(at + "post_attention_layernorm.weight", d, start)
            if m.get("sandwich_norm"):
                vector(at + "pre_feedforward_layernorm.weight", d, start)
            matrix(at + "mlp.gate_up_proj.weight", 2 * f, d)
            matrix(at + "mlp.down_proj.weight", d, f, into)
            if m.get("post_norm") or m.get("sandwich_norm"):
                vector(at + "post_feedforward_layernorm.weight", d, start)
        vector("model.norm.weight", d, start)
    else:
        matrix("transformer.wte.weight", v, d)
        matrix("transformer.wpe.weight", m["max_positions"], d)
        for i in range(m["layers"]):
            at = "transformer.h.%d." % i
            for name, rows, cols, scale in (
                    ("ln_1", d, 0, 1), ("attn.c_attn", d, 3 * d, 1),
                    ("attn.c_proj", d, d, residual), ("ln_2", d, 0, 1),
                    ("mlp.c_fc", d, f, 1), ("mlp.c_proj", f, d, residual)):
                if cols:
                    matrix(at + name + ".weight", rows, cols, scale)
                else:
                    vector(at + name + ".weight", rows, "ones")
                vector(at + name + ".bias", cols or rows, "zeros")
        vector("transformer.ln_f.weight", d, "ones")
        vector("transformer.ln_f.bias", d, "zeros")
    if not m["tied"]:
        matrix("lm_head.weight", v, d)
    return out
