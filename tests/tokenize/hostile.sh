# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: files that others change meanwhile, templates that do not end, names and texts
# that a terminal would obey, memory that ends.

# A file that is overwritten in place, or cut off, while it is tokenized: the ids of one of its
# texts, or an error that names it and no output; never a crash.
changing() {
    local tries=8 i code kind writer
    [ "$FULL" = 1 ] && tries=300
    perl -e 'print "word and another, 12 \xc3\xa9\n" x 200000' >"$out/first.txt"
    perl -e 'print "\xf0\x9f\x98\x80 third text; nothing else:\n" x 200000' >"$out/second.txt"
    for i in first second; do
        tok --tokenizer "$data/llama3.json" -o "$out/$i.bin" "$out/$i.txt" >/dev/null
    done
    for ((i = 0; i < tries; i++)); do
        cp "$out/first.txt" "$out/changing.txt"
        rm -f "$out/changing.bin"
        random 100
        case $((i % 3)) in
        0) kind='open F, "+<", $f; print F `cat $g`; close F' ;;
        1) kind='truncate $f, 70000' ;;
        2) kind='open F, "+<", $f; seek F, 3000001, 0; print F "\xff" x 9; close F' ;;
        esac
        perl -e 'my ($f, $g, $ms) = @ARGV; select undef, undef, undef, $ms / 1000; '"$kind" \
            "$out/changing.txt" "$out/second.txt" $((random_value * 4)) &
        writer=$!
        tok --tokenizer "$data/llama3.json" -o "$out/changing.bin" "$out/changing.txt" \
            >"$WORK/check.out" 2>"$WORK/check.err"
        code=$?
        wait $writer
        if [ $code = 0 ]; then
            if cmp -s "$out/changing.bin" "$out/first.bin" ||
                cmp -s "$out/changing.bin" "$out/second.bin" || [ $((i % 3)) = 1 ]
            then ok "a changing file: whole"
            else bad "a changing file: ids of neither text ($kind)"; fi
        elif [ $code = 1 ] && [ ! -e "$out/changing.bin" ] &&
            grep -qE 'changing.txt(: another program changed it while it was read|:[0-9]+: byte [0-9]+ is not UTF-8)' \
                "$WORK/check.err"
        then ok "a changing file: refused"
        else bad "a changing file: code $code ($kind)" "$WORK/check.err"; fi
    done
    # a tokenizer and a template are read at once
    cp "$data/llama3.json" "$out/cut.json"
    truncate -s -40000 "$out/cut.json"
    refused "half a tokenizer" 1 "cut.json:" --tokenizer "$out/cut.json" "$out/first.txt"
}

# What only time could end, in each way that chats offer.
loops() {
    local i=0 loop
    printf '{"messages": [{"role": "user", "content": "a"}]}\n' >"$out/loop.jsonl"
    while IFS= read -r loop; do
        i=$((i + 1))
        printf 'return function(messages) local a, b = (" "):rep(1 << 22), (" "):rep(1 << 22)\n%s\nreturn { "x" } end\n' \
            "$loop" >"$out/loop$i.lua"
        refused "a template that loops: $loop" 1 "ran for more than 20 million" \
            --tokenizer "$data/qwen.json" --template "$out/loop$i.lua" "$out/loop.jsonl"
    done <<'LUA'
while true do trim(a) end
while true do pcall(token, "none") end
while true do local c = a < b end
while true do a:find("x") end
LUA
}

# seen NAME CODE ARGS...: what is printed has no byte that a terminal obeys, and shows an escape.
seen() {
    local name=$1 code=$2 got
    shift 2
    "$@" >"$WORK/seen" 2>&1 </dev/null
    got=$?
    check "$name: code $code" [ $got = "$code" ]
    if LC_ALL=C grep -qaP '[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]' "$WORK/seen"; then
        bad "$name: a terminal obeys" <(cat -v "$WORK/seen")
    else
        check "$name: it is shown" grep -qaE '\\x(1b|9b|07|e2)' "$WORK/seen"
    fi
}

escapes() {
    local e=$'\e[31m' bell=$'\e]0;x\a' bidi=$'\xe2\x80\xae'
    local kind=(--tokenizer "$data/qwen.json") chat=$data/chats.jsonl text=$data/english.txt
    printf '{"k\\u001b[31m": 1, "a\\u0007\\u202e": 2, "\\u009b": 3}\n' >"$out/keys.jsonl"
    seen "keys" 1 tok -o "$out/e.bin" "$out/keys.jsonl"
    seen "a field" 1 tok --field "$e" -o "$out/e.bin" "$out/docs.jsonl"
    seen "an end" 1 tok "${kind[@]}" --end "$e$bidi" -o "$out/e.bin" "$text"
    seen "an option" 2 tok "--$e"
    seen "a second prompt" 2 tok --prompt a "$bell"
    seen "a number" 2 tok --threads "$e" -o "$out/e.bin" "$text"
    seen "a template's name" 1 tok "${kind[@]}" --template "$e" -o "$out/e.bin" "$chat"
    seen "an input" 1 tok -o "$out/e.bin" "$out/none$e"
    seen "a tokenizer" 1 tok --tokenizer "$out/none$bell" -o "$out/e.bin" "$text"
    seen "an output" 0 tok -o "$out/e$e.bin" "$text"
    seen "documents without an end" 0 tok -o "$out/e$bell.bin" "$text" "$text"
    seen "an output that is there" 1 tok -o "$out/e$e.bin" "$text"
    cp "$text" "$out/e$e.txt"
    printf '\xff' >>"$out/e$e.txt"
    seen "a file that is not text" 1 tok "${kind[@]}" -o "$out/e.bin" "$out/e$e.txt"
    cp "$chat" "$out/e$e.jsonl"
    printf '{' >>"$out/e$e.jsonl"
    seen "a line that is not JSON" 1 tok -o "$out/e.bin" "$out/e$e.jsonl" --field messages
    lua_seen() {
        printf '%s\n' "$2" >"$out/seen$e.lua"
        seen "$1" 1 tok "${kind[@]}" --template "$out/seen$e.lua" -o "$out/e.bin" "$chat"
    }
    lua_seen "an error of a template" 'return function() error("\27[2J\7\u{9b}\u{202e}") end'
    lua_seen "an error as it is loaded" 'error("\27[2J")'
    lua_seen "a token of a template" 'return function() return { token "\27[2J" } end'
    lua_seen "a key of a template" 'return function() return { ["\27[2J"] = 1 } end'
    lua_seen "a template that is not Lua" 'return function( "'"$e"
    record "{\"messages\": [{\"role\": \"\\u001b\", \"content\": \"\"}]}"
    perl -pe 's/"fuse_unk"/"fuse\\u001b[31m"/' <"$data/gpt2.json" >"$out/keys.json"
    seen "a tokenizer's key" 1 tok --tokenizer "$out/keys.json" -o "$out/e.bin" "$text"
    perl -pe 's/"!":0,/"\\u001b[31m":-1,/' <"$data/gpt2.json" >"$out/words.json"
    seen "a word" 1 tok --tokenizer "$out/words.json" -o "$out/e.bin" "$text"
    perl -0pe 's/"type":"BPE"/"type":"\\u001b[31m"/' <"$data/gpt2.json" >"$out/type.json"
    seen "a type" 1 tok --tokenizer "$out/type.json" -o "$out/e.bin" "$text"
    seen "a command" 2 "$FSDPGEN" plan a "$e"
    seen "a pass" 2 "$FSDPGEN" plan a --dump "$bell"
    seen "an option of the generator" 2 "$FSDPGEN" "--$e"
    seen "a description" 1 "$FSDPGEN" check "$e"
    seen "a set" 1 "$FSDPGEN" check "$ROOT/tests/models/tiny_gpt2.lua" --set "$e=1"
    # text of a model is text: a file gets it as it is, a terminal what prints
    check "--decode into a file" cmp <(printf '27 91 51 49 109 10' | tok --decode) <(printf '\e[31m\n')
    if command -v script >/dev/null 2>&1; then
        printf '27 91 49 195 169 226 128 174 9 10 240 159 152 128 7 195' >"$out/said"
        script -qec "'$FSDPGEN' tokenize --decode <'$out/said'" /dev/null 2>/dev/null \
            </dev/null | tr -d '\r' >"$out/shown"
        check "--decode at a terminal" cmp "$out/shown" \
            <(printf '\\x1b[1é\\xe2\\x80\\xae\t\n😀\\x07\\xc3')
    else
        echo "skipped: --decode at a terminal: no script(1)"
    fi
}

# Allocation after allocation fails, in the parent and the child: an error, never "a bug".
memory_ends() {
    local tries=20 n code i wrong=0 command
    [ "$FULL" = 1 ] && tries=1000
    if ! ${CC:-cc} -shared -fPIC -O1 "$ROOT/tests/load/no_memory.c" -o "$WORK/no_memory.so" \
        >"$WORK/check.err" 2>&1; then
        echo "skipped: memory that ends: no malloc of glibc's"
        return
    fi
    commands=(
        "tokenize --tokenizer '$data/qwen.json' --template chatml --threads 2 -o '$out/m.bin' --force '$data/chats.jsonl'"
        "tokenize --tokenizer '$data/llama3.json' --threads 1 -o '$out/m.bin' --force '$data/english.txt'"
        "'$ROOT/tests/load/base.lua' -o '$out/m.d' --force"
        "plan --json '$ROOT/tests/load/base.lua'"
    )
    for command in "${commands[@]}"; do
        : >"$out/made"
        COUNT_TO=$out/made LD_PRELOAD=$WORK/no_memory.so eval "'$FSDPGEN' $command" \
            >/dev/null 2>"$WORK/check.err"
        wrong=0
        for ((i = 0; i < tries; i++)); do
            random 1000 # few allocations, and many
            n=$((1 + random_value * random_value * (i % 2 ? 1 : random_value / 100 + 1) / 50))
            FAIL_AFTER=$n LD_PRELOAD=$WORK/no_memory.so eval "timeout 60 '$FSDPGEN' $command" \
                >"$WORK/check.out" 2>"$WORK/check.err"
            code=$?
            if [ $code -gt 1 ] || { [ $code = 1 ] && ! grep -qi 'memory' "$WORK/check.err"; }; then
                wrong=$((wrong + 1))
                bad "no memory after $n allocations: code $code" "$WORK/check.err"
            fi
        done
        [ $wrong = 0 ] && ok "memory that ends $tries times: ${command%% *}"
    done
    # a limit of the shell's, as a batch system sets it
    perl -e 'print "{\"text\": \"", "a" x 30000000, "\"}\n"' >"$out/long.jsonl"
    (ulimit -v 150000 && tok --tokenizer "$data/gpt2.json" --threads 1 -o "$out/none.bin" \
        "$out/long.jsonl") >"$WORK/check.out" 2>"$WORK/check.err"
    check "a small address space: code 1" [ $? = 1 ]
    check "it is out of memory" grep -q "error: out of memory: cannot allocate [0-9]* more bytes" \
        "$WORK/check.err"
    check "no output" [ ! -e "$out/none.bin" ]
}
