# SPDX-License-Identifier: Apache-2.0
# mistakes.py FSDPGEN MODELS: plants classical mistakes in llama8b, and compares the numbers of
# each warning with closed forms of the model's dimensions.
import json
import re
import subprocess
import sys

generator, models = sys.argv[1:]
L, D, KV, F, V, TOKENS, M = 32, 4096, 1024, 14336, 128256, 8192, 64  # llama8b.lua
GRAIN, LATENCY = 1024, 20e-6
BLOCK = [D, (D + 2 * KV) * D, D * D, D, 2 * F * D, D * F]
UNITS = [[V * D]] + [BLOCK] * L + [[D, V * D]]
P = sum(map(sum, UNITS))
UNIT = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "us": 1e-6, "ms": 1e-3, "s": 1}
failed = passed = 0


def up(n, step):
    return (n + step - 1) // step * step


def elems(unit, shards):  # parameters begin on grains, and so do shards
    return up(sum(up(p, GRAIN) for p in unit[:-1]) + unit[-1], shards * GRAIN)


def warned(name, pattern, *want, sets=(), quiet=False):
    """The groups of the pattern, numbers with units, are what is wanted, to the digits shown."""
    global failed, passed
    command = [generator, "check", f"{models}/llama8b.lua", "--target", "cuda"]
    for s in ('target.memory="999GiB"', *sets):
        command += ["--set", s]
    text = subprocess.run(command, capture_output=True, text=True).stderr
    found = re.search(pattern, text, re.S)
    good = bool(found) != quiet
    groups = found.groups() if found else ()
    good = good and (quiet or len(groups) == len(want))
    for got, value in zip(groups, want):
        number, unit = re.fullmatch(r"([\d.e+-]+) ?(\w*)", got).groups()
        digits = 10 ** -len(number.partition(".")[2]) if "e" not in number else 0
        error = abs(float(number) - value / UNIT.get(unit, 1))
        good = good and error <= max(0.51 * digits, 0.006 * float(number) if unit in ("us", "ms", "s") else 0)
    print("ok" if good else "FAIL", name)
    if not good:
        print("wanted", want, "in", text, file=sys.stderr)
    failed, passed = failed + (not good), passed + good


SIZE, TIME = r"([\d.]+ [KMG]?i?B)", r"([\d.]+ [mu]?s)"

warned("a wrap that holds the root", f"the whole model is one unit: each rank gathers all {SIZE} of weights and "
       f"holds all {SIZE} of gradients.*per_block.1. gathers at most {SIZE} at once",
       2 * P, 4 * P, 2 * (V * D + D), sets=["wrap=root_only"])
warned("a unit of all blocks but the ends", f"unit layers[^ ]* is (\\d+) % of the model: each rank gathers all {SIZE}",
       100 * L * sum(BLOCK) / P, 2 * L * sum(BLOCK), sets=["wrap=32"])

# 4 nodes of 8: a gather brings 24 of 32 shards, for the forward, and again for the backward of what
# lies between the ends; two hops bring a sum from each of the other nodes. Two rounds of a step.
ROUNDS, SHARDS, NODE = M // 32, 32, 8
all_units = [elems(u, SHARDS) for u in UNITS]
gathered = 2 * (SHARDS - NODE) * sum(all_units + all_units[1:-1]) / SHARDS
reduced = 4 * (SHARDS // NODE - 1) * sum(all_units) / SHARDS
warned("flat sharding across nodes", f"lies on (4) nodes of (8) ranks: each rank receives {SIZE} from other nodes",
       4, 8, ROUNDS * (gathered + reduced), sets=["mesh={shard=32,node=8}"])
warned("flat sharding across nodes, in parts", r"lies on (\d+) nodes of (\d+) ranks:.*"
       r"mesh = \{ replicate = (\d+), shard = (\d+), tensor = (\d+), node = (\d+) \}", 4, 8, 4, 4, 2, 8,
       sets=["mesh={shard=16,tensor=2,node=8}", "parts.tensor=2"])
warned("weights kept over nodes", f"gathers bring each rank {SIZE} from other nodes",
       ROUNDS * 2 * L * elems(BLOCK, SHARDS) * 8 / 16, sets=["mesh={shard=32,node=8}", "reshard_after_forward=16"])
warned("weights kept over nodes, in parts", r"groups of (\d+) lie on (\d+) nodes of (\d+) ranks", 8, 2, 8,
       sets=["mesh={shard=16,tensor=2,node=8}", "parts.tensor=2", "reshard_after_forward=8"])

# 16 ranks on two nodes of 8 that the mesh does not name: a sum has a part from each of 8 ranks of the other
# node, then from one; 4 rounds. 4 copies of 4 ranks sum a quarter of a shard each, and read the three others:
# two are on the other node, of which one is left; its slices stay two. Once a step.
on_16, on_8, on_4 = (sum(elems(u, n) for u in UNITS) for n in (16, 8, 4))
UNNAMED = (rf"does not name the (\d+) nodes \(hgx-h100\) that its ranks lie on: each rank receives {SIZE} of gradients"
           rf".*mesh.node = (\d+) sums within nodes first: then each receives {SIZE}")
warned("flat sums over nodes", UNNAMED, 2, M // 16 * 4 * on_16 * 8 / 16, 8, M // 16 * 4 * on_16 / 16,
       sets=["mesh.shard=16"])
warned("copies over nodes", UNNAMED, 2, 4 * on_4 / 4 * (2 + 2) / 4, 8, 4 * on_4 / 4 * (1 + 2) / 4,
       sets=["mesh={replicate=4,shard=4}"])
warned("nodes that target.nodes gives", UNNAMED, 4, M // 8 * 4 * on_8 * 6 / 8, 2,
       M // 8 * 4 * on_8 * 3 / 8, sets=["target.nodes=4"])
warned("nodes that the mesh names", "does not name", sets=["mesh={shard=16,node=8}"], quiet=True)
warned("one node", "does not name", quiet=True)
warned("sums of a library", "does not name", sets=["mesh.shard=16", 'reduction="library"'], quiet=True)

# Each of 8 ranks receives as much from each of the others, and 4 of them are on the other node.
MET = json.loads(subprocess.run([generator, "plan", f"{models}/llama8b.lua", "--target", "cuda", "--json", "--set",
                                 'target.memory="999GiB"', "--set", "mesh={shard=1,tensor=8}", "--set", "parts.tensor=8"],
                                capture_output=True, text=True).stdout)["step_bytes_per_rank"]["met_tensor"]
OVER = rf"mesh.tensor: (\d+) ranks lie on (\d+) nodes \(hgx-h100\): each receives {SIZE} of parts.*use tensor = (\d+)"
warned("tensor ranks over nodes", OVER, 8, 2, MET * 4 / 7, 4,
       sets=["mesh={shard=1,tensor=8}", "parts.tensor=8", "target.nodes=2"])
warned("tensor ranks of a node", r"mesh.tensor: \d+ ranks lie on", sets=["mesh={shard=2,tensor=4}", "parts.tensor=4", "target.nodes=2"],
       quiet=True)

warned("a bf16 reduction", r"rounds a gradient to 8 bits (\d+) times a step.*in (\d+) steps",
       M // 64 + 6, 100000, sets=['dtypes.reduce="bf16"'])
warned("a bf16 reduction of larger leaves", r"rounds a gradient to 8 bits (\d+) times a step",
       M // 16 + 4, sets=['dtypes.reduce="bf16"', "leaves=16"])

warned("partial sums of leaves", rf"keep (\d+) levels of partial sums \({SIZE}\).*leaves = (\d+) needs",
       6, 6 * 4 * P, 1, sets=["mesh.shard=1"])
warned("too few leaves", rf"keep (\d+) levels of partial sums \({SIZE}\) and whole gradients across "
       rf"micro-batches \({SIZE}\).*leaves = (\d+) needs", 2, 2 * 4 * P / 8, 4 * P, 64, sets=["leaves=32"])
warned("sums of whole gradients", rf"keep (\d+) levels of partial sums \({SIZE}\)",
       3, 3 * 4 * P, sets=["accumulate=unsharded"])
warned("llama8b: its leaves have no better value", "partial sums", quiet=True)

# A link of 100 GB/s, 20 us for each collective; 2 rounds on 8 ranks with 16 micro-batches.
n, d, v, f = 24, 256, 4096, 512
tiny = [f"model.layers={n}", f"model.dim={d}", f"model.vocab={v}", f"model.ffn={f}", "model.heads=8",
        "model.kv_heads=8", "seq=128", "global_batch=16", "leaves=16", "target.rates.link=100"]
block = [d, 3 * d * d, d * d, d, 2 * f * d, d * f]
units = [elems(u, 8) for u in [[v * d]] + [block] * n + [[d, v * d]]]
moved = [2 * 7 * e // 8 for e in units + units[1:-1]] + [4 * 7 * e // 8 for e in units]
# A rank adds its part of 8: it reads them and writes the sum, 32 multiprocessors with 64 KiB in 0.8 us each.
added = sum((8 + 1) * 4 * e // 8 for e in units) / (32 * 65536 / 0.8e-6)
bytes_time, count = sum(moved) / 100e9 + added, 2 * len(moved)
best = sum(moved) / 100e9  # of collectives so large that they add one slice while another one arrives
warned("units too small for the link", rf"(\d+) units are too small for the link: (\d+) collectives of {SIZE} on "
       r"average reach ([\d.]+) % of its rate.*per_block\((\d+)\) saves",
       n + 2, count, sum(moved) / len(moved), 100 * best / (bytes_time + len(moved) * LATENCY), 8, sets=tiny)
warned("a micro-batch too small to hide its collectives", f"the collectives of a micro-step take about {TIME}",
       bytes_time + len(moved) * LATENCY, sets=[*tiny, "global_batch=64"])

# Three products of each chunk: logits, dx, dw. Operands in bf16 at 2000 GB/s, 500 TFLOP/s.
chunk = 64
large = next(c for c in (64, 128, 256, 512, 1024) if 500e12 / 2000e9 * (1 / V + 1 / D + 1 / c) <= 1)
moves = 2 * 3 * (chunk * D + V * D + chunk * V) * (TOKENS // chunk) / 2000e9
warned("a chunk of the loss too small", rf"(\d+) chunks of (\d+) tokens each read the head's weights again: about "
       rf"{TIME} a micro-step to move operands, and {TIME} for the products.*loss.chunk_tokens = (\d+) keeps {SIZE}",
       TOKENS // chunk, chunk, moves, 3 * 2 * TOKENS * V * D / 500e12, large, 2 * large * V,
       sets=[f"loss.chunk_tokens={chunk}", "target.rates.memory=2000", "target.rates.tflops=500"])
warned("llama8b: its chunk is large enough", "loss.chunk_tokens", quiet=True)

# fp8 saves flops and spends bytes: the warning has what plan says of both descriptions.
SLOW = ["target.rates.memory=300", "target.rates.norm=300"]


def planned(*sets):
    command = [generator, "plan", f"{models}/llama8b.lua", "--target", "cuda", "--json", "--set", 'target.memory="999GiB"']
    for s in (*SLOW, *sets):
        command += ["--set", s]
    plan = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    return plan["step_seconds"], plan["bytes_per_rank"]["total"]


with_fp8, without = planned("dtypes.linear=fp8"), planned()
warned("fp8 that makes a step longer", rf'a step takes about {TIME} with "fp8", in {SIZE} a rank, and {TIME} without'
       rf'.*dtypes.linear = "param" needs {SIZE} a rank', with_fp8[0], with_fp8[1], without[0], without[1],
       sets=["dtypes.linear=fp8", *SLOW])
warned("llama8b: fp8 makes it shorter", "dtypes.linear", quiet=True, sets=["dtypes.linear=fp8"])

d, kv, f, v = 64, 64, 64, 256
narrow = [f"model.layers={n}", f"model.dim={d}", f"model.vocab={v}", f"model.ffn={f}", "model.heads=4",
          "model.kv_heads=4"]
block = [d, 3 * d * d, d * d, d, 2 * f * d, d * f]
units = [[v * d]] + [block] * n + [[d, v * d]]
used, held = sum(map(sum, units)), sum(elems(u, 8) for u in units)
warned("padding", r"padding is ([\d.]+) % of the parameters \((\d+) of (\d+) elements\)",
       100 * (held - used) / used, held - used, used, sets=narrow)
warned("llama8b has nothing to warn of", "warning", quiet=True)

print(f"{passed} mistakes, {failed} wrong")
sys.exit(failed > 0)
