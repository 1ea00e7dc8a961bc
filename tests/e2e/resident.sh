# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. What the plan says that the kernel will count as resident, against each
# process's high-water mark (ru_maxrss, by --stats), where that is over 500 MiB: none is more than 2 %
# above the rank that reads most of its peers' pages, or below the one that reads least.

# Weights and optimizer, sums of leaves, activations, logits; one rank, shards, copies, both, parts, nodes.
resident_table() {
    cat <<'TABLE'
weights|$large
weights of 2 ranks|$large mesh.shard=2
copies|$large mesh.replicate=2
state of 2 ranks|$large mesh.shard=2 strategy=shard_optimizer accumulate=unsharded
copies of shards|$large mesh={replicate=2,shard=2} reshard_after_forward=false
shards and recompute|$large model.vocab=48000 mesh.shard=4 recompute=block accumulate=unsharded
bf16|$large dtypes.param="bf16" model.tied=true model.dim=768
activations|model.layers=8 model.dim=256 model.ffn=1024 seq=2048 global_batch=4 mesh.shard=2
parts along tensor|$large model.vocab=64000 model.heads=8 model.kv_heads=4 parts.tensor=4 mesh.tensor=2
parts along context|$large model.vocab=64000 model.heads=8 model.kv_heads=4 parts.context=2 mesh={shard=2,context=2}
parts along both|$large model.vocab=64000 model.heads=8 model.kv_heads=4 parts.tensor=2 parts.context=4 mesh={tensor=2,context=2}
sums over nodes|$large model.vocab=48000 mesh={shard=4,node=2}
TABLE
}

resident_one() { # NAME SETS
    local dir=$WORK/resident set flags=() planned least rank=0 mark large
    large="model.layers=4 model.dim=512 model.ffn=1408 model.vocab=32000 seq=48 micro_batch=1 global_batch=4"
    for set in ${2/'$large'/$large}; do flags+=(--set "$set"); done
    rm -rf "$dir" "$dir".*
    if ! generate "$dir" "$ROOT/tests/models/tiny_llama.lua" "${flags[@]}" ||
       ! build_trainer "$dir" || ! train "$dir" "$data" 2 --threads 1 --stats "$dir.stats"; then
        bad "resident, $1: does not run" "$dir.log"
        return
    fi
    planned=$(json_number "$dir/plan.json" resident)
    least=$((planned - $(json_number "$dir/plan.json" peers) + $(json_number "$dir/plan.json" peers_least)))
    for mark in $(grep -o '"high_water_bytes": *[0-9]*' "$dir.stats" | sed 's/.*: *//'); do
        check "resident, $1: rank $rank reaches $mark bytes, within 2 % of $least to $planned" awk "BEGIN {
            exit !($mark > 500 * 1048576 && 0.98 * $mark <= $planned && $least <= 1.02 * $mark) }"
        echo "figure: resident, $1, rank $rank: planned $least to $planned, measured $mark:" \
            "$(awk "BEGIN { printf \"%+.2f to %+.2f\", 100 * ($least / $mark - 1),
                100 * ($planned / $mark - 1) }") %"
        rank=$((rank + 1))
    done
    check "resident, $1: ranks were measured" [ $rank -gt 0 ]
}

resident() {
    local name sets number=0
    while IFS='|' read -r name sets; do
        turn $number 12 resident_one "$name" "$sets"
        number=$((number + 1))
    done < <(resident_table)
}
