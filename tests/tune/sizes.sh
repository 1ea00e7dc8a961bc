# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: `fsdpgen size`: its rows are plans; prices, targets, GPUs that cannot; what it prints.

# Each row has the bytes and the rate of a plan for that GPU; prices are given, never assumed.
sizes() {
    local models="$ROOT/models/llama8b.lua $ROOT/models/gpt2_124m.lua"
    "$FSDPGEN" size $models --json --gpu h100 --gpu rtx4090 --price h100=2.5 >"$WORK/size.json"
    check "fsdpgen size" test $? = 0
    check "its rows are plans" python3 "$here/sizes.py" "$FSDPGEN" "$WORK/size.json" h100=2.5
    "$FSDPGEN" size $models --set mesh.shard=4 >"$WORK/size.txt"
    check "all GPUs, other ranks" test "$(grep -c 'GiB of' "$WORK/size.txt") $(grep -c ' 4 ranks' "$WORK/size.txt")" = '16 2'
    "$FSDPGEN" size "$ROOT/models/llama8b.lua" --json --set mesh.shard=64 --gpu h100 --set target.node=aws-p5 >"$WORK/size.json"
    check "ranks on several nodes; a node's price" python3 "$here/sizes.py" "$FSDPGEN" "$WORK/size.json" h100=4.91625 \
        target.node=aws-p5 mesh.shard=64
    check "their nodes" grep -q '8 x hgx-h100, tapered  mesh.node = 8' <("$FSDPGEN" size "$ROOT/models/llama8b.lua" \
        --set mesh.shard=64 --gpu h100 --fabric tapered)
    local long=(--gpu a100-80gb --set global_batch=16777216)
    check "a step of more than 26 days" grep -q ' a step takes more than 26 days$' \
        <("$FSDPGEN" size "$ROOT/models/llama8b.lua" "${long[@]}")
    "$FSDPGEN" size "$ROOT/models/llama8b.lua" "${long[@]}" --price a100-80gb=2 --json >"$WORK/size.json"
    check "and in JSON" test "$(rank_bytes fits) $(rank_bytes tokens_per_second) $(rank_bytes usd)" = 'True None None'
    refused 1 'is not one of its values' $models --fabric ethernet
    refused 2 'size: --gpu h1000: no such GPU' $models --gpu h1000
    refused 2 'size: --price h100 is not GPU=USD' $models --price h100
    refused 2 'size: --price h100=x is not GPU=USD' $models --price h100=x
    refused 2 'size: --price h100=-1 is not GPU=USD' $models --price h100=-1
    refused 2 'size: --price h101: no such GPU' $models --price h101=2
    refused 1 'seq: 0 is too small' $models --set seq=0
    refused 1 'no/such.lua: error' no/such.lua
    refused 2 'no description is given'
    refused 2 '--target is not an option of .size.' $models --target cpu
    own_target
    some_refused
    check 'a title without prices has no dollars' test "$("$FSDPGEN" size "$llama" --gpu h100 --price h200=3 | head -n 1)" = \
        'GPU hours of a billion tokens, at assumed rates'
    check 'large figures have no exponents' grep -qE ' tokens/s +[0-9]+( [0-9]{3})+ GPU hours +[0-9]+( [0-9]{3})+ USD' \
        <("$FSDPGEN" size "$ROOT/models/llama8b.lua" --gpu h100 --price h100=3 --tokens 15T)
    cp "$llama" "$WORK/"$'d\e[31m\xff.lua'
    "$FSDPGEN" size "$WORK/"$'d\e[31m\xff.lua' --gpu h100 >"$WORK/size.txt"
    check 'no terminal obeys a name' grep -qF 'd\x1b[31m\xff.lua: 53.2 k parameters' "$WORK/size.txt"
    "$FSDPGEN" size "$WORK/"$'d\e[31m\xff.lua' --gpu h100 --json >"$WORK/size.json"
    check 'nor is a row lost' test "$(field 0.gpu "$WORK/size.json")" = h100
}
# A description's own target is planned, and what it says of its GPU's machines for that GPU alone.
rank_bytes() { field "0.$1" "$WORK/size.json"; }
own_target() {
    local machine='memory = "60GiB", rates = { tflops = 100 }, node = "aws-p5", network = { nics = 4 }'
    sed "s/^}\$/    target = cuda { reserve = \"20GiB\", attention = \"cudnn\", $machine },\n}/" \
        "$ROOT/models/llama3.2_1b.lua" >"$WORK/own.lua"
    "$FSDPGEN" plan "$WORK/own.lua" --json >"$WORK/mine.json" 2>/dev/null
    "$FSDPGEN" size "$WORK/own.lua" --gpu h100 --json >"$WORK/size.json"
    check 'its own target: the bytes of its plan' test "$(rank_bytes rank_bytes) $(rank_bytes budget_bytes)" = \
        "$(field bytes_per_rank.total "$WORK/mine.json") $(field budget_bytes "$WORK/mine.json")"
    check 'and its time' python3 -c 'import json, sys
p, (row,) = (json.load(open(f)) for f in sys.argv[1:])
assert abs(row["tokens_per_second"] * p["step_seconds"] / (64 * 4096) - 1) < 1e-6, row' "$WORK/mine.json" "$WORK/size.json"
    check "and its node's price" test "$(rank_bytes usd)" != None
    "$FSDPGEN" plan "$WORK/own.lua" --json --set \
        'target=cuda { gpu = "h200", reserve = "20GiB", attention = "cudnn" }' >"$WORK/mine.json" 2>/dev/null
    "$FSDPGEN" size "$WORK/own.lua" --gpu h200 --json >"$WORK/size.json"
    check 'another GPU: the bytes, without its machines' test "$(rank_bytes rank_bytes) $(rank_bytes budget_bytes)" = \
        "$(field bytes_per_rank.total "$WORK/mine.json") $(field budget_bytes "$WORK/mine.json")"
    check 'which have no price' test "$(rank_bytes usd)" = None
    "$FSDPGEN" size "$WORK/own.lua" --gpu h200 --set 'target.memory="50GiB"' --json >"$WORK/size.json"
    check '--set is for every GPU' test "$(rank_bytes budget_bytes)" = $((50 << 30))
    grep -v '^    target = ' "$WORK/own.lua" | sed 's/^}$/    target = cpu { memory = "1GiB" },\n}/' >"$WORK/other.lua"
    "$FSDPGEN" size "$WORK/other.lua" --gpu h100 --json >"$WORK/size.json"
    check 'a target of another kind is replaced' test "$(rank_bytes budget_bytes)" -gt $((50 << 30))
}
# Without --gpu a GPU that cannot run the description is a row; with it, and where none can, an error.
some_refused() {
    local why='dtypes.linear: "fp8" needs GPUs from sm_89 on, and target.arch has sm_80'
    "$FSDPGEN" size "$ROOT/models/llama3.2_1b.lua" --set dtypes.linear=fp8 >"$WORK/size.txt" 2>"$WORK/size.err"
    check 'a GPU that cannot: code 0, no message' test $? = 0 -a ! -s "$WORK/size.err"
    check 'its row says why' grep -qxF "  a100-80gb   refused: $why" "$WORK/size.txt"
    check 'the others have their rows' grep -q '^  h100 .* tokens/s ' "$WORK/size.txt"
    check 'the head is theirs' grep -q ' 1.2 B parameters, 4 ranks, 262 144 tokens a step' "$WORK/size.txt"
    "$FSDPGEN" size "$ROOT/models/llama3.2_1b.lua" --set dtypes.linear=fp8 --json >"$WORK/size.json"
    check 'so does JSON' python3 -c 'import json, sys
rows = {r["gpu"]: r for r in json.load(open(sys.argv[1]))}
a, h = rows["a100-80gb"], rows["h100"]
assert a["refused"] == sys.argv[2] and not a["fits"] and a["rank_bytes"] is a["params"] is a["gpu_hours"] is None, a
assert h["refused"] is None and h["fits"] and list(h) == list(a), h' "$WORK/size.json" "$why"
    refused 1 'dtypes.linear: "fp8" needs GPUs from sm_89 on' "$ROOT/models/llama3.2_1b.lua" --set dtypes.linear=fp8 --gpu a100-80gb
}
refused() { # CODE PATTERN ARGUMENTS...
    local code=$1 pattern=$2
    shift 2
    "$FSDPGEN" size "$@" >"$WORK/size.out" 2>"$WORK/size.err"
    check "size $*: code $code" test $? = "$code"
    check "size $*: $pattern" grep -q -- "$pattern" "$WORK/size.err"
}
