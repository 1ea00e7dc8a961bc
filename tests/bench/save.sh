#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# save.sh: what checkpoints cost. In: the built fsdpgen; MODEL, RANKS, THREADS, GEMM, STEPS (a run),
# EVERY (steps between saves), ROUNDS (turns), DISK (a folder on the disk that is measured). Out:
# the rates at which a checkpoint is written and read, of the seconds that the trainer tells, beside
# what dd does in the same minute: writes as many bytes, with an fsync, and reads the checkpoint's
# files; caches are dropped before each read. And the seconds that a save keeps training
# waiting: the median gap between two steps with a save between them, less that of a run without
# checkpoints; for saves beside training, which the other steps may feel, too, and for saves that
# are waited for. All of it in turns, so that a machine that changes its mind slows all alike.
#
#   tests/bench/save.sh
#   MODEL=models/gpt2_124m.lua RANKS=2 THREADS=1 DISK=/scratch tests/bench/save.sh
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"

MODEL=${MODEL:-$ROOT/models/gpt2_124m.lua}
RANKS=${RANKS:-2}
THREADS=${THREADS:-1}
STEPS=${STEPS:-12}
EVERY=${EVERY:-4}
ROUNDS=${ROUNDS:-3}
disk=$(mktemp -d "${DISK:-$WORK}/save.XXXXXX") || exit 70
trap 'remove_at_end "$WORK" "$disk"' EXIT

generate "$WORK/t" "$MODEL" --set "mesh.shard=$RANKS" --set seq=64 --set micro_batch=1 \
    --set "global_batch=$RANKS" --set "leaves=$RANKS" --set 'dtypes.param="f32"' ${SETS:-} &&
    build_trainer "$WORK/t" -j2 GEMM="${GEMM:-auto}" || {
    tail -n 5 "$WORK/t.log" >&2
    exit 1
}

# run FLAGS...: $WORK/times has `seconds line` of all it prints
run() {
    "$WORK/t/trainer" --data "$ROOT/LICENSE" --threads "$THREADS" "$@" 2>"$WORK/err" |
        while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done >"$WORK/times"
    [ "${PIPESTATUS[0]}" = 0 ] || {
        tail -n 5 "$WORK/err" >&2
        exit 1
    }
}

median() { sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

# gaps SAVED: of steps after one that is saved (1) or not (0); the first two warm up
gaps() {
    awk -v every="$EVERY" -v saved="$1" '$2 == "step" {
        n = $3 + 0
        if (n > 2 && ((n - 1) % every == 0) == saved) print $1 - last
        last = $1 }' "$WORK/times"
}

mib() { awk -v b="$1" 'BEGIN { printf "%.1f", b / 1048576 }'; }
rate() { awk -v b="$1" -v s="$2" 'BEGIN { printf "%.0f", b / 1048576 / s }'; }

seconds() { # COMMAND...: that it takes; fails as it does
    local begin=$EPOCHREALTIME
    "$@" >/dev/null 2>"$WORK/err" || {
        echo "fails: $*" >&2
        tail -n 5 "$WORK/err" >&2
        return 1
    }
    awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }'
}

drop() { sync && echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null

for ((turn = 0; turn < ROUNDS; turn++)); do
    run --steps "$STEPS"
    { gaps 0; gaps 1; } >>"$WORK/plain"
    for how in beside waited; do
        flag=()
        [ $how = waited ] && flag=(--wait-for-saves)
        rm -rf "$disk/ck"
        run --steps "$STEPS" --checkpoint "$disk/ck" --checkpoint-every "$EVERY" --keep 1 \
            "${flag[@]}"
        gaps 1 >>"$WORK/$how.after"
        gaps 0 >>"$WORK/$how.other"
        sed -n 's/.*checkpoint: .*, \([0-9.]*\) s$/\1/p' "$WORK/times" >>"$WORK/$how.took"
    done
    bytes=$(du -sb "$disk/ck" | cut -f1)
    rm -f "$disk/own"
    seconds dd if=/dev/zero of="$disk/own" bs=4M count=$((bytes / 4194304)) conv=fsync \
        >>"$WORK/wrote" || exit 1
done
plain=$(median <"$WORK/plain")
for how in beside waited; do
    after=$(median <"$WORK/$how.after")
    echo "$how: a step $plain s, after a save $after s, others of that run" \
        "$(median <"$WORK/$how.other") s: stall" \
        "$(awk -v a="$after" -v b="$plain" -v e=50 'BEGIN {
            printf "%.4f s, %.2f %% of a step at one save in %d", a - b, 100 * (a - b) / b / e, e }')"
done

took=$(median <"$WORK/waited.took")
echo "save: $(mib "$bytes") MiB in $took s, $(rate "$bytes" "$took") MiB/s;" \
    "dd with fsync: $(rate "$bytes" "$(median <"$WORK/wrote")") MiB/s"

drop || echo "(the page cache could not be dropped: reads are of memory)"
for ((turn = 0; turn < ROUNDS; turn++)); do
    drop
    run --steps "$STEPS" --checkpoint "$disk/ck" --resume
    sed -n 's/.*resumed from .*, \([0-9.]*\) s$/\1/p' "$WORK/times" >>"$WORK/loads"
    drop
    seconds find "$disk/ck" -type f -exec dd if={} of=/dev/null bs=4M ';' >>"$WORK/read" ||
        exit 1
done
load=$(median <"$WORK/loads")
echo "load: verified and read, $load s, $(rate "$bytes" "$load") MiB/s of the checkpoint;" \
    "dd: $(rate "$bytes" "$(median <"$WORK/read")") MiB/s"
