# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after faults.sh: runs that end before their last step, and are saved: by signals
# to whom and when ever, by a clock, by a log that is lost; and what --resume=must refuses.

ends=$WORK/ends.ck
ends_at=0

# ends_start RANKS STEPS [FLAGS...]: fault$RANKS in the background, in a process group of its own:
# $job its pid; it goes on in $ends, logs to $WORK/ends.jsonl
ends_start() {
    local t=$WORK/fault$1 steps=$2
    shift 2
    : >"$WORK/ends.out" # has steps of an earlier run until this one begins
    setsid env --default-signal "$t/trainer" --data "$data" --threads 1 --weights-hash \
        --checkpoint "$ends" --steps "$steps" --log "$WORK/ends.jsonl" "$@" \
        >"$WORK/ends.out" 2>"$WORK/ends.err" &
    job=$!
}

# It has computed a step.
ends_stepped() { job_says "$WORK/ends.out" '^step '; }

# Its launcher has noticed a signal.
ends_noticed() { job_says "$WORK/ends.err" 'finishing the step and saving it'; }

# ends_saved NAME CODE: it ended with 75 and has what it had computed: the step that it names is the
# last of its log, and its newest checkpoint
ends_saved() {
    local name=$1 code=$2 at logged newest
    at=$(sed -n 's/.*stopped after step \([0-9]*\), which is saved.*/\1/p' "$WORK/ends.err")
    logged=$(sed -n 's/^{"step": \([0-9]*\),.*/\1/p' "$WORK/ends.jsonl" | tail -n 1)
    newest=$(ls "$ends" | grep '^step-' | sort | tail -n 1)
    newest=$((10#0${newest#step-}))
    if [ "$code" != 75 ] || [ "${at:-none}" != "$logged" ] || [ "$at" != $newest ]; then
        bad "$name: code $code, stopped after ${at:-no step}, logged $logged, saved $newest" \
            "$WORK/ends.err"
        return 1
    fi
    ends_at=$at
    ok "$name: saved after step $at"
}

hex_of() { grep -o '"step": *[0-9]*\|"loss_hex": *"[^"]*"\|"grad_norm_hex": *"[^"]*"' "$1"; }

# Random signals, to the launcher, a rank or all at once, at random moments of a run that goes on,
# each time on another number of ranks: no step is lost, and the run ends with the weights and losses
# of one that nothing happened to.
random_signals() { # COUNT RANKS...
    local count=$1 i n signal target victims from=0 code what
    local names=(launcher rank group)
    local signals=(TERM INT HUP USR1 USR2 XCPU ALRM VTALRM PROF IO PWR RTMIN RTMIN+7)
    shift
    rm -rf "$ends" "$WORK/ends.jsonl"
    for ((i = 0; i < count; i++)); do
        random $#
        n=${*:random_value+1:1}
        random ${#signals[@]}
        signal=${signals[random_value]}
        ends_start "$n" 1000000 $([ $i = 0 ] || echo --resume=must)
        ends_stepped || { bad "signal $i: the run goes on" "$WORK/ends.err"; return; }
        random 300
        sleep "0.$(printf '%03d' "$random_value")"
        victims=("$job" $(pgrep -P "$job"))
        random 3
        what=$random_value
        random $((${#victims[@]} - 1))
        target=("$job" "${victims[1 + random_value]}" "-$job")
        kill -"$signal" -- "${target[what]}"
        wait "$job"
        code=$?
        grep -q "step $from of" "$WORK/ends.out" || [ $i = 0 ] ||
            bad "signal $i: it did not go on from step $from" "$WORK/ends.out"
        ends_saved "SIG$signal to the ${names[what]}, $n ranks" $code || return
        from=$ends_at
    done
    ends_start "$1" $((from + 3)) --resume=must
    wait "$job" || bad "after $count signals it runs to its end" "$WORK/ends.err"
    rm -f "$WORK/whole.jsonl"
    "$WORK/fault$1/trainer" --data "$data" --threads 1 --quiet --weights-hash --steps $((from + 3)) \
        --log "$WORK/whole.jsonl" >"$WORK/whole.out" 2>"$WORK/whole.err"
    check "$count signals: the weights of a run that got none" \
        cmp <(grep '^weights' "$WORK/ends.out") <(grep '^weights' "$WORK/whole.out")
    check "$count signals: its losses" cmp <(hex_of "$WORK/ends.jsonl") <(hex_of "$WORK/whole.jsonl")
}

# One of a launcher's processes, or its rank, gets the signal: all end so.
joined_signals() {
    local rank pids=() codes=
    rm -rf "$ends" "$WORK/ends.jsonl"
    : >"$WORK/ends.out"
    for rank in 1 0; do
        env --default-signal RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 \
            MASTER_ADDR=localhost MASTER_PORT=29501 TORCHELASTIC_RUN_ID="ends-$$" \
            "$WORK/fault2/trainer" --data "$data" --threads 1 --checkpoint "$ends" \
            --steps 1000000 --log "$WORK/ends.jsonl" >"$WORK/ends.out" 2>"$WORK/ends.err.$rank" &
        pids[rank]=$!
    done
    job=${pids[0]}
    ends_stepped
    kill -USR1 "$(pgrep -P "${pids[1]}")"
    for rank in 0 1; do
        wait "${pids[rank]}"
        codes="$codes $?"
    done
    cat "$WORK"/ends.err.* >"$WORK/ends.err"
    check "torchrun, SIGUSR1 to a rank: all end with 75 ($codes)" test "$codes" = " 75 75"
    ends_saved "torchrun, SIGUSR1 to a rank" 75
}

# SIGINT and SIGTERM twice end at once, others never: schedulers send them again.
insisted() {
    local code
    rm -rf "$ends" "$WORK/ends.jsonl"
    IO_DIR=$ends IO_SLOW=1500 LD_PRELOAD=$io ends_start 1 1000000
    ends_stepped
    kill -USR1 "$job"
    sleep 2.2
    kill -USR1 "$job"
    kill -TERM "$job" # Slurm's, later
    wait "$job"
    ends_saved "SIGUSR1 twice, then SIGTERM" $?
    rm -rf "$ends" "$WORK/ends.jsonl"
    IO_DIR=$ends IO_SLOW=1500 LD_PRELOAD=$io ends_start 1 1000000
    ends_stepped
    kill -TERM "$job"
    ends_noticed
    sleep 2.2 # within two seconds two count as one
    kill -TERM "$job"
    wait "$job"
    code=$?
    check "SIGTERM twice ends at once ($code)" test $code = 143
    check "and leaves no checkpoint" test -z "$(ls "$ends" 2>/dev/null)"
}

# A signal before the first step of a run that goes on: there is nothing to save.
early() {
    env --default-signal RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost \
        MASTER_PORT=29502 TORCHELASTIC_RUN_ID="early-$$" "$WORK/fault2/trainer" --data "$data" \
        --steps 9 --checkpoint "$ends" >"$WORK/ends.out" 2>"$WORK/ends.err" &
    job=$! # waits for a rank that does not come
    timeout 20 bash -c "until [ /proc/$job/exe -ef '$WORK/fault2/trainer' ] &&
        grep -q '^SigCgt:.*[1-9a-f]' /proc/$job/status; do sleep 0.02; done" # not bash, before exec
    kill -USR1 "$job"
    wait "$job"
    check "a signal before ranks start: 75" test $? = 75
    check "and it is told" grep -q 'a signal came before the first step: run it again' "$WORK/ends.err"
    # one between the exec of a trainer that fits OpenMP's settings and its main
    printf '%s\n' '#include <signal.h>' '#include <stdlib.h>' '__attribute__((constructor)) static void f(void)' \
        '{ if (getenv("RT_FITTED")) raise(SIGUSR1); }' >"$WORK/usr1.c"
    cc -shared -fPIC "$WORK/usr1.c" -o "$WORK/usr1.so" || bad "usr1.c does not compile"
    env --default-signal -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY LD_PRELOAD="$WORK/usr1.so" \
        "$WORK/fault1/trainer" --data "$data" --steps 9 --threads 2 --checkpoint "$ends" \
        >"$WORK/ends.out" 2>"$WORK/ends.err"
    check "a signal while the trainer restarts itself: 75" test $? = 75
    check "and it is told" grep -q 'a signal came before the first step: run it again' "$WORK/ends.err"
    rm -rf "$ends" "$WORK/ends.jsonl"
    run fault1 2 --checkpoint "$ends" --log "$WORK/ends.jsonl"
    IO_DIR=$ends IO_AT=0 IO_ACT=stop LD_PRELOAD=$io ends_start 1 1000000 --resume
    local rank
    rank_stops || bad "a run stops while it reads its checkpoint" "$WORK/ends.err"
    kill -USR1 "$job"
    ends_noticed
    kill -CONT "$rank"
    wait "$job"
    ends_saved "a signal while it reads its checkpoint" $?
    check "no step is computed" test "$ends_at" = 2
}

# `trainer sample` has nothing to save.
sample_ends() {
    : >"$WORK/ends.out" # has what an earlier job said
    env --default-signal "$WORK/fault1/trainer" sample --prompt 97 --checkpoint "$ends" --tokens 1000000 \
        >"$WORK/ends.out" 2>"$WORK/ends.err" &
    job=$!
    timeout 20 bash -c "until [ -s '$WORK/ends.out' ]; do sleep 0.02; done"
    kill -INT "$job"
    timeout 60 tail --pid="$job" -f /dev/null
    kill -KILL "$job" 2>/dev/null # it did not
    wait "$job"
    check "SIGINT ends trainer sample" test $? = 130
}

# ---- clocks ------------------------------------------------------------------------------------------

clocks() {
    local n
    rm -rf "$ends" "$WORK/ends.jsonl"
    ends_start 2 1000000 --stop-after 3
    wait "$job"
    ends_saved "--stop-after" $?
    check "--stop-after says why" grep -qE \
        '^trainer: --stop-after: -?[0-9.]+ s were left, and [0-9.]+ s are for the save: stopped' \
        "$WORK/ends.err"
    n=$ends_at
    ends_start 4 1000000 --resume --stop-after 0.5 # less than a save is given
    wait "$job"
    ends_saved "--stop-after, too short" $?
    check "a step is computed all the same" test "$ends_at" = $((n + 1))
    rm -rf "$ends"
    # else two seconds would be left, while the first save, of six, still runs
    IO_DIR=$ends IO_SLOW=500 LD_PRELOAD=$io run fault1 1000000 --checkpoint "$ends" --checkpoint-seconds 0.5 --stop-after 7
    check "--stop-after knows how slow a save is that still runs" awk "BEGIN { exit !($(sed -n \
        's/.*--stop-after: \(-\?[0-9.]*\) s were left.*/\1/p' "$WORK/fault1.err") > 2.5) }"
    rm -rf "$ends" "$WORK/ends.jsonl"
    IO_DIR=$ends IO_SLOW=3 LD_PRELOAD=$io run fault4 200 --checkpoint "$ends" \
        --checkpoint-seconds 0.02
    check "--checkpoint-seconds saves beside training" test "$(ls "$ends" | wc -l)" -gt 2
    n=$(grep '^weights' "$WORK/fault4.out")
    run fault4 200
    check "and changes no bit" test "$n" = "$(grep '^weights' "$WORK/fault4.out")"
    rm -rf "$ends"
    run fault4 40 --checkpoint "$ends" --checkpoint-seconds 1000000 --checkpoint-every 15 \
        --wait-for-saves # else one that is due while another is written is left out
    check "a clock and steps" test "$(ls "$ends" | tr '\n' ' ')" = \
        'step-00000015 step-00000030 step-00000040 '
}

# ---- a folder that is not there ------------------------------------------------------------------------

must() {
    rm -rf "$ends"
    says '--resume=must, no folder' 1 "there is no folder $ends; is its disk mounted" \
        fault1 2 --checkpoint "$ends" --resume=must
    check 'none is made' test ! -e "$ends"
    mkdir "$ends"
    says '--resume=must, an empty folder' 1 "there is no checkpoint in $ends; is its disk mounted" \
        fault1 2 --checkpoint "$ends" --resume=must
    check 'which stays empty' test -z "$(ls -A "$ends")"
    says '--resume there begins' 0 "no checkpoint in $ends yet" fault1 2 --checkpoint "$ends" --resume
    says '--resume=must goes on' 0 'resumed from .*: step 2 of 3' \
        fault1 3 --checkpoint "$ends" --resume=must
    mkdir "$ends/.tmp-step-notes" "$ends/.trash-step-1" "$ends/.tmp-step-00000009"
    run fault1 4 --checkpoint "$ends" --resume=must
    check 'folders of other names are left alone' test "$(ls -Ad "$ends"/.t* | wc -l)" = 2
}

# ---- a log, a disk -------------------------------------------------------------------------------------

# A log that can be written no more: the run saves, and ends.
lost_log() {
    local pipe=$WORK/ends.pipe
    rm -rf "$ends" "$pipe"
    mkfifo "$pipe"
    head -n 3 "$pipe" >"$WORK/ends.heard" &
    timeout 60 "$WORK/fault2/trainer" --data "$data" --threads 1 --quiet --steps 1000000 \
        --checkpoint "$ends" --log "$pipe" >"$WORK/ends.out" 2>"$WORK/ends.err"
    check "a log that is lost ends the run" test $? = 1
    wait $!
    check "which says so, and what is saved" grep -qE \
        -- "--log $pipe: Broken pipe; step [0-9]+ is saved: make room" "$WORK/ends.err"
    local at
    at=$(sed -n 's/.*; step \([0-9]*\) is saved.*/\1/p' "$WORK/ends.err")
    check "and it is" test -d "$(printf '%s/step-%08d' "$ends" "$at")"
    head -n 3 "$pipe" >"$WORK/ends.heard" &
    # each step takes half a second: head has ended long before the last of them
    IO_DIR=$ends IO_SLOW=40 LD_PRELOAD=$io \
        says "--keep-going does without" 0 'training goes on without a log' fault2 $((at + 9)) \
        --checkpoint "$ends" --checkpoint-every 1 --wait-for-saves --resume --keep-going --log "$pipe"
    wait $!
}

# A file that may not grow so large is a disk that is full.
file_limit() {
    local kib
    rm -rf "$ends"
    (ulimit -f 10 && run fault1 1) # too small for what ranks share: says how much that is
    kib=$(sed -n 's/.* counts the \([0-9]*\) bytes.*/\1/p' "$WORK/fault1.err")
    head -c $((kib + 5000)) /dev/zero >"$WORK/large.json"
    mkdir "$WORK/large.hf"
    cp "$WORK/base.ck/step-00000001/"{model.safetensors,config.json} "$WORK/large.hf/"
    mv "$WORK/large.json" "$WORK/large.hf/tokenizer.json"
    (ulimit -f $((kib / 1024 + 1)) &&
        run fault1 2 --checkpoint "$ends" --init "$WORK/large.hf")
    check "a file that may not grow: code 1" test $? = 1
    check "is told" grep -q 'no checkpoint of step 2: .*File too large: larger than `ulimit -f`' \
        "$WORK/fault1.err"
    check "and nothing of it stays" test -z "$(ls -A "$ends")"
    (ulimit -f $((kib / 1024 + 1)) && run fault1 3 --checkpoint "$ends" --init "$WORK/large.hf" \
        --checkpoint-every 1 --keep-going)
    check "with --keep-going training goes on" grep -q \
        'warning: .*no checkpoint of step 1: .*File too large.*training goes on' "$WORK/fault1.err"
}

# A rank takes signals in one thread, which computes nothing, and runs no handler: oneDNN's products
# use the stack pointer for their data, and a handler's frame would be written there.
no_handlers() {
    local rank status n=0 waiting=0 handled=0 blocked bit=$((1 << ($(kill -l TERM) - 1)))
    rm -rf "$ends"
    ends_start 2 100000
    ends_stepped || { bad "a run for signals" "$WORK/ends.err"; return; }
    for rank in $(pgrep -P "$job"); do
        for status in /proc/"$rank"/task/*/status; do
            blocked=$((16#$(sed -n 's/^SigBlk:[ \t]*//p' "$status")))
            n=$((n + 1)) waiting=$((waiting + !(blocked & bit)))
            [ $((16#$(sed -n 's/^SigCgt:[ \t]*//p' "$status") & bit)) = 0 ] || handled=$((handled + 1))
        done
    done
    check "ranks have no handler for signals ($handled of $n threads)" test $handled = 0
    check "one thread of each rank waits for signals, others block them ($waiting of $n)" \
        test $waiting = 2 -a "$n" -ge 4
    kill -TERM -- -"$job"
    wait "$job"
    ends_saved "SIGTERM to all" $?
}

# Many signals to all processes during a step that is mostly products of oneDNN.
signals_in_products() {
    local dir=$WORK/faultdnn i
    generate "$dir" "$llama" --set mesh.shard=2 --set model.layers=4 --set model.dim=192 --set model.heads=6 \
        --set model.head_dim=32 --set model.ffn=768 --set seq=256 --set global_batch=4
    if ! build_trainer "$dir" -j2 GEMM=onednn CFLAGS="$flags"; then
        if grep -q 'finds no oneDNN' "$dir.log"; then
            echo "skipped: signals in products: no oneDNN"
        else
            bad "a trainer with oneDNN" "$dir.log"
        fi
        return
    fi
    rm -rf "$ends" "$WORK/ends.jsonl"
    ends_start dnn 100000
    ends_stepped || { bad "a run for signals in products" "$WORK/ends.err"; return; }
    for ((i = 0; i < 20; i++)); do
        kill -USR1 -- -"$job"
        sleep 0.01
    done
    wait "$job"
    ends_saved "20 signals during products" $? || return
    files_of "$ends" >"$WORK/ends.files"
    rm -rf "$ends"
    run faultdnn "$ends_at" --checkpoint "$ends"
    check "20 signals during products: the losses of a run that got none" \
        cmp <(hex_of "$WORK/ends.jsonl") <(hex_of "$WORK/faultdnn.jsonl")
    check "20 signals during products: its checkpoint" diff "$WORK/ends.files" <(files_of "$ends")
}

some_signals() {
    if [ "$FULL" = 1 ]; then random_signals 50 1 2 4; else random_signals 4 1 2 4; fi
}
part no_handlers:first_checkpoint no_handlers
part signals_in_products turn 0 2 signals_in_products
part some_signals:first_checkpoint some_signals
part joined_signals:first_checkpoint joined_signals
part insisted:first_checkpoint insisted
part early:first_checkpoint early
part sample_ends:early sample_ends
part clocks:first_checkpoint clocks
part must:first_checkpoint must
part lost_log:first_checkpoint lost_log
part file_limit:first_checkpoint file_limit
