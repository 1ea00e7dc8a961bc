#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# contract_cost.sh: what equal bits cost on the CPU, and what each policy does. In: the built
# fsdpgen; knobs as in interleave.sh. Out: a table: median seconds of a step and memory of a
# rank, against the default (the tree over leaves, full_shard, a unit a block).
#
#   library         ranks summed one after the other: other bits for another mesh
#   few_leaves      leaves = ranks: no partial sums, no merges, one reduction a step; other bits
#   the others      choices outside the hash: the same bits
#
#   tests/bench/contract_cost.sh
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/bench/interleave.sh"

cases="default|
library|reduction=library
few_leaves|leaves=$RANKS
library_few_leaves|reduction=library leaves=$RANKS
unsharded|accumulate=unsharded
wrap_2|wrap=2
root_only|wrap=root_only
keep_gathered|reshard_after_forward=false
shard_grad_op|strategy=shard_grad_op
at_use|prefetch=0
two_ahead|prefetch=2
post|prefetch.order=post
recompute_block|recompute=block
recompute_every_2|recompute=every(2)
comm_thread|target.comm_thread=true"
[ $((RANKS % 2)) = 0 ] && [ "$RANKS" -ge 4 ] && cases="$cases
two_nodes|mesh.node=$((RANKS / 2))"
names=()
while IFS='|' read -r name sets; do
    bench_build "$name" "$sets" && names+=("$name")
done <<<"$cases"
bench_run "${names[@]}"
bench_machine
printf '%-20s %12s %10s %12s %10s\n' policy 's a step' 'of default' 'MiB a rank' 'of default'
base=$(bench_median default)
memory=$(bench_arena default)
for name in "${names[@]}"; do
    own=$(bench_median "$name")
    arena=$(bench_arena "$name")
    printf '%-20s %12s %10s %12s %10s\n' "$name" "$own" \
        "$(awk "BEGIN { printf \"%.3f\", $own / $base }")" "$arena" \
        "$(awk "BEGIN { printf \"%.3f\", $arena / $memory }")"
done
