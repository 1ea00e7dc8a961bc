# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: golden dumps.

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
