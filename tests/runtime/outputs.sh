# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: flags that take words, files that flags write, stdout that is not written, and
# a limit on the size of files.

# quick FLAGS...: two steps of $WORK/one's trainer; $WORK/quick.out and .err
quick() {
    timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 2 --threads 1 --quiet "$@" \
        >"$WORK/quick.out" 2>"$WORK/quick.err"
}

# ---- words ---------------------------------------------------------------------------------------

# A flag is no value of the one before it, neither to a trainer nor to fsdpgen.
flags_as_values() {
    local d=$WORK/words got
    rm -rf "$d" && mkdir "$d" && cd "$d" || return
    fails "a flag for a folder" 2 'if it is meant: --checkpoint=--resume' \
        --data "$data" --checkpoint --resume
    fails "for a file" 2 '`--quiet` is a flag' --data "$data" --log --quiet
    fails "for a number" 2 '`--steps` is a flag' --data "$data" --seed --steps 3
    fails "-h for data" 2 '`-h` is a flag' --data -h
    fails "nothing for a file" 2 '--stats needs a value: FILE' --data "$data" --stats ''
    fails "a word behind --resume" 2 'did you mean --resume=must?' --data "$data" --resume must
    fails "another word of --resume" 2 '`must`: --resume=must' --data "$data" --resume=now
    fails "a command that comes late" 2 'a command is the first word' --data "$data" ls
    check "a flag that is meant" "$t" --data "$data" --steps 1 --quiet --log=--log
    check "is the file's name" test -s ./--log
    rm -f ./--log
    for got in '-o --force' '--set --check -o x' '--target --json -o x' '--path -h -o x' '-o -x'; do
        # shellcheck disable=SC2086
        "$FSDPGEN" "$tiny" $got >out 2>err
        check "fsdpgen $got: code 2" test $? = 2
        check "fsdpgen $got: is told" grep -q 'is an option; if it is meant: --[a-z]*=-' err
    done
    "$FSDPGEN" "$tiny" -o=x >out 2>err
    check "fsdpgen -o=x: code 2" test $? = 2
    check "fsdpgen -o=x: what to write" grep -q -- 'without a `=`: -o x' err
    "$FSDPGEN" tokenize --prompt --decode >out 2>err
    check "fsdpgen tokenize --prompt --decode" grep -q 'if it is meant: --prompt=--decode' err
    "$FSDPGEN" tokenize -o --force "$data" >out 2>err
    check "fsdpgen tokenize -o --force" grep -q 'if it is meant: --output=--force' err
    rm -f out err
    check "and no folder or file of that name is left" test -z "$(ls -A)"
    cd "$ROOT" || exit 70
}

durations() {
    local word
    for word in 11:30:00 h 5x 30m1h 1h1h 1..5 '' -5 1e3 nan; do
        fails "a duration '$word'" 2 '--stop-after' --data "$data" --checkpoint "$WORK/none" \
            --stop-after "$word"
    done
    fails "no duration at all" 2 'is not between' --data "$data" --checkpoint x --stop-after 0
    for word in '--stop-after 3' '--checkpoint-seconds 3' --resume=must; do
        # shellcheck disable=SC2086
        fails "$word alone" 2 "needs --checkpoint DIR" --data "$data" $word
    done
    check "durations were refused, no folder was made" test ! -e "$WORK/none" -a ! -e x
}

# ---- files ----------------------------------------------------------------------------------------

# A user's file stays, whatever flag names it; one of the flag's own is written again.
outputs() {
    local d=$WORK/outputs flag part
    rm -rf "$d" && mkdir "$d"
    printf '{"loss": 3, "mine": [1]}\n' >"$d/mine"
    cp "$d/mine" "$d/kept"
    for flag in log stats debug-gradients; do
        quick --$flag "$d/kept"
        check "--$flag: a file of others is refused" test $? = 1
        check "--$flag: with a word" grep -q -- "--$flag .*kept: the file is there and does not begin" \
            "$WORK/quick.err"
        check "--$flag: and stays" cmp "$d/mine" "$d/kept"
        : >"$d/$flag"
        check "--$flag: an empty file is taken" quick --$flag "$d/$flag"
        check "--$flag: and its own" quick --$flag "$d/$flag"
        check "--$flag: which has something" test -s "$d/$flag"
        check "--$flag: a device" quick --$flag /dev/null
        check "--$flag --force replaces" quick --$flag "$d/kept" --force
        cmp -s "$d/mine" "$d/kept" && bad "--$flag --force replaces nothing"
        cp "$d/mine" "$d/kept"
        quick --$flag "$d/none/file"
        check "--$flag: no such folder, told before a step" grep -q "none/file: No such file" \
            "$WORK/quick.err"
        quick --$flag "$d"
        check "--$flag: a folder" grep -q "Is a directory" "$WORK/quick.err"
    done
    "$WORK/one/trainer" --data "$data" --steps 400 --threads 1 --quiet \
        --log "$d/steps" --stats "$d/late" >"$WORK/quick.out" 2>"$WORK/quick.err" &
    timeout 60 bash -c "until [ -s '$d/steps' ]; do sleep 0.05; done"
    cp "$d/mine" "$d/late"
    wait $!
    check "--stats: a file of others that came meanwhile: code 1" test $? = 1
    check "--stats: it stays" cmp "$d/mine" "$d/late"
    part=$(sed -n 's/^trainer: warning: .*late came to be during the run and stays: .* is in //p' \
        "$WORK/quick.err")
    check "--stats: and the statistics lie beside it, where a line says" test -s "$part"
    rm -f "$part"
    quick --log "$d/stats"
    check "nor is one flag's file another's" test $? = 1
    quick --log "$d/new" --stats "$d/./new"
    check "two flags of one file to come" grep -q -- "--stats .*new: --log names the same file" \
        "$WORK/quick.err"
    quick --log "$d/both" --stats "$d/both"
    check "two flags of one file" grep -q -- "--stats .*both: --log names the same file" \
        "$WORK/quick.err"
    timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 2 --stats "$d/out" >"$d/out" 2>"$WORK/quick.err"
    check "a file that stdout goes to" grep -q "stdout or stderr goes there" "$WORK/quick.err"
    cp "$data" "$d/data" # with --force, too
    timeout -k 30 60 "$WORK/one/trainer" --data "$data" --eval "$d/data" --eval-every 1 --steps 1 --force \
        --log "$d/data" >"$WORK/quick.out" 2>"$WORK/quick.err"
    check "a file that the run reads" grep -q -- "--log .*data: --eval reads that file" "$WORK/quick.err"
    check "which stays" cmp "$data" "$d/data"
    ln -s stats "$d/link"
    chmod 640 "$d/stats"
    check "a link" quick --stats "$d/link"
    check "stays one" test -L "$d/link"
    check "rights stay" test "$(stat -c %a "$d/stats")" = 640
    ln -s yet/none "$d/to-come"
    quick --stats "$d/to-come"
    check "a link into a folder that is not there" grep -q -- "--stats .*to-come: No such file" \
        "$WORK/quick.err"
    mkdir "$d/yet"
    check "a link to what is not there" quick --stats "$d/to-come"
    check "is followed" test -L "$d/to-come" -a -s "$d/yet/none"
    ln -s round "$d/round"
    quick --stats "$d/round"
    check "a link to itself" grep -q -- "--stats .*round: Too many levels" "$WORK/quick.err"
    check "nothing else is left" test -z "$(find "$d" -name '*.part')"
    outputs_pipe "$d"
    outputs_spare "$d"
    outputs_emptied
}

# With --force neither: a checkpoint's files, those of --init, whatever leads there.
outputs_spare() {
    local d=$1 ck=$1/ck at link
    mkdir "$ck"
    quick --checkpoint "$ck" --log "$ck/log" || bad "a checkpoint is written" "$WORK/quick.err"
    at=$ck/step-00000002
    cp -R "$at" "$d/before"
    check "a log in the folder of checkpoints" quick --checkpoint "$ck" --resume --steps 3 --log "$ck/log"
    quick --checkpoint "$ck" --resume --steps 4 --force --log "$at/model.safetensors"
    check "a checkpoint's file" grep -q -- '--log .*: a checkpoint has that file: name another one' \
        "$WORK/quick.err"
    quick --checkpoint "$ck" --resume --steps 4 --force --stats "$at/optimizer/moment1.safetensors"
    check "one of its folder's" grep -q -- '--stats .*: a checkpoint has that file' "$WORK/quick.err"
    for link in -s ''; do
        rm -f "$d/led"
        ln $link "$at/model.safetensors" "$d/led"
        quick --init "$at" --force --log "$d/led"
        check "--init's file by ln $link" grep -q -- '--log .*: --init reads that file' "$WORK/quick.err"
    done
    check "which all stay" diff -r "$d/before" "$at"
    outputs_spare_always "$d" "$at"
}

# stays WHAT PATTERN FILE [FLAGS...]: --force does not replace the file, and a dry run says the same
stays() {
    local what=$1 pattern=$2 file=$3 was
    shift 3
    was=$(md5sum <"$file")
    quick --force --stats "$file" "$@"
    check "$what: refused" test $? = 1 -a "$(grep -c -- "--stats .*: $pattern: name another one" \
        "$WORK/quick.err")" = 1
    quick --force --stats "$file" --dry-run "$@"
    check "$what: a dry run says so, once" test "$(grep -c -- \
        "^  output  *PROBLEM  *--stats .*: $pattern: name another one" "$WORK/quick.out")" = 1
    check "$what: it stays" test "$(md5sum <"$file")" = "$was"
}

# What no flag names, too: other runs' checkpoints, also damaged ones, and the program.
outputs_spare_always() {
    local d=$1 at=$2 file
    for file in MANIFEST train_state.json optimizer/moment1.safetensors; do
        stays "$file of a checkpoint" "a checkpoint has that file" "$at/$file" --checkpoint "$d/other"
    done
    cp -R "$at" "$d/ck/step-00000009"
    rm "$d/ck/step-00000009/MANIFEST"
    stays "what is left of one" "a checkpoint has that file" "$d/ck/step-00000009/config.json"
    stays "the data" "--data reads that file" "$d/data" --data "$d/data"
    cp "$WORK/one/trainer" "$d/self"
    timeout -k 30 60 "$d/self" --data "$data" --steps 1 --threads 1 --quiet --force --stats "$d/self" \
        >"$WORK/quick.out" 2>"$WORK/quick.err"
    check "the trainer itself" grep -q -- '--stats .*: that is the trainer itself' "$WORK/quick.err"
    check "still is one" cmp "$WORK/one/trainer" "$d/self"
    mkdir "$d/step-00000001"
    echo mine | tee "$d/MANIFEST" >"$d/step-00000001/mine"
    check "a folder of that name, and a MANIFEST, need not be a checkpoint's" \
        quick --force --stats "$d/step-00000001/mine" --log "$d/MANIFEST"
    quick --log "$at/optimizer/new.jsonl" --checkpoint "$d/other"
    check "a file that would be removed with a checkpoint" test "$? $(grep -c -- \
        '--log .*: its folder is a checkpoint' "$WORK/quick.err") $(ls "$at/optimizer" | grep -c new)" = "1 1 0"
}

# A log that another program copies and empties begins with a line, not with a hole.
outputs_emptied() {
    local log=$WORK/emptied.jsonl job
    "$WORK/one/trainer" --data "$data" --steps 1000000 --threads 1 --log "$log" >/dev/null 2>&1 &
    job=$!
    timeout 30 sh -c "until [ -s '$log' ]; do sleep 0.05; done; : >'$log'; until [ -s '$log' ]; do sleep 0.05; done"
    kill -KILL $job
    wait $job 2>/dev/null
    check "a log that was emptied" test "$(head -c 8 "$log" | tr '\0' '@')" = '{"step":'
}

outputs_pipe() {
    mkfifo "$1/pipe" "$1/unread"
    quick --log "$1/unread" --deadline 2
    check "a pipe without a reader" grep -q 'unread: a pipe, which waits for its reader' "$WORK/quick.err"
    timeout 60 cat "$1/pipe" >"$1/heard" &
    check "a pipe" quick --stats "$1/pipe"
    wait $!
    check "gets all of it" grep -q '^{"world_size": 1,' "$1/heard"
}

# ---- stdout ---------------------------------------------------------------------------------------

stdout_lost() {
    local hash code
    quick --steps 20 --weights-hash --log "$WORK/stdout.jsonl"
    hash=$(grep '^weights ' "$WORK/quick.out")
    timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 400 --threads 1 --log "$WORK/stdout.jsonl" \
        2>"$WORK/stdout.err" | head -n 1 >"$WORK/stdout.out"
    code=${PIPESTATUS[0]}
    check "| head: code 0 ($code)" test "$code" = 0
    check "| head: is told once" test "$(grep -c 'stdout cannot be written: Broken pipe' \
        "$WORK/stdout.err")" = 1
    check "| head: all steps are computed" test "$(grep -c '"step": ' "$WORK/stdout.jsonl")" = 400
    timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 20 --threads 1 >&- 2>"$WORK/stdout.err"
    check "a closed stdout" test $? = 0
    [ -w /dev/full ] || { echo "skipped: /dev/full"; return; }
    timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 20 --threads 1 >/dev/full 2>"$WORK/stdout.err"
    check "a full disk" test $? = 0 -a "$(grep -c 'No space left' "$WORK/stdout.err")" = 1
    timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 20 --threads 1 --weights-hash --quiet \
        >/dev/full 2>"$WORK/stdout.err"
    check "a hash that is lost is an error" test $? = 1
    check "and is there" grep -q "error: stdout cannot .*: \`$hash\` is lost there" "$WORK/stdout.err"
    "$WORK/one/trainer" --numerics-hash >/dev/full 2>"$WORK/stdout.err"
    check "a hash alone, too" test $? = 1 -a -s "$WORK/stdout.err"
}

# Somebody who stops reading does not stop a run.
stdout_stuck() {
    timeout -k 30 120 "$t" --data "$data" --steps 3000 --threads 1 --deadline 5 --log "$WORK/stuck.jsonl" \
        2>"$WORK/stuck.err" | { sleep 60 & echo $! >"$WORK/stuck.pid"; wait; } &
    local pipe=$!
    timeout 110 bash -c "until [ \"\$(tail -n 1 '$WORK/stuck.jsonl' 2>/dev/null |
        grep -c '\"step\": 3000,')\" = 1 ]; do sleep 0.2; done"
    check "a reader that stands still: all steps are computed" test $? = 0
    kill "$(cat "$WORK/stuck.pid")"
    wait $pipe
    check "and it is told" grep -q 'warning: stdout .*its reader has stopped reading' "$WORK/stuck.err"
}

# Nor does one that stops reading a log in a pipe: lines are left out, and their number is told. A
# line waits for 10 s, longer than --deadline, which counts such a wait as progress. (A deadline of
# 1 s would end the run on a busy machine, where a step can take that long.)
log_stuck() {
    local d=$WORK/log_stuck job left slow_reader deadline=5
    rm -rf "$d" && mkdir "$d" && mkfifo "$d/pipe"
    slow_reader='IFS= read -r line; echo "$line"; until [ -e "$0/go" ]; do sleep 0.1; done; cat'
    timeout 120 bash -c "($slow_reader) <\"\$0/pipe\" >\"\$0/heard\"" "$d" &
    timeout -k 30 120 "$WORK/one/trainer" --data "$data" --steps 400 --threads 1 --deadline $deadline \
        --quiet --log "$d/pipe" >"$d/out" 2>"$d/err"
    check "a log whose reader stands still: the code tells that it is incomplete" test $? = 1
    check "once" grep -q "warning: --log $d/pipe: its reader has stopped reading" "$d/err"
    touch "$d/go"
    wait $!
    left=$(sed -n 's/.*error: --log .*had stopped reading: \([0-9]*\) lines are left out$/\1/p' "$d/err")
    check "and how much: $left" test "$(($(wc -l <"$d/heard") + ${left:-0}))" = 401
    check "lines are whole" test "$(grep -c '^{.*"time": [0-9.]*}$' "$d/heard")" = "$(wc -l <"$d/heard")"
    rm -f "$d/go"
    timeout 120 bash -c "($slow_reader) <\"\$0/pipe\" >\"\$0/heard\"" "$d" &
    timeout -k 30 120 "$WORK/one/trainer" --data "$data" --steps 1000000 --threads 1 --deadline $deadline \
        --quiet --log "$d/pipe" >"$d/out" 2>"$d/err" &
    job=$!
    timeout 60 bash -c "until grep -q 'has stopped reading' '$d/err'; do sleep 0.1; done" ||
        bad "a reader that stops again is told" "$d/err"
    touch "$d/go"
    # a slow one may take a line in parts, and then miss one more
    if timeout 60 bash -c "until sed -n 's/^{.step.: \([0-9]*\),.*/\1/p' '$d/heard' | sort -n | awk '
        NR > 1 && \$1 > last + 1 { gaps++; since = 0 } { last = \$1; since++ } END { exit !(gaps && since > 100) }'
        do sleep 0.1; done"; then
        ok "a reader that goes on gets the lines from then on"
    else
        bad "a reader that goes on gets the lines from then on" "$d/err"
    fi
    kill "$job"
    wait "$job"
}

# A reader of samples that takes its time, like a pager, is no rank that stands still.
sample_stuck() {
    local d=$WORK/sample_stuck
    rm -rf "$d" && mkdir "$d"
    quick --checkpoint "$d/ck" || bad "a checkpoint is written" "$WORK/quick.err"
    timeout -k 30 120 "$t" sample --checkpoint "$d/ck" --prompt '1 2 3' --tokens 3000 --threads 1 --deadline 4 \
        --stop none 2>"$d/err" | perl -e 'fcntl(STDIN, 1031, 4096); # F_SETPIPE_SZ
            sleep(8); print while <STDIN>' >"$d/heard"
    check "sample waits for its reader" test "${PIPESTATUS[0]}" = 0
    check "who gets all of it" test "$(wc -w <"$d/heard")" = 3003
}

# A terminal that takes no line, neither on stdout nor on stderr, holds up no end.
stalled_terminal() {
    rm -rf "$WORK/stalled"
    cc -O1 -Wall -Wextra -Werror "$ROOT/tests/runtime/stall.c" -o "$WORK/stall" ||
        { bad "stall.c does not compile"; return; }
    timeout -k 30 90 "$WORK/stall" "$WORK/one/trainer" --data "$data" --threads 1 --steps 10000000 \
        --checkpoint "$WORK/stalled"
    check "a terminal that stands still: a signal saves" test $? = 75
    check "which is there" test -n "$(ls "$WORK/stalled" | grep step-)"
}

# ---- the size of files ----------------------------------------------------------------------------

file_size() {
    (ulimit -f 100 && quick)
    check "no shared memory for a small ulimit -f: code 1" test $? = 1
    check "is told" grep -q 'no shared memory: File too large: `ulimit -f` counts' "$WORK/quick.err"
    local kib # what ranks share fits, and not one more thing of that size
    kib=$(sed -n 's/.* counts the \([0-9]*\) bytes.*/\1/p' "$WORK/quick.err")
    kib=$((kib / 1024 + 1))
    head -c $((kib * 1024)) /dev/zero | tr '\0' '\n' >"$WORK/large.out"
    (ulimit -f $kib && timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 20 --threads 1 \
        >>"$WORK/large.out" 2>"$WORK/quick.err")
    check "a stdout that may not grow ends no run" test $? = 0
    check "and is told" grep -q 'stdout cannot be written: File too large' "$WORK/quick.err"
    (ulimit -f $kib && quick --stats "$WORK/size.json")
    check "what fits is written" test $? = 0 -a -s "$WORK/size.json"
    (ulimit -f 1 && "$FSDPGEN" tokenize -o "$WORK/size.bin" "$data" "$data" "$data" \
        >"$WORK/quick.out" 2>"$WORK/quick.err")
    check "fsdpgen tokenize: code 1" test $? = 1
    check "is told" grep -q 'cannot be written: File too large' "$WORK/quick.err"
    check "and leaves no file" test -z "$(ls "$WORK" | grep size.bin)"
}

outputs_suite() {
    flags_as_values
    durations
    outputs
    stdout_lost
    [ "$FULL" = 1 ] && stdout_stuck
    turn 0 3 stalled_terminal
    file_size
}

slow_readers() {
    log_stuck
    sample_stuck
}
