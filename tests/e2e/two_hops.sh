# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Reductions over simulated nodes (mesh.node): the same bits and
# mathematics files as on one node, and what crosses between nodes, counted by the runtime,
# is its closed form: of each gather what lies on other nodes, of each reduction one part a
# node, which over all ranks is no more than a ring moves over the same wires.

# two_hops_run NAME SETS: leaves $WORK/NAME.result and .stats
two_hops_run() {
    local dir=$WORK/$1 set flags=()
    for set in $2; do flags+=(--set "$set"); done
    generate "$dir" "$ROOT/tests/models/tiny_llama.lua" "${flags[@]}" && build_trainer "$dir" &&
        train "$dir" "$data" 2 --threads 1 --stats "$dir.stats" || {
        bad "two hops: $2: does not run" "$dir.log"
        return 1
    }
}

stat() { json_number "$WORK/$1.stats" "$2"; } # of the first rank; all are alike

two_hops() {
    local node more kind reduced gathered
    two_hops_run flat "mesh.shard=8" || return
    gathered=$(stat flat gathered_bytes) reduced=$(stat flat reduced_bytes)
    same "one node: bytes between nodes" "$(stat flat node_bytes)" 0
    for node in 2 4; do
        two_hops_run nodes "mesh.shard=8 mesh.node=$node" || continue
        what="nodes of $node of 8 ranks"
        check "$what: equal bits" cmp "$WORK/flat.result" "$WORK/nodes.result"
        check "$what: the mathematics files" same_mathematics "$WORK/flat" "$WORK/nodes"
        same "$what: gathered bytes" "$(stat nodes gathered_bytes)" "$gathered"
        same "$what: reduced bytes" "$(stat nodes reduced_bytes)" \
            $((reduced / 7 * (8 / node * (node - 1) + 8 / node - 1)))
        same "$what: bytes between nodes" "$(stat nodes node_bytes)" \
            $((gathered / 7 * (8 - node) + reduced / 7 * (8 / node - 1)))
        # a ring of 8 crosses 8 / node wires with 7 parts each; of parts, 7 are what a rank receives
        check "$what: sums cross no more than a ring's" \
            [ $((8 * ($(stat nodes node_bytes) - gathered / 7 * (8 - node)))) -le $((8 / node * reduced)) ]
    done
    for more in "mesh.replicate=8 mesh.node=4" "mesh.replicate=4 mesh.shard=2 mesh.node=4" \
        "mesh.shard=8 mesh.node=2 accumulate=unsharded global_batch=32 leaves=8"; do
        two_hops_run one "${more/ mesh.node=?/}" && two_hops_run nodes "$more" || continue
        check "$more: sums take two hops" grep -q '^const RtHops trainer_hops' "$WORK/nodes/tables.c"
        same "$more: one, without nodes" "$(grep -c 'RtHops' "$WORK/one/tables.c")" 0
        check "$more: equal bits" cmp "$WORK/one.result" "$WORK/nodes.result"
        sed -n '/step_bytes_per_rank/,$p' "$WORK/nodes/plan.json" >"$WORK/nodes.moved"
        for kind in reduced replicate; do
            same "$more: $kind bytes of two steps" "$(stat nodes ${kind}_bytes)" \
                $((2 * $(json_number "$WORK/nodes.moved" $kind)))
        done
    done
}
