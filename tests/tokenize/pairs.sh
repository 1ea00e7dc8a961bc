# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: a token file and its mask are of one run, or a trainer refuses them, whenever
# the program was ended and whichever call failed.

io=$BUILD/tests/checkpoint/libcheckpoint_io.so
pair=$BUILD/tests/tokenize/tokenize_pair

# bits_of MASK: without what it says of its tokens
bits_of() { head -c -56 "$1"; }

# pair_says NAME PATTERN FILE
pair_says() {
    "$pair" "$3" >"$WORK/pair.out" 2>&1
    if grep -qE -- "$2" "$WORK/pair.out"; then ok "$1"; else bad "$1" "$WORK/pair.out"; fi
}

# unnamed_files WHAT: has $WORK's filesystem files without a name (O_TMPFILE)? If not, WHAT is skipped.
unnamed_files() {
    perl -MFcntl -e 'exit !sysopen my $f, $ARGV[0], 020000000 | O_DIRECTORY | O_WRONLY' "$WORK" ||
        { echo "skipped: $1 (no O_TMPFILE in $WORK)"; return 1; }
}

# chat FOLDER LETTER LENGTH: LETTER.jsonl, as many tokens and targets whatever the letter
chat() {
    perl -e 'my ($c, $n) = @ARGV; my $half = $c x ($n / 2);
        print "{\"messages\": [{\"role\": \"user\", \"content\": \"$half\"},",
              " {\"role\": \"assistant\", \"content\": \"$half\"}]}\n"' "$2" "$3" >"$1/$2.jsonl"
    printf '%s\n' 'return function(m)' '    local swap = m[1].content:sub(1, 1) == "b"' \
        '    return { swap and target(m[1].content) or m[1].content,' \
        '             swap and m[2].content or target(m[2].content) }' 'end' >"$1/halves.lua"
}

said_of_tokens() {
    local d=$WORK/pairs
    mkdir -p "$d"
    chat "$d" a 5000 && chat "$d" b 5000
    local make=(--tokenizer "$data/gpt2.json" --template "$d/halves.lua")
    tok "${make[@]}" -o "$d/a.bin" "$d/a.jsonl" >/dev/null
    tok "${make[@]}" -o "$d/b.bin" "$d/b.jsonl" >/dev/null
    pair_says 'a file and its mask' '^good ' "$d/a.bin"
    check 'both have as many tokens' test "$(stat -c %s "$d/a.bin")" = "$(stat -c %s "$d/b.bin")"
    cp "$d/a.bin" "$d/mixed.bin" && cp "$d/b.bin.mask" "$d/mixed.bin.mask"
    pair_says 'the mask of another file' 'mixed.bin.mask was made for other tokens than .*mixed.bin has' \
        "$d/mixed.bin"
    grep -qF "fsdpgen tokenize --force --template NAME -o $d/mixed.bin INPUT" "$WORK/pair.out" ||
        bad 'which says how to make both' "$WORK/pair.out"
    mv "$d/a.bin.mask" "$d/renamed.bin.mask" && cp "$d/a.bin" "$d/renamed.bin"
    pair_says 'both under another name' '^good ' "$d/renamed.bin"
    bits_of "$d/b.bin.mask" >"$d/mixed.bin.mask"
    pair_says 'bits alone are taken' '^bare ' "$d/mixed.bin"
    local at size bytes
    size=$(stat -c %s "$d/b.bin.mask")
    for at in 0 17 $((size - 56)) $((size - 48)) $((size - 30)) $((size - 1)); do
        perl -e 'local $/; my $s = <STDIN>; substr($s, $ARGV[0], 1) ^= "\x01"; print $s' "$at" \
            <"$d/b.bin.mask" >"$d/damaged.bin.mask"
        cp "$d/b.bin" "$d/damaged.bin"
        pair_says "byte $at of a mask is damaged" \
            'its bits are not those|is damaged|not what fsdpgen tokenize writes|of version' "$d/damaged.bin"
    done
    for bytes in 55 57 1; do
        { bits_of "$d/b.bin.mask"; head -c $bytes /dev/zero; } >"$d/damaged.bin.mask"
        pair_says "$bytes bytes behind the bits" "but the mask has $((size - 56 + bytes))" "$d/damaged.bin"
    done
    # several chunks of 4 MiB; of the mask, too, with FULL=1
    bytes=$([ "$FULL" = 1 ] && echo 100000000 || echo 5000000)
    perl -e 'srand 1; for (1 .. $ARGV[0] / 1000) { my $s = join "", map { chr 65 + rand 58 } 1 .. 500;
        $s =~ tr/\\/b/; print "{\"messages\": [{\"role\": \"user\", \"content\": \"$s\"},",
              " {\"role\": \"assistant\", \"content\": \"$s\"}]}\n" }' "$bytes" >"$d/long.jsonl"
    check 'many chats' tok "${make[@]}" -o "$d/long.bin" "$d/long.jsonl"
    check 'are more than a chunk' test "$(stat -c %s "$d/long.bin")" -gt $((4 << 20))
    pair_says 'and have their mask' '^good ' "$d/long.bin"
}

# whole FOLDER: what is there is a pair of the first run, or of the second, or is refused; else why
whole() {
    local d=$1 of=none mask=none
    [ -e "$d/x.bin" ] && for of in old new; do cmp -s "$d/x.bin" "$d.$of/x.bin" && break; done
    if [ -e "$d/x.bin.mask" ]; then
        for mask in old new other; do cmp -s "$d/x.bin.mask" "$d.$mask/x.bin.mask" && break; done
    fi
    [ -n "$(ls -A "$d" | grep -vxE "x\.bin(\.mask)?${2:-}")" ] && { ls -A "$d"; return; }
    case $of/$mask in
    old/old | new/new | old/none | new/none) ;;
    none/new) ;; # there was none before
    old/new)
        "$pair" "$d/x.bin" >"$WORK/pair.out" && echo "the new mask beside the old tokens is taken"
        grep -q 'was made for other tokens' "$WORK/pair.out" || cat "$WORK/pair.out" ;;
    *) echo "tokens: $of, mask: $mask" ;;
    esac
}

# each_call NAME INPUT FLAGS...: of a run over what lies in $WORK/calls.old
each_call() {
    local name=$1 input=$2 d=$WORK/calls at act count wrong n=0 left rest code
    shift 2
    rm -rf "$d.new" && cp -r "$d.old" "$d.new"
    tok "$@" --force -o "$d.new/x.bin" "$input" >/dev/null || bad "$name: the second run"
    rm -rf "$d" && cp -r "$d.old" "$d"
    IO_DIR=$d IO_COUNT=$WORK/count IO_LOG=$WORK/order LD_PRELOAD=$io \
        tok "$@" --force -o "$d/x.bin" "$input" >/dev/null
    count=$(cat "$WORK/count")
    [ "${count:-0}" -gt 8 ] || bad "$name: only ${count:-0} calls are seen"
    for act in $acts; do
        left=$([ $act = kill ] && echo '|x\.bin(\.mask)?\.[0-9]+-[0-9]+\.part')
        for ((at = 0; at < count; at++)); do
            rm -rf "$d" && cp -r "$d.old" "$d"
            rest=$left
            IO_DIR=$d IO_ACT=$act IO_AT=$at LD_PRELOAD=$io tok "$@" --force -o "$d/x.bin" \
                "$input" >/dev/null 2>"$WORK/faulty.err"
            code=$?
            grep -q 'in .part cannot be removed' "$WORK/faulty.err" && rest='|x\.bin\.mask\.[0-9-]+\.part'
            wrong=$(whole "$d" "$rest")
            if [ $code = 1 ] && ! diff -r "$d" "$d.old" >/dev/null && ! diff -r "$d" "$d.new" >/dev/null; then
                wrong="${wrong:+$wrong; }code 1, and not all is old or new"
            fi
            if [ -z "$wrong" ]; then
                rm -f "$d"/*.part
                tok "$@" --force -o "$d/x.bin" "$input" >/dev/null
                diff -r "$d" "$d.new" >/dev/null || wrong='the next run does not repair it'
            fi
            if [ -n "$wrong" ]; then bad "$name, call $at $act: $wrong"; else n=$((n + 1)); fi
        done
    done
    ok "$name: $n calls that fail, are cut short, or are the last"
}

each_of_all() {
    local d=$WORK/calls make=(--tokenizer "$data/gpt2.json" --template "$WORK/pairs/halves.lua")
    export ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0
    rm -rf "$d.old" && mkdir "$d.old"
    tok "${make[@]}" -o "$d.old/x.bin" "$WORK/pairs/a.jsonl" >/dev/null
    rm -f "$WORK/order"
    local acts='kill error short'
    each_call 'a pair over a pair' "$WORK/pairs/b.jsonl" "${make[@]}"
    # each half is on the disk before it has its name, and the mask's name before the tokens' is
    unnamed_files "the order of calls" &&
        check 'what is written is durable in time' test "$(sed '/^told/d; s/ .*//' "$WORK/order" | xargs)" = \
            'write fsync fsync link exchange fsync link rename fsync'
    acts=kill
    [ "$FULL" = 1 ] && acts='kill error short'
    each_call 'tokens over a pair' "$data/english.txt" --tokenizer "$data/gpt2.json"
    bits_of "$d.old/x.bin.mask" >"$WORK/bare" && mv "$WORK/bare" "$d.old/x.bin.mask"
    each_call 'a pair over one of before' "$WORK/pairs/b.jsonl" "${make[@]}"
}

# come NAME FILE FLAGS...: FILE comes while x.bin is made, and stays
come() {
    local name=$1 file=$2 d=$WORK/came code
    shift 2
    rm -rf "$d" "$WORK/order" && mkdir "$d"
    IO_DIR=$d IO_SLOW=2000 IO_LOG=$WORK/order LD_PRELOAD=$io tok "$@" -o "$d/x.bin" \
        >"$WORK/came.out" 2>"$WORK/came.err" &
    timeout 20 bash -c "until grep -qs '^write' '$WORK/order'; do sleep 0.02; done"
    echo precious >"$d/$file"
    wait $!
    code=$?
    check "$name: exit code 1" [ $code = 1 ]
    check "$name: says so" grep -q "$file: exists; --force replaces it" "$WORK/came.err"
    check "$name: it stays, alone" test "$(cat "$d"/*)" = precious
}

all_come() {
    local make=(--tokenizer "$data/gpt2.json" --template "$WORK/pairs/halves.lua")
    come 'a file comes under the name of the tokens' x.bin "${make[@]}" "$WORK/pairs/a.jsonl"
    come 'of their mask' x.bin.mask "${make[@]}" "$WORK/pairs/a.jsonl"
    come 'of a mask that is not made' x.bin.mask "$data/english.txt"
    # two at once: the second gives up, and the first has its pair
    local d=$WORK/came
    rm -rf "$d" && mkdir "$d"
    IO_DIR=$d IO_SLOW=1500 LD_PRELOAD=$io tok "${make[@]}" -o "$d/x.bin" "$WORK/pairs/b.jsonl" \
        >"$WORK/came.out" 2>"$WORK/came.err" &
    tok "${make[@]}" -o "$d/x.bin" "$WORK/pairs/a.jsonl" >/dev/null 2>&1 || bad 'two at once: the quick one'
    wait $! && bad 'two at once: the slow one ends with 0'
    check 'two at once: the pair of the quick one' cmp "$d/x.bin" "$WORK/pairs/a.bin"
    pair_says 'two at once: is a pair' '^good ' "$d/x.bin"
}

pairs() {
    if [ -x "$pair" ] && [ -e "$io" ]; then
        said_of_tokens
        all_come
        each_of_all
    else
        echo "skipped: tokens and their masks: no runtime library in this build"
    fi
}
