# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: a GPU is lent for minutes. Whatever tests/bench/gpu.sh and tests/gpu/run.sh have
# measured when a call is killed is whole and kept, and the next call goes on from it.

# A killed call's rows: RUNS times a process that keeps rows is killed at a random moment; what is
# there then has whole rows, none that was there is gone, and each has its file in the archive.
kept_rows() {
    local runs=12 i ends before=0 now=0 wrong=0 pid
    export OUT=$WORK/lease_rows gpu='a GPU' STEPS=1
    cat >"$WORK/lease_rows.sh" <<'END'
WORK=$(mktemp -d "$0.XXXXXX")
. "$1/tests/bench/gpu_rows.sh"
rows_begin "commit 1, $gpu"
for n in $(seq 40); do
    row_is_there model$n generated && continue
    echo "$n" >"$archive/model$n.profile.json"
    { echo "shape $n"; echo "tokens_per_second $n"; echo "mfu 0.5"
      for k in 1 2 3 4 5 6 7; do echo "kernels kind $k|0.1|0.2|-"; done; } >"$WORK/row"
    row_keep model$n generated <"$WORK/row"
done
rows_tables # as gpu.sh ends
END
    for ((i = 0; i <= runs; i++)); do # the last one ends by itself
        setsid bash "$WORK/lease_rows.sh" "$ROOT" 2>"$WORK/lease_rows.err" &
        pid=$!
        if [ $i -lt $runs ]; then
            random 300
            sleep "0.$(printf '%03d' $((100 + random_value)))"
            pkill -KILL -s "$pid"
        fi
        wait $pid 2>/dev/null
        for ((ends = 0; ends < 200; ends++)); do # its children die a little later
            pgrep -s "$pid" -r R,S,D >/dev/null || break
            sleep 0.01
        done
        [ -e "$OUT/bench.rows" ] || continue # killed before the first
        now=$(grep -c ' shape ' "$OUT/bench.rows")
        [ $now -ge $before ] &&
            [ "$(wc -l <"$OUT/bench.rows")" = $((1 + 10 * now)) ] &&
            { [ $now = 0 ] || [ "$(tar -tzf "$OUT/bench.tar.gz" | grep -c profile)" -ge $now ]; } &&
            [ "$(grep -c '^| model[0-9]* | generated | [0-9]' "$OUT/bench.md" 2>/dev/null || :)" -le $now ] ||
            wrong=$((wrong + 1))
        before=$now
    done
    check "calls that are killed keep whole rows ($runs kills, then $now rows)" test $wrong = 0 -a $now = 40
    check "and the tables have all of them" test \
        "$(grep -c '^| model[0-9]* | generated | [0-9]* |' "$OUT/bench.md")" = 40
    (gpu='another GPU' && . "$ROOT/tests/bench/gpu_rows.sh" && rows_begin "commit 2, $gpu")
    check "rows of another commit are moved aside" test "$(wc -l <"$OUT/bench.rows")" = 1 -a \
        "$(wc -l <"$OUT/bench.rows.old")" = 401
    unset OUT gpu
}

# The tables in RESULTS stand once, however many calls wrote them.
recorded_rows() {
    (
        OUT=$WORK/lease_record gpu='a GPU' STEPS=1
        . "$ROOT/tests/bench/gpu_rows.sh"
        printf '# Results\n\n## One GPU: a GPU\n\n2020-01-01, commit 0: `tests/bench/gpu.sh`. Before.\n\n## Others\n\nstay\n' \
            >"$WORK/RESULTS"
        rows_begin 'commit 1, a GPU'
        for n in 1 2; do
            printf 'shape %s\ntokens_per_second 5\n' $n | row_keep model$n generated
            rows_record "$WORK/RESULTS"
        done
    )
    check "the record has a call's tables once" test "$(grep -c 'commit 1, a GPU' "$WORK/RESULTS")" = 1 -a \
        "$(grep -c '^| model[12] ' "$WORK/RESULTS")" = 2
    check "and keeps what else is there" test "$(grep -c 'Before\|^stay\|^## Others' "$WORK/RESULTS")" = 3
}

# The lease's first stage: every op on "the device".
device_ops() {
    check "tests/gpu/run.sh ops, on the simulated device" env CUDA_HOME="$home" CUDASIM_DEVICES=1 CUDASIM_UNCHECKED=1 \
        SMALL=1 LIMIT_SECONDS=3600 OUT="$WORK/device_ops" "$ROOT/tests/gpu/run.sh" ops
}

# What a real GPU is tested with, killed and resumed; its kernels' own orders are not shuffled.
gpu_script() {
    [ "$FULL" = 1 ] || { turn 2 4 device_ops; return; }
    local out=$WORK/gpu told pid
    local call=(env CUDA_HOME="$home" CUDASIM_DEVICES=1 CUDASIM_UNCHECKED=1 SMALL=1 NAMES=llama_bf16_64
                LIMIT_SECONDS=3600 OUT="$out" "$ROOT/tests/gpu/run.sh")
    setsid "${call[@]}" >"$WORK/gpu.log" 2>&1 &
    pid=$!
    timeout 1800 bash -c "until grep -q '^cpu ' '$out/table.txt' 2>/dev/null; do sleep 1; done"
    random 20
    sleep "$random_value"
    pkill -KILL -s "$pid" # timeouts make groups of their own
    wait $pid 2>/dev/null
    told=$(grep -c ' s  ' "$out/table.txt")
    check "tests/gpu/run.sh, killed: its stages are kept ($told)" test "$told" -ge 3
    check "tests/gpu/run.sh --resume, on the simulated device" "${call[@]}" --resume
    check "each stage once" test "$(awk 'NR > 2 { print $1 }' "$out/table.txt" | sort | uniq -d)" = '' -a \
        "$(awk 'NR > 2' "$out/table.txt" | wc -l)" = "$("$ROOT/tests/gpu/run.sh" --list | wc -l)"
    check "then none is left" bash -c "\"\$@\" --resume | grep -q 'every stage has been run'" -- "${call[@]}"
}

# The calls themselves, killed at random moments until one ends.
lease() {
    [ "$FULL" = 1 ] || return 0
    local out=$WORK/lease code i pid rows=0 now wrong=0
    local cases="tiny_gpt2 $ROOT/tests/models/tiny_gpt2.lua 8 1 2 259 f32 none model.layers=1
tiny_llama $ROOT/tests/models/tiny_llama.lua 9 1 2 259 f32 none model.layers=1"
    for ((i = 0; i < 30; i++)); do
        setsid env CUDA_HOME="$home" CUDASIM_DEVICES=1 CUDASIM_UNCHECKED=1 CUDASIM_L2=4096 CC="$ROOT/tests/cc_cached" \
            CASES="$cases" COPY_BYTES=4096 \
            KINDS=generated STEPS=4 OUT="$out" RESULTS="$WORK/lease.md" LIMIT_SECONDS=3600 \
            "$ROOT/tests/bench/gpu.sh" >"$WORK/lease.log" 2>&1 &
        pid=$!
        random $((60 + 30 * i))
        timeout $((1 + random_value)) tail --pid=$pid -f /dev/null && { wait $pid; code=$?; break; }
        pkill -KILL -s "$pid" # timeouts make groups of their own
        wait $pid 2>/dev/null
        now=$(grep -c ' tokens_per_second ' "$out/bench.rows" 2>/dev/null)
        [ "${now:-0}" -ge $rows ] && [ "$(grep -c ' kernels between ' "$out/bench.rows" 2>/dev/null)" = "${now:-0}" ] ||
            wrong=$((wrong + 1))
        rows=${now:-0}
    done
    check "tests/bench/gpu.sh ends after $i kills" test "${code:-1}" = 0
    check "each left whole rows" test $wrong = 0
    check "and the tables have every model" test "$(grep -c '^| tiny_[a-z0-9]* | generated | 2 x' "$WORK/lease.md")" = 2
    check "the archive has profiles and wisdom" test "$(tar -tzf "$out/bench.tar.gz" | grep -c 'profile.json$\|wis$')" = 4
}
