#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that die or stand still, launchers that die, signals, bad data, bad flags, guard pages,
# memory checkers: what a job does when something is wrong. First the runtime alone (toy.sh).
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"
. "$ROOT/tests/runtime/toy.sh"

data=$ROOT/LICENSE
tiny=$ROOT/tests/models/tiny_llama.lua
t=$WORK/four/trainer

# No process of a folder's trainer is left within a second.
gone() {
    local i
    for i in $(seq 20); do
        pgrep -f "^$1 " >/dev/null || return 0
        sleep 0.05
    done
    return 1
}

milliseconds() { date +%s%3N; }

# start_job: a long run in the background: $job its pid, $ranks the pids of its ranks.
start_job() {
    # a shell has what it starts in the background ignore SIGINT
    env --default-signal=INT "$t" --data "$data" --steps 100000 --threads 1 "$@" \
        >"$WORK/job.out" 2>"$WORK/job.err" &
    job=$!
    local i
    for i in $(seq 200); do
        [ "$(grep -c '^step:' "$WORK/job.out")" -ge 2 ] && break
        sleep 0.05
    done
    ranks=($(pgrep -P "$job"))
}

# end_job NAME CODE WITHIN_MS PATTERN: the job ended with this code, so fast, saying so.
end_job() {
    local begin=$began code
    wait "$job" 2>/dev/null
    code=$?
    local took=$(($(milliseconds) - begin))
    if [ "$code" -ne "$2" ]; then
        bad "$1: code $code, expected $2" "$WORK/job.err"
    elif [ "$took" -gt "$3" ]; then
        bad "$1: took $took ms, at most $3 promised"
    elif [ -n "$4" ] && ! grep -qE "$4" "$WORK/job.err"; then
        bad "$1: no line like '$4'" "$WORK/job.err"
    elif ! gone "$t"; then
        bad "$1: ranks were left behind"
    else
        ok "$1 ($took ms)"
    fi
}

deaths() {
    local rank
    for rank in 0 1 3; do
        start_job
        began=$(milliseconds)
        kill -KILL "${ranks[$rank]}"
        end_job "kill -9 of rank $rank ends the job" 137 1000 \
            "rank $rank was killed by signal 9 .* at [a-z].* of step [0-9]+"
    done
    start_job
    kill -KILL "$job"
    wait "$job" 2>/dev/null
    if gone "$t"; then ok "kill -9 of the launcher"; else bad "kill -9 of the launcher"; fi
    local signal
    for signal in TERM INT HUP; do
        start_job
        began=$(milliseconds)
        kill -$signal "$job"
        end_job "SIG$signal" $((128 + $(kill -l $signal))) 1000 ''
    done
    for rank in 0 2; do
        start_job --deadline 1
        began=$(milliseconds)
        kill -STOP "${ranks[$rank]}"
        end_job "rank $rank stands still" 1 3500 "rank $rank has stood still for 1.0 s at .* of step [0-9]+"
    done
}

# fails NAME CODE PATTERN FLAGS...: ends with this code and message, prints no step.
fails() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    timeout 20 "$t" "$@" >"$WORK/fails.out" 2>"$WORK/fails.err"
    got=$?
    if [ $got -ne "$code" ]; then
        bad "$name: code $got, expected $code" "$WORK/fails.err"
    elif ! grep -qF -- "$pattern" "$WORK/fails.err"; then
        bad "$name: no line with '$pattern'" "$WORK/fails.err"
    elif grep -q '^step:' "$WORK/fails.out"; then
        bad "$name: it trained"
    else
        ok "$name"
    fi
}

# bin FILE MAGIC VERSION COUNT: the header of a token file; tokens come on stdin
bin() {
    perl -e 'print pack("l<3", @ARGV), "\0" x (1024 - 12)' "$2" "$3" "$4" >"$1"
    cat >>"$1"
}
ids16() { perl -e 'print pack("S<*", map { $_ % $ARGV[1] } 1 .. $ARGV[0])' "$1" "$2"; }
ids32() { perl -e 'print pack("L<*", map { $_ % $ARGV[1] } 1 .. $ARGV[0])' "$1" "$2"; }

bad_data() {
    local d=$WORK/data
    mkdir -p "$d"
    : >"$d/empty.txt"
    printf 'short' >"$d/short.txt"
    printf 'xx' >"$d/stub.bin"
    ids16 500 250 | bin "$d/magic.bin" 7 1 500
    ids16 500 250 | bin "$d/version.bin" 20240520 2 500
    ids16 499 250 | bin "$d/truncated.bin" 20240520 1 500
    ids16 500 250 | bin "$d/negative.bin" 20240520 1 -1
    ids16 500 250 | bin "$d/huge.bin" 20240520 1 2147483647
    ids16 20000 300 | bin "$d/ids.bin" 20240520 1 20000
    perl -e 'print pack("L<*", (4294967295) x 4000)' | bin "$d/ids32.bin" 20240801 7 4000
    ids16 5 250 | bin "$d/few.bin" 20240520 1 5
    fails "no data" 1 "give --data FILE"
    fails "missing file" 1 "no such file" --data "$d/none.txt"
    fails "folder" 1 "not a regular file" --data "$d"
    fails "empty" 1 "the file is empty" --data "$d/empty.txt"
    fails "short text" 1 "a sample is a sequence of" --data "$d/short.txt"
    fails "short header" 1 "too short for the header of 1024" --data "$d/stub.bin"
    fails "wrong magic" 1 "magic 7 version 1" --data "$d/magic.bin"
    fails "wrong version" 1 "magic 20240520 version 2" --data "$d/version.bin"
    fails "truncated" 1 "the header counts 500 tokens" --data "$d/truncated.bin"
    fails "negative count" 1 "the header counts -1 tokens" --data "$d/negative.bin"
    fails "huge count" 1 "the header counts 2147483647 tokens" --data "$d/huge.bin"
    fails "ids out of range" 1 "vocabulary has 259 ids, 0 to 258" --data "$d/ids.bin"
    fails "32-bit ids out of range" 1 "is 4294967295, but the model's vocabulary" --data "$d/ids32.bin"
    fails "few tokens" 1 "has 5 tokens; a sample is" --data "$d/few.bin"
    if [ "$(id -u)" -ne 0 ]; then
        cp "$data" "$d/secret.txt"
        chmod 0 "$d/secret.txt"
        fails "unreadable" 1 "Permission denied" --data "$d/secret.txt"
    fi
    ids16 20000 259 | bin "$d/good16.bin" 20240520 1 20000
    ids32 20000 259 | bin "$d/good32.bin" 20240801 7 20000
    check "16-bit ids train" "$t" --data "$d/good16.bin" --steps 2 --weights-hash
    cp "$WORK/check.log" "$WORK/w16"
    check "32-bit ids train" "$t" --data "$d/good32.bin" --steps 2 --weights-hash
    cp "$WORK/check.log" "$WORK/w32"
    check "both widths give the same weights" \
        diff <(grep ^weights "$WORK/w16") <(grep ^weights "$WORK/w32")
}

# mask FILE BITS: so many bits of 1, low bit first, then zeros to the end of the byte
mask() { perl -e 'print pack("b*", "1" x $ARGV[0])' "$2" >"$1"; }

bad_masks() {
    local d=$WORK/masks good=$WORK/masks/good.bin bytes t=$WORK/masked/trainer
    mkdir -p "$d"
    bytes=$(stat -c %s "$data")
    ids16 20003 259 | bin "$good" 20240520 1 20003
    fails "no mask" 1 "$good.mask: No such file or directory; the trainer's loss.mask" \
        --data "$good"
    : >"$good.mask"
    fails "empty mask" 1 "$good.mask: the file is empty" --data "$good"
    mask "$good.mask" 19992
    fails "short mask" 1 "has 20003 tokens, so 2501 bytes of mask" --data "$good"
    mask "$good.mask" 20009
    fails "long mask" 1 "but the mask has 2502" --data "$good"
    mask "$good.mask" 20004
    fails "bits after the last token" 1 "after that of the last token, 20002, is not 0" \
        --data "$good"
    rm "$good.mask"
    mkdir "$good.mask"
    fails "a folder for a mask" 1 "$good.mask: not a regular file" --data "$good"
    rmdir "$good.mask"
    mask "$good.mask" 20003
    check "a mask of a .bin file" "$t" --data "$good" --steps 2
    fails "a mask for data" 1 "these are masks; name the files beside them" \
        --data "$good.mask"
    check "a pattern passes masks over" "$t" --data "$d/*" --steps 2
    cp "$data" "$d/text.txt"
    fails "one of two files without a mask" 1 "$d/text.txt.mask: No such file" \
        --data "$d/*"
    mask "$d/text.txt.mask" "$bytes"
    check "masks of two files" "$t" --data "$d/*" --steps 2 --log "$d/log.jsonl"
    check "the log counts targets" grep -q '"valid_tokens": 304,' "$d/log.jsonl"
    "$WORK/four/trainer" --data "$d/text.txt" --steps 1 >"$d/out" 2>"$d/err"
    check "a mask that is not asked for: a warning" \
        grep -q "warning: there are masks beside the data" "$d/err"
}

bad_flags() {
    fails "unknown flag" 2 'no flag `--stepz`; did you mean --steps?' --stepz 3
    fails "no value" 2 '--steps needs a value: N' --data "$data" --steps
    fails "negative" 2 '--steps: -1 is not between 0 and' --data "$data" --steps -1
    fails "word for a number" 2 '--steps: `ten` is no whole number' --data "$data" --steps ten
    fails "trailing text" 2 '`3x` is no whole number' --data "$data" --steps=3x
    fails "nan deadline" 2 '--deadline: nan is not between' --data "$data" --deadline nan
    fails "value for a switch" 2 'takes no value' --data "$data" --quiet=1
    fails "stray word" 2 'unexpected `data.txt`' data.txt
    fails "unwritable log" 1 "--log $WORK/no/log" --data "$data" --log "$WORK/no/log"
    check "--help" "$t" --help
    check "--numerics-hash" "$t" --numerics-hash
}

json() { # every line of the log is an object with exactly the documented keys
    "$t" --data "$data" --steps 3 --log "$WORK/log.jsonl" --quiet >/dev/null 2>&1
    local keys="step loss loss_hex grad_norm grad_norm_hex lr skipped tokens"
    keys="$keys step_seconds tokens_per_second mfu memory_bytes"
    [ "$(wc -l <"$WORK/log.jsonl")" -eq 3 ] || return 1
    [ "$(head -n 1 "$WORK/log.jsonl" | grep -o '"[a-z_]*":' | tr -d '":' | xargs)" = "$keys" ]
}

# The step must stay inside its arena, and touch no byte that nobody wrote.
checkers() {
    check "guard pages around the arena" "$t" --data "$data" --steps 2 --guard
    generate "$WORK/two" "$tiny" --set mesh.shard=2 --set 'target.arch=x86-64-v3'
    if build_trainer "$WORK/two" GEMM=builtin BUILD=build-asan TRAINER=trainer-asan \
        CFLAGS="-O1 -g -march=x86-64-v3 -fsanitize=address,undefined -fno-sanitize-recover=all"; then
        check "AddressSanitizer and UndefinedBehaviorSanitizer" env ASAN_OPTIONS=detect_leaks=0 \
            "$WORK/two/trainer-asan" --data "$data" --steps 2 --guard
    else
        bad "building with sanitizers" "$WORK/two.log"
    fi
    command -v valgrind >/dev/null || { echo "skipped: valgrind is not installed"; return; }
    if build_trainer "$WORK/two" GEMM=builtin BUILD=build-vg TRAINER=trainer-vg \
        CFLAGS="-O1 -g -march=x86-64-v3"; then
        check "valgrind" valgrind -q --error-exitcode=9 --trace-children=yes \
            "$WORK/two/trainer-vg" --data "$data" --steps 2 --threads 1 --deadline 500
    else
        bad "building for valgrind" "$WORK/two.log"
    fi
}

toy_suite
if generate "$WORK/four" "$tiny" --set mesh.shard=4 && build_trainer "$WORK/four"; then
    deaths
    bad_data
    if generate "$WORK/masked" "$tiny" --set loss.mask=true && build_trainer "$WORK/masked"; then
        bad_masks
    else
        bad "building the trainer with masks" "$WORK/masked.log"
    fi
    bad_flags
    check "the log's keys" json
    checkers
else
    bad "building the trainer" "$WORK/four.log"
fi
finish
