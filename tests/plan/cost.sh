# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the one cost model: plan --kernels, --rates, and messages about such files.

tiny=$ROOT/tests/models/tiny_llama.lua
golden_kernels() { # NAME ARGUMENT...: the table as committed
    local name=$1
    shift
    "$FSDPGEN" plan "$@" --kernels >"$WORK/kernels" 2>"$WORK/err" || bad "kernels $name" "$WORK/err"
    [ "$update" = 0 ] || cp "$WORK/kernels" "$here/golden/kernels_$name.txt"
    check "plan --kernels: $name" diff "$here/golden/kernels_$name.txt" "$WORK/kernels"
}

cat >"$WORK/rates.json" <<'EOF'
{ "fsdpgen_rates": 1, "platform": "a made-up machine", "target": "cpu", "threads": 1, "ranks": 2,
  "products": [{ "form": "nt", "m": 38, "n": 100, "k": 36, "dtype": "f32", "us": 7.5 }],
  "rates": { "product_gflops": 10, "attention_gflops": 5, "attention_bwd_gflops": 4,
             "elementwise_gbps": 20, "norm_gbps": 1 },
  "collectives": [
    { "kind": "all_gather", "ranks": 2, "bytes": 16384, "us": 100 },
    { "kind": "all_gather", "ranks": 2, "bytes": 65536, "us": 300 },
    { "kind": "reduce_scatter", "ranks": 2, "bytes": 1024, "us": 1000 }],
  "contention": 1.5, "launch_us": 0.25 }
EOF
rates=(--rates "$WORK/rates.json")
golden_kernels cpu "$tiny" --set mesh.shard=2
golden_kernels rates "$tiny" --set mesh.shard=2 --set target.comm_thread=true "${rates[@]}"
golden_kernels cuda "$ROOT/models/llama8b.lua" --target cuda
check "plan --kernels: collectives add time, by no one factor" grep -q '^  collectives add *[0-9.]* ms' "$WORK/kernels"

# attention_rates MODEL BY RATES: the TFLOP/s by which attention's kernels are priced
attention_rates() {
    check "plan --kernels: attention of $1, target.attention=$2: $3 TFLOP/s" test "$("$FSDPGEN" plan \
        "$ROOT/models/$1.lua" --kernels --target cuda --set target.gpu=h100 --set target.attention="$2" \
        2>/dev/null | sed -n 's/.* attention\(_bwd\)\{0,1\} \([0-9]*\) TFLOP.*/\2/p' | sort -nu | xargs)" = "$3"
}
attention_rates llama8b generated "175 260"
attention_rates llama8b cudnn "228 438"
attention_rates llama8b auto "228 438"
attention_rates llama3.2_1b auto "175 260"
attention_rates gemma3_1b auto "175 260"
python3 - "$FSDPGEN" "$tiny" "$ROOT/models/llama8b.lua" "$WORK/rates.json" >"$WORK/out" 2>&1 <<'EOF'
# Sums, and what each rate of the file decides, by closed forms.
import json, math, subprocess, sys
fsdpgen, tiny, large, file = sys.argv[1:]

def plan(*arguments):
    return json.loads(subprocess.run([fsdpgen, "plan", *arguments, "--kernels", "--json"], check=True,
                                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)

def near(a, b, what):
    if abs(a - b) > 1e-6 * max(abs(a), abs(b)):
        sys.exit(f"{what}: {a}, not {b}")

for arguments in ([tiny], [tiny, "--set", "mesh.shard=2", "--rates", file],
                  [tiny, "--set", "mesh.shard=2", "--set", "target.comm_thread=true", "--rates", file],
                  [tiny, "--set", "recompute=block"], [large, "--target", "cuda"],
                  [large, "--set", "optimizer=muon{lr=1e-3}"]):
    p = plan(*arguments)
    k = p["kernels"]
    near(sum(r["total_ms"] for r in k["rows"]), k["alone_ms"], f"{arguments}: the sum of rows")
    near(k["alone_ms"] + k["contention_ms"], k["compute_ms"], f"{arguments}: what is busy")
    near(sum(r["share"] for r in k["rows"]) + k["contention_ms"] / k["compute_ms"], 1,
         f"{arguments}: shares")
    near(k["step_ms"], p["step_seconds"] * 1e3, f"{arguments}: the step")
    assert k["compute_ms"] <= k["step_ms"] * (1 + 1e-9), arguments

def row(k, name, shape=""):
    found = [r for r in k["rows"] if r["name"] == name and r["shape"].startswith(shape)]
    if len(found) != 1:
        sys.exit(f"{len(found)} rows of {name} {shape}")
    return found[0]

k = plan(tiny, "--rates", file)["kernels"]
near(row(k, "linear", "nt 38x100x36")["ms"], 7.5e-3, "a measured shape")
other = row(k, "linear", "nt 38x126x36")
near(other["ms"], 2 * 38 * 126 * 36 / 10e9 * 1e3 + 0.25e-3, "another shape")
forward, backward = row(k, "attention"), row(k, "attention_bwd")
near(forward["ms"], forward["flops"] / 5e9 * 1e3 + 0.25e-3, "attention")
near(backward["ms"], backward["flops"] / 4e9 * 1e3 + 0.25e-3, "its backward")
near(row(k, "rmsnorm")["ms"], row(k, "rmsnorm")["bytes"] / 1e9 * 1e3 + 0.25e-3, "a norm")
near(row(k, "add")["ms"], row(k, "add")["bytes"] / 20e9 * 1e3 + 0.25e-3, "an elementwise kernel")
near(row(k, "embed")["ms"], row(k, "embed")["bytes"] / 8e9 * 1e3 + 0.25e-3, "a rate that the file lacks")
assert not row(k, "embed")["measured"] and row(k, "add")["measured"]

# Partial sums are merged once in a leaf, however many micro-batches it has. One rank waits for nothing, so its step is
# its kernels.
for leaves, batch in (4, 64), (8, 16), (8, 64):
    p = plan(large.replace("llama8b", "demo"), "--set", 'accumulate="unsharded"', "--set", f"leaves={leaves}",
             "--set", f"global_batch={batch}", "--set", "mesh={shard=1}")
    merges = [r for r in p["kernels"]["rows"] if r["name"] == "merge"]
    near(sum(r["calls"] for r in merges), leaves * len(p["units"]), f"merges of {leaves} leaves")
    near(p["kernels"]["alone_ms"], p["step_seconds"] * 1e3, f"a step of {leaves} leaves")
p = plan(large, "--target", "cuda", "--set", "target.memory='800GiB'", "--set", "mesh={shard=2}", "--set", "leaves=8",
         "--set", "accumulate='unsharded'", "--set", "global_batch=512")
for layers, name in (32, "layers.0"), (1, "embed"), (1, "head"):
    elems = next(u["elems"] for u in p["units"] if u["name"] == name)
    merge = row(p["kernels"], "merge", f"[{elems}]")
    near(merge["calls"], 4 * layers, f"merges of {name}")
    near(merge["bytes"], 3 * 4 * elems, f"bytes of a merge of {name}")

# A clock ends after 26 days: a longer step has no figure. Rows of kernels that take less keep theirs.
p = plan(large.replace("llama8b", "llama405b"), "--target", "cpu", "--set", "mesh={shard=2}", "--tokens", "1T")
k = p["kernels"]
assert k["step_ms"] is p["step_seconds"] is p["exposed_seconds"]["shard"] is p["run"]["hours"] is None, p["run"]
assert any(w.startswith("a step takes more than 26 days") for w in p["warnings"]), p["warnings"]
near(sum(r["total_ms"] for r in k["rows"]), k["alone_ms"], "rows of a step without a figure")

# On a device, passes beside the products, their operands as often as they are read, rows of an embedding.
# llama8b: 8,192 tokens; gpt2_124m: 4,096. H100: 720 TFLOP/s, 2,800 GB/s, 0.8 of it for norms; 1 us a launch.
us, rate, memory = 1e-3, 720e12 / 1e3, 2800e9 / 1e3
k = plan(large.replace("llama8b", "gpt2_124m"), "--target", "cuda")["kernels"]
t, d, v = t0, d0, v0 = 4096, 768, 50257
near(row(k, "conv1d", "nn 4096x3072x768")["ms"], 2 * t * 3072 * d / rate + us, "a product without its bias")
near(row(k, "bias", "[4096, 2304]")["ms"], (2 * 2 * t * 2304 + 2 * 2304) / memory + us, "the bias of q, k and v")
near(row(k, "map_bias_gelu", "[4096, 3072]")["ms"], (2 * 2 * t * 3072 + 2 * 3072) / memory + us, "a bias and GELU")
near(row(k, "embed_bwd")["ms"], (12 * t + t * d * (2 + 8) + v * d * 4) / (0.8 * memory) + us,
     "rows of an embedding, after its whole gradient is cleared")
near(row(k, "embed")["bytes"], 4 * t + 2 * 2 * t * d, "rows of an embedding in bf16")
near(row(k, "linear_cross_entropy")["ms"],
     (6 * t * v * d + 7 * t * v) / rate + us + (3 * 2 * t * v + 2 * 2 * v * d) / memory + us,
     "a loss, passes over its logits, a copy of the head in rows of 16 bytes")
k = plan(large, "--target", "cuda", "--set", "loss.chunk_tokens=256")["kernels"]
t, d, v, m, times = 8192, 4096, 128256, 256, 32
operands = 2 * (m * d + d * v + m * v) * times * 2 + 2 * (m * v + m * d) * times + 4 * v * d * (2 * times - 1)
near(row(k, "linear_cross_entropy")["ms"], operands / memory + us + 3 * 2 * t * v / memory + us,
     "a loss in small chunks reads the head in each")
near(row(k, "linear_cross_entropy")["bytes"], operands + 3 * 2 * t * v, "its bytes")

# Products in f32 and f64 take 15 times as long as in bf16, unless their own rate was measured; matrices of an
# optimizer are of f32 where weights are of bf16.
small = large.replace("llama8b", "gpt2_124m")
full = json.load(open(file)) | {"target": "cuda", "products": [], "collectives": [], "rates": {"product_gflops": 40e3}}
json.dump(full, open(file + ".cuda", "w"))
for dtypes in ("dtypes.param=f32",), ("dtypes={param='f64',reduce='f64',master='f64',moments='f64'}",):
    k = plan(small, "--target", "cuda", "--set", *dtypes)["kernels"]
    near(row(k, "conv1d", "nn 4096x3072x768")["ms"], 2 * t0 * 3072 * d0 / (rate / 15) + us, f"a product, {dtypes}")
    near(row(k, "attention")["rate"], 260e12 / 15, f"attention, {dtypes}")
    k = plan(small, "--target", "cuda", "--set", *dtypes, "--rates", file + ".cuda")["kernels"]
    near(row(k, "conv1d", "nn 4096x3072x768")["ms"], 2 * t0 * 3072 * d0 / 40e9 + 0.25e-3, f"measured, {dtypes}")
for dtype, each in ("bf16", 720e12 / 15), ("f32", 720e12 / 15):
    m = row(plan(small, "--target", "cuda", "--set", "optimizer=muon{}", "--set", f"dtypes.param={dtype}")["kernels"], "matrices")
    assert m["class"] == "product" and not m["measured"], m
    near(m["rate"], each, "the rate of matrices")
    near(m["ms"], m["flops"] / each * 1e3 + us, "matrices")

# An update reads and writes master and moments, reads the gradient, and writes the weight where it is not the master;
# with the master in split it reads the weight, too.
for sets, each in ((), 8 + 16 + 4 + 2), (("dtypes.param=f32",), 8 + 16 + 4), (("dtypes.master=split",), 4 + 16 + 4 + 4), \
        (("optimizer=sgd{}",), 8 + 4 + 2), (("optimizer=lion{}",), 8 + 8 + 4 + 2):
    k = plan(small, "--target", "cuda", *(a for s in sets for a in ("--set", s)))["kernels"]
    updates = [r for r in k["rows"] if r["name"] == "update"]
    assert len(updates) > 1
    for r in updates:
        near(r["bytes"], each * int(r["shape"][1:-1]), f"an update, {sets}")
for master, each in ("f32", 8 + 2 + 4), ("split", 4 + 4 + 4):
    k = plan(small, "--target", "cuda", "--set", "optimizer=muon{}", "--set", f"dtypes.master={master}")["kernels"]
    near(row(k, "step")["bytes"], each * int(row(k, "step")["shape"][1:-1]), f"a step of matrices, {master}")

# Ranks with equal parts share the norm in grains of 1,024 elements. A rank alone exchanges nothing.
def norms(*sets):
    k = plan(small, "--target", "cuda", *(a for s in sets for a in ("--set", s)))["kernels"]
    return {r["shape"]: r["bytes"] for r in k["rows"] if r["name"] == "norm"}, k
whole, k = norms("mesh={shard=1}")
assert len(whole) > 1 and not [r for r in k["rows"] if r["name"] == "norm_reduce"]
eighth, k = norms("mesh={replicate=8,shard=1}", "strategy=no_shard")
assert eighth == {f"[{e}]": 4 * e for s in whole for e in [-(-int(s[1:-1]) // 8192) * 1024]}, (whole, eighth)
assert row(k, "norm_reduce")["ms"] >= 20e-3

# collectives: gathers lie between measured sizes, reductions above the largest one
text = subprocess.run([fsdpgen, tiny, "--set", "mesh.shard=2", "--rates", file, "--dump=simulate"],
                      check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
took = {line.split(None, 4)[4]: int(line.split()[3]) - int(line.split()[2])
        for line in text.splitlines() if line[:1] == " " and line.split()[1] in ("gather", "reduce")}
plan_units = {u["name"]: u["elems"] * 4 for u in plan(tiny, "--set", "mesh.shard=2")["units"]}
for label, ps in took.items():
    name = next((n for n in plan_units if f" {n}" in label), None)
    if label.startswith("gather of") and name:
        near(ps, 100e6 + 200e6 * math.log2(plan_units[name] / 16384) / 2, label)
    if label.startswith("reduction of") and name:
        near(ps, plan_units[name] / 1024 * 1000e6, label)
assert len(took) > 4, text
EOF
check "plan --kernels: rows add up; each rate decides its class" test ! -s "$WORK/out"
[ ! -s "$WORK/out" ] || sed 's/^/     | /' "$WORK/out"

# rates choose no hashed field, and no line of mathematics
for way in "" "--rates $WORK/rates.json"; do
    # shellcheck disable=SC2086
    "$FSDPGEN" "$tiny" --set recompute=auto --set 'target=cpu{memory="150MiB"}' $way \
        --link-runtime "$ROOT/runtime" -o "$WORK/trainer${way:+_rates}" >/dev/null 2>"$WORK/err" ||
        bad "generate $way" "$WORK/err"
done
check "--rates: the same numerics" test -n "$(grep '"numerics"' "$WORK/trainer/manifest.json")" -a \
    "$(grep '"numerics"' "$WORK/trainer/manifest.json")" = "$(grep '"numerics"' "$WORK/trainer_rates/manifest.json")"
check "--rates: the same mathematics" cmp "$WORK/trainer/math.c" "$WORK/trainer_rates/math.c"
"$FSDPGEN" plan "$tiny" --json "${rates[@]}" >"$WORK/plan.json" 2>"$WORK/err"
digest=$(sed -n 's/.*"xxh3": "\([0-9a-f]\{16\}\)".*/\1/p' "$WORK/plan.json")
check "--rates: the file's hash is in the manifest" grep -q "\"rates\": \"${digest:-none}\"" \
    "$WORK/trainer_rates/manifest.json"
check "--rates: no hash without a file" bash -c "! grep -q '\"rates\"' '$WORK/trainer/manifest.json'"
sed 's/0.25 }/0.25  }/' "$WORK/rates.json" >"$WORK/bad.json"
"$FSDPGEN" plan "$tiny" --json --rates "$WORK/bad.json" >"$WORK/plan.json" 2>"$WORK/err"
check "--rates: another byte, another hash" bash -c "! grep -q '$digest' '$WORK/plan.json'"
check "--rates: the plan names the file" grep -q '(calibrated by rates.json)' "$WORK/trainer_rates/plan.txt"
check "--rates: not its folder" bash -c "! grep -rqF '$WORK' '$WORK/trainer_rates'"
"$FSDPGEN" tune "$tiny" recompute=none,block --plan-only "${rates[@]}" >"$WORK/out" 2>&1
check "--rates: tune predicts by them" grep -q 'predicted by the rates of .*rates.json' "$WORK/out"

# messages, as committed: rates.txt has a sed script for each case
while read -r script; do
    [ -n "$script" ] || continue
    sed "$script" "$WORK/rates.json" >"$WORK/bad.json"
    echo "== $script"
    (cd "$WORK" && "$FSDPGEN" plan "$tiny" --rates bad.json 2>&1 >/dev/null)
    echo "exit $?"
done <"$here/rates_wrong.txt" >"$WORK/said"
[ "$update" = 0 ] || cp "$WORK/said" "$here/golden/rates_wrong.txt"
check "--rates: wrong files" diff "$here/golden/rates_wrong.txt" "$WORK/said"
"$FSDPGEN" plan "$tiny" --rates "$WORK/none.json" >/dev/null 2>"$WORK/err"
check "--rates: no such file" grep -q "rates .*none.json: " "$WORK/err"
