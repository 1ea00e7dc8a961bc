# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: normal form C of texts and of chats in parts.

# Normal form C and the mask over it are Python's, and take time in proportion to the text:
# what took the square of it does not end within the minute that a run has.
normal_form() {
    local python=${PYTHON:-python3} texts=1000 n known code
    [ "$FULL" = 1 ] && texts=100000
    printf '%s\n' 'return function(_, record)' '    local parts = {}' \
        '    for i, s in ipairs(record.parts) do parts[i] = i % 2 == 0 and target(s) or s end' \
        '    return parts' 'end' >"$out/parts.lua"
    known=$(printf '%s\n' '#include <stdio.h>' '#include <utf8proc.h>' \
        'int main(void) { return puts(utf8proc_unicode_version()) < 0; }' |
        cc -x c - -o "$WORK/unicode" -lutf8proc 2>/dev/null && "$WORK/unicode")
    "$python" "$here/nfc.py" "$data/qwen.json" "$out" "$texts" "$SEED" "$known" >"$WORK/nfc.err" 2>&1
    code=$?
    if [ $code = 0 ]; then
        check "$texts texts in parts" tok --tokenizer "$out/nfc.json" --template "$out/parts.lua" \
            -o "$out/nfc.bin" "$out/nfc.jsonl"
        check "their normal forms are Python's" cmp <(ids_of "$out/nfc.bin") "$out/nfc.ids"
        check "and the masks over them" cmp <(bits_of "$out/nfc.bin.mask") "$out/nfc.mask"
        check "400,000 marks of one letter" tok --tokenizer "$out/nfc.json" -o "$out/marks.bin" \
            "$out/marks.txt"
        check "in order" cmp <(ids_of "$out/marks.bin") "$out/marks.ids"
    elif [ $code = 3 ]; then
        echo "skipped: normal forms beside Python's: $(cat "$WORK/nfc.err")"
    else
        bad "nfc.py" "$WORK/nfc.err"
    fi
    # a chat of many parts, with added tokens or without: 2 x 10^5 parts of 4 x 10^6 bytes
    for n in '' '<tool_call>'; do
        perl -e 'my $p = join ",", map { "\"cafe\xcc\x81 n\xc2\xb0 $_\\n$ARGV[0]\"" } 1 .. 200000;
            print "{\"messages\": [{\"role\": \"user\", \"content\": \"\"}], \"parts\": [$p]}\n"' \
            "$n" >"$out/parts.jsonl"
        perl -e 'print map { "cafe\xcc\x81 n\xc2\xb0 $_\n$ARGV[0]" } 1 .. 200000' "$n" >"$out/parts.txt"
        check "a chat of many parts $n" tok --tokenizer "$data/qwen.json" --force \
            --template "$out/parts.lua" -o "$out/parts.bin" "$out/parts.jsonl"
        check "its text" tok --tokenizer "$data/qwen.json" --force -o "$out/whole.bin" "$out/parts.txt"
        check "the same ids" cmp <(ids_of "$out/parts.bin") <(ids_of "$out/whole.bin")
    done
}
