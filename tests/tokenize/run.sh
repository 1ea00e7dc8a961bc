#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fsdpgen tokenize: ids equal to those of the `tokenizers` package (data/, made by
# make_data.py and its like), the same bytes whatever the number of threads, hostile inputs refused with a
# place and nothing left behind. FULL=1: 1 MB of English and 50,000 code points, with the
# package itself where Python has it, and lists of added tokens beside it (added.py).
set -u
. "$(dirname "$0")/../lib.sh"
here=$ROOT/tests/tokenize
data=$here/data
out=$WORK/out
mkdir -p "$out"
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0}

tok() { timeout 60 "$FSDPGEN" tokenize "$@"; }

# ids_of FILE.bin: the ids, without the header
ids_of() { tail -c +1025 "$1"; }

# refused NAME CODE PATTERN ARGS...: this code and message; no file, whole or not.
refused() {
    local name=$1 code=$2 pattern=$3 got
    shift 3
    rm -rf "$WORK/none"
    mkdir "$WORK/none"
    tok "$@" -o "$WORK/none/x.bin" >"$WORK/refused.out" 2>"$WORK/refused.err" </dev/null
    got=$?
    if [ $got -ne "$code" ]; then
        bad "$name: code $got, expected $code" "$WORK/refused.err"
    elif ! grep -qF -- "$pattern" "$WORK/refused.err"; then
        bad "$name: no line with '$pattern'" "$WORK/refused.err"
    elif [ -n "$(ls -A "$WORK/none")" ]; then
        bad "$name: it left $(ls -A "$WORK/none")"
    else
        ok "$name"
    fi
}

# same_ids FOLDER TEXTS...: of the three tokenizers, on 1, 2 and 5 threads
same_ids() {
    local folder=$1 kind text threads
    shift
    for text in "$@"; do
        for kind in gpt2 llama3 qwen; do
            for threads in 1 2 5; do
                rm -f "$out/x.bin"
                check "$kind: $text on $threads threads" tok --tokenizer "$data/$kind.json" \
                    --threads $threads -o "$out/x.bin" "$folder/$text.txt"
                check "$kind: ids of $text" cmp <(ids_of "$out/x.bin") "$folder/$text.$kind.ids"
            done
        done
    done
}

# tok_to FILE ARGS...: with its stdout
tok_to() {
    local file=$1
    shift
    tok "$@" >"$file"
}

# wrong_terminal NAME CODE PATTERN STDIN ARGS...: this code and message
wrong_terminal() {
    local name=$1 code=$2 pattern=$3 input=$4 got
    shift 4
    printf '%s' "$input" >"$WORK/refused.in"
    tok "$@" <"$WORK/refused.in" >"$WORK/refused.out" 2>"$WORK/refused.err"
    got=$?
    check "$name: code $got" [ "$got" = "$code" ]
    check "$name: told" grep -qF -- "$pattern" "$WORK/refused.err"
}

record() { # LINE: the only one of bad.jsonl
    printf '%s\n' "$1" >"$out/bad.jsonl"
}

header() { # FILE: magic, version, count
    head -c 12 "$1" | od -An -t d4 | xargs
}

documents() {
    local n=0 text
    : >"$out/docs.jsonl"
    for text in english points edges; do
        perl -e 'local $/; $_ = <STDIN>; s/([\\"])/\\$1/g; s/([\x00-\x1f])/sprintf "\\u%04x", ord $1/ge;
            print "{\"id\": 1, \"text\": \"$_\"}\n\n"' <"$data/$text.txt" >>"$out/docs.jsonl"
    done
    for n in 1 3; do
        check "JSON lines on $n threads" tok --tokenizer "$data/qwen.json" --end '<|im_end|>' \
            --threads $n -o "$out/docs$n.bin" "$out/docs.jsonl"
    done
    check "the same bytes" cmp "$out/docs1.bin" "$out/docs3.bin"
    for text in english points edges; do
        cat "$data/$text.qwen.ids"
        perl -e 'print pack "S<", $ARGV[0]' \
            "$(grep -a -B 1 'content":"<|im_end|>' "$data/qwen.json" | tr -dc 0-9)"
    done >"$out/docs.ids"
    check "JSON lines have the texts' ids" cmp <(ids_of "$out/docs1.bin") "$out/docs.ids"
    check "the header counts them" [ "$(header "$out/docs1.bin")" = \
        "20240520 1 $(($(stat -c %s "$out/docs.ids") / 2))" ]
    check "bytes" tok -o "$out/bytes.bin" "$data/points.txt" --end 256
    check "are themselves, and an end" cmp <(ids_of "$out/bytes.bin") \
        <(perl -e 'local $/; print pack "S<*", unpack("C*", <STDIN>), 256' <"$data/points.txt")
    check "an end beyond 16 bits" tok -o "$out/wide.bin" "$data/points.txt" --end 70000
    check "takes 32 bits" [ "$(header "$out/wide.bin")" = \
        "20240801 7 $(($(stat -c %s "$data/points.txt") + 1))" ]
    : >"$out/empty.txt"
    check "an empty text" tok --tokenizer "$data/llama3.json" -o "$out/empty.bin" "$out/empty.txt"
    check "is what is put around it" [ "$(header "$out/empty.bin")" = "20240520 1 1" ]
    check "--no-special" tok --tokenizer "$data/llama3.json" --no-special -o "$out/bare.bin" \
        "$data/english.txt"
    check "leaves it out" cmp <(ids_of "$out/bare.bin") <(tail -c +3 "$data/english.llama3.ids")
    tok -o "$out/progress.bin" "$data/english.txt" >"$out/stdout" 2>"$out/stderr"
    check "one line on stdout" [ "$(cat "$out/stdout")" = \
        "$out/progress.bin: $(stat -c %s "$data/english.txt") tokens of 16 bits, 1 document" ]
    check "none on stderr" [ ! -s "$out/stderr" ]
}

# Prompts to ids and ids to texts, as people need them beside `trainer sample`.
terminal() {
    local kind text ids n
    for kind in gpt2 llama3 qwen; do
        for text in english edges; do
            ids=$(od -An -v -tu2 "$data/$text.$kind.ids" | xargs)
            # a shell's word has no NUL and no newlines at its end
            perl -pe 'BEGIN { undef $/ } s/\x00//g; s/\n+$//' <"$data/$text.txt" >"$out/prompt.txt"
            tok --tokenizer "$data/$kind.json" -o "$out/prompt.bin" --force "$out/prompt.txt" >/dev/null
            check "$kind: --prompt of $text" tok_to "$out/prompt.ids" --tokenizer "$data/$kind.json" \
                --prompt "$(cat "$out/prompt.txt")"
            check "$kind: is as in a file" [ "$(cat "$out/prompt.ids")" = \
                "$(ids_of "$out/prompt.bin" | od -An -v -tu2 | xargs)" ]
            [ $kind = llama3 ] && ids=${ids#* } # its <|begin_of_text|>
            tok --tokenizer "$data/$kind.json" --decode <<<"$ids" >"$out/text.txt" 2>"$out/text.err"
            [ "$kind$text" = qwenedges ] && continue # in normal form, others than it began with
            check "$kind: --decode of $text" cmp "$out/text.txt" <(cat "$data/$text.txt" && echo)
        done
    done
    check "--prompt begins as the tokenizer says" tok_to "$out/prompt.ids" \
        --tokenizer "$data/llama3.json" --prompt "<|eot_id|>"
    n=$(cat "$out/prompt.ids")
    check "--no-special leaves that out" tok_to "$out/bare.ids" --tokenizer "$data/llama3.json" \
        --no-special --prompt "<|eot_id|>"
    check "and no more: $n" [ "$n" = "800 $(cat "$out/bare.ids")" ]
    check "--decode writes special tokens" [ \
        "$(tok --tokenizer "$data/llama3.json" --decode <"$out/prompt.ids")" = "<|begin_of_text|><|eot_id|>" ]
    check "bytes" [ "$(tok --prompt 'aé')" = "97 195 169" ]
    check "and back, a line for a line" cmp <(printf '97,195,169\n\n\t98 \r\n 99' | tok --decode) \
        <(printf 'aé\n\nb\nc')
    printf '39 999999 39' | tok --tokenizer "$data/gpt2.json" --decode >"$out/text.txt" 2>"$out/text.err"
    check "an id of no token" [ "$(cat "$out/text.txt")" = "H�H" ]
    check "it says so" grep -qF "the tokenizer does not have 1 of the ids: they become U+FFFD" "$out/text.err"
    # as it comes: the reader of a pipe sees a text whose ids are not yet all there
    mkfifo "$out/ids"
    tok --decode <"$out/ids" >"$out/heard.txt" &
    exec 7>"$out/ids"
    printf '97' >&7 # as `trainer sample` writes, whose blanks come with the next id
    printf ' 98' >&7
    printf ' 99' >&7
    for ((n = 0; n < 200; n++)); do
        [ "$(cat "$out/heard.txt")" = ab ] && break
        sleep 0.05
    done
    check "a text is written as its ids come" [ "$(cat "$out/heard.txt")" = ab ]
    exec 7>&-
    check "until they end" wait $!
    check "with the last" [ "$(cat "$out/heard.txt")" = abc ]
    wrong_terminal "no id" 1 "--decode: stdin: byte 4: this is not an id" "97 x" --decode
    wrong_terminal "an id and more" 1 "byte 6: this is not an id" "97 98x" --decode
    check "is not written" [ "$(cat "$WORK/refused.out")" = a ]
    wrong_terminal "an id below 0" 1 "byte 1: this is not an id" "-1" --decode
    wrong_terminal "an id that is too large" 1 "byte 10: this is not an id" 2147483648 --decode
    wrong_terminal "a prompt that is not UTF-8" 1 "--prompt: byte 2 is not UTF-8" "" \
        --tokenizer "$data/gpt2.json" --prompt $'a\xff'
    wrong_terminal "an empty prompt" 2 "--prompt needs a value" "" --prompt ""
    wrong_terminal "both" 2 "one of them at a time" "" --prompt a --decode
    wrong_terminal "an input" 2 '--decode takes no input, but `ids.txt` is given; ids come on stdin' "" \
        --decode ids.txt
    wrong_terminal "a prompt as an input" 2 '--prompt takes no input, but `b` is given' "" --prompt a b
    wrong_terminal "an output" 2 "--prompt goes with --tokenizer and --no-special only" "" \
        --prompt a -o "$out/none.bin"
    wrong_terminal "a field" 2 "--decode goes with --tokenizer only" "" --decode --field text
    wrong_terminal "the ids' specials" 2 "--decode goes with --tokenizer only" "" --decode --no-special
    wrong_terminal "threads" 2 "--prompt goes with --tokenizer and --no-special only" "" \
        --prompt a --threads 2
    perl -pe 's/"!":0,/"!":99999999,/' <"$data/gpt2.json" >"$out/huge.json"
    wrong_terminal "a huge id" 1 "tokenizer: has an id above 16777216: not supported in chats and --decode" "" \
        --tokenizer "$out/huge.json" --decode
    tok --prompt a >/dev/full 2>"$WORK/refused.err"
    check "a full disk" grep -q "cannot write to stdout" "$WORK/refused.err"
    echo 97 | tok --decode >/dev/full 2>"$WORK/refused.err"
    check "of a text" grep -q "cannot write to stdout" "$WORK/refused.err"
}

# A text of several stretches, in which guesses of where to cut are wrong: long runs without a
# line, lines of white space, one letter for ever. Many threads, the same bytes as one.
stretches() {
    perl -e 'srand 1; for (1 .. 400) { my $r = int rand 7;
        print $r == 0 ? "\n" x rand 3000 : $r == 1 ? " " x rand 9000 : $r == 2 ? "ab" x rand 9000
            : $r == 3 ? "1234567" x rand 2000 : $r == 4 ? "!?\n" x rand 3000
            : $r == 5 ? "\xc3\xa9e\xcc\x81" x rand 2000 : "a word, and another\n" x rand 900 }' \
        >"$out/runs.txt"
    head -c 300000 /dev/zero >"$out/nul.txt"
    (cat "$out/runs.txt" && printf '<|endoftext|>' && cat "$out/runs.txt" "$out/nul.txt") >"$out/many.txt"
    local kind text n
    for kind in gpt2 qwen; do
        for text in runs many; do
            for n in 1 4; do
                check "$kind: $text on $n threads" tok --tokenizer "$data/$kind.json" --threads $n \
                    -o "$out/$text.$kind.$n.bin" "$out/$text.txt"
            done
            check "$kind: the same bytes of $text" cmp "$out/$text.$kind.1.bin" "$out/$text.$kind.4.bin"
            # one JSON line is one job: no guesses
            perl -e 'local $/; $_ = <STDIN>; s/([\x00-\x1f"\\])/sprintf "\\u%04x", ord $1/ge;
                print "{\"text\": \"$_\"}\n"' <"$out/$text.txt" >"$out/$text.jsonl"
            check "$kind: $text as a line" tok --tokenizer "$data/$kind.json" --threads 1 \
                -o "$out/$text.$kind.line.bin" "$out/$text.jsonl"
            check "$kind: no guess shows in $text" cmp "$out/$text.$kind.1.bin" \
                "$out/$text.$kind.line.bin"
        done
    done
}

# changed KIND PERL: $WORK/changed.json, the tokenizer with a substitution, which must change it
changed() {
    perl -pe "BEGIN { \$/ = undef } $2" <"$data/$1.json" >"$WORK/changed.json"
    cmp -s "$data/$1.json" "$WORK/changed.json" && bad "the change $2 changes nothing"
}

inputs() {
    local kind=(--tokenizer "$data/gpt2.json")
    line() { printf '{"text": "good"}\n%s\n' "$1" >"$out/bad.jsonl"; }
    printf 'a\n\377b' >"$out/latin.txt"
    refused "text that is not UTF-8" 1 "latin.txt:2: byte 2 is not UTF-8" "${kind[@]}" "$out/latin.txt"
    printf 'a\355\240\200' >"$out/latin.txt"
    refused "half a surrogate pair" 1 "byte 1 is not UTF-8" "${kind[@]}" "$out/latin.txt"
    line '{"text": "\377"}'
    refused "a line that is not UTF-8" 1 "bad.jsonl:2: column" "${kind[@]}" "$out/bad.jsonl"
    line '{"text": "\ud800"}'
    refused "half a surrogate pair in JSON" 1 "bad.jsonl:2: column" "${kind[@]}" "$out/bad.jsonl"
    line '{"text": 3}'
    refused "a number for a text" 1 'bad.jsonl:2: the field `text` is not text' "${kind[@]}" "$out/bad.jsonl"
    line '{"content": "x", "id": 1}'
    refused "another field" 1 'bad.jsonl:2: no field `text`; it has `content`, `id` (--field NAME)' \
        "${kind[@]}" "$out/bad.jsonl"
    line '{"text": "x", "id": 18446744073709551615}'
    check "a number above 64 bits that is not read" tok "${kind[@]}" -o "$out/large.bin" "$out/bad.jsonl"
    line '["x"]'
    refused "a list for an object" 1 "bad.jsonl:2: a line is one JSON object" "${kind[@]}" "$out/bad.jsonl"
    line '{"text": "x"'
    refused "an object cut off" 1 "bad.jsonl:2: column" "${kind[@]}" "$out/bad.jsonl"
    line "$(perl -e 'print "{\"a\":" x 5000')"
    refused "a deep line" 1 "maximum parsing depth reached" "${kind[@]}" "$out/bad.jsonl"
    refused "a good input, then a bad one" 1 "bad.jsonl:2" "${kind[@]}" "$data/english.txt" "$out/bad.jsonl"
    refused "no such input" 1 "nothing.txt: there is no such file" "${kind[@]}" "$data/english.txt" "$out/nothing.txt"
    refused "a folder" 1 "it is a folder" "${kind[@]}" "$out"
    refused "an end that is none" 1 "--end <x>: is neither an added token" --end '<x>' "${kind[@]}" "$data/english.txt"
    refused "an end beyond the vocabulary" 1 "nor an id" --end 99999 "${kind[@]}" "$data/english.txt"
    refused "no input" 2 "no text is given"
    refused "an unknown option" 2 "unknown option --feild; did you mean --field?" --feild x y.jsonl
    refused "no threads" 2 "is not between 1 and 256" --threads 0 y.txt
    tok "$data/english.txt" >"$WORK/refused.out" 2>"$WORK/refused.err"
    check "no output: exit code 2" [ $? = 2 ]
    check "--help" tok --help
    check "a file that exists" tok "$data/english.txt" -o "$out/twice.bin"
    tok "$data/points.txt" -o "$out/twice.bin" >"$WORK/refused.out" 2>"$WORK/refused.err"
    check "is not replaced" grep -q "twice.bin: exists; --force replaces it" "$WORK/refused.err"
    check "unless told" tok "$data/points.txt" --force -o "$out/twice.bin"
    check "then it is" [ "$(header "$out/twice.bin")" = "20240520 1 $(stat -c %s "$data/points.txt")" ]
    touch "$out/left.bin.mask" # of another file
    tok "$data/english.txt" -o "$out/left.bin" >"$WORK/refused.out" 2>"$WORK/refused.err"
    check "nor a mask" grep -q "left.bin.mask: exists; --force replaces it" "$WORK/refused.err"
    check "unless told, then it goes" tok "$data/english.txt" --force -o "$out/left.bin"
    check "and is gone" [ ! -e "$out/left.bin.mask" ]
    tok "$data/english.txt" -o "$WORK/no/x.bin" >"$WORK/refused.out" 2>"$WORK/refused.err"
    check "a folder that is not there" grep -q "no/x.bin: No such file" "$WORK/refused.err"
    if [ -w /dev/full ]; then
        tok "$data/english.txt" -o "$out/full.bin" >/dev/full 2>"$WORK/refused.err"
        check "stdout that cannot be written: exit code 1" [ $? = 1 ]
        check "but the file is" grep -qx ".*full.bin is written" "$WORK/refused.err"
    fi
    local k
    perl -e 'print "some text of a line\n" x 3000000' >"$out/long.txt"
    for k in INT TERM KILL; do # in the middle: nothing is left
        rm -rf "$out/killed"
        mkdir "$out/killed"
        { env --default-signal=INT timeout -s $k 0.2 "$FSDPGEN" tokenize "${kind[@]}" "$out/long.txt" \
            -o "$out/killed/x.bin"; } >/dev/null 2>"$WORK/killed.err"
        if [ -e "$out/killed/x.bin" ]; then
            echo "skipped: SIG$k: it was done before"
        elif [ $k != KILL ] || unnamed_files "what SIGKILL leaves"; then
            check "SIG$k leaves nothing" [ -z "$(ls -A "$out/killed")" ]
        fi
    done
    rm -f "$out/long.txt"
}

# archive NAME TEXT: refused by its first bytes, whatever is done with it
archive() {
    refused "$1 as bytes" 1 "$out/archive: $2" "$out/archive"
    refused "$1 as text" 1 "$out/archive: $2" --tokenizer "$data/gpt2.json" "$out/archive"
    refused "$1 as lines" 1 "$out/archive: $2" --jsonl "$out/archive"
}

# Texts and lines that zstd packed, in one frame, several, or with skippable ones, have the ids of
# what was packed; files that are cut off or go on with something else are refused, at any byte.
packed() {
    local kind=(--tokenizer "$data/qwen.json" --force) n bytes
    if ! command -v zstd >/dev/null 2>&1; then
        echo "skipped: packed texts: no zstd"
        return
    fi
    zstd -qf "$data/english.txt" -o "$out/english.zst"
    if tok "${kind[@]}" -o "$out/z.bin" "$out/english.zst" 2>&1 | grep -q "built without libzstd"; then
        echo "skipped: packed texts: built without libzstd"
        return
    fi
    check "a packed text" cmp <(ids_of "$out/z.bin") "$data/english.qwen.ids"
    perl -e 'local $/; my $s = <STDIN>; print map { "{\"text\": \"$_ a word\"}\n" } 1 .. 200000' \
        </dev/null >"$out/lines.jsonl"
    head -n 100000 "$out/lines.jsonl" | zstd -q >"$out/lines.jsonl.zst"
    printf '\x50\x2a\x4d\x18\x03\x00\x00\x00abc' >>"$out/lines.jsonl.zst"
    tail -n +100001 "$out/lines.jsonl" | zstd -q --no-check >>"$out/lines.jsonl.zst"
    tok "${kind[@]}" -o "$out/plain.bin" "$out/lines.jsonl" >/dev/null 2>&1
    for n in 1 3; do
        check "packed lines of two frames on $n threads" tok "${kind[@]}" --threads $n -o "$out/z.bin" \
            "$out/lines.jsonl.zst"
        check "as they were" cmp "$out/z.bin" "$out/plain.bin"
    done
    printf '\x50\x2a\x4d\x18\x03\x00\x00\x00abc' >"$out/skip.zst"
    cat "$out/english.zst" >>"$out/skip.zst"
    check "a frame that says nothing" tok "${kind[@]}" -o "$out/z.bin" "$out/skip.zst"
    check "goes unread" cmp <(ids_of "$out/z.bin") "$data/english.qwen.ids"
    bytes=$(stat -c %s "$out/english.zst")
    for n in 0 1 3 5 17 $((bytes / 2)) $((bytes - 1)); do
        head -c "$n" "$out/english.zst" >"$out/cut.zst"
        refused "cut off at $n" 1 "cut.zst: byte $((n + 1)) of the zstd file: is cut off here" \
            --tokenizer "$data/qwen.json" "$out/cut.zst"
    done
    (cat "$out/english.zst" && printf 'garbage') >"$out/more.zst"
    refused "garbage behind it" 1 "byte $((bytes + 1)) of the zstd file: what follows the last frame is not zstd" \
        --tokenizer "$data/qwen.json" "$out/more.zst"
    perl -pe 'BEGIN { undef $/ } substr($_, 200, 1) ^= "\x55"' <"$out/english.zst" >"$out/bad.zst"
    refused "a changed byte" 1 "of the zstd file: " --tokenizer "$data/qwen.json" "$out/bad.zst"
    cp "$data/english.txt" "$out/text.zst"
    refused "a text by that name" 1 "text.zst: byte 1 of the zstd file: is not zstd" \
        --tokenizer "$data/qwen.json" "$out/text.zst"
    # as a stream: the frame says its window, not its size
    zstd -q --long=30 <"$out/lines.jsonl" >"$out/long.jsonl.zst"
    refused "a large window" 1 "needs a window of more than 128 MiB" \
        --tokenizer "$data/qwen.json" "$out/long.jsonl.zst"
    printf '{"text": "a"}\n{"text": 3}\n' | zstd -q >"$out/wrong.jsonl.zst"
    refused "a line of it" 1 'wrong.jsonl.zst:2: the field `text` is not text' \
        --tokenizer "$data/qwen.json" "$out/wrong.jsonl.zst"
    printf 'a\n\377b' | zstd -q >"$out/latin.zst"
    refused "what is not UTF-8" 1 "latin.zst:2: byte 2 is not UTF-8" --tokenizer "$data/qwen.json" "$out/latin.zst"
}

# The script of docs/data.md makes JSON lines of Parquet, where Python has its package.
parquet() {
    [ "$FULL" = 1 ] || return 0
    local python=${PYTHON:-python3}
    if ! "$python" -c 'import pyarrow' 2>/dev/null; then
        echo "skipped: Parquet: no Python package pyarrow"
        return
    fi
    sed -n '/^<!-- file parquet.py -->$/,/^```$/p' "$ROOT/docs/data.md" | sed '1,2d;$d' >"$out/parquet.py"
    "$python" - "$data/chats.jsonl" "$out/chats.parquet" <<'PY'
import json, sys
import pyarrow, pyarrow.parquet
rows = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
pyarrow.parquet.write_table(pyarrow.Table.from_pylist([dict(r, extra=1) for r in rows]), sys.argv[2])
PY
    check "Parquet by the script" tok_script "$python" "$out/parquet.py" messages "$out/chats.parquet"
    check "its chats" tok --tokenizer "$data/qwen.json" --template chatml -o "$out/parquet.bin" "$out/parquet.jsonl"
    check "have their ids" cmp <(ids_of "$out/parquet.bin") "$data/chats.chatml.ids"
}
tok_script() { "$@" >"$out/parquet.jsonl"; }

# A share of the documents, by what they say alone: each is on one side, wherever it lies.
held_out() {
    local kind=(--tokenizer "$data/qwen.json" --force) n
    perl -e 'print map { sprintf "{\"text\": \"document %d\", \"id\": %d}\n", $_ % 2000, $_ } 1 .. 4000' >"$out/all.jsonl"
    perl -e 'print reverse <STDIN>' <"$out/all.jsonl" >"$out/turned.jsonl"
    for n in 1 3; do
        check "the others on $n threads" tok_to "$out/others.out" "${kind[@]}" --end '<|im_end|>' \
            --threads $n --held-out 10% -o "$out/others$n.bin" "$out/all.jsonl"
        check "those held out on $n threads" tok_to "$out/held.out" "${kind[@]}" --end '<|im_end|>' \
            --threads $n --held-out 0.1 --only-held-out -o "$out/held$n.bin" "$out/all.jsonl"
    done
    check "the same others" cmp "$out/others1.bin" "$out/others3.bin"
    check "the same held out" cmp "$out/held1.bin" "$out/held3.bin"
    # XXH3 of the 2000 texts, as Python's xxhash computes it, has 207 below a tenth; each is there twice
    check "how many" grep -q ", 414 documents$" "$out/held.out"
    check "and the rest" grep -q ", $((4000 - 414)) documents$" "$out/others.out"
    check "it is told" grep -q ": $((4000 - 414)) documents left out, which are not held out$" "$out/held.out"
    tok "${kind[@]}" --end '<|im_end|>' --held-out 10% --only-held-out -o "$out/turned.bin" "$out/turned.jsonl" >/dev/null
    documents_of() { tok --tokenizer "$data/qwen.json" --decode <<<"$(ids_of "$1" | od -An -v -tu2 | tr '\n' ' ')" | sed 's/<|im_end|>/\n/g' | sort; }
    check "the order of documents is nothing" cmp <(documents_of "$out/held1.bin") <(documents_of "$out/turned.bin")
    check "no document is on both sides" [ -z "$(comm -12 <(documents_of "$out/held1.bin" | grep . | uniq) \
        <(documents_of "$out/others1.bin" | grep . | uniq))" ]
    printf '%s\n' '{"messages":[{"role":"user","content":"a"}]}' >"$out/one.jsonl"
    printf '%s\n' '{"x":1, "messages" : [ { "content":"\u0061", "role":"user" } ]}' >"$out/spaced.jsonl"
    for n in 0.2 0.4 0.6 0.8; do
        tok "${kind[@]}" --template chatml --held-out $n -o "$out/one.bin" "$out/one.jsonl" >/dev/null 2>&1
        tok "${kind[@]}" --template chatml --held-out $n -o "$out/spaced.bin" "$out/spaced.jsonl" >/dev/null 2>&1
        check "a chat is its messages, however they are written: $n" cmp "$out/one.bin" "$out/spaced.bin"
    done
    for n in 0 1 100% 1x -1 nan 0x1p-4 .; do
        refused "a share of $n" 2 "--held-out $n: is not a share between 0 and 1" --held-out=$n "$out/all.jsonl"
    done
    refused "--only-held-out alone" 2 "--only-held-out needs --held-out SHARE" --only-held-out "$out/all.jsonl"
    refused "a share of a text" 1 "is a text, which is one document: --held-out is for JSON lines" \
        --held-out 1% "$data/english.txt"
}

# no_output NAME PATTERN FILE ARGS...: refused with and without --force; FILE is as it was
no_output() {
    local name=$1 pattern=$2 file=$3 force before
    shift 3
    before=$(ls -ld "$file")
    for force in '' --force; do
        tok "$@" $force -o "$file" >"$WORK/refused.out" 2>"$WORK/refused.err" </dev/null
        check "$name $force: exit code 1" [ $? = 1 ]
        grep -qF -- "$pattern" "$WORK/refused.err" || bad "$name $force: no '$pattern'" "$WORK/refused.err"
        [ "$(ls -ld "$file")" = "$before" ] || bad "$name $force: it is another file"
    done
}

files() {
    local kind=(--tokenizer "$data/gpt2.json") text=$data/english.txt name
    gzip -c "$text" >"$out/archive"
    archive gzip "is gzip: unpack it first"
    printf 'PAR1 of a file PAR1' >"$out/archive"
    archive Parquet "is Parquet: write it as JSON lines first"
    printf 'PARE of a file PARE' >"$out/archive"
    archive "encrypted Parquet" "is encrypted Parquet: write it as JSON lines first"
    printf 'PAR1\25\4\25 a download that was cut short' >"$out/archive"
    archive "a part of Parquet" "is Parquet: write it as JSON lines first"
    printf 'PK\3\4 of a file' >"$out/archive"
    archive zip "is zip: unpack it first"
    printf 'PAR1 is a gene.\n' >"$out/gene.txt"
    check "a text that begins as Parquet" tok "${kind[@]}" -o "$out/gene.bin" "$out/gene.txt"
    printf '{"text": "a line"}\n' >"$out/lines.JSONL"
    cp "$out/lines.JSONL" "$out/lines.NdJson"
    printf '\xef\xbb\xbf{"text": "a line"}\n' >"$out/mark.jsonl"
    printf '\xef\xbb\xbf' >"$out/empty.jsonl"
    printf 'a line' >"$out/line.txt"
    tok -o "$out/line.bin" "$out/line.txt" >/dev/null
    for name in lines.JSONL lines.NdJson mark.jsonl; do
        tok -o "$out/$name.bin" "$out/$name" "$out/empty.jsonl" >/dev/null 2>"$WORK/check.err"
        check "$name is JSON lines" cmp "$out/$name.bin" "$out/line.bin"
    done
    refused "--field of a text" 1 "line.txt: is a text, which has no --field" --field text "$out/line.txt"
    refused "--field of a text behind lines" 1 "line.txt: is a text" --field text "$out/mark.jsonl" "$out/line.txt"
    check "--field and --jsonl" tok --field text --jsonl "$out/lines.JSONL" -o "$out/field.bin"

    mkfifo "$out/fifo"
    no_output "a FIFO" "fifo: is not a regular file" "$out/fifo" "$text"
    mkdir "$out/folder.bin"
    no_output "a folder as output" "folder.bin: is not a regular file" "$out/folder.bin" "$text"
    # a device of our own: root's fsdpgen, if it is wrong, replaces the machine's /dev/null
    if mknod "$out/device" c 1 3 2>"$WORK/mknod.err"; then
        no_output "a device" "device: is not a regular file" "$out/device" "$text"
    else
        echo "skipped: a device as output: only root makes one"
    fi
    ln -s fifo "$out/pipe"
    no_output "a link to a FIFO" "pipe: is not a regular file" "$out/pipe" "$text"
    ln -s line.bin "$out/link.bin"
    no_output "a link" "link.bin: is a symbolic link; name the file that it leads to" "$out/link.bin" "$text"
    ln -s nowhere.bin "$out/lost.bin"
    no_output "a link to nothing" "lost.bin: is a symbolic link" "$out/lost.bin" "$text"
    cp "$out/line.txt" "$out/own.txt"
    no_output "an input" "own.txt: is read here" "$out/own.txt" "$text" "$out/own.txt"
    ln "$out/own.txt" "$out/own2.txt"
    no_output "an input by another name" "own2.txt: is read here" "$out/own2.txt" "$out/own.txt"
    cp "$out/line.txt" "$out/side.bin.mask"
    tok "$out/side.bin.mask" --force -o "$out/side.bin" >"$WORK/refused.out" 2>"$WORK/refused.err"
    check "a mask that is an input" grep -q "side.bin.mask: is read here" "$WORK/refused.err"
    check "is as it was" cmp "$out/line.txt" "$out/side.bin.mask"
    mkdir "$out/dir.bin.mask"
    tok "$text" --force -o "$out/dir.bin" >"$WORK/refused.out" 2>"$WORK/refused.err"
    check "a mask that is a folder" grep -q "dir.bin.mask: is not a regular file" "$WORK/refused.err"
    check "leaves no output" [ ! -e "$out/dir.bin" ]
    cp "$data/gpt2.json" "$out/gpt2.json"
    no_output "the tokenizer as output" "gpt2.json: is read here" "$out/gpt2.json" \
        --tokenizer "$out/gpt2.json" "$text"
}

# A template that counts its calls, in a local, in a global and in a library's table, counts each
# chat as the first, on any number of threads; the input is several jobs.
memory() {
    perl -e 'for (1 .. 3000) { my $t = "chat $_ " . "word " x 99;
        print "{\"messages\": [{\"role\": \"user\", \"content\": \"$t\"}]}\n" }' >"$out/count.jsonl"
    printf '%s\n' 'local calls = 0' 'return function(m)' \
        '    calls, seen = calls + 1, (seen or 0) + 1' \
        '    string.calls = (string.calls or 0) + 1' \
        '    return { calls .. seen .. string.calls, target "\n" }' 'end' >"$out/count.lua"
    local n
    for n in 1 2 5; do
        check "a template that counts, on $n threads" tok --tokenizer "$data/qwen.json" \
            --template "$out/count.lua" --threads $n -o "$out/count$n.bin" "$out/count.jsonl"
        cmp -s "$out/count1.bin" "$out/count$n.bin" && cmp -s "$out/count1.bin.mask" "$out/count$n.bin.mask" ||
            bad "a template that counts: $n threads make other bytes"
    done
    perl -e 'print "111\n" x 3000' >"$out/ones.txt"
    check "as text" tok --tokenizer "$data/qwen.json" -o "$out/ones.bin" "$out/ones.txt"
    check "each chat is its first" cmp "$out/count1.bin" "$out/ones.bin"
}

large() { # with what has to be installed
    [ "$FULL" = 1 ] || return 0
    python=${PYTHON:-python3}
    if "$python" -c 'import tokenizers' 2>/dev/null; then
        check "300 lists of added tokens" "$python" "$here/added.py" "$FSDPGEN" "$data/gpt2.json" \
            "$out" 300 "$SEED"
    fi
    text=$(ls /usr/share/doc/jargon-text/jargon.txt* 2>/dev/null | head -n 1)
    if [ -n "$text" ] && "$python" -c 'import tokenizers' 2>/dev/null; then
        mkdir -p "$WORK/big"
        case $text in *.gz) zcat "$text" ;; *) cat "$text" ;; esac >"$WORK/jargon.txt"
        "$python" "$here/make_data.py" --big "$WORK/big" "$WORK/jargon.txt" &&
            same_ids "$WORK/big" english points
        for kind in gpt2 llama3 qwen; do
            od -An -v -tu2 "$WORK/big/english.$kind.ids" |
                tok --tokenizer "$data/$kind.json" --decode | tr -d '\n' >"$out/again.txt"
            check "$kind: 1 MB of English, decoded" cmp "$out/again.txt" \
                <({ [ $kind != llama3 ] || printf '<|begin_of_text|>'; cat "$WORK/big/english.txt"; } | tr -d '\n')
        done
    else
        echo "skipped: 1 MB of English: no jargon-text, or no Python package tokenizers"
    fi
}

. "$here/unknown.sh"
. "$here/chats.sh"
. "$here/pairs.sh"
. "$here/hostile.sh"
. "$here/sentence.sh"
. "$here/jinja.sh"
. "$here/jinja_texts.sh"
. "$here/normal_form.sh"
part pairs pairs
part same_ids same_ids "$data" english points edges
part sentence sentence
part documents documents
part terminal terminal
part chats:documents chats
part forms forms
part renderings renderings
part jinja jinja
part jinja_texts jinja_texts
part memory memory
part normal_form normal_form
part stretches stretches
part unknown_parts unknown_parts
part inputs inputs
part files files
part packed packed
part held_out held_out
part parquet parquet
part changing changing
part loops loops
part escapes:documents escapes
part memory_ends memory_ends
part large large
finish
