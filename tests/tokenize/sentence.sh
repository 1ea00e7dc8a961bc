# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: tokenizers of SentencePiece's kind (Llama 2, Phi-3, Gemma, Mistral 0.1): ids by
# the hashes of what the package `tokenizers` gives (make_sentence.py), texts of ids, and what is
# refused.

sentence() {
    local hash kind name count n text
    perl "$here/points.pl" 50000 7 >"$out/points50k.txt"
    perl -e 'local $/; my $s = <STDIN>; print $s x 40' <"$data/english.txt" >"$out/long.txt"
    while read -r hash kind name count; do
        text=$data/$name.txt
        [ "$name" = points ] && text=$out/points50k.txt
        [ "$name" = long ] && text=$out/long.txt
        for n in 1 3; do
            check "$kind: $name on $n threads" tok --tokenizer "$data/$kind.json" --threads $n \
                --force -o "$out/sentence.bin" "$text"
            check "$kind: $count ids of $name" [ \
                "$(ids_of "$out/sentence.bin" | sha256sum | cut -d ' ' -f 1)" = "$hash" ]
        done
    done <"$data/sentence.sha256"
    # a text is its ids' text; the space before it goes, and so does one that was its own in Gemma's
    for kind in llama2 phi3 gemma mistral; do
        printf 'cafe\xcc\x81 \xe4\xb8\xad\xf0\x9f\x98\x80 the  end' >"$out/said.txt"
        tok --tokenizer "$data/$kind.json" --no-special --prompt "$(cat "$out/said.txt")" >"$out/said.ids"
        check "$kind: --decode" cmp <(tok --tokenizer "$data/$kind.json" --decode <"$out/said.ids") \
            <(cat "$out/said.txt" && echo)
    done
    # the mask of a chat counts bytes of the normal form
    printf '%s\n' 'return function(m) return { m[1].content, target(m[2].content), " x" } end' \
        >"$out/parts.lua"
    printf '%s\n' '{"messages":[{"role":"user","content":"some of the "},{"role":"assistant","content":"dogs of it"}]}' \
        >"$out/parts.jsonl"
    for kind in phi3 gemma mistral; do
        tok --tokenizer "$data/$kind.json" --template "$out/parts.lua" --force -o "$out/parts.bin" \
            "$out/parts.jsonl" >/dev/null
        check "$kind: the targets' words" [ "$(targets_of "$out/parts.bin" |
            tok --tokenizer "$data/$kind.json" --decode | tr -d ' ')" = dogsofit ]
    done
    refused "a token of the normal form in chats" 1 "takes white space with it: not supported in chats" \
        --tokenizer "$data/llama2.json" --template "$out/parts.lua" "$out/parts.jsonl"
    unknown_part "a byte that is missing" gemma 's/"<0x41>"/"<0x4>"/' \
        "model.vocab: has byte_fallback, but no token <0x41>"
    unknown_part "a word for a space" gemma 's/"content":\s*"\xe2\x96\x81"/"content":"__"/' \
        'normalizer: `__` for a space is not supported; one character beyond ASCII is'
    unknown_part "a Replace of a pattern" gemma 's/"normalizer":(.*?)"String":\s*" "/"normalizer":$1"Regex":" "/s' \
        "normalizer.pattern: is not supported"
    unknown_part "two steps" llama2 's/"type":\s*"Prepend",\s*"prepend":/"type":"Replace","pattern":{"String":" "},"content":/' \
        "normalizer.normalizers.1: a second step that changes the text is not supported"
    unknown_part "NFC and spaces" llama2 's/"type":\s*"Prepend",\s*"prepend":\s*"[^"]*"/"type":"NFC"/' \
        "normalizer.normalizers.1: a second step"
    unknown_part "a long text before" llama2 's/"prepend":\s*"/"prepend":"12345678901234567/' \
        "normalizer.normalizers.0.prepend: is not a text of 1 to 16 bytes"
    unknown_part "a scheme" mistral 's/"prepend_scheme":\s*"first"/"prepend_scheme":"last"/' \
        'pre_tokenizer.prepend_scheme: is not `always`, `first` or `never`'
    unknown_part "a normal form behind Metaspace" mistral 's/"normalized":\s*false/"normalized":true/' \
        "normalized: is not supported with a Metaspace"
    unknown_part "words ignoring merges" gemma 's/"ignore_merges":\s*false/"ignore_merges":true/' \
        "model.ignore_merges: is not supported"
    unknown_part "no byte fallback" gemma 's/"byte_fallback":\s*true/"byte_fallback":false/' \
        "has no ByteLevel, and the model has no byte_fallback"
}

# targets_of FILE.bin: the ids that are targets, on a line
targets_of() {
    perl -e 'local $/; open F, "<:raw", $ARGV[0]; my $d = <F>; open M, "<:raw", "$ARGV[0].mask";
        my $m = <M>; my @id = unpack "S<*", substr $d, 1024;
        print join(" ", map { $id[$_] } grep { vec $m, $_, 1 } 0 .. $#id)' "$1"
}
