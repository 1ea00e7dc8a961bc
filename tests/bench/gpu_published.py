# SPDX-License-Identifier: Apache-2.0
# gpu_published.py [FSDPGEN [FIT]]: what `fsdpgen plan` predicts for set-ups whose rates on GPUs others
# published, beside those rates. One scalar, the efficiency, is fitted on one row (FIT, a number); all other
# rows are predicted. Prints Markdown, which stands in RESULTS.md: `tests/plan/run.sh published` compares them,
# and writes it anew with --update. Nothing here was measured by us.
#
# Sources: pytorch/torchtitan, benchmarks/llama3_h100_202412_torchtitan.md and, for rows 16 and 17, the figure of
# benchmarks/asyncTP_llama3_h100_2025-06_torchtitan.md; IST-DASLab/llmq, benchmarks/H100x1.md, H100x8.md,
# 4090x1.md and 4090x4.md, of each run the last step that is printed.
import json
import os
import statistics
import subprocess
import sys
import textwrap

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
generator = sys.argv[1] if len(sys.argv) > 1 else f"{root}/build/default/fsdpgen"
PEAK = {"h100": 989.4, "rtx4090": 165.2}  # dense bf16 TFLOP/s that NVIDIA states

# torchtitan: H100 with 2.4 TB/s of memory, of which our table's share (84 %) is attained, and 96 GB; attention
# by FlashAttention-2, 321 and 279 TFLOP/s (H100, heads of 64, 4k tokens: figures of FlashAttention-3's paper);
# whole logits; sums by NCCL. Compiled code fuses as ours does; eager code does not.
TITAN = {"target.memory": '"94GiB"', "target.rates.memory": 2006, "target.rates.norm": 1605,
         "target.rates.attention": 321, "target.rates.attention_bwd": 279, "reduction": '"library"'}
# llmq: sequences of 1,024, moments and gradients of bf16, cuDNN's attention where it can be priced, sums of its own
LLMQ = {"target.memory": '"999GiB"', "seq": 1024, "dtypes.moments": '"bf16"', "dtypes.reduce": '"bf16"',
        "reduction": '"library"'}
QWEN = {"0.5B": ("qwen2.5_0.5b", {}), "1.5B": ("qwen2.5_1.5b", {})}
for size, layers, dim, heads, kv, ffn in [("3B", 36, 2048, 16, 2, 11008), ("7B", 28, 3584, 28, 4, 18944),
                                          ("14B", 48, 5120, 40, 8, 13824), ("32B", 64, 5120, 40, 8, 27648)]:
    QWEN[size] = "qwen2.5_1.5b", {
        "model.layers": layers, "model.dim": dim, "model.heads": heads, "model.kv_heads": kv, "model.ffn": ffn,
        **({} if size == "3B" else {"model.tied": "false", "model.vocab": 152064})}


def titan(model, ranks, batch, sequences, recompute, tokens_per_s, changes={}, apart=""):
    """sequences: of a step on all ranks; batch: of them on one rank at once"""
    sets = {**TITAN, "mesh": f"{{shard={ranks}}}", "micro_batch": batch, "global_batch": sequences, "leaves": ranks,
            "recompute": f'"{recompute}"', "loss.chunk_tokens": batch * 8192, "seq": 8192, **changes}
    what = "FSDP" + (", eager" if "fuse" in changes else ", compiled")
    return "torchtitan", f"Llama 3.1 {model.strip('lam').upper()}", what, ranks, "h100", model, sets, tokens_per_s, apart


def llmq(gpu, gpus, size, batch, accumulate, tokens_per_s, chunks=1, recompute="none", changes={}, apart=""):
    model, own = QWEN[size]
    sets = {**LLMQ, **own, "mesh": f"{{shard={gpus}}}", "micro_batch": batch, "leaves": gpus,
            "global_batch": gpus * batch * accumulate, "loss.chunk_tokens": batch * 1024 // chunks,
            "recompute": f'"{recompute}"', **changes}
    if gpus > 1 and "strategy" not in sets:
        sets["strategy"] = '"shard_optimizer"'
    if gpu == "h100":
        sets["target.attention"] = '"cudnn"'
    return ("llmq", f"Qwen2.5 {size}", f"{batch} x {accumulate}", gpus, gpu, model, sets, tokens_per_s / gpus, apart)


FULL = {"strategy": '"full_shard"'}
OFFLOAD = "moves {} to the host's memory and back, which no description says"
ROWS = [
    titan("llama8b", 8, 2, 16, "cheap", 5762, {"fuse": "false"}),
    titan("llama8b", 8, 2, 16, "cheap", 6667),
    titan("llama8b", 128, 2, 256, "cheap", 5605, {"fuse": "false"}),
    titan("llama8b", 128, 2, 256, "cheap", 6514),
    llmq("h100", 1, "0.5B", 32, 16, 149e3), llmq("h100", 1, "1.5B", 32, 16, 59101),
    llmq("h100", 1, "3B", 16, 32, 30958), llmq("h100", 1, "7B", 4, 128, 13863, 2),
    llmq("h100", 8, "0.5B", 32, 2, 1127e3), llmq("h100", 8, "1.5B", 32, 2, 456e3, 4),
    llmq("h100", 8, "3B", 16, 4, 240e3), llmq("h100", 8, "7B", 8, 8, 112e3, 2),
    llmq("rtx4090", 1, "0.5B", 16, 32, 39842, 16), llmq("rtx4090", 1, "1.5B", 4, 128, 14063, 4),
    llmq("rtx4090", 4, "0.5B", 16, 8, 154e3, 2),
    # not the same set-up: the nearest that can be described
    titan("llama70b", 256, 2, 512, "block", 597,
          apart="8 of its 256 ranks share a layer (tensor parallel); here all are FSDP, and no layer's sums are waited for"),
    titan("llama70b", 256, 2, 512, "block", 652, apart="the same, with sums of layers beside products (async TP)"),
    titan("llama405b", 256, 1, 256, "block", 100, apart="fp8, and a pipeline of 8 with bubbles (1F1B) times 8 tensor "
          "ranks on 512 GPUs; here FSDP in bf16 on 256, one for each sequence of its step"),
    titan("llama405b", 256, 1, 256, "block", 128, apart="the same, fewer bubbles (interleaved 1F1B)"),
    llmq("h100", 1, "14B", 8, 64, 6321, 2, "cheap", apart=OFFLOAD.format("states and activations") +
         "; computes the products of the feed-forward again"),
    llmq("h100", 8, "14B", 16, 4, 48866, 2, "cheap", FULL, OFFLOAD.format("activations") +
         "; computes the products of the feed-forward again"),
    llmq("rtx4090", 1, "3B", 4, 128, 7001, 4, "cheap", apart=OFFLOAD.format("moments")),
    llmq("rtx4090", 1, "7B", 16, 32, 2777, 16, "block", apart=OFFLOAD.format("states and activations")),
    llmq("rtx4090", 1, "14B", 32, 16, 1348, 32, "block", apart=OFFLOAD.format("states, gradients and activations")),
    llmq("rtx4090", 4, "1.5B", 8, 16, 52418, 4, "cheap", apart=OFFLOAD.format("activations")),
    llmq("rtx4090", 4, "3B", 4, 32, 26017, 4, "cheap", apart=OFFLOAD.format("a moment")),
    llmq("rtx4090", 4, "7B", 16, 8, 10897, 8, "cheap", FULL, OFFLOAD.format("states and activations") +
         "; computes the products of the feed-forward again"),
    llmq("rtx4090", 4, "14B", 32, 4, 5268, 8, "block", FULL, OFFLOAD.format("states and activations")),
    llmq("rtx4090", 4, "32B", 32, 4, 2208, 8, "block", FULL, OFFLOAD.format("states, gradients and activations")),
]
FIT = int(sys.argv[2]) if len(sys.argv) > 2 else 2


def predict(row):
    """Tokens/s a rank of the plan; tokens/s a rank of the flops alone, at the stated peak."""
    gpu, model, sets = row[4:7]
    command = [generator, "plan", f"{root}/models/{model}.lua", "--target", "cuda", "--json"]
    for name, value in {"target.gpu": f'"{gpu}"', **sets}.items():
        command += ["--set", f"{name}={value}"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode not in (0, 3):  # 3: it does not fit, which is not asked here
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    plan = json.loads(run.stdout)
    tokens = sets["global_batch"] * sets["seq"] / plan["ranks"]
    return tokens / plan["step_seconds"], PEAK[gpu] * 1e12 / plan["flops_per_token"]


def kendall(a, b):
    pairs = [(i, j) for i in range(len(a)) for j in range(i)]
    signs = [(a[i] > a[j]) - (a[i] < a[j]) for i, j in pairs], [(b[i] > b[j]) - (b[i] < b[j]) for i, j in pairs]
    both = sum(x * y for x, y in zip(*signs))
    return both / (sum(map(abs, signs[0])) * sum(map(abs, signs[1]))) ** 0.5


def median_error(fit, rows):
    scale = published[fit] / predicted[fit]
    return statistics.median(abs(scale * predicted[i] / published[i] - 1) for i in rows if i != fit)


def table(rows, last):
    print(f"\n| row | system | model | set-up | GPUs | published | of the plan | predicted | error |{last and ' why it is apart |'}")
    print("|---|---|---|---|---|---|---|---|---|" + (last and "---|"))
    for i in rows:
        system, model, what, gpus, gpu = ROWS[i][:5]
        error = "fitted" if i == FIT - 1 else f"{100 * (efficiency * predicted[i] / published[i] - 1):+.0f} %"
        print(f"| {i + 1} | {system} | {model} | {what} | {gpus} {gpu} | {published[i]:.0f} | "
              f"{published[i] / predicted[i]:.2f} | {efficiency * predicted[i]:.0f} | {error} |{last and f' {ROWS[i][8]} |'}")


published = [row[7] for row in ROWS]
predicted, flops = zip(*map(predict, ROWS))
same = [i for i, row in enumerate(ROWS) if not row[8]]
apart = [i for i, row in enumerate(ROWS) if row[8]]
if FIT - 1 not in same:
    sys.exit(f"FIT is one of the rows 1 to {len(same)}, not {FIT}")
efficiency = published[FIT - 1] / predicted[FIT - 1]
fits = sorted((median_error(f, same), f + 1) for f in same)


def tau(rows, of=lambda i: 1):
    return kendall([published[i] / of(i) for i in rows], [predicted[i] / of(i) for i in rows])


def say(text):
    print("\n" + textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False))


print(f"Efficiency {efficiency:.3f}, fitted on row {FIT}: predicted is what `fsdpgen plan` says, times that. Tokens/s "
      "of one GPU.")
table(same, "")
say(f"**The {len(same) - 1} other rows: median error {100 * median_error(FIT - 1, same):.0f} %; Kendall's tau of all "
    f"{len(same)} {tau(same):.2f}.** By flops alone it would be "
    f"{kendall([published[i] for i in same], [flops[i] for i in same]):.2f}, since models of unlike sizes are easy to "
    f"order. Tau of the share of the GPU's peak, which is not: {tau(same, lambda i: flops[i]):.2f}; of torchtitan's "
    f"four rows {tau(same[:4]):.2f}; of llmq's {len(same) - 4}, {tau(same[4:], lambda i: flops[i]):.2f}. Fitted on "
    f"each row in turn, the median error of the others is {100 * fits[0][0]:.0f} % (row {fits[0][1]}) to "
    f"{100 * fits[-1][0]:.0f} % (row {fits[-1][1]}).")
table(apart, "why")
say(f"Kendall's tau of all {len(ROWS)} rows {tau(same + apart):.2f}; of the share of the peak "
    f"{tau(same + apart, lambda i: flops[i]):.2f}.")
