# SPDX-License-Identifier: Apache-2.0
"""The same models in PyTorch, for tests/bench/gpu.sh and gpt2_speed.sh: products in bf16 (autocast
over f32 weights, or weights in bf16) or in f32, torch.compile, scaled_dot_product_attention, fused
AdamW, gradients clipped.

torch_train.py --model llama:layers=16,dim=2048,... --seq N --micro-batch N --accumulate N --data FILE
    --device cpu [--products f32] [--eager]
Out: one line, "tokens_per_second X median_seconds X peak_gib X attention_seconds X loss X"; the
last two: forward and backward of attention alone in a step, and the last loss; on a CPU without
peak and attention, with "torch VERSION isa ISA". Exit code 3: no PyTorch, or it has no GPU.
"""
import argparse
import contextlib
import statistics
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError:
    print("no PyTorch", file=sys.stderr)
    sys.exit(3)


def rms(dim, eps):
    return nn.RMSNorm(dim, eps=eps)


class Rotary(nn.Module):
    def __init__(self, head_dim, seq, theta):
        super().__init__()
        angles = torch.outer(torch.arange(seq).float(),
                             theta ** (-torch.arange(0, head_dim, 2).float() / head_dim))
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1), persistent=False)
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1), persistent=False)

    def forward(self, x):  # [batch, heads, seq, head_dim]
        half = x.shape[-1] // 2
        turned = torch.cat([-x[..., half:], x[..., :half]], -1)
        return (x * self.cos + turned * self.sin).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c, bias):
        super().__init__()
        self.heads, self.kv, self.width = c["heads"], c["kv_heads"], c["head_dim"]
        rows = (self.heads + 2 * self.kv) * self.width
        self.qkv = nn.Linear(c["dim"], rows, bias=bias)
        self.out = nn.Linear(self.heads * self.width, c["dim"], bias=c["family"] == "gpt2")

    def forward(self, x, rotary):
        batch, seq, _ = x.shape
        q, k, v = self.qkv(x).split(
            [self.heads * self.width, self.kv * self.width, self.kv * self.width], -1)
        q, k, v = (t.view(batch, seq, -1, self.width).transpose(1, 2) for t in (q, k, v))
        if rotary is not None:
            q, k = rotary(q), rotary(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           enable_gqa=self.kv != self.heads)
        return self.out(y.transpose(1, 2).reshape(batch, seq, -1))


class LlamaLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = rms(c["dim"], 1e-5), rms(c["dim"], 1e-5)
        self.attention = Attention(c, bool(c["qkv_bias"]))
        self.gate_up = nn.Linear(c["dim"], 2 * c["ffn"], bias=False)
        self.down = nn.Linear(c["ffn"], c["dim"], bias=False)

    def forward(self, x, rotary):
        x = x + self.attention(self.norm1(x), rotary)
        gate, up = self.gate_up(self.norm2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Gpt2Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(c["dim"]), nn.LayerNorm(c["dim"])
        self.attention = Attention(c, True)
        self.up = nn.Linear(c["dim"], c["ffn"])
        self.down = nn.Linear(c["ffn"], c["dim"])

    def forward(self, x, rotary):
        x = x + self.attention(self.norm1(x), rotary)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, c, seq):
        super().__init__()
        llama = c["family"] == "llama"
        self.embed = nn.Embedding(c["vocab"], c["dim"])
        self.positions = None if llama else nn.Embedding(seq, c["dim"])
        self.rotary = Rotary(c["head_dim"], seq, c["theta"]) if llama else None
        layer = LlamaLayer if llama else Gpt2Layer
        self.layers = nn.ModuleList(layer(c) for _ in range(c["layers"]))
        self.norm = rms(c["dim"], 1e-5) if llama else nn.LayerNorm(c["dim"])
        self.head = nn.Linear(c["dim"], c["vocab"], bias=False)
        if c["tied"]:
            self.head.weight = self.embed.weight
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x, self.rotary)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def config(text):
    family, _, fields = text.partition(":")
    c = {"family": family, "tied": 0, "qkv_bias": 0, "theta": 1e4}
    for field in fields.split(","):
        key, _, value = field.partition("=")
        c[key] = float(value) if key == "theta" else int(value)
    c.setdefault("kv_heads", c["heads"])
    c.setdefault("head_dim", c["dim"] // c["heads"])
    c.setdefault("ffn", 4 * c["dim"])
    return c


def tokens_of(path):
    """Ids of a token file of llm.c; of any other file, its bytes. int64, on the host."""
    raw = bytearray(open(path, "rb").read())
    magic = int.from_bytes(raw[:4], "little")
    if magic == 20240520:
        return torch.frombuffer(raw, dtype=torch.int16, offset=1024).to(torch.int64) & 0xFFFF
    if magic == 20240801:
        return torch.frombuffer(raw, dtype=torch.int32, offset=1024).to(torch.int64)
    return torch.frombuffer(raw, dtype=torch.uint8).to(torch.int64)


def attention_seconds(c, args):
    """Of a step: forward and backward of every layer's attention, alone, the median."""
    shape = (args.micro_batch, c["heads"], args.seq, c["head_dim"])
    kv = (args.micro_batch, c["kv_heads"], args.seq, c["head_dim"])
    q, k, v = (torch.randn(s, device="cuda", dtype=torch.bfloat16, requires_grad=True)
               for s in (shape, kv, kv))
    seconds = []
    for i in range(13):
        begun, done = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           enable_gqa=shape[1] != kv[1])
        y.backward(y.detach())
        done.record()
        done.synchronize()
        if i >= 3:
            seconds.append(1e-3 * begun.elapsed_time(done))
    return statistics.median(seconds) * c["layers"] * args.accumulate


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seq", type=int, required=True)
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--accumulate", type=int, required=True)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--weights", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--products", choices=["f32", "bf16"], default="bf16")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--eager", action="store_true")
    args = parser.parse_args()
    cuda = args.device == "cuda"
    if cuda and not torch.cuda.is_available():
        print("PyTorch finds no GPU", file=sys.stderr)
        sys.exit(3)
    c = config(args.model)
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")
    with torch.device(args.device):
        model = Model(c, args.seq)
    if args.weights == "bf16":
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95),
                                  weight_decay=0.1, fused=True)
    compiled = model if args.eager else torch.compile(model)
    narrow = args.weights == "f32" and args.products == "bf16"
    synchronize = torch.cuda.synchronize if cuda else lambda: None
    data = tokens_of(args.data)
    batch = args.micro_batch * args.seq
    at, seconds = 0, []
    for step in range(args.steps):
        synchronize()
        begun = time.perf_counter()
        for _ in range(args.accumulate):
            at = at if at + batch + 1 <= len(data) else 0
            piece = data[at : at + batch + 1].to(args.device, non_blocking=cuda)
            at += batch
            tokens = piece[:-1].view(args.micro_batch, args.seq)
            targets = piece[1:].view(args.micro_batch, args.seq)
            with (torch.autocast(args.device, torch.bfloat16) if narrow
                  else contextlib.nullcontext()):
                loss = compiled(tokens, targets)
            (loss / args.accumulate).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize()
        if step >= 3:  # compiled, warm
            seconds.append(time.perf_counter() - begun)
    median = statistics.median(seconds)
    if not cuda:
        print(f"tokens_per_second {batch * args.accumulate / median:.1f} median_seconds "
              f"{median:.6f} loss {loss.item():.4f} torch {torch.__version__} isa "
              f"{torch.backends.cpu.get_cpu_capability()}")
        return
    peak = torch.cuda.max_memory_allocated() / 2**30
    last = loss.item()
    print(f"tokens_per_second {batch * args.accumulate / median:.1f} median_seconds "
          f"{median:.6f} peak_gib {peak:.2f} attention_seconds "
          f"{attention_seconds(c, args):.6f} loss {last:.4f}")


main()
