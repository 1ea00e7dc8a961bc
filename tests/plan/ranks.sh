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
