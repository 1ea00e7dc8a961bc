#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ranks that die or stand still, launchers that die, signals, bad data, bad flags, guard pages,
# memory checkers: what a job does when something is wrong. First the runtime alone (toy.sh).
set -u
. "$(dirname "$0")/../lib.sh"
quick_builds=1
. "$ROOT/tests/e2e/common.sh"
. "$ROOT/tests/runtime/toy.sh"
. "$ROOT/tests/runtime/outputs.sh"
. "$ROOT/tests/runtime/door.sh"
. "$ROOT/tests/runtime/events.sh"
. "$ROOT/tests/runtime/terminal.sh"
. "$ROOT/tests/runtime/threads.sh"

data=$ROOT/LICENSE
tiny=$ROOT/tests/models/tiny_llama.lua
t=$WORK/four/trainer

# No process of a folder's trainer is left.
gone() {
    local i
    for i in $(seq 200); do # at most 10 s
        pgrep -f "^$1 " >/dev/null || return 0
        sleep 0.05
    done
    return 1
}

milliseconds() { date +%s%3N; }

# What is noticed and not waited for takes a fraction of a second, and a second more for each of
# --deadline. A busy machine takes longer; what is not noticed ends with the deadline, after 60 s.
noticed_ms=20000

# ranks_of PID: the processes that a launcher has started, a line for each, in the order of their starts. That of
# their numbers, pgrep's, is another one where numbers have begun again meanwhile.
ranks_of() {
    if [ -r "/proc/$1/task/$1/children" ]; then
        xargs -rn 1 <"/proc/$1/task/$1/children"
    else
        pgrep -P "$1"
    fi
}

# start_job: a long run in the background: $job its pid, $ranks the pids of its ranks.
start_job() {
    : >"$WORK/job.out" # has steps of an earlier job until this one begins
    # a shell has what it starts in the background ignore SIGINT
    env --default-signal=INT "$t" --data "$data" --steps 100000 --threads 1 "$@" \
        >"$WORK/job.out" 2>"$WORK/job.err" &
    job=$!
    local i
    for ((i = 0; i < 1200; i++)); do # at most a minute
        [ "$(grep -c '^step ' "$WORK/job.out")" -lt 2 ] && kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    ranks=($(ranks_of "$job"))
    [ ${#ranks[@]} -eq 4 ] || { bad "a job of four ranks runs" "$WORK/job.err"; kill -KILL $job; }
}

# end_job NAME CODE PATTERN: the job ended with this code, since something was noticed, saying so.
end_job() {
    local begin=$began code
    wait "$job" 2>/dev/null
    code=$?
    local took=$(($(milliseconds) - begin))
    if [ "$code" -ne "$2" ]; then
        bad "$1: code $code, expected $2" "$WORK/job.err"
    elif [ "$took" -gt $noticed_ms ]; then
        bad "$1: took $took ms"
    elif ! grep -qE "$3" "$WORK/job.err"; then
        bad "$1: no line like '$3'" "$WORK/job.err"
    elif ! gone "$t"; then
        bad "$1: ranks were left behind"
    else
        ok "$1 ($took ms)"
    fi
}

# Without --checkpoint every signal that asks ends the job, whoever gets it, and is told.
ended_by() {
    local signal signals="TERM INT HUP USR1 XCPU" number
    local others=(USR2 ALRM VTALRM PROF IO PWR RTMIN RTMAX-3)
    # what this shell ignores its jobs ignore
    if [ $((0x$(sed -n 's/^SigIgn:[ \t]*//p' /proc/self/status) & 1)) != 0 ]; then
        echo "skipped: SIGHUP (it is ignored here, as by nohup)"
        signals=${signals/HUP/}
    fi
    random ${#others[@]}
    [ "$FULL" = 1 ] && signals="$signals ${others[*]}" || signals="$signals ${others[random_value]}"
    for signal in $signals; do
        number=$(kill -l "$signal")
        start_job
        began=$(milliseconds)
        kill -"$signal" "$job"
        end_job "SIG$signal" $((128 + number)) "^trainer: ended by signal $number .* of step"
    done
    start_job
    began=$(milliseconds)
    kill -USR1 "${ranks[2]:-$job}"
    end_job "SIGUSR1 to a rank" 138 "^trainer: ended by signal 10 "
}

deaths() {
    local rank
    for rank in 0 1 3; do
        start_job
        began=$(milliseconds)
        kill -KILL "${ranks[$rank]:-$job}"
        end_job "kill -9 of rank $rank ends the job" 137 \
            "rank $rank was killed by signal 9 .* at [a-z].* of step [0-9]+"
    done
    start_job
    kill -KILL "$job"
    wait "$job" 2>/dev/null
    if gone "$t"; then ok "kill -9 of the launcher"; else bad "kill -9 of the launcher"; fi
    ended_by
    for rank in 0 2; do
        start_job --deadline 4 # also for each part of the start
        began=$(milliseconds)
        kill -STOP "${ranks[$rank]:-$job}"
        end_job "rank $rank stands still" 1 "rank $rank has stood still for 4.0 s at .* of step [0-9]+"
    done
}

# fails NAME CODE PATTERN FLAGS...: ends with this code and message, prints no step.
fails() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    timeout -k 30 60 "$t" "$@" >"$WORK/fails.out" 2>"$WORK/fails.err"
    got=$?
    if [ $got -ne "$code" ]; then
        bad "$name: code $got, expected $code" "$WORK/fails.err"
    elif ! grep -qF -- "$pattern" "$WORK/fails.err"; then
        bad "$name: no line with '$pattern'" "$WORK/fails.err"
    elif grep -q '^step ' "$WORK/fails.out"; then
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
    printf '{"text": "%s"}' "$(head -c 3000 /dev/zero | tr '\0' x)" >"$d/chat.jsonl"
    cp "$d/chat.jsonl" "$d/weights.SafeTensors"
    cp "$d/chat.jsonl" "$d/odd[1].txt"
    fails "JSONL" 1 "chat.jsonl: is neither tokens nor a text" --data "$d/chat.jsonl"
    fails "weights" 1 "weights.SafeTensors: is neither" --data "$d/weights.SafeTensors"
    check "JSONL as bytes" "$t" --data "text:$d/chat.jsonl" --steps 1 --quiet
    check "a name with the letters of a pattern" "$t" --data "$d/odd[1].txt" --steps 1 --quiet
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

# pair X TOKENS VOCAB: Megatron's X.bin and X.idx, 32-bit ids in sequences of 7 (the last is what
# is left), a document every two of them
pair() {
    ids32 "$2" "$3" >"$1.bin"
    perl -e 'my ($n) = @ARGV; my ($at, @len, @at, @doc) = (0);
        while ($at < $n) { my $len = $n - $at < 7 ? $n - $at : 7; push @len, $len; push @at, 4 * $at;
                           push @doc, $#len if $#len % 2 == 0; $at += $len }
        print "MMIDIDX\0\0", pack("Q<CQ<Q<l<*", 1, 4, scalar @len, @doc + 1, @len),
              pack("q<*", @at, @doc, scalar @len)' "$2" >"$1.idx"
}
# lie X Y OFFSET BYTES: the pair X as Y, whose index has these bytes (perl) there
lie() {
    cp "$1.bin" "$2.bin"
    perl -e 'local $/; my $s = <STDIN>; my $new = eval $ARGV[1]; substr($s, $ARGV[0], length $new) = $new;
        print $s' "$3" "$4" <"$1.idx" >"$2.idx"
}

formats() {
    local d=$WORK/formats name
    mkdir -p "$d/all"
    ids16 20000 259 | bin "$d/llmc.bin" 20240520 1 20000
    ids16 20000 259 >"$d/nano.bin"
    pair "$d/mega" 20000 259
    for name in "$d/llmc.bin" "nanogpt:$d/nano.bin" "$d/mega.bin" "$d/mega.idx" "$d/mega.*" \
        "megatron:$d/mega.bin" "$d/llmc.bin=3"; do
        "$t" --data "$name" --steps 2 --weights-hash --quiet 2>&1 | grep ^weights >>"$d/hashes"
    done
    check "tokens of llm.c, nanoGPT and Megatron give the same weights" \
        [ "$(sort "$d/hashes" | uniq -c | awk '{ print $1 }')" = 7 ]
    cp "$d"/mega.* "$d/all"
    "$t" --data "$d/mega.bin" --steps 1 2>&1 | grep -o 'data: [0-9,]* samples' >"$d/samples"
    check "a pattern takes a pair once" diff "$d/samples" \
        <("$t" --data "$d/all/*" --steps 1 2>&1 | grep -o 'data: [0-9,]* samples')
    # epochs: whole steps, of the samples that there are
    head -c 3000 "$data" >"$d/few.txt"
    local samples batch
    for name in 1 1.5 2; do
        "$t" --data "$d/few.txt" --epochs $name --log "$d/epochs.jsonl" >"$d/epochs.out" 2>&1
        samples=$(sed -n 's/^data: \([0-9,]*\) samples.*/\1/p' "$d/epochs.out" | tr -d ,)
        batch=$(sed -n 's/^data: .* steps\? of \([0-9]*\) samples.*/\1/p' "$d/epochs.out")
        check "--epochs $name: the last whole step" [ "$(grep -c '^{"step"' "$d/epochs.jsonl")" = \
            "$(awk "BEGIN { print int($name * $samples / $batch) }")" ]
        rm -f "$d/epochs.jsonl"
    done
    fails "steps and epochs" 2 "--steps and --epochs: give one of them" --data "$d/few.txt" --steps 2 --epochs 2
    fails "no epoch" 2 "--epochs: 0 is not between" --data "$d/few.txt" --epochs 0
    fails "less than a step" 1 "that is less than a step of $batch" --data "$d/few.txt" --epochs 0.0001
    fails "epochs of a mixture" 1 "sources with weights have epochs of their own: use --steps N" \
        --data "$d/few.txt=1" --data "$data=2" --epochs 1
    fails "nanoGPT without a word" 1 "For 16-bit ids without a header write nanogpt:FILE" \
        --data "$d/nano.bin"
    fails "llm.c's header taken for ids" 1 "has the header of llm.c" --data "nanogpt:$d/llmc.bin"
    ids16 500 259 | head -c 999 >"$d/odd.bin"
    fails "half an id" 1 "999 bytes, an odd number" --data "nanogpt:$d/odd.bin"
    ids16 20000 300 >"$d/range.bin"
    fails "nanoGPT ids out of range" 1 "vocabulary has 259 ids" --data "nanogpt:$d/range.bin"
    fails "an unknown format" 1 '`nanogtp:` is not a format: those are text, llmc' \
        --data "nanogtp:$d/nano.bin"
    lie "$d/mega" "$d/m" 0 '"MMIDIDY"'
    fails "an index without its magic" 1 "does not begin with MMIDIDX" --data "$d/m.bin"
    lie "$d/mega" "$d/m" 9 'pack "Q<", 2'
    fails "an index of version 2" 1 "version 2; 1 is known" --data "$d/m.bin"
    lie "$d/mega" "$d/m" 17 'chr 7'
    fails "ids in floating point" 1 "dtype 7 is a floating point one" --data "$d/m.bin"
    lie "$d/mega" "$d/m" 17 'chr 9'
    fails "an unknown dtype" 1 "dtype 9; Megatron's codes of tokens" --data "$d/m.bin"
    lie "$d/mega" "$d/m" 17 'chr 8'
    fails "another width" 1 "its place: sequences must lie one behind" --data "$d/m.bin"
    lie "$d/mega" "$d/m" 18 'pack "Q<", 1 << 62'
    fails "endless sequences" 1 "the header counts 4611686018427387904 sequences" --data "$d/m.bin"
    lie "$d/mega" "$d/m" 34 'pack "l<", -1'
    fails "a negative sequence" 1 "sequence 0 has -1 tokens" --data "$d/m.bin"
    lie "$d/mega" "$d/m" $((34 + 4 * 2858 + 8)) 'pack "q<", -28'
    fails "a pointer before the file" 1 "sequence 1 begins at byte -28, where byte 28" --data "$d/m.bin"
    lie "$d/mega" "$d/m" $((34 + 12 * 2858 + 8)) 'pack "q<", 1 << 40'
    fails "a bound outside" 1 "document 1 begins with sequence 1099511627776" --data "$d/m.bin"
    cp "$d/mega.idx" "$d/m.idx"
    head -c 79996 "$d/mega.bin" >"$d/m.bin"
    fails "a pair cut off" 1 "but $d/m.bin has 19999" --data "$d/m.bin"
    head -c 30 "$d/mega.idx" >"$d/m.idx"
    fails "an index cut off" 1 "too short for the header of 34" --data "$d/m.bin"
    (cat "$d/mega.idx" && head -c 2858 /dev/zero) >"$d/m.idx"
    cp "$d/mega.bin" "$d/m.bin"
    fails "modes" 1 "modes of a multimodal dataset" --data "$d/m.bin"
    cp "$d/mega.idx" "$d/none.idx"
    fails "an index alone" 1 "$d/none.bin: No such file" --data "megatron:$d/none.idx"
}

weights() {
    local d=$WORK/weights half
    mkdir -p "$d"
    for half in a b; do
        ids16 9000 $([ $half = a ] && echo 100 || echo 250) | bin "$d/$half.bin" 20240520 1 9000
    done
    local mix=(--data "$d/a.bin=0.7" --data "$d/b.bin=0.3")
    fails "one weight missing" 1 "$d/b.bin: has no weight, but others have" \
        --data "$d/a.bin=1" --data "$d/b.bin"
    fails "a weight of nothing" 1 '`0` is not a weight' --data "$d/a.bin=0"
    fails "a weight too small" 1 "less than 1/65536 of all weights" \
        --data "$d/a.bin=1" --data "$d/b.bin=1e-6"
    printf short >"$d/s.txt"
    fails "a weight without samples" 1 "none of its files has a sample" \
        --data "$d/a.bin=1" --data "$d/s.txt=1"
    check "weights train" "$t" "${mix[@]}" --steps 4 --weights-hash --verbose
    cp "$WORK/check.log" "$d/log"
    grep ^weights "$d/log" >"$d/four"
    check "the start tells shares" grep -q "b.bin=0.3: 30.* % of all samples" "$d/log"
    check "weights on one rank" "$WORK/one/trainer" "${mix[@]}" --steps 4 --weights-hash --quiet
    grep ^weights "$WORK/check.log" >"$d/one" # a check writes its log anew
    check "weights know no mesh" diff "$d/one" "$d/four"
    "$t" --data "$d/a.bin" --data "$d/b.bin" --steps 4 --weights-hash --quiet | grep ^weights >"$d/bare"
    check "weights change the order" [ "$(cat "$d/bare")" != "$(cat "$d/four")" ]
    check "a run with weights stops" "$t" "${mix[@]}" --steps 2 --checkpoint "$d/ck"
    cp -r "$d/ck" "$d/other"
    check "and goes on" "$WORK/one/trainer" "${mix[@]}" --steps 4 --checkpoint "$d/ck" --resume \
        --weights-hash
    grep ^weights "$WORK/check.log" >"$d/resumed"
    check "to the bits of one that did not stop" diff "$d/resumed" "$d/four"
    check "going on with other weights" "$t" --data "$d/a.bin=0.6" --data "$d/b.bin=0.4" --steps 3 \
        --checkpoint "$d/other" --resume
    cp "$WORK/check.log" "$d/log"
    check "is told of" grep -q "warning: --data has other weights" "$d/log"
}

# mask FILE BITS: so many bits of 1, low bit first, then zeros to the end of the byte
mask() { perl -e 'print pack("b*", "1" x $ARGV[0])' "$2" >"$1"; }

bad_masks() {
    local d=$WORK/masks good=$WORK/masks/good.bin bytes half t=$WORK/masked/trainer
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
    "$t" --data "$good" --steps 1 >/dev/null 2>"$WORK/note.err"
    check "a mask that says nothing of its tokens: a note" grep -qF \
        "note: $good.mask does not say which tokens it was made for" "$WORK/note.err"
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
    # two files of as many tokens, and the mask of one beside the other
    local tok=("$FSDPGEN" tokenize --tokenizer "$ROOT/tests/tokenize/data/gpt2.json" --template "$d/t.lua")
    printf '%s\n' 'return function(m) return { m[1].content, target(m[2].content) } end' >"$d/t.lua"
    for half in a b; do
        perl -e 'my $s = $ARGV[0] x 2000; print "{\"messages\": [{\"role\": \"user\", \"content\": \"$s\"},",
            " {\"role\": \"assistant\", \"content\": \"$s\"}]}\n"' $half >"$d/$half.jsonl"
        "${tok[@]}" -o "$d/$half.bin" "$d/$half.jsonl" >"$d/log" 2>&1 || bad "chats to tokens" "$d/log"
    done
    check "a file and its own mask" "$t" --data "$d/a.bin" --steps 1
    cp "$d/b.bin.mask" "$d/a.bin.mask"
    fails "the mask of another file of that size" 1 \
        "$d/a.bin.mask was made for other tokens than $d/a.bin has" --data "$d/a.bin"
    fails "in held-out data, too" 1 "$d/a.bin.mask was made for other tokens" --data "$d/b.bin" \
        --eval "$d/a.bin"
}

bad_flags() {
    fails "unknown flag" 2 'no flag `--stepz`; did you mean --steps?' --stepz 3
    fails "a flag with letters swapped" 2 'no flag `--rseume`; did you mean --resume?' --rseume
    fails "the start of a flag" 2 'no flag `--accept`; did you mean --accept-data?' --accept
    fails "a flag that is a field of the description" 2 "no flag \`--learning-rate\`; here it is the description's: optimizer.lr" --learning-rate 1
    fails "a flag like none" 2 "no flag \`--zzz\`; see" --zzz 1
    fails "a flag of a command, misspelt" 2 'no flag `--promt`; did you mean --prompt?' sample --promt x
    fails "a flag of training, misspelt, for a command" 2 'no flag `--stepz`; see' ls --stepz 3 "$WORK"
    fails "a flag of another command" 2 '--prompt is for `trainer sample`' --prompt x
    fails "a flag of GPUs" 2 '--profile is for trainers on GPUs: --target cuda' --profile x
    fails "a flag of several GPUs" 2 '--loopback is for trainers on several GPUs' --loopback
    fails "an unknown command" 2 'no command `sampel`; did you mean `trainer sample`?' sampel --prompt x
    fails "no value" 2 '--steps needs a value: N' --data "$data" --steps
    fails "negative" 2 '--steps: -1 is not between 0 and' --data "$data" --steps -1
    fails "word for a number" 2 '--steps: `ten` is not a whole number' --data "$data" --steps ten
    fails "trailing text" 2 '`3x` is not a whole number' --data "$data" --steps=3x
    fails "nan deadline" 2 '--deadline: nan is not between' --data "$data" --deadline nan
    fails "value for a switch" 2 'takes no value' --data "$data" --quiet=1
    fails "stray word" 2 'unexpected `data.txt`' data.txt
    fails "unwritable log" 1 "--log $WORK/no/log" --data "$data" --log "$WORK/no/log"
    # bytes that a terminal obeys, in names and arguments
    local bad=$'z\e[31m\a\xff\xe2\x80\xae' shown='z\x1b[31m\x07\xff\xe2\x80\xaeé'
    mkdir -p "$WORK/names/$bad"é && printf a >"$WORK/names/$bad"é/a.txt
    fails "a flag of hostile bytes" 2 "no flag \`--$shown" "--$bad"é
    fails "a file of hostile bytes" 1 "$shown/a.txt" --data "$WORK/names/*/*"
    fails "a log of hostile bytes" 1 "--log $WORK/no$shown" --data "$data" --log "$WORK/no$bad"é/x
    check "--help" "$t" --help
    "$t" --help >"$WORK/help"
    check "--help has headings" test "$(grep '^[A-Z][a-z]*:$' "$WORK/help" | xargs)" = \
        "Data: Schedule: Checkpoints: Output: Launch:"
    check "--numerics-hash" "$t" --numerics-hash
}

json() { # every line of the log is an object with exactly the documented keys
    "$t" --data "$data" --steps 3 --log "$WORK/log.jsonl" --quiet >/dev/null 2>&1
    local keys="step loss loss_hex grad_norm grad_norm_hex lr skipped tokens"
    keys="$keys step_seconds tokens_per_second mfu memory_bytes time"
    [ "$(grep -c '^{"step": ' "$WORK/log.jsonl")" -eq 3 ] || return 1
    [ "$(grep '^{"step": ' "$WORK/log.jsonl" | sed 's/"\([a-z_]*\)": [^,}]*/\1/g; s/[{},]//g' | sort -u)" = "$keys" ]
}

# Machines whose pages are larger than those here: arenas, copies for saves and digests.
large_pages() {
    local so=$WORK/large_pages.so ck=$WORK/large.ck t=$WORK/four/trainer-builtin # oneDNN's own code wants 4 KiB
    cc -O1 -shared -fPIC "$ROOT/tests/runtime/large_pages.c" -o "$so" &&
        build_trainer "$WORK/four" GEMM=builtin BUILD=build-builtin TRAINER=trainer-builtin ||
        { bad "a trainer for large pages" "$WORK/four.log"; return; }
    check "pages of 64 KiB" env LD_PRELOAD="$so" "$t" --data "$data" --steps 2 --guard --checkpoint "$ck" \
        --checkpoint-every 1 --check-data --quiet
    LD_PRELOAD=$so "$t" --data "$data" --steps 3 --checkpoint "$ck" --resume=must --quiet --weights-hash |
        grep '^weights ' >"$WORK/large.weights"
    "$t" --data "$data" --steps 3 --quiet --weights-hash | grep '^weights ' >"$WORK/small.weights"
    check "change no bit" cmp "$WORK/large.weights" "$WORK/small.weights"
}

# A mapping that fails because the process has too many says so, whatever it is for.
full_maps() {
    local so=$WORK/full_maps.so t=$WORK/one/trainer ck=$WORK/maps.ck
    [ "$(cat /proc/sys/vm/max_map_count)" -le 4000000 ] || # MOST of full_maps.c
        { echo "skipped: too many mappings (vm.max_map_count has no end here)"; return; }
    cc -O1 -Wall -Wextra -Werror -shared -fPIC "$ROOT/tests/runtime/full_maps.c" -o "$so" ||
        { bad "full_maps.c does not compile"; return; }
    FULL_MAPS=arena LD_PRELOAD=$so timeout -k 30 60 "$t" --data "$data" --steps 2 --quiet \
        >"$WORK/maps.out" 2>"$WORK/maps.err"
    check "too many mappings for the arena: code 1" test $? = 1
    check "are reported" grep -q 'memory for this rank.s arena: .* mappings that vm.max_map_count allows' "$WORK/maps.err"
    FULL_MAPS=copies LD_PRELOAD=$so timeout -k 30 60 "$t" --data "$data" --steps 2 --quiet \
        --checkpoint "$ck" --checkpoint-every 1 >"$WORK/maps.out" 2>"$WORK/maps.err"
    check "too many for copies: the run ends well" test $? = 0 -a -d "$ck/step-00000002"
    check "and they are reported" grep -q 'copies cannot be mapped: .* mappings that vm.max_map_count allows' \
        "$WORK/maps.err"
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

# The loops of toy.sh over an emitted trainer: ranks that are killed or stopped at random, faults in
# the middle of a step.
emitted_loops() {
    local dir=$WORK/faulty object=$WORK/faulty.o
    toy_kills four/trainer 9 $([ "$FULL" = 1 ] && echo 200 || echo 3) --threads 1
    [ "$FULL" = 1 ] || return 0
    toy_kills four/trainer 19 50 --deadline 1 --threads 1
    rm -rf "$dir" && cp -r "$WORK/four" "$dir" && rm -rf "$dir/trainer" &&
        cc -O1 -Wall -Wextra -Werror -I"$ROOT/runtime" -I"$dir" -I"$ROOT/tests/runtime" \
            -c "$ROOT/tests/runtime/faulty.c" -o "$object" &&
        build_trainer "$dir" LDLIBS="-Wl,--wrap=rt_at $object" ||
        { bad "a trainer with faults is built" "$dir.log"; return; }
    toy_faults faulty/trainer 'layers.1 layer_backward' 0 1 2 3
}

# Trainers, built once for the parts that need them.
four() {
    generate "$WORK/four" "$tiny" --set mesh.shard=4 && build_trainer "$WORK/four" ||
        bad "building the trainer" "$WORK/four.log"
}
one() {
    generate "$WORK/one" "$tiny" --set mesh.shard=1 && build_trainer "$WORK/one" ||
        bad "building the trainer of one rank" "$WORK/one.log"
}
masked() {
    generate "$WORK/masked" "$tiny" --set loss.mask=true && build_trainer "$WORK/masked" ||
        bad "building the trainer with masks" "$WORK/masked.log"
}
large_vocabulary() {
    if ! generate "$WORK/large" "$tiny" --set model.vocab=1025 || ! build_trainer "$WORK/large"; then
        bad "building the trainer of a large vocabulary" "$WORK/large.log"
        return
    fi
    "$WORK/large/trainer" --data "$data" --steps 1 --quiet 2>"$WORK/large.err"
    check "bytes for a large vocabulary are told" grep -q \
        "the bytes of .*LICENSE are taken for tokens, 256 of the model's 1025" "$WORK/large.err"
    "$WORK/large/trainer" --data "text:$data" --steps 1 --quiet 2>"$WORK/large.err"
    check "not if that is meant" test ! -s "$WORK/large.err"
}

toy_parts
part four four
part deaths:four deaths
part emitted_loops:four emitted_loops
part bad_data:four bad_data
part formats:four formats
part one one
part weights:four,one weights
part waits_of_threads:four,one waits_of_threads
part bound_threads:four,one bound_threads
part limited_threads limited_threads
part masked masked
part bad_masks:four,masked bad_masks
part large_vocabulary large_vocabulary
part bad_flags:four bad_flags
part outputs:four,one outputs_suite
part slow_readers:four,one slow_readers
part pipe:four,one in_a_pipe
part typed_next:one typed_next
part terminal:four on_a_terminal
part events:four,one events_suite
part log_keys:four check "the log's keys" json
part large_pages:four large_pages
part full_maps:one full_maps
part checkers:four,one turn 0 4 checkers
finish
