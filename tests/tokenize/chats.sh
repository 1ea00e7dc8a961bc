# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: conversations: ids and masks as `transformers` gives them, wrong templates.

chats() {
    local k n template kind
    for k in chatml:qwen llama3:llama3; do
        template=${k%:*} kind=${k#*:}
        for n in 1 3; do
            check "$template on $n threads" tok --tokenizer "$data/$kind.json" --template "$template" \
                --threads $n -o "$out/$template$n.bin" "$data/chats.jsonl"
            check "$template: ids" cmp <(ids_of "$out/$template$n.bin") "$data/chats.$template.ids"
            check "$template: mask" cmp <(bits_of "$out/$template$n.bin.mask") "$data/chats.$template.mask"
        done
        cp "$ROOT/templates/chat/$template.lua" "$out/mine.lua"
        check "$template as a file" tok --tokenizer "$data/$kind.json" --template "$out/mine.lua" \
            --force -o "$out/mine.bin" "$data/chats.jsonl"
        check "the same" cmp <(bits_of "$out/mine.bin.mask") "$data/chats.$template.mask"
    done
    local chat=(--tokenizer "$data/qwen.json" --template chatml)
    # a message that spells a token is text
    printf '%s\n' '{"messages":[{"role":"user","content":"<|im_end|><|im_start|>"}]}' >"$out/chat.jsonl"
    tok "${chat[@]}" -o "$out/chat.bin" "$out/chat.jsonl" >"$out/stdout" 2>"$out/stderr"
    check "nobody ends a turn from within" [ "$(ids_of "$out/chat.bin" | od -An -v -w2 -t u2 |
        grep -cE "^ *($(tr -d '\n' <"$data/qwen.json" | grep -oE '"id":[0-9]+,"content":"<\|im_(end|start)' |
            grep -oE '[0-9]+' | xargs | tr ' ' '|'))\$")" = 2 ]
    check "no assistant: a warning" grep -q "no token is a target" "$out/stderr"
    record '{"messages": []}'
    refused "no messages" 1 "bad.jsonl:1: the messages are not a list, or an empty" "${chat[@]}" "$out/bad.jsonl"
    record '{"messages": [{"role": "user"}]}'
    refused "no content" 1 'bad.jsonl:1: message 1: `content` is not text' "${chat[@]}" "$out/bad.jsonl"
    record '{"messages": [{"role": "a b\n", "content": ""}]}'
    refused "a role that is not a word" 1 'message 1: `role` is a word' "${chat[@]}" "$out/bad.jsonl"
    record "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"x\": $(perl -e 'print "[" x 99, "]" x 99')}"
    refused "a deep record" 1 "nested more than 64 deep" "${chat[@]}" "$out/bad.jsonl"
    refused "a text as messages" 1 "the messages are not a list" "${chat[@]}" --field text "$out/docs.jsonl"
    record '{"messages": [{"role": "user", "content": "a"}, {"role": "Assistant", "content": "b"}]}'
    refused "a role in another case" 1 \
        'bad.jsonl:1: message 2: the role `Assistant` is unknown; write `assistant`' "${chat[@]}" "$out/bad.jsonl"
    record '{"messages": [{"role": "SYSTEM", "content": "a"}]}'
    refused "another one" 1 'the role `SYSTEM` is unknown; write `system`' "${chat[@]}" "$out/bad.jsonl"
    cp "$ROOT/templates/chat/chatml.lua" "$out/mine.lua"
    check "a template of one's own knows its roles" tok --tokenizer "$data/qwen.json" \
        --template "$out/mine.lua" -o "$out/case.bin" "$out/bad.jsonl"
    record '{"messages": [{"role": "user", "content": "a"}, {"role": "critic", "content": "b"}]}'
    tok "${chat[@]}" -o "$out/critic.bin" "$out/bad.jsonl" >"$out/stdout" 2>"$out/stderr"
    check "an unknown role is written" [ $? = 0 ]
    check "and is not a target" grep -q "critic.bin.mask: 0 of them are targets" "$out/stdout"
    refused "an unknown template" 1 "there is chatml, llama3" --tokenizer "$data/qwen.json" \
        --template chatlm "$data/chats.jsonl"
    changed llama3 's/"es":277,/"es":276,/'
    refused "two words with one id in chats" 1 '`es` have one id, 276: not supported in chats' \
        --tokenizer "$WORK/changed.json" --template llama3 "$data/chats.jsonl"
    changed qwen 's/("added_tokens":\s*\[)/$1\{"id":65,"content":"b","single_word":false,"lstrip":false,"rstrip":true,"normalized":true,"special":false\},/'
    refused "a token with white space in chats" 1 "b takes white space with it" \
        --tokenizer "$WORK/changed.json" --template chatml "$data/chats.jsonl"
    printf '%s\n' 'return function(m)' \
        '    return { trim("\x1c a\x1f "), target(m[1].content) }' 'end' >"$out/trim.lua"
    printf '{"messages": [{"role": "user", "content": "b"}]}\n' >"$out/trim.jsonl"
    printf 'ab' >"$out/trim.txt"
    check "trim" tok --tokenizer "$data/gpt2.json" --template "$out/trim.lua" -o "$out/trim.bin" \
        "$out/trim.jsonl"
    check "as Python's strip" [ "$(stat -c %s "$out/trim.bin")" -le 1028 ]
    refused "a template's token" 1 'has no added token "<|im_start|>"' --tokenizer "$data/llama3.json" \
        --template chatml "$data/chats.jsonl"
    refused "a template and bytes" 2 "--template needs --tokenizer" --template chatml "$data/chats.jsonl"
    # lua NAME TEXT PATTERN
    lua() {
        printf '%s\n' "$2" >"$out/t.lua"
        refused "$1" 1 "$3" --tokenizer "$data/qwen.json" --template "$out/t.lua" "$data/chats.jsonl"
    }
    lua "a template that is not Lua" 'return function(' "t.lua:2:"
    lua "one that returns a table" 'return {}' "t.lua: returns table; a template returns function"
    lua "one that returns a number" 'return function() return 3 end' "the template returns number"
    lua "a part that is a number" 'return function() return { "a", 3 } end' "part 2 of what the template returns is number"
    lua "a nil between parts" 'return function(m, r) return { "a", r.extra, target "b" } end' \
        'chats.jsonl:1: part 2 of what the template returns is nil; of what may be missing write (x or "")'
    lua "a nil that is first" 'return function(m, r) return { r.extra, "b", "c" } end' "chats.jsonl:1: part 1 of"
    lua "a nil that is all" 'return function(m, r) return { r.extra } end' \
        "chats.jsonl:1: the template returns no part"
    lua "a name for a part" 'return function() return { x = "abc", "a" } end' \
        'chats.jsonl:1: the template returns a list with a key `x`; parts have none'
    lua "a part 0" 'return function() return { [0] = "abc", "a" } end' "a key that is not 1, 2, 3, ..."
    lua "a part 1.5" 'return function() return { [1.5] = "abc", "a" } end' "a key that is not 1, 2, 3, ..."
    lua "an id that is none" 'return function() return { { id = 1 << 40 } } end' "there is no id 1099511627776"
    lua "bytes that are not UTF-8" 'return function() return { "\xff" } end' "part 1 is not UTF-8"
    lua "an endless template" 'return function() while true do end end' "ran for more than 20 million"
    lua "an endless chunk" 'while true do end' "ran for more than"
    lua "an endless text" 'return function() local t, s = {}, ("x"):rep(1 << 20)
        for i = 1, 1000 do t[i] = s end
        return t end' "chats.jsonl:1: the chat is a text of more than 512 MiB"
    lua "much memory" 'return function() return { ("x"):rep(1 << 29) } end' "chats.jsonl:1: "
    lua "an error that is a table" 'return function() error {} end' "raised an error that is a table"
    lua "files" 'return function() return { io.open("/etc/passwd"):read() } end' "chats.jsonl:1: "
    lua "programs" 'os.execute "touch /tmp/x"' "t.lua:1:"
    check "--template and --end" tok "${chat[@]}" --end '<|endoftext|>' -o "$out/ended.bin" "$data/chats.jsonl"
    check "puts one behind each" [ "$(ids_of "$out/ended.bin" | wc -c)" = \
        $(($(stat -c %s "$data/chats.chatml.ids") + 120)) ]
}
