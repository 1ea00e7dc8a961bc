# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the shipped models, against their lower bounds; warnings.

for model in "$ROOT"/models/*.lua; do
    name=$(basename "$model" .lua)
    [ "$name" = fsdpgen ] && continue # annotations for editors
    if ! "$FSDPGEN" plan "$model" --json >"$WORK/plan.json" 2>"$WORK/err"; then
        bad "plan $name" "$WORK/err"
        continue
    fi
    check "$name: nothing of nodes without a budget" bash -c "! grep 'nodes' '$WORK/err'"
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
    "$FSDPGEN" plan "$model" --all >"$WORK/plan.txt" 2>"$WORK/err"
    check "$name: the text says the same" grep -q " $arena " "$WORK/plan.txt"
done
# The two that are for several ranks along tensor or context fit on the GPUs that their head names. What their
# ranks read of their peers' pages, as de3a45c4 counted it, which listed the meets of each block.
while read -r name most least; do
    "$FSDPGEN" plan "$ROOT/models/$name.lua" --target cuda --json >"$WORK/plan.json" 2>"$WORK/err"
    check "$name fits" grep -q '"fits": true' "$WORK/plan.json"
    "$FSDPGEN" plan "$ROOT/models/$name.lua" --json >"$WORK/plan.json" 2>"$WORK/err"
    check "$name: pages of peers" [ "$(number peers) $(number peers_least)" = "$most $least" ]
done <<'TABLE'
llama8b_128k 8897265664 6880534528
llama70b_tp 77900214272 77851385856
TABLE
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
    "$FSDPGEN" check "$ROOT/models/demo.lua" --set mesh.shard=2 "$@" >/dev/null 2>"$WORK/err"
    check "$name is told" grep -q -- "$text" "$WORK/err"
}
quiet() { ! "$FSDPGEN" check "$ROOT/models/demo.lua" --set mesh.shard=2 "$@" 2>&1 >/dev/null | grep -q .; }
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
        $1 == "total:" { bytes = $2 } $1 == "replicate:" && !seen++ { moved = $2 }
        END { printf "%.2f %.2f\n", bytes / 2^30, moved / 2^30 }'
}
large=(--set 'target=cpu{memory="100GiB"}')
"$FSDPGEN" plan "$ROOT/models/llama8b.lua" --set 'mesh={shard=32,node=8}' "${large[@]}" --json \
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
    --set 'mesh={replicate=2,shard=16,node=8}' "${large[@]}"
nodes "hybrid within nodes" "" --set 'mesh={replicate=4,shard=8,node=8}'
nodes "nothing is known of memory" "" --set 'mesh={shard=32,node=8}'
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
