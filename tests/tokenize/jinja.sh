# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: chat templates of models. Renderings and masks by hashes of what `transformers`
# gives (make_renderings.py); ids as those of fsdpgen's own templates; what is refused, by its place.

# jinja_folder KIND CONFIG: $out/model, a tokenizer with its tokenizer_config.json
jinja_folder() {
    rm -rf "$out/model"
    mkdir "$out/model"
    cp "$data/$1.json" "$out/model/tokenizer.json"
    printf '%s' "$2" >"$out/model/tokenizer_config.json"
}

renderings() {
    local texts masks name kind n
    jinja_folder gpt2 '{"bos_token": "<s>", "eos_token": {"content": "</s>"}}'
    while read -r texts masks name kind; do
        [ -e "$out/$kind.jsonl" ] || perl "$here/chats.pl" "$kind" 500 11 >"$out/$kind.jsonl"
        check "$name: $kind" tok --tokenizer "$out/model" --force -o "$out/rendered.bin" \
            --template "$here/templates/$name.jinja" "$out/$kind.jsonl"
        check "$name: texts of $kind" [ "$texts" = "$(ids_of "$out/rendered.bin" | od -An -v -tu2 |
            tr '\n' ' ' | tok --tokenizer "$out/model" --decode | sha256sum | cut -d ' ' -f 1)" ]
        n=$(od -An -tu4 -j 8 -N 4 "$out/rendered.bin")
        check "$name: masks of $kind" [ "$masks" = "$(head -c $(((n + 7) / 8)) "$out/rendered.bin.mask" |
            sha256sum | cut -d ' ' -f 1)" ]
    done <"$data/renderings.sha256"
}

jinja() {
    local chat=(--tokenizer "$data/qwen.json" --template "$out/t.jinja") n config place
    local turn="{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}{% endfor %}"
    printf '%s' "$turn{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}" >"$out/t.jinja"
    for n in 1 3; do
        check "chatml as Jinja on $n threads" tok "${chat[@]}" --threads $n --force -o "$out/j.bin" \
            "$data/chats.jsonl"
        check "has the ids of chatml" cmp <(ids_of "$out/j.bin") "$data/chats.chatml.ids"
        check "and its mask" cmp <(bits_of "$out/j.bin.mask") "$data/chats.chatml.mask"
    done
    # the same text from tokenizer_config.json, alone or one of several, and from its own file
    config='{"chat_template": [{"name": "rag", "template": "x"}, {"name": "default", "template": "'"${turn//\\/\\\\}"'{% if add_generation_prompt %}{{ '"'<|im_start|>assistant\\\\n'"' }}{% endif %}"}]}'
    jinja_folder qwen "$config"
    check "a template of several" tok --tokenizer "$out/model" --template tokenizer --force \
        -o "$out/j.bin" "$data/chats.jsonl"
    check "by its name" cmp <(bits_of "$out/j.bin.mask") "$data/chats.chatml.mask"
    check "a config by its name" tok --tokenizer "$data/qwen.json" --force -o "$out/j.bin" \
        --template "$out/model/tokenizer_config.json" "$data/chats.jsonl"
    cp "$out/t.jinja" "$out/model/chat_template.jinja"
    printf '{"chat_template": "no"}' >"$out/model/tokenizer_config.json"
    check "chat_template.jinja goes first" tok --tokenizer "$out/model" --template tokenizer --force \
        -o "$out/j.bin" "$data/chats.jsonl"
    check "with its ids" cmp <(ids_of "$out/j.bin") "$data/chats.chatml.ids"
    # a message says no special token, also where template and message say it together
    printf '%s' "{{ '<|im_start|>' ~ messages[0].content ~ 'im_end|>' }}{% generation %}{% endgeneration %}" >"$out/t.jinja"
    printf '%s\n' '{"messages":[{"role":"user","content":"<|im_start|><|"}]}' >"$out/chat.jsonl"
    tok "${chat[@]}" --force -o "$out/j.bin" "$out/chat.jsonl" >"$out/stdout" 2>"$out/stderr"
    check "nobody says a special token from within" [ "$(ids_of "$out/j.bin" | od -An -v -w2 -t u2 |
        grep -cE "^ *($(tr -d '\n' <"$data/qwen.json" | grep -oE '"id":[0-9]+,"content":"<\|im_(end|start)' |
            grep -oE '[0-9]+' | xargs | tr ' ' '|'))\$")" = 1 ]
    jinja_refused
}

# template NAME TEXT PATTERN [JSON]: refused when a chat, or that line, is written with it
template() {
    printf '%s' "$2" >"$out/t.jinja"
    [ $# -lt 4 ] || printf '%s\n' "$4" >"$out/line.jsonl"
    refused "$1" 1 "$3" --tokenizer "$data/qwen.json" --template "$out/t.jinja" \
        "$([ $# -lt 4 ] && echo "$data/chats.jsonl" || echo "$out/line.jsonl")"
}

jinja_refused() {
    local a='{{ "a" }}'
    template "a tag that is unknown" $'{# x #}\n  {% include "x" %}' 't.jinja:2:6: the tag `include` is not supported'
    template "a filter" '{{ messages | groupby("role") }}' 't.jinja:1:15: the filter `groupby` is not supported'
    template "a test" '{% if x is sameas y %}{% endif %}' 't.jinja:1:12: the test `sameas` is not supported'
    template "an operator" '{{ 2 ** 3 }}' 't.jinja:1:6: expected `}}` before `**`'
    template "a tag that is open" 'a {% if x %}' 't.jinja:1:3: `if` has no end'
    template "an end of nothing" '{% endif %}' 'the tag `endif` is not supported, or ends nothing'
    template "a tag that is cut off" 'a {{ x' 't.jinja:1:3: the tag is not closed'
    template "a text that is cut off" '{{ "x }}' 't.jinja:1:4: the text is not closed'
    template "a comment that is cut off" '{# x' 't.jinja:1:1: the comment is not closed'
    template "a character" '{{ a ? b }}' 't.jinja:1:6: unexpected character'
    template "a bracket" '{{ a) }}' 't.jinja:1:5: `)` has no opening bracket'
    template "a loop that calls itself" '{% for x in y recursive %}{% endfor %}' "a recursive loop is not supported"
    template "break outside a loop" '{% break %}' '`break` is outside a loop'
    template "generation in a macro" '{% macro f() %}{% generation %}{% endgeneration %}{% endmacro %}' \
        '`generation` within a macro is not supported'
    template "deep brackets" "{{ $(perl -e 'print "(" x 200, "1", ")" x 200') }}" "is nested more than 100 deep"
    template "deep nots" "{{ $(perl -e 'print "not " x 200, "1"') }}" "is nested more than 100 deep"
    template "deep tags" "$(perl -e 'print "{% if x %}" x 200')" "is nested more than 100 deep"
    template "bytes that are not UTF-8" $'a\xff' "t.jinja: byte 2 is not UTF-8"
    template "a long number" '{{ 99999999999999999999 }}' "the number is too long"
    # when it runs: with the line of the chat
    template "undefined" '{{ x.y }}' 'chats.jsonl:1: '"$out"'/t.jinja:1:5: `x`, which is undefined has no `y`'
    template "the date" '{{ strftime_now("%Y") }}' "strftime_now: the date of today would make other tokens each day"
    template "the template's own error" $'\n{{ raise_exception("no " + messages[0].role) }}' \
        "t.jinja:2:19: the template says: no "
    template "a list as text" '{{ messages }}' 'a list cannot be printed; `tojson` converts it to text'
    template "a text and a number" '{{ "a" + 1 }}' 'a value of kind text and a value of kind integer have no `+`'
    template "a division" '{{ 1 // 0 }}' "a division by 0"
    template "a call of nothing" '{{ f() }}' '`f`, which is undefined cannot be called'
    template "an argument" '{{ "a" | trim(x=1) }}' 'the argument `x` is not supported'
    template "text beyond ASCII" '{{ "é" | upper }}' '`upper` of text that is not ASCII is not supported'
    template "a macro for ever" '{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}' "macros call each other more than 50 deep"
    template "loops for ever" "$(perl -e 'print "{% for x in range(99999) %}" x 4, "{% endfor %}" x 4')" \
        "ran for more than 100 million steps on a chat"
    template "a text for ever" '{% set ns = namespace(x="x") %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}' \
        "needs more than 512 MiB of memory for a chat"
    template "turns that are not how a chat begins" \
        "{% for m in messages %}{{ loop.revindex ~ m.content }}{% endfor %}" \
        "message 2 is not how it writes the chat, so the targets are unknown: mark them with {% generation %}" \
        '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}'
    template "a deep record" '{{ x }}' "nested more than 64 deep" \
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":$(perl -e 'print "[" x 99, "]" x 99')}"
    printf 'x' >"$out/t.jinja"
    refused "no such template" 1 "none.jinja: there is no such file" --tokenizer "$data/qwen.json" \
        --template "$out/none.jinja" "$data/chats.jsonl"
    jinja_folder qwen '{"chat_template": 3}'
    refused "a config without a template" 1 "tokenizer_config.json: has no chat_template" \
        --tokenizer "$out/model" --template tokenizer "$data/chats.jsonl"
    jinja_folder qwen '{"chat_template": }'
    refused "a config that is no JSON" 1 "tokenizer_config.json:1:" --tokenizer "$out/model" \
        --template tokenizer "$data/chats.jsonl"
    rm "$out/model/tokenizer_config.json"
    refused "no template at all" 1 "chat_template.jinja: there is no such file" --tokenizer "$out/model" \
        --template tokenizer "$data/chats.jsonl"
    perl -0pe 's/("content":"<\|im_end\|>".*?"normalized":)false/$1true/s' <"$data/qwen.json" >"$WORK/changed.json"
    refused "a special token of the normal form" 1 '`<|im_end|>` is `normalized`, which is not supported' \
        --tokenizer "$WORK/changed.json" --template "$out/t.jinja" "$data/chats.jsonl"
}

# The forms that chats come in: the same ids as the form that templates know.
forms() {
    local same=(--tokenizer "$data/qwen.json" --template chatml --force)
    printf '%s\n' '{"messages":[{"role":"system","content":"s"},{"role":"user","content":"ab c"},{"role":"assistant","content":"x\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 0.1, \"é\": [1, null]}}\n</tool_call>"},{"role":"tool","content":"t"}]}' >"$out/plain.jsonl"
    printf '%s\n' '{"conversations":[{"from":"system","value":"s"},{"from":"human","value":"ab c"},{"from":"gpt","value":"x\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 0.1, \"é\": [1, null]}}\n</tool_call>"},{"from":"observation","value":"t"}]}' >"$out/share.jsonl"
    printf '%s\n' '{"messages":[{"role":"system","content":["s"]},{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":" c"}]},{"role":"assistant","content":"x","tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":0.1,"é":[1,null]}}}]},{"role":"tool","content":[{"type":"text","text":"t"}]}]}' >"$out/content.jsonl"
    printf '%s\n' '{"messages":[{"role":"system","content":"s"},{"role":"user","content":"ab c"},{"role":"assistant","content":"x","tool_calls":[{"function":{"name":"f","arguments":"{\"a\": 0.1, \"é\": [1, null]}"}}]},{"role":"tool","content":"t"}]}' >"$out/string.jsonl"
    local form
    for form in plain share content string; do
        check "a chat as $form" tok "${same[@]}" -o "$out/$form.bin" "$out/$form.jsonl"
        check "$form: the same ids" cmp "$out/$form.bin" "$out/plain.bin"
        check "$form: the same mask" cmp "$out/$form.bin.mask" "$out/plain.bin.mask"
    done
    form() {
        record "$2"
        refused "$1" 1 "bad.jsonl:1: $3" --tokenizer "$data/qwen.json" --template chatml "$out/bad.jsonl"
    }
    form "an unknown speaker" '{"conversations":[{"from":"bing","value":"x"}]}' \
        'message 1: `from` is human, user, gpt, assistant, system, tool, function_call, observation or function_response, not `bing`'
    form "a speaker without words" '{"conversations":[{"from":"gpt","text":"x"}]}' 'message 1: `value` is not text'
    form "an image" '{"messages":[{"role":"user","content":[{"type":"image"}]}]}' \
        'message 1: a part of `content` is not of type text, but `image`'
    form "a part without text" '{"messages":[{"role":"user","content":[{"type":"text"}]}]}' \
        'message 1: a part of `content` has no text'
    form "a call without a name" '{"messages":[{"role":"assistant","tool_calls":[{}]}]}' \
        'message 1: a tool call has no name, or no arguments'
    form "calls that are no list" '{"messages":[{"role":"assistant","tool_calls":{"a":1}}]}' \
        'message 1: `tool_calls` is not a list'
    form "neither form" '{"chat":[]}' 'no field `messages`; it has `chat`'
    form "a null for a message" '{"messages":[null]}' 'message 1: `role` is a word'
}
