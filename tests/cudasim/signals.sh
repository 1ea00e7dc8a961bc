# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: random signals to an emitted CUDA trainer on the simulated device, to its
# launcher, a rank or all at once, while graphs are replayed and saves run beside them: each time the
# step is saved, the next run goes on from it, and the last ends with the bits of a run that got none.

# signals DIR COUNT
signals() {
    local dir=$1 count=$2 i job victims target signal at from=0 code ck=$1.signals
    local all=(TERM INT HUP USR1 USR2 XCPU ALRM)
    rm -rf "$ck" "$dir.jsonl"
    for ((i = 0; i < count; i++)); do
        : >"$dir.out" # has steps of an earlier run until this one begins
        setsid env --default-signal "$dir/trainer" --data "$data" --steps 100000 --threads 1 \
            --checkpoint "$ck" --checkpoint-every 3 --log "$dir.jsonl" \
            $([ $i = 0 ] || echo --resume=must) >"$dir.out" 2>"$dir.err" &
        job=$!
        timeout 600 bash -c "until grep -q '^step ' '$dir.out' || ! kill -0 $job; do sleep 0.05; done" ||
            { kill -KILL -- "-$job"; bad "signals: no step in ten minutes" "$dir.err"; return; }
        random 900
        sleep "0.$(printf '%03d' "$random_value")"
        victims=("$job" $(pgrep -P "$job") "-$job")
        random ${#victims[@]}
        target=${victims[random_value]}
        random ${#all[@]}
        signal=${all[random_value]}
        kill -"$signal" -- "$target"
        timeout 600 tail --pid="$job" -f /dev/null
        kill -KILL "$job" 2>/dev/null # it stands still
        wait "$job"
        code=$?
        at=$(sed -n 's/.*stopped after step \([0-9]*\), which is saved.*/\1/p' "$dir.err")
        if [ $code != 75 ] || [ ! -d "$(printf '%s/step-%08d' "$ck" "${at:-0}")" ] ||
            ! { [ $i = 0 ] || grep -q "^resumed from .*: step $from of" "$dir.out"; }; then
            bad "SIG$signal: code $code, stopped after ${at:-no step}, before it $from" "$dir.err"
            return
        fi
        from=$at
    done
    local go=(--checkpoint "$ck" --resume=must)
    for i in '' whole; do # the run that goes on, then one that got no signal
        timeout 600 "$dir/trainer" --data "$data" --steps $((from + 1)) --threads 1 --quiet \
            --weights-hash --log "$dir${i:+.$i}.jsonl" "${go[@]}" \
            >"$dir.out" 2>"$dir.err" || bad "signals: a run to the end" "$dir.err"
        { grep -o '"[a-z_]*hex": "[^"]*"' "$dir${i:+.$i}.jsonl"; grep '^weights' "$dir.out"; } \
            >"$dir.bits${i:+.$i}"
        go=()
    done
    check "$count signals: the bits of a run that got none ($((from + 1)) steps)" \
        cmp "$dir.bits" "$dir.bits.whole"
}
