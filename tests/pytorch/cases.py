# SPDX-License-Identifier: Apache-2.0
"""What trainers are compared with: descriptions of tests/models/ with changes, said twice: as
`--set` says them to the generator, and as training.py and model.py read them.

A case: name, description, set (for the generator), dtypes that trainers run in, figures (dtypes
of the reference: f64 too where distances to it are compared), ranks, data ("text", "masked"), and
what the reference needs: model, optimizer, lr, groups, loss, sizes. A change is written once
here, in Lua's words where it goes to --set."""
import copy

# Of transformers' classes, whose own code is the reference (families.py): what their descriptions
# say beside their sizes, and what a description says otherwise when it says nothing.
HEADS = {"heads": 6, "kv_heads": 2, "head_dim": 6}
GEMMA = {"tied": True, "window": 7, "sandwich_norm": True, "norm_less_one": True, "geglu": True,
         "scale_embedding": True}
LLAMA = dict(arch="llama", layers=3, dim=36, heads=3, kv_heads=3, head_dim=14, ffn=50,
             vocab=259, norm_eps=1e-5, rope={"theta": 1e4}, tied=False, qkv_bias=False,
             qk_norm=False, window=0)
GPT2 = dict(arch="gpt2", layers=3, dim=42, heads=3, ffn=168, vocab=263, max_positions=23,
            norm_eps=1e-5, tied=True)
SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original": 32}

# As in tests/models/tiny_*.lua.
BASE = dict(
    seq=19, micro_batch=2, global_batch=16, seed=1, steps=10,
    optimizer=dict(kind="adamw", lr=2e-3, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1,
                   clip=1.0),
    lr=dict(kind="cosine", warmup=3, steps=20, min_ratio=0.1),
    groups=[], loss=dict(mask=False, z=0, label_smoothing=0), reduce=None, master=None,
    moments=None, documents=None,
    loss_scale=dict(init=65536, growth_interval=2000, factor=2, min=1))
MODELS = {"tiny_llama": LLAMA, "tiny_gpt2": GPT2}
ALL = ["f64", "f32", "bf16"]
EXACT = ["f64", "f32"]
LOW = ["bf16", "f16"]


def lua(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "{" + ", ".join("%s = %s" % (k, lua(v)) for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "{" + ", ".join(lua(v) for v in value) + "}"
    if isinstance(value, str):
        return "'" + value + "'"
    return repr(value)


def record(fields):
    """kind { the other fields }"""
    return fields["kind"] + " " + lua({k: v for k, v in fields.items() if k != "kind"})


def case(name, description, model=(), dtypes=EXACT, ranks=2, data="text", grads=True,
         figures=None, bound=None, family=None, **changes):
    c = dict(copy.deepcopy(BASE), name=name, description=description, dtypes=dtypes,
             figures=figures or dtypes, ranks=ranks, data=data, grads=grads, bound=bound,
             model=dict(MODELS[description], **dict(model)))
    if family:
        c["model"].update(family=family)
    sets = ["model.%s=%s" % (k, lua(v)) for k, v in dict(model).items()]
    for key, value in changes.items():
        if key in ("loss", "loss_scale"):
            c[key].update(value)
            sets += ["%s.%s=%s" % (key, k, lua(v)) for k, v in value.items()]
        elif key in ("optimizer", "lr"):
            c[key] = value
            sets.append("%s=%s" % (key, record(value)))
        elif key in ("reduce", "master", "moments"):
            c[key] = value
            sets.append("dtypes.%s=%s" % (key, lua(value)))
        else:
            c[key] = value
            sets.append("%s=%s" % (key, lua(value)))
    c["set"] = sets
    return c


def sgd(**fields):
    return dict(dict(kind="sgd", lr=0.1, momentum=0.9, weight_decay=0.1, clip=1.0), **fields)


def lion(**fields):
    return dict(dict(kind="lion", lr=3e-4, betas=[0.9, 0.99], weight_decay=0.3, clip=1.0),
                **fields)


def muon(**fields):
    return dict(dict(kind="muon", lr=2e-3, weight_decay=0.1, clip=1.0), **fields)


CASES = [
    case("llama", "tiny_llama", dtypes=ALL + ["f16"]),
    case("llama_tied", "tiny_llama", {"tied": True}, dtypes=ALL),
    case("llama_gqa", "tiny_llama", {"heads": 6, "kv_heads": 2, "head_dim": 6}, dtypes=ALL),
    case("llama_bias", "tiny_llama", {"qkv_bias": True}, dtypes=ALL),
    case("llama_qk_norm", "tiny_llama", {"qk_norm": True}, dtypes=ALL),
    case("llama_window", "tiny_llama", {"window": 5}, dtypes=ALL),
    case("llama_chunk", "tiny_llama", {"attention_chunk": 5, "global_every": 2, "nope_every": 2},
         dtypes=ALL),
    case("llama_sinks", "tiny_llama", {"attention_sinks": True}, dtypes=ALL),
    case("llama_scaling", "tiny_llama", {"rope": {"theta": 100.0, "scaling": SCALING}},
         dtypes=ALL),
    case("llama_all", "tiny_llama", {
        "tied": True, "heads": 6, "kv_heads": 3, "head_dim": 8, "qkv_bias": True,
        "qk_norm": True, "window": 7, "rope": {"theta": 100.0, "scaling": SCALING}}, dtypes=ALL),
    case("gpt2", "tiny_gpt2", dtypes=ALL + ["f16"]),
    case("gpt2_untied", "tiny_gpt2", {"tied": False}, dtypes=ALL),

    # Families: what transformers' own modelling code computes.
    case("granite", "tiny_llama", {**HEADS, "embedding_multiplier": 12.0, "tied": True,
         "attention_multiplier": 0.3, "residual_multiplier": 0.22, "logits_scaling": 1.7},
         family="granite"),
    case("smollm3", "tiny_llama", {**HEADS, "head_dim": 10, "tied": True, "nope_every": 2},
         family="smollm3"),
    case("olmo2", "tiny_llama", {**HEADS, "post_norm": True, "qk_norm_all": True},
         family="olmo2"),
    case("phi3", "tiny_llama", {"kv_heads": 1, "fused_names": True, "window": 7,
         "rope": {"theta": 250.0, "fraction": 0.75}}, family="phi3"),

    case("gemma2", "tiny_llama", {**HEADS, **GEMMA, "global_every": 2, "attention_softcap": 1.5,
         "logits_softcap": 2.0, "attention_multiplier": 0.5}, family="gemma2"),
    case("gemma3", "tiny_llama", {**HEADS, **GEMMA, "global_every": 3, "qk_norm": True,
         "attention_multiplier": 0.25, "rope": {
             "theta": 1e3, "local_theta": 50.0, "scaling": {"factor": 8.0, "original": 1}}},
         family="gemma3"),

    # Nothing divides anything: primes, seven micro-batches in one leaf, six in two.
    case("llama_odd", "tiny_llama", {"layers": 2, "dim": 37, "heads": 3, "head_dim": 10,
                                     "ffn": 53, "vocab": 257},
         ranks=1, seq=13, micro_batch=3, global_batch=21),
    case("gpt2_odd", "tiny_gpt2", {"layers": 1, "dim": 33, "ffn": 61, "vocab": 251,
                                   "max_positions": 17}, seq=11, global_batch=12),

    # Optimizers.
    case("adamw_other", "tiny_llama", grads=False, optimizer=dict(
        kind="adamw", lr=1e-3, betas=[0.8, 0.99], eps=1e-6, weight_decay=0.5, clip=0.0)),
    case("sgd", "tiny_llama", grads=False, optimizer=sgd()),
    case("sgd_plain", "tiny_gpt2", grads=False,
         optimizer=sgd(momentum=0.0, weight_decay=0.0, clip=0.5)),
    case("lion", "tiny_llama", dtypes=["f64"], grads=False, optimizer=lion()),
    case("lion_gpt2", "tiny_gpt2", dtypes=["f64"], grads=False,
         optimizer=lion(betas=[0.95, 0.98]), groups=[
             {"match": "*.bias", "lr": 3.0, "weight_decay": 0.2},
             {"match": "*.c_attn.weight", "frozen": True}, {"match": "*.wpe.*", "lr": 0.25}]),

    # Muon: matrices of the layers, fused ones in parts; tall and wide ones; the rest by AdamW.
    case("muon", "tiny_llama", {"kv_heads": 1}, grads=False, optimizer=muon()),
    case("muon_gpt2", "tiny_gpt2", grads=False, optimizer=muon(
        lr=0.02, momentum=0.9, nesterov=False, ns_steps=4, adjust_lr="original", clip=0.5,
        ns_coefficients=[2.0, -1.5, 0.5], eps=1e-6,
        adamw=dict(lr=1e-3, betas=[0.8, 0.99], eps=1e-6, weight_decay=0.3))),
    case("muon_groups", "tiny_llama", {"tied": True, "ffn": 53}, grads=False,
         optimizer=muon(adamw=dict(lr=5e-4)), groups=[
             {"match": "*.layers.0.*", "frozen": True},
             {"match": "*.o_proj.*", "optimizer": "adamw", "lr": 3.0, "weight_decay": 0.2},
             {"match": "*.layers.1.mlp.*", "lr": 0.5, "weight_decay": 0.0},
             {"match": "model.embed_tokens.*", "optimizer": "muon"}]),

    # Groups by name: the first that matches takes a parameter.
    case("groups", "tiny_llama", groups=[
        {"match": "*norm*", "lr": 0.1, "weight_decay": 0.5},
        {"match": ["model.embed_tokens.*", "*.down_proj.weight", "*norm*"], "lr": 3.0},
        {"match": "*.o_proj.*", "weight_decay": 0.0}]),
    case("frozen", "tiny_llama", dtypes=ALL, groups=[
        {"match": ["model.embed_tokens.*", "model.layers.0.*"], "frozen": True},
        {"match": "*mlp*", "frozen": True}, {"match": "lm_head.*", "lr": 0.5}]),
    case("frozen_tied", "tiny_gpt2", optimizer=sgd(),
         groups=[{"match": "transformer.wte.*", "frozen": True}]),

    # Schedules, past their ends.
    case("lr_constant", "tiny_llama", dtypes=["f64"], grads=False,
         lr=dict(kind="constant", warmup=4)),
    case("lr_cosine_end", "tiny_llama", dtypes=["f64"], grads=False,
         lr=dict(kind="cosine", warmup=2, steps=7, min_ratio=0.25)),
    case("lr_linear", "tiny_llama", dtypes=["f64"], grads=False,
         lr=dict(kind="linear", warmup=3, steps=8, min_ratio=0.2)),
    case("lr_wsd", "tiny_llama", dtypes=["f64"], grads=False,
         lr=dict(kind="wsd", warmup=2, steps=8, decay=3, min_ratio=0.05)),
    case("lr_inverse_sqrt", "tiny_llama", dtypes=["f64"], grads=False,
         lr=dict(kind="inverse_sqrt", warmup=3)),
    case("lr_inverse_sqrt_0", "tiny_llama", dtypes=["f64"], grads=False,
         lr=dict(kind="inverse_sqrt", warmup=0)),

    # The loss.
    case("loss_mask", "tiny_llama", data="masked", loss={"mask": True}),
    case("loss_mask_gpt2", "tiny_gpt2", data="masked", loss={"mask": True}),
    # Of four ranks some have few targets, some none: still one mean over all targets of the step.
    case("loss_uneven", "tiny_llama", data="uneven", ranks=4, loss={"mask": True}),
    case("loss_uneven_odd", "tiny_gpt2", {"layers": 2, "dim": 33, "ffn": 61, "vocab": 251,
                                          "max_positions": 17},
         data="uneven", ranks=4, seq=11, micro_batch=3, global_batch=24,
         loss={"mask": True, "z": 0.003}, documents={"end_id": 32}, groups=[
             {"match": ["*.ln_1.*", "transformer.h.1.mlp.*"], "frozen": True}]),
    case("loss_z", "tiny_llama", loss={"z": 0.01}),
    case("loss_smooth", "tiny_llama", loss={"label_smoothing": 0.1}),
    case("loss_all", "tiny_gpt2", data="masked", dtypes=ALL,
         loss={"mask": True, "z": 0.003, "label_smoothing": 0.2}),

    # Packed documents: a space ends one, so that a sample has several.
    case("documents", "tiny_llama", documents={"end_id": 32}),
    case("documents_gpt2", "tiny_gpt2", data="masked", dtypes=ALL, loss={"mask": True},
         documents={"end_id": 101}),
    case("documents_window", "tiny_llama", {"window": 4, "tied": True},
         documents={"end_id": 32}),
    case("documents_chunk", "tiny_llama", {"attention_chunk": 4, "window": 3},
         documents={"end_id": 32}),
    case("documents_sinks", "tiny_llama", {"attention_sinks": True, "attention_chunk": 5,
                                           "global_every": 2}, documents={"end_id": 32}),

    # Tied weights are one parameter, in one group; kernels of which one gradient is frozen.
    case("groups_layers", "tiny_llama", groups=[
        {"match": ["*.input_layernorm.weight", "model.norm.weight"], "weight_decay": 0.3},
        {"match": ["model.layers.1.*"], "lr": 0.25},
        {"match": ["model.layers.?.mlp.*"], "lr": 3.0, "weight_decay": 0.0}]),
    case("groups_frozen", "tiny_llama", groups=[
        {"match": ["model.layers.0.*", "*.o_proj.weight"], "frozen": True}]),
    case("groups_tied", "tiny_gpt2", groups=[
        {"match": ["transformer.wte.weight"], "lr": 0.1, "weight_decay": 0.2},
        {"match": ["*.bias"], "frozen": True}]),
    case("groups_tied_frozen", "tiny_llama", {"tied": True}, groups=[
        {"match": ["model.embed_tokens.weight"], "frozen": True}]),

    # Parts, which PyTorch has none of: 4 and 8 along each axis, both axes, on ranks along them.
    case("parts_tensor8", "tiny_llama", {"heads": 16, "kv_heads": 8, "head_dim": 6, "ffn": 56,
                                         "vocab": 261, "tied": True, "qk_norm": True},
         dtypes=ALL, seq=20, documents={"end_id": 32}, parts={"tensor": 8},
         mesh={"shard": 1, "tensor": 2}),
    case("parts_tensor4", "tiny_gpt2", {"heads": 4, "dim": 48, "ffn": 192}, dtypes=ALL,
         data="masked", seq=20, loss={"mask": True}, parts={"tensor": 4},
         mesh={"shard": 1, "tensor": 2}),
    case("parts_context8", "tiny_llama", {"heads": 8, "kv_heads": 2, "head_dim": 6, "window": 13},
         dtypes=ALL, seq=32, micro_batch=1, documents={"end_id": 32}, parts={"context": 8},
         mesh={"shard": 1, "context": 2}),
    case("parts_context4", "tiny_gpt2", {"heads": 4, "dim": 48, "ffn": 192}, dtypes=ALL,
         data="masked", seq=20, loss={"mask": True}, parts={"context": 4},
         mesh={"shard": 1, "context": 2}),
    case("parts_both", "tiny_llama", {"heads": 16, "kv_heads": 4, "head_dim": 6, "ffn": 64,
                                      "qkv_bias": True},
         dtypes=ALL, ranks=4, seq=32, documents={"end_id": 32},
         parts={"tensor": 4, "context": 4}, mesh={"shard": 1, "context": 2, "tensor": 2}),

    # Precision: no trainer has another's bits, so distances to f64 are compared.
    case("reduce_bf16", "tiny_llama", dtypes=["f32"] + LOW, figures=["f64", "f32"] + LOW,
         reduce="bf16"),
    case("reduce_bf16_gpt2", "tiny_gpt2", dtypes=["f32"] + LOW, figures=["f64", "f32"] + LOW,
         reduce="bf16", global_batch=32),
    case("moments_bf16", "tiny_llama", dtypes=["f32"], grads=False, moments="bf16", bound=5e-5),
    case("state_bf16", "tiny_gpt2", dtypes=["bf16"], grads=False, moments="bf16", master="bf16",
         bound=3e-3),

    # Planted overflows: the loss scale begins, and grows, beyond what f16 holds, and a step's
    # gradient is larger than the others'; after each overflow it shrinks and training goes on.
    # With masks, some ranks have nothing that could overflow.
    case("overflow", "tiny_llama", dtypes=["f16"], grads=False, bound=2e-5,
         loss_scale={"init": 1 << 18, "growth_interval": 3}),
    case("overflow_gpt2", "tiny_gpt2", dtypes=["f16"], grads=False, bound=1e-3, reduce="bf16",
         ranks=4, data="uneven", loss={"mask": True}, groups=[
             {"match": "transformer.wpe.*", "frozen": True}],
         optimizer=sgd(), loss_scale={"init": 1 << 24, "factor": 16, "growth_interval": 2}),
]
