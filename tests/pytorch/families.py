# SPDX-License-Identifier: Apache-2.0
"""Families whose reference is the modelling code of transformers itself, not model.py: their
config of a case's model, and the logits of it for tensors by parameter name, as our trainers store
them. In f64 what that code computes in f32 (norms, softmax, angles) is computed in f64: else no
figure would be better than 1e-7."""
import contextlib

import torch

KINDS = {
    "granite": "GraniteConfig", "smollm3": "SmolLM3Config", "phi3": "Phi3Config",
    "olmo2": "Olmo2Config", "gemma2": "Gemma2Config", "gemma3": "Gemma3TextConfig",
}


@contextlib.contextmanager
def wide(dtype):
    """Where code says torch.float32, it gets `dtype`."""
    narrow, to_float = (torch.float32, torch.float), torch.Tensor.float
    torch.float32 = torch.float = dtype
    torch.Tensor.float = lambda x: x.to(dtype)
    try:
        yield
    finally:
        (torch.float32, torch.float), torch.Tensor.float = narrow, to_float


def config_of(m):
    import transformers
    c = dict(hidden_size=m["dim"], intermediate_size=m["ffn"], num_hidden_layers=m["layers"],
             num_attention_heads=m["heads"], num_key_value_heads=m["kv_heads"],
             head_dim=m["head_dim"], vocab_size=m["vocab"], max_position_embeddings=64,
             rms_norm_eps=m["norm_eps"], rope_theta=m["rope"]["theta"], pad_token_id=None,
             bos_token_id=None, eos_token_id=None, attention_dropout=0.0,
             tie_word_embeddings=m["tied"], attn_implementation="eager")
    kind = m["family"]
    if kind == "granite":
        assert c.pop("head_dim") * m["heads"] == m["dim"], "Granite has no head_dim"
        for key in ("embedding_multiplier", "attention_multiplier", "residual_multiplier",
                    "logits_scaling"):
            c[key] = m[key]
    elif kind == "smollm3":
        c["no_rope_layer_interval"] = m["nope_every"]
    elif kind == "olmo2":
        assert m["post_norm"] and m["qk_norm_all"], m
    elif kind in ("gemma2", "gemma3"):
        for key in ("sandwich_norm", "norm_less_one", "geglu", "scale_embedding"):
            assert m[key], m
        every, scale = m["global_every"], m.get("attention_multiplier", m["head_dim"] ** -0.5)
        kinds = ["sliding_attention", "full_attention"]
        c.update(sliding_window=m["window"], query_pre_attn_scalar=round(scale ** -2),
                 layer_types=[kinds[(i + 1) % every == 0] for i in range(m["layers"])],
                 attn_logit_softcapping=m.get("attention_softcap"),
                 final_logit_softcapping=m.get("logits_softcap"))
    if kind == "gemma3":
        theta, scaling = c.pop("rope_theta"), m["rope"]["scaling"]
        assert m["qk_norm"] and scaling["original"] == 1, m
        c["rope_parameters"] = {
            "sliding_attention": {"rope_type": "default", "rope_theta": m["rope"]["local_theta"]},
            "full_attention": {"rope_type": "linear", "rope_theta": theta,
                               "factor": scaling["factor"]}}
    elif kind == "phi3":
        c.update(sliding_window=m["window"] or None,
                 partial_rotary_factor=m["rope"].get("fraction", 1.0))
    return getattr(transformers, KINDS[kind])(**c)


MODELS = {}


def model_of(m, dtype):
    from transformers import AutoModelForCausalLM
    key = repr(sorted(m.items(), key=str)), dtype
    if key not in MODELS:
        MODELS[key] = AutoModelForCausalLM.from_config(config_of(m)).to(dtype).eval()
    return MODELS[key]


def tensors_of(m, p):
    """By the names of a file of theirs."""
    q, kv = m["heads"] * m["head_dim"], m["kv_heads"] * m["head_dim"]
    out = {}
    for name, x in p.items():
        if m["family"] != "phi3" and ".qkv_proj." in name:
            for part, rows in zip("qkv", x.split([q, kv, kv])):
                out[name.replace("qkv_proj", part + "_proj")] = rows
        elif m["family"] != "phi3" and ".gate_up_proj." in name:
            for part, rows in zip(("gate", "up"), x.chunk(2)):
                out[name.replace("gate_up_proj", part + "_proj")] = rows
        else:
            out[name] = x
    if m["tied"]:
        out["lm_head.weight"] = out["model.embed_tokens.weight"]
    return out


def logits(m, p, tokens):
    dtype = next(iter(p.values())).dtype
    with wide(dtype):
        return torch.func.functional_call(
            model_of(m, dtype), tensors_of(m, p), (tokens,), {"use_cache": False}).logits
