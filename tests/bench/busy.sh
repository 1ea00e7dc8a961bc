#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# busy.sh: how much of its fair share a trainer gets beside other programs. In: the built fsdpgen;
# knobs as in interleave.sh. Out: a table on stdout: seconds of a step alone and beside as many
# endless loops as there are cores, in turns; that share of the speed alone, over 1/2, which is
# what equal turns on each core give. One rank with all cores as threads, and a rank a core; each
# with what the trainer sets itself, and with OpenMP's and Linux's own defaults.
#
#   tests/bench/busy.sh
#   ROUNDS=10 STEPS=6 tests/bench/busy.sh
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
cores=$(nproc)
loops=()
trap 'kill "${loops[@]}" 2>/dev/null; remove_at_end "$WORK"' EXIT

# measure RANKS: a row of the table for each way to wait
measure() {
    local RANKS=$1 THREADS=$((cores / $1)) names=() name round own
    . "$ROOT/tests/bench/interleave.sh"
    bench_build default ""
    for name in own others; do
        for own in alone beside; do
            cp -r "$WORK/default" "$WORK/${name}_$own"
            rm -f "$WORK/${name}_$own.seconds"
        done
    done
    local rounds=$ROUNDS
    ROUNDS=1
    for ((round = 0; round < rounds; round++)); do
        for name in own others; do
            [ $name = own ] || export RT_FITTED=1 # nothing is set then
            bench_run "${name}_alone"
            for own in $(seq "$cores"); do
                while :; do :; done &
                loops+=($!)
            done
            bench_run "${name}_beside"
            kill "${loops[@]}"
            wait "${loops[@]}" 2>/dev/null
            loops=()
            unset RT_FITTED
        done
    done
    for name in own others; do
        awk -v ranks="$RANKS" -v threads="$THREADS" -v name="$name" -v alone="$(bench_median "${name}_alone")" \
            -v beside="$(bench_median "${name}_beside")" 'BEGIN {
            printf "%d x %-8d %-10s %10.4f %10.4f %18.2f\n", ranks, threads,
                name == "own" ? "the trainer" : "defaults", alone, beside, 2 * alone / beside }'
    done
    rm -rf "$WORK"/default "$WORK"/own_* "$WORK"/others_*
}

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $cores cores, Linux $(uname -r)"
printf '%-12s %-10s %10s %10s %18s\n' 'ranks x thr.' 'waits of' 's alone' 's beside' 'of its fair share'
measure 1
[ "$cores" = 1 ] || measure "$cores"
