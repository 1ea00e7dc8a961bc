#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--update]: the passes shard to simulate. Synthetic models and faults (test_plan), real
# architectures under the interpreter (test_models), golden dumps, plans of the shipped models
# against their lower bounds, plan --json, budgets. --update writes the golden dumps as they
# are now, for a reader to judge with `git diff`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
suite_args "$@"
here=$ROOT/tests/plan

# ---- the two programs ----------------------------------------------------------------------------

# Adds a program's own count to ours, and shows its failures and figures.
count_program() {
    local name=$1 line
    shift
    "$@" >"$WORK/$name.out" 2>"$WORK/$name.err"
    local status=$?
    grep -E '^(FAIL|figure)' "$WORK/$name.out"
    line=$(tail -n 1 "$WORK/$name.out" | grep -E '^[0-9]+ passed, [0-9]+ failed$')
    if [ -z "$line" ]; then
        bad "$name ended with status $status" "$WORK/$name.err"
        return
    fi
    passed=$((passed + ${line%% *}))
    line=${line#*, }
    failed=$((failed + ${line%% *}))
}

if [ "$FULL" = 1 ]; then
    count_program test_plan "$BUILD/tests/plan/test_plan" 600 "$SEED"
    count_program test_models "$BUILD/tests/plan/test_models" "$here" 24 "$SEED"
else
    count_program test_plan "$BUILD/tests/plan/test_plan" 40 "$SEED"
    count_program test_models "$BUILD/tests/plan/test_models" "$here" 4 "$SEED"
fi

# `auto` against every choice: 20 small cases.
if [ "$FULL" = 1 ]; then
    count_program test_auto "$BUILD/tests/plan/test_auto" "$here" 20 "$SEED" 3
else
    count_program test_auto "$BUILD/tests/plan/test_auto" "$here" 20 "$SEED"
fi

# ---- golden dumps --------------------------------------------------------------------------------

# golden NAME ARGS...: each planning pass of small_llama, or those in $passes.
golden() {
    local name=$1 pass golden
    shift
    for pass in ${passes:-shard policy unroll schedule place simulate}; do
        golden=$here/golden/small_llama_$name.$pass.txt
        "$FSDPGEN" "$here/small_llama.lua" "$@" --dump=$pass >"$WORK/dump" 2>"$WORK/err"
        if [ $update = 1 ]; then
            mkdir -p "$here/golden"
            cp "$WORK/dump" "$golden"
        fi
        if diff -u "$golden" "$WORK/dump" >"$WORK/diff" 2>&1; then
            ok "golden $name $pass"
        else
            bad "golden $name $pass" "$WORK/diff"
        fi
    done
}
golden shard --set "mesh={shard=2}"
golden replicate --set "mesh={replicate=2}"
golden mesh --set "mesh={replicate=2,shard=4}" --set reshard_after_forward=2
# The second block's backward waits for no reduction, the third's for the first one's: as
# many overlap as without copies.
passes=schedule golden hybrid --set "mesh={replicate=2,shard=2}" --set leaves=4 \
    --set global_batch=4 --set 'target=cpu{comm_thread=true}'
# Gathers after the span at hand, before its reduction: the order of FSDP's BACKWARD_POST.
passes=unroll golden post --set "mesh={shard=2}" --set 'prefetch.order=post'
golden inside --set "mesh={shard=2}" --set 'wrap=by_name{"layers.*.mlp_*",{"embed","head",name="ends"}}'
golden cheap --set "mesh={shard=2}" --set "recompute=cheap"
passes=unroll golden ops_inside --set "mesh={shard=2}" --set 'wrap=by_size(1)' \
    --set 'recompute=ops{"swiglu","rmsnorm","attention"}'
# Frozen norms and weights inside blocks that the wrap cuts: segments of their own, which are
# gathered, never reduced.
passes="shard unroll" golden frozen --set "mesh={shard=2}" --set 'wrap=by_size(1)' \
    --set 'groups={{match={"*norm*","*.mlp.gate_up*"},frozen=true}}'
golden recompute --set "mesh={shard=2}" --set "recompute=every(2)"
# Whole matrices between GPUs: what travels is symmetric, the library has its workspace.
passes="schedule place simulate" golden muon_cuda --target cuda --set "optimizer=muon{}" \
    --set "mesh={replicate=2,shard=2}"

# Three orders, three steps.
for order in pre post none; do
    "$FSDPGEN" "$here/small_llama.lua" --set "mesh={shard=2}" --set "prefetch.order=$order" \
        --dump=unroll 2>"$WORK/err" | grep -v '^choices' >"$WORK/order_$order"
done
check "order post is not pre" [ -n "$(diff "$WORK/order_post" "$WORK/order_pre")" ]
check "order post is not none" [ -n "$(diff "$WORK/order_post" "$WORK/order_none")" ]

# ---- the shipped models ----------------------------------------------------------------------------

number() { sed -n "s/.*\"$1\": *\([0-9.eE+-]*\).*/\1/p" "$WORK/plan.json" | tail -n 1; }

for model in "$ROOT"/models/*.lua; do
    name=$(basename "$model" .lua)
    [ "$name" = fsdpgen ] && continue # annotations for editors
    if ! "$FSDPGEN" plan "$model" --json >"$WORK/plan.json" 2>"$WORK/err"; then
        bad "plan $name" "$WORK/err"
        continue
    fi
    arena=$(number arena) live=$(number max_live_bytes) ideal=$(number ideal_live_bytes)
    ratios=$(awk -v a="$arena" -v l="$live" -v i="$ideal" 'BEGIN {
        printf "%.4f of most live, %.4f of one stream", a / l, a / i
        exit !(a / l <= 1.02 && a / i <= 1.05) }')
    if [ $? -eq 0 ]; then ok "$name: $ratios"; else bad "$name: $ratios"; fi
    echo "figure: plan of $name: $arena bytes a rank, $ratios"
    parts=0
    for part in params gradients optimizer activations gather partials workspace; do
        parts=$((parts + $(number $part)))
    done
    check "$name: the parts of the arena add up" [ "$parts" = "$arena" ]
    check "$name: total is arena and library" \
        [ "$(number total)" = $((arena + $(number library))) ]
    "$FSDPGEN" plan "$model" >"$WORK/plan.txt" 2>"$WORK/err"
    check "$name: the text says the same" grep -q " $arena " "$WORK/plan.txt"
done
for key in params flops_per_token units ranks bytes_per_rank step_seconds warnings; do
    check "plan --json has $key" grep -q "\"$key\":" "$WORK/plan.json"
done

# A block of llama405b has 3.19e9 parameters: units of at most 1e9 are its pieces or pairs of
# them, and only gate and up together are larger.
"$FSDPGEN" plan "$ROOT/models/llama405b.lua" --set 'wrap=by_size(1e9)' --json \
    >"$WORK/plan.json" 2>"$WORK/err"
arena=$(number arena) live=$(number max_live_bytes) ideal=$(number ideal_live_bytes)
check "llama405b by size is placed well: $arena, $live, $ideal" awk -v a="$arena" -v l="$live" \
    -v i="$ideal" 'BEGIN { exit !(a > 0 && a / l <= 1.02 && a / i <= 1.05) }'
"$FSDPGEN" "$ROOT/models/llama405b.lua" --set 'wrap=by_size(1e9)' --dump=shard 2>/dev/null |
    sed -n 's/^unit layers\.7\.\([^:]*\):.*/\1/p' >"$WORK/units"
check "llama405b by size: the units of a block" \
    [ "$(tr '\n' ' ' <"$WORK/units")" = "qkv..attention mlp_up mlp_down " ]

# Small units have much padding, and one unit has no overlap: both are said, with numbers.
warns() { # warns NAME TEXT ARGS...
    local name=$1 text=$2
    shift 2
    "$FSDPGEN" check "$ROOT/models/demo.lua" --set mesh.shard=2 "$@" 2>"$WORK/err"
    check "$name is told" grep -q -- "$text" "$WORK/err"
}
quiet() { ! "$FSDPGEN" check "$ROOT/models/demo.lua" --set mesh.shard=2 "$@" 2>&1 | grep -q .; }
wide=(--set mesh.shard=8 --set model.dim=192 --set model.ffn=256)
check "demo in blocks has nothing to tell" quiet "${wide[@]}"
warns "padding over 5 %" 'padding is 8.2 % of the parameters' "${wide[@]}" --set 'wrap=by_size(1)'
warns "one unit" 'the whole model is one unit: each rank gathers all .* of weights' --set wrap=root_only
warns "one unit without shards" 'its gradients, .*, are summed when the backward is over' \
    --set wrap=root_only --set strategy=no_shard

# Nodes: what a copy over several of them costs, and what hybrid would, as its own plan says.
# plan_of ARGS...: bytes of a rank, and those across copies.
plan_of() {
    "$FSDPGEN" plan "$ROOT/models/llama8b.lua" "$@" --json 2>/dev/null | tr -d '",' | awk '
        $1 == "total:" { bytes = $2 } $1 == "replicate:" { moved = $2 }
        END { printf "%.2f %.2f\n", bytes / 2^30, moved / 2^30 }'
}
"$FSDPGEN" plan "$ROOT/models/llama8b.lua" --set 'mesh={shard=32,node=8}' --json \
    >"$WORK/plan.json" 2>"$WORK/err"
read -r bytes moved <<<"$(plan_of --set 'mesh={replicate=4,shard=8,node=8}')"
check "a copy over nodes is told" \
    grep -q 'a copy of the model lies on 4 nodes of 8 ranks: each rank receives' "$WORK/err"
check "and is in plan --json" grep -q 'a copy of the model lies on 4 nodes' "$WORK/plan.json"
check "with what hybrid moves ($moved GiB)" grep -q "about $moved GiB;" "$WORK/err"
check "and needs ($bytes GiB)" awk -v want="$bytes" '
    match($0, /a rank needs about [0-9.]*/) { got = substr($0, RSTART + 19, RLENGTH - 19) }
    END { exit !(got > 0.98 * want && got < 1.02 * want) }' "$WORK/err"
nodes() { # nodes NAME TEXT ARGS...: said, or with an empty TEXT nothing
    local name=$1 text=$2
    shift 2
    "$FSDPGEN" plan "$ROOT/models/llama8b.lua" "$@" >"$WORK/out" 2>"$WORK/err"
    if [ -n "$text" ]; then
        check "nodes, $name: told" grep -q -- "$text" "$WORK/err"
    else
        check "nodes, $name: nothing to tell" [ ! -s "$WORK/err" ]
    fi
}
nodes "hybrid over two nodes" 'mesh = { replicate = 4, shard = 8, node = 8 } with "hybrid' \
    --set 'mesh={replicate=2,shard=16,node=8}'
nodes "hybrid within nodes" "" --set 'mesh={replicate=4,shard=8,node=8}'
nodes "no node could hold a copy" "" --set 'mesh={shard=32,node=8}' \
    --set 'target=cpu{memory="50GiB"}'
nodes "kept by more than a node" 'groups of 16 lie on 2 nodes of 8 ranks: .* bring each rank' \
    --set 'mesh={shard=32,node=8}' --set reshard_after_forward=16
nodes "kept within nodes" "" --set 'mesh={shard=32,node=8}' --set reshard_after_forward=8 \
    --set 'target=cpu{memory="50GiB"}'
thread=(--set mesh.shard=8 --set target.comm_thread=true)
"$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" "${thread[@]}" >"$WORK/out" 2>"$WORK/err"
check "blocks too small to hide a collective are told" \
    grep -q 'at most [0-9]* % of them can run beside it' "$WORK/err"
"$FSDPGEN" plan "$ROOT/models/gpt2_124m.lua" "${thread[@]}" >"$WORK/out" 2>"$WORK/err"
check "blocks that do are not" [ "$(grep -c comm_thread: "$WORK/err")" = 0 ]

# ---- budgets ---------------------------------------------------------------------------------------

# budget NAME WANT TEXT ARGS...: plan of tiny_llama on 2 ranks ends with code WANT and says TEXT.
budget() {
    local name=$1 want=$2 text=$3
    shift 3
    "$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --set "mesh={shard=2}" "$@" >"$WORK/plan.txt" 2>&1
    check "budget, $name: exit code" [ $? = "$want" ]
    if grep -q -- "$text" "$WORK/plan.txt"; then
        ok "budget, $name: says '$text'"
    else
        bad "budget, $name: does not say '$text'" "$WORK/plan.txt"
    fi
}
total=$("$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --set "mesh={shard=2}" --json 2>/dev/null |
    sed -n 's/.*"total": *\([0-9]*\).*/\1/p')
budget "just enough" 0 "arena" --set "target=cpu{memory=\"$total\"}"
budget "a byte less" 3 'recompute = "block" needs about' \
    --set "target=cpu{memory=\"$((total - 1))\"}"
budget "more ranks would do" 3 "mesh.shard = 4 needs about" --set 'recompute=block' \
    --set 'target=cpu{memory="129.1MiB"}'
budget "nothing fits" 3 "give a rank at least" --set 'target=cpu{memory="1MiB"}'
budget "an op that is none" 1 'did you mean "swiglu"?' --set 'recompute=ops{"swglu"}'
budget "an op that changes nothing" 0 'it changes nothing' --set 'recompute=ops{"rope"}'
budget "auto, plenty" 0 "0 of 3 blocks layer recomputed" --set recompute=auto \
    --set 'target=cpu{memory="1GiB"}'
budget "auto, little" 0 'of 3 blocks layer recomputed' --set recompute=auto \
    --set "target=cpu{memory=\"$((total - 131072))\"}"
budget "auto, too little" 3 'the least memory that "auto" found' --set recompute=auto \
    --set 'target=cpu{memory="128MiB"}'

# ---- memory falls with the number of ranks ---------------------------------------------------------

# f32 parameters are their own masters, so the optimizer holds two moments of each element.
for n in 1 2 4 8; do
    "$FSDPGEN" plan "$here/../models/tiny_llama.lua" --set "mesh={shard=$n}" --json \
        >"$WORK/plan.json" 2>/dev/null
    state=$(number optimizer)
    shard=$(sed -n 's/.*"shard_elems": *\([0-9]*\).*/\1/p' "$WORK/plan.json" |
        awk '{ s += $1 } END { print s }')
    check "optimizer state on $n ranks is 8 bytes an element of the shards" \
        [ "$state" = $((shard * 8)) ]
done

finish
