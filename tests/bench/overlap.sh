#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# overlap.sh: what overlapping collectives with computation is worth here. In: the built
# fsdpgen; knobs as in interleave.sh. Out: a table: median seconds of a step with gathers at
# use, one and two units ahead, the rank's own threads driving the collectives or one thread
# kept for them (target.comm_thread), against the default. That thread is one more than
# THREADS, which pays where a core is idle; where a rank has two threads or more, `instead`
# takes one of them for it, so that both sides have the same cores.
#
#   tests/bench/overlap.sh
#   RANKS=4 THREADS=2 MODEL=models/gpt2_124m.lua tests/bench/overlap.sh
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/bench/interleave.sh"

cases="default|
at_use|prefetch=0
two_ahead|prefetch=2
thread|target.comm_thread=true
thread_at_use|target.comm_thread=true prefetch=0
thread_two_ahead|target.comm_thread=true prefetch=2"
if [ "$THREADS" -ge 2 ]; then
    cases="$cases
instead|target.comm_thread=true
instead_two_ahead|target.comm_thread=true prefetch=2"
    bench_threads[instead]=$((THREADS - 1))
    bench_threads[instead_two_ahead]=$((THREADS - 1))
fi
names=()
while IFS='|' read -r name sets; do
    bench_build "$name" "$sets" && names+=("$name")
done <<<"$cases"
bench_run "${names[@]}"
bench_machine
printf '%-18s %12s %10s %12s\n' 'collectives' 's a step' 'of default' 'MiB a rank'
base=$(bench_median default)
for name in "${names[@]}"; do
    own=$(bench_median "$name")
    printf '%-18s %12s %10s %12s\n' "$name" "$own" \
        "$(awk "BEGIN { printf \"%.3f\", $own / $base }")" "$(bench_arena "$name")"
done
