# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: --tensorboard. events.py reads what a trainer writes; with FULL=1 TensorBoard does.

events_read() { # DIR LOG: all is what the log says
    python3 "$ROOT/tests/runtime/events.py" "$1" "$2"
}

events_of() { ls "$1" | grep -c '^events\.out\.tfevents\.[0-9]\{10\}\.tiny_llama\.[0-9]*\.0$'; }

events_runs() {
    local d=$WORK/tb log=$WORK/tb.jsonl ck=$WORK/tb.ck name
    rm -rf "$d" "$ck" "$log"
    check "--tensorboard makes its folder" quick --steps 4 --tensorboard "$d/new/run" --log "$log" \
        --eval "$data" --eval-every 2 --eval-sequences 2 --peak-tflops 0.5
    check "values, framing, CRCs" events_read "$d/new/run" "$log"
    check "one file, of the form that TensorBoard looks for" test "$(events_of "$d/new/run")" = 1
    name=$(hostname)
    check "which does not name the machine" test -z "$(ls "$d/new/run" | grep -F ".$name.")"
    # a run that is killed after step 6, and goes on from step 4: 5 and 6 are computed again
    quick --steps 6 --tensorboard "$d/two" --log "$log" --force --checkpoint "$ck" --checkpoint-every 4
    rm -rf "$ck/step-00000006"
    check "a run that goes on" quick --steps 8 --tensorboard "$d/two" --log "$log" --checkpoint "$ck" --resume
    check "has a second file" test "$(events_of "$d/two")" = 2
    check "which takes back what the first has of later steps" events_read "$d/two" "$log"
    quick --steps 8 --tensorboard "$d/two" --log "$log" --checkpoint "$ck" --resume
    check "a run that is finished adds no file" test "$(events_of "$d/two")" = 2
    quick --steps 3 --tensorboard "$d/two" --log "$log" --force
    check "a run from the start takes all back" events_read "$d/two" "$log"
    # a clock that went back: the file's name is still the last
    rm -rf "$d/old" && mkdir "$d/old" && : >"$d/old/events.out.tfevents.4000000000.x.1.0"
    quick --steps 1 --tensorboard "$d/old"
    check "names rise, whatever the clock says" test -s "$d/old/"events.out.tfevents.4000000001.tiny_llama.*
}

# It is told before a step is computed; nothing is removed or written over.
events_refused() {
    local d=$WORK/tb.bad
    rm -rf "$d" && mkdir "$d" && : >"$d/file" && mkdir -m 555 "$d/locked" && ln -s nowhere "$d/link"
    fails "a folder of events that is a file" 1 "--tensorboard: mkdir $d/file: File exists" \
        --data "$data" --tensorboard "$d/file"
    fails "one below a file" 1 "--tensorboard: mkdir $d/file: File exists" \
        --data "$data" --tensorboard "$d/file/x"
    fails "a link to nowhere" 1 "--tensorboard: mkdir $d/link: it is a link that leads nowhere" \
        --data "$data" --tensorboard "$d/link"
    if [ "$(id -u)" = 0 ]; then
        echo "skipped: nothing is locked to root"
    else
        fails "a folder that may not be written" 1 "--tensorboard $d/locked: Permission denied" \
            --data "$data" --tensorboard "$d/locked"
    fi
    fails "no folder" 2 "--tensorboard needs a value" --data "$data" --tensorboard ''
}

# A write that fails costs no step: the run says it, trains on, and ends with 1.
events_lost() {
    local d=$WORK/tb.full io=$BUILD/tests/checkpoint/libcheckpoint_io.so whole calls
    [ -e "$io" ] || { bad "$io is not built"; return; }
    rm -rf "$d" "$WORK/tb.keep"
    IO_DIR=$d IO_COUNT=$WORK/tb.count LD_PRELOAD=$io quick --steps 12 --weights-hash --tensorboard "$d"
    whole=$(tail -n 1 "$WORK/quick.out")
    calls=$(cat "$WORK/tb.count")
    rm -rf "$d"
    IO_DIR=$d IO_ACT=error IO_AT=$((calls - 6)) LD_PRELOAD=$io quick --steps 12 --tensorboard "$d" --weights-hash
    check "events on a full disk: code 1" test $? = 1
    check "all steps are computed" test "$(tail -n 1 "$WORK/quick.out")" = "$whole"
    check "it is told at once" test "$(grep -c 'warning: --tensorboard .*No space left on device: training goes on' \
        "$WORK/quick.err")" = 1
    check "and at the end" grep -q 'error: --tensorboard .*No space left' "$WORK/quick.err"
    rm -rf "$d"
    IO_DIR=$d IO_ACT=error IO_AT=$((calls - 6)) LD_PRELOAD=$io quick --steps 12 --tensorboard "$d" \
        --checkpoint "$WORK/tb.keep" --keep-going
    check "with --keep-going it is a warning alone" test $? = 0
    check "which is there" grep -q 'warning: --tensorboard .*No space left' "$WORK/quick.err"
    rm -rf "$d"
    IO_DIR=$d IO_ACT=error IO_AT=$((calls - 13)) LD_PRELOAD=$io quick --steps 12 --tensorboard "$d"
    check "a first record that fails ends the run" test $? = 1 -a "$(grep -c 'error: --tensorboard' \
        "$WORK/quick.err")" = 1
    rm -rf "$d"
    IO_DIR=$d IO_ACT=short IO_AT=$((calls - 6)) LD_PRELOAD=$io quick --steps 12 --tensorboard "$d" \
        --log "$WORK/tb.short" --force
    check "a write that moves half is gone on with" events_read "$d" "$WORK/tb.short"
}

# TensorBoard's own reader, in a virtual environment of this suite.
events_tensorboard() {
    local venv=$WORK/venv
    if ! python3 -c 'import tensorboard' 2>/dev/null; then
        if ! python3 -m venv "$venv" >"$WORK/venv.log" 2>&1 ||
            ! "$venv/bin/pip" install -q tensorboard >>"$WORK/venv.log" 2>&1; then
            echo "skipped: tensorboard cannot be installed"
            return
        fi
    else
        venv=
    fi
    local python=${venv:+$venv/bin/}python3 log=$WORK/tb.jsonl
    rm -rf "$WORK/tb.own" "$WORK/tb.ck"
    quick --steps 6 --tensorboard "$WORK/tb.own" --log "$log" --force --checkpoint "$WORK/tb.ck" \
        --checkpoint-every 4
    rm -rf "$WORK/tb.ck/step-00000006"
    quick --steps 9 --tensorboard "$WORK/tb.own" --log "$log" --checkpoint "$WORK/tb.ck" --resume
    check "TensorBoard's reader" "$python" "$ROOT/tests/runtime/events.py" "$WORK/tb.own" "$log" --tensorboard
}

events_suite() {
    events_runs
    events_refused
    events_lost
    [ "$FULL" = 1 ] && events_tensorboard
}
