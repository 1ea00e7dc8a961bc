# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: memory falls with the number of ranks.

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

# What meets receive, of the demo in P parts on T ranks, which compute m = P / T of them. A value of all
# tokens is A bytes, and U = A (P - m) / P of it lies in parts of other ranks. A gather receives U; a
# sum to tokens m U, a summand from each of their parts for each part here. A layer has 2 and 2, in its
# backward 4 and 2, of which 2 gathers repeat what is not kept; the embedding a sum and a gather; the
# head 2 and 1. Gradients of norms are summed whole; of the loss 3 numbers a token meet.
meets() { # PARTS RANKS
    local p=$1 t=$2 layers=4 tokens=512 dim=256 rounds=8 m u want
    m=$((p / t)) u=$((tokens * dim * 4 * (p - p / t) / p))
    want=$(((6 * layers + 3) * u + (4 * layers + 2) * m * u + (p - m) * ((2 * layers + 1) * dim * 4 + tokens * 12)))
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set "parts.tensor=$p" --set "mesh={tensor=$t}" --json \
        >"$WORK/plan.json" 2>"$WORK/err"
    check "meets of $p parts on $t ranks: $((rounds * want)) bytes in a step" test "$(number met)" = $((rounds * want))
}
meets 4 4
meets 4 2
meets 2 2
"$FSDPGEN" plan "$ROOT/models/demo.lua" --set parts.tensor=4 --set "mesh={shard=2,tensor=2}" --all >"$WORK/plan.txt" 2>"$WORK/err"
check "meets: a step receives four times what a micro-step does" \
    grep -q '^  a step receives: weights .*, 63.12 MiB of other ranks. parts$' "$WORK/plan.txt"
"$FSDPGEN" plan "$ROOT/models/demo.lua" --set parts.tensor=4 --json >"$WORK/plan.json" 2>"$WORK/err"
check "meets of parts that one rank has: nothing is said" test -z "$(number met)"

# A token costs as many flops in parts as in one: of heads, of tokens where attention has some of the
# sequences or, with more parts than sequences, of the heads.
flops_of() { # MODEL ARGUMENT...
    "$FSDPGEN" plan "$ROOT/models/$1.lua" "${@:2}" --json 2>"$WORK/err" >"$WORK/plan.json"
    number flops_per_token
}
for name in demo gpt2_124m; do
    whole=$(flops_of $name)
    for field in parts.tensor=2 parts.tensor=4 parts.context=2 parts.context=4 \
        "parts.context=4 micro_batch=2"; do
        # shellcheck disable=SC2086
        check "$name, $field: flops per token" \
            test "${whole:-none}" = "$(flops_of $name $(printf ' --set %s' $field))"
    done
done
