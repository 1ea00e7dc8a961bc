# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: chat templates of models, whose texts are those of jinja2 3.1.6 and transformers
# 5.24.0 (apply_chat_template), written here as they gave them; and what is refused instead.

# text NAME TEMPLATE EXPECTED [JSON]: what the template writes for that chat, or for one of `a` and `b`
text() {
    local line=${4:-'{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}'} got
    printf '%s%s' "$2" '{% generation %}{% endgeneration %}' >"$out/t.jinja"
    printf '%s\n' "$line" >"$out/line.jsonl"
    rm -f "$out/text.bin"
    if ! tok --tokenizer "$data/gpt2.json" --template "$out/t.jinja" --force -o "$out/text.bin" \
        "$out/line.jsonl" >"$out/stdout" 2>"$out/stderr"; then
        bad "$1" "$out/stderr"
        return
    fi
    got=$(ids_of "$out/text.bin" | od -An -v -tu2 | tr '\n' ' ' |
        tok --tokenizer "$data/gpt2.json" --decode)
    printf '%s\n' "expected: $3" "     got: $got" >"$out/stderr"
    if [ "$got" = "$3" ]; then ok "$1"; else bad "$1" "$out/stderr"; fi
}

jinja_texts() {
    jinja_filters
    jinja_methods
    jinja_values
    jinja_spaces
    jinja_messages
}

jinja_filters() {
    text "title as a filter" "{{ \"it's foo_bar 3d (ab [cd {ef <gh i-j\"|title }}" \
        "It's Foo_bar 3d (Ab [Cd {Ef <Gh I-J"
    text "int of texts" '{% for x in ["12.5", "1e3", " 42 ", "-7.9", "1_000", "1__0", ".5e1", "0x10", "inf", "+3"] %}{{ x|int }} {% endfor %}' \
        "12 1000 42 -7 1000 0 5 0 0 3 "
    text "int's default" '{{ "x"|int(7) }} {{ "x"|int(default=8) }} {{ "1e400"|int("d") }} {{ none|int(9) }} {{ "5"|int(1, 10) }} {{ -3.9|int }}' \
        "7 8 d 9 5 -3"
    template "another base" '{{ "ff"|int(0, 16) }}' 't.jinja:1:9: `int` with a base other than 10 is not supported'
    template "int of a long text" '{{ "99999999999999999999"|int }}' '`int` of more than 64 bits is not supported'
    template "int beyond ASCII" '{{ "é"|int }}' '`int` of text that is not ASCII is not supported'
    template "int of undefined" '{{ x|int }}' '`int` of `x`, which is undefined'
    text "tojson by place" '{{ "é😀"|tojson(4) }} {{ ["é"]|tojson(true) }} {{ ["é"]|tojson(false, 1) }}' \
        $'"\\u00e9\\ud83d\\ude00" ["\\u00e9"] [\n "é"\n]'
    text "tojson by name" '{{ {"b": [1, 2], "a": "é"}|tojson(separators=(",", ":"), sort_keys=true, ensure_ascii=True) }} {{ [1]|tojson(indent="--") }} {{ [1]|tojson(indent=0) }}' \
        $'{"a":"\\u00e9","b":[1,2]} [\n--1\n] [\n1\n]'
    template "an indent that is no number" '{{ [1]|tojson(indent=1.5) }}' '`indent` must be a whole number, not a value of kind real'
    local deep='{"messages":[{"role":"user","content":"a","m":{"k":"x","l":[{"n":1}]}},{"role":"user","content":"b","m":{"l":[]}}]}'
    text "map with a default" "{{ messages|map(attribute='m.k', default='q')|join('|') }} {{ messages|map(attribute='m.l.0', default={'n': 2})|map(attribute='n')|join }}" \
        "x|q 12" "$deep"
    text "attributes with dots" "{{ messages|selectattr('m.k')|list|length }}{{ messages|rejectattr('m.l.0', 'defined')|list|length }} {{ messages|selectattr('m.k', 'eq', 'x')|map(attribute='m.l.0.n')|join }} {{ messages|join('+', 'm.k') }} {{ messages|join(attribute='content') }}" \
        "11 1 x+ ab" "$deep"
    template "an attribute of what is undefined" "{{ messages|map(attribute='x.y')|list|length }}" 'has no `y`'
    template "surplus arguments of a filter" '{{ "a"|upper(1) }}' 't.jinja:1:8: too many arguments'
    template "a filter without what it needs" '{{ "a"|replace("b") }}' 'the argument `new` is missing'
    template "an argument that comes twice" '{{ "a"|trim("a", chars="b") }}' 'the argument `chars` is given twice'
    template "surplus arguments of selectattr" "{{ messages|selectattr('role', x=1)|list|length }}" 'the argument `x` is not supported'
}

jinja_methods() {
    text "find between" "{{ 'banana'.find('a', 2) }} {{ 'banana'.find('a', 2, 3) }} {{ 'éaéa'.find('a', -2) }} {{ 'ab'.find('', 2) }} {{ 'ab'.find('', 3) }} {{ 'ab'.find('b', none, -1) }}" \
        "3 -1 3 2 -1 -1"
    text "startswith and endswith between" "{{ 'banana'.startswith('na', 2) }} {{ 'banana'.startswith('na', 2, 3) }} {{ 'banana'.startswith('', 7) }} {{ 'banana'.endswith('an', 0, -1) }}{{ 'banana'.endswith('an', -2, 9) }} {{ 'banana'.endswith(('x', 'n'), -4, -1) }}" \
        "True False False TrueFalse True"
    text "title as a method" "{{ \"it's foo_bar 3d\".title() }}" "It'S Foo_Bar 3D"
    text "white space alone" "[{{ '  '.rstrip() }}{{ '  '.lstrip() }}{{ '  '|trim }}{{ 'aa'.rstrip('a') }}]" "[]"
    text "get" "{{ {'a': 1}.get('a', 2) }}{{ {'a': 1}.get('b', 2) }}{{ {'a': 1}.get(3) }}" "12None"
    template "get with a name" "{{ {}.get('a', default=1) }}" 't.jinja:1:10: the argument `default` is not supported'
    template "surplus arguments of a method" "{{ 'a'.strip('a', 'b') }}" 'too many arguments'
    template "surplus arguments of upper" "{{ 'a'.upper('b') }}" 'too many arguments'
    template "names for replace" "{{ 'a'.replace(old='a', new='b') }}" 'is not supported'
    template "a method without what it needs" "{{ 'a'.startswith() }}" 'the argument `prefix` is missing'
    template "startswith a list" "{{ 'a'.startswith(['a']) }}" 'expected a text or a tuple of texts, not a list'
    template "a start that is no number" "{{ 'a'.find('a', 'b') }}" 'the start must be a whole number, not a value of kind text'
    template "a count that is no number" "{{ 'a'.split('a', 'b') }}" '`maxsplit` must be a whole number'
    template "join of numbers" "{{ ','.join([1]) }}" 'expected a text, not a value of kind integer'
    template "surplus arguments of a test" "{{ 1 is odd(2) }}" 'too many arguments'
    template "a test without what it needs" "{{ 1 is eq }}" 'the argument `other` is missing'
    template "surplus arguments of range" "{{ range(1, 2, 3, 4)|length }}" 'too many arguments'
}

jinja_values() {
    text "an index out of range" "{{ 'abc'[7] is defined }} {{ 'abc'[7]|default('x') }} {{ 'abc'[-4] is defined }} {{ 'abc'[-3] }}{{ 'abc'[-1] }}{{ 'aé'[1] }} {{ [1][1.0] is defined }}" \
        "False x False acé False"
    template "an item of what is undefined" '{{ x[0] }}' '`x`, which is undefined has no items'
    text "tuples and lists" "{{ [1,2] == (1,2) }} {{ (1,2) == (1,2) }} {{ (1,2)|list == [1,2] }} {{ (1,2,3)[1:] == (2,3) }} {{ (1,) + (2,) == (1,2) }} {{ {'a': 1}.items()|list == [('a', 1)] }}" \
        "False True True True True True"
    text "generators" "{% if messages|selectattr('x') %}T{% endif %}{% if messages|selectattr('x')|list %}T{% endif %}{{ messages|map(attribute='role') is sequence }}{{ (messages|reverse)[0] is defined }}{% for k, v in messages[0]|items %}{{ k }}{% endfor %}{{ x|items|list|length }}" \
        "TFalseFalserolecontent0"
    text "views of dicts" "{% set d = {'a': 1, 'b': 2} %}{{ d.items()[0] is defined }} {{ d.keys()[0]|default('x') }} {{ d.values()[-1] is defined }} {{ d.items()|length }} {{ d.keys()|first }} {{ d.keys()|last }} {{ d.keys() is sequence }} {{ d.keys() is iterable }} {{ 'a' in d.keys() }} {% if {}.values() %}T{% else %}F{% endif %} {% set k = d.keys() %}{{ k|join }}{{ k|join }} {{ (d.values()|list)[1] }} {{ d.values()|list|tojson }}" \
        "False x False 2 a b False True True F abab 2 [1, 2]"
    template "a slice of a view" "{{ {'a': 1}.items()[:1] }}" 'a value of kind view cannot be sliced'
    template "a view as text" "{{ {'a': 1}.items() }}" 'a view cannot be printed'
    template "a view as JSON" "{{ {'a': 1}.values()|tojson }}" 'a value of kind view cannot be written as JSON'
    template "views that are compared" "{{ {'a': 1}.keys() == {'a': 2}.keys() }}" 'add `| list`'
    template "the length of a generator" "{{ messages|map(attribute='role')|length }}" 'a value of kind generator has no length'
    template "a generator as a list" "{{ messages|map(attribute='role')|tojson }}" 'a value of kind generator cannot be written as JSON'
    template "a generator twice" "{% set g = messages|map(attribute='role') %}{{ g|join }}{{ g|join }}" \
        'iterates a second time over what a filter gave; add `| list`'
    template "a product that is too large" '{{ 999999999999999999 * 10 }}' 'a whole number of more than 64 bits is not supported'
    template "a list and a tuple" '{{ ([1] + (2,))|length }}' 'have no `+`'
    text "set within generation" "{% set x = 1 %}{% for m in messages %}{% generation %}{% set x = 2 %}{{ x }}{{ loop.index }}{% endgeneration %}{{ x }};{% endfor %}" \
        "211;221;"
    template "break out of generation" "{% for m in messages %}{% generation %}{% break %}{% endgeneration %}{% endfor %}" \
        '`break` is outside a loop'
}

jinja_spaces() {
    text "white space beyond ASCII" $'a\xc2\xa0 {%- if true %}x{% endif -%}\xe2\x80\x83 \x1f\xe3\x80\x80b\xc2\x85 {{- 1 -}} \xe2\x80\xa8c{#- -#}\xc2\xa0d' "axb1cd"
    text "a line of it before a block" $'a\n\xc2\xa0 {% if true %}x{% endif %}\n\xe2\x80\x8b{% if true %}y{% endif %}' $'a\nx\xe2\x80\x8by'
    text "within a tag" $'{{\xc2\xa01\xe2\x80\x83}}' "1"
}

jinja_messages() {
    local calls='"tool_calls":[{"type":"function","function":{"name":"f","arguments":{"a":1}}}]'
    local each="{% for m in messages %}{{ m.content }}{% if m.content is defined %}D{% endif %}{% if m.tool_calls is defined %}T{% endif %}|{% endfor %}"
    text "a content that is null" "$each" "aD|T|" \
        '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":null,'"$calls"'}]}'
    text "a content that is missing" "$each" "aD|T|" \
        '{"messages":[{"role":"user","content":"a"},{"role":"assistant",'"$calls"'}]}'
    text "tool calls that are null" "$each" "aD|bD|" \
        '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":null}]}'
    text "a list of parts" "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}[{{ p.text|trim }}]{% endfor %}{% endif %}{% endfor %}" \
        "[a][b]c" '{"messages":[{"role":"user","content":[{"type":"text","text":" a "},{"type":"text","text":"b"}]},{"role":"assistant","content":"c"}]}'
    template "an image for a model's template" "{{ messages|length }}" 'message 1: a part of `content` is not of type text, but `image`' \
        '{"messages":[{"role":"user","content":[{"type":"image"}]}]}'
    template "no content for a model's template" "{{ messages|length }}" 'message 1: `content` is not text' \
        '{"messages":[{"role":"user","content":null}]}'
    text "reasoning" "{% for m in messages %}{{ m|tojson }}{% endfor %}" \
        '{"thinking": "r", "role": "assistant", "content": "c", "reasoning": "r", "x": {"n": null}, "reasoning_content": "r"}{"thinking": "t", "role": "assistant", "content": "d", "reasoning_content": "t"}' \
        '{"messages":[{"role":"assistant","content":"c","reasoning":"r","tool_calls":null,"x":{"n":null}},{"role":"assistant","reasoning_content":null,"content":"d","thinking":"t"}]}'
}
