# SPDX-License-Identifier: Apache-2.0
# Sourced by benches that compare trainers of one model: they are built first, then run in
# turns, round after round, so that a machine that changes its mind slows all alike.
#   RANKS, THREADS   ranks, threads of each (default: 2, an equal share of the cores)
#   MODEL            description (default: models/demo.lua)
#   ROUNDS, STEPS    turns, steps of each; the first two of a turn are not counted (5, 10)
# A bench may give a trainer other threads than the rest: bench_threads[NAME].
RANKS=${RANKS:-2}
THREADS=${THREADS:-$((($(nproc) + RANKS - 1) / RANKS))}
MODEL=${MODEL:-$ROOT/models/demo.lua}
ROUNDS=${ROUNDS:-5}
STEPS=${STEPS:-10}
declare -A bench_threads
if [ "$STEPS" -lt 3 ]; then
    echo "STEPS=$STEPS: at least 3, the first two are not counted" >&2
    exit 2
fi
cat "$ROOT"/gen/*/*.c >"$WORK/data.txt" # any text will do: a byte is a token

# bench_build NAME SETS: $WORK/NAME/trainer; false and a line on stderr when it cannot be had.
# The one named default, which the others are compared with, must be.
bench_build() {
    local name=$1 set flags=(--set "mesh.shard=$RANKS")
    for set in $2; do flags+=(--set "$set"); done
    if ! "$FSDPGEN" "$MODEL" -o "$WORK/$name" --link-runtime "$ROOT/runtime" "${flags[@]}" \
        >"$WORK/log" 2>&1 || ! make -C "$WORK/$name" >>"$WORK/log" 2>&1; then
        echo "$name ($2): $(grep -m 1 error "$WORK/log" || tail -n 1 "$WORK/log")" >&2
        [ "$name" != default ] || exit 1
        return 1
    fi
}

# bench_run NAME...: appends the seconds of each counted step to $WORK/NAME.seconds
bench_run() {
    local round name
    for ((round = 0; round < ROUNDS; round++)); do
        for name in "$@"; do
            rm -f "$WORK/step.jsonl"
            "$WORK/$name/trainer" --data "$WORK/data.txt" --steps "$STEPS" \
                --threads "${bench_threads[$name]:-$THREADS}" --quiet \
                --log "$WORK/step.jsonl" >"$WORK/log" 2>&1 || {
                tail -n 5 "$WORK/log" >&2
                exit 1
            }
            sed -n 's/.*"step_seconds": *\([0-9.e+-]*\).*/\1/p' "$WORK/step.jsonl" |
                tail -n +3 >>"$WORK/$name.seconds"
        done
    done
}

bench_median() { # NAME: seconds of a step
    sort -g "$WORK/$1.seconds" | awk '{ v[NR] = $1 } END { printf "%.6f", v[int((NR + 1) / 2)] }'
}

bench_arena() { # NAME: MiB of a rank
    sed -n 's/.*"arena": *\([0-9]*\).*/\1/p' "$WORK/$1/plan.json" |
        awk '{ printf "%.1f", $1 / 1048576; exit }'
}

bench_machine() {
    echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores:" \
        "$(basename "$MODEL" .lua), $RANKS ranks of $THREADS threads, $ROUNDS turns of $STEPS steps"
}
