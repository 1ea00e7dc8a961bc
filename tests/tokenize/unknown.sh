# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: parts of a tokenizer.json that are not supported, each refused with its place.

# unknown_part NAME KIND PERL PATTERN: refused with its place
unknown_part() {
    changed "$2" "$3"
    refused "$1" 1 "$4" --tokenizer "$WORK/changed.json" "$data/english.txt"
    grep -q "changed.json:[0-9]*:[0-9]*: error: " "$WORK/refused.err" ||
        bad "$1: no place" "$WORK/refused.err"
}

unknown_parts() {
    unknown_part "another model" gpt2 's/"type":"BPE"/"type":"Unigram"/' "the model Unigram is not supported"
    unknown_part "dropout" gpt2 's/"dropout":null/"dropout":0.1/' "model.dropout: is not supported"
    unknown_part "byte fallback" gpt2 's/"byte_fallback":false/"byte_fallback":true/' \
        "model.byte_fallback: after ByteLevel is not supported"
    unknown_part "a prefix" gpt2 's/"continuing_subword_prefix":null/"continuing_subword_prefix":"##"/' \
        "model.continuing_subword_prefix: is not supported"
    unknown_part "a normalizer" qwen 's/"type":\s*"NFC"/"type":"NFKC"/' "the normalizer NFKC is not supported"
    unknown_part "a pre-tokenizer" gpt2 's/"pre_tokenizer":\{"type":"ByteLevel"/"pre_tokenizer":{"type":"Metaspace"/' \
        "pre_tokenizer.replacement: is not a text of 1 to 16 bytes"
    unknown_part "another pre-tokenizer" gpt2 's/"pre_tokenizer":\{"type":"ByteLevel"/"pre_tokenizer":{"type":"Bert"/' \
        "the pre-tokenizer Bert is not supported"
    unknown_part "a prefix space" gpt2 's/"add_prefix_space":false/"add_prefix_space":true/' \
        "pre_tokenizer.add_prefix_space: is not supported"
    unknown_part "a behavior" llama3 's/"Isolated"/"Removed"/' "the behavior Removed is not supported"
    unknown_part "look-behind" llama3 's/\(\?i:/(?<=x)(?i:/' 'pattern.Regex: the pattern'"'"'s part `(?<='
    unknown_part "a Ruby repetition" llama3 's/\{1,3\}/{1,3}+/' 'means something else here'
    unknown_part "a pattern that can match nothing" llama3 's/"Regex":\s*"[^"]*"/"Regex":"[0-9]*"/' \
        "the pattern can match nothing"
    unknown_part "an unknown escape" llama3 's/\\\\s\+\(\?!/\\\\h+(?!/' '`\h` may mean something else'
    unknown_part "a class in a class" llama3 's/\[\\\\r\\\\n\]\*/[[:punct:]]*/' "is a class within a class"
    unknown_part "an open class" llama3 's/\[\\\\r\\\\n\]\*/[\\\\r/' "is a class within a class"
    unknown_part "a post-processor" llama3 's/"type":\s*"TemplateProcessing"/"type":"BertProcessing"/' \
        "post_processor.processors.1: the post-processor BertProcessing"
    unknown_part "two templates" llama3 \
        's/("post_processor":.*?"processors":\s*\[).*?(\{\s*"type":\s*"TemplateProcessing")/$1\{"type":"TemplateProcessing","single":[{"Sequence":{"id":"A","type_id":0}}],"pair":[],"special_tokens":\{}},$2/s' \
        "post_processor.processors.1: a second TemplateProcessing is not supported"
    unknown_part "a sequence of none" gpt2 's/"post_processor":\{"type":"ByteLevel"/"post_processor":{"type":"Sequence"/' \
        "post_processor: the post-processor Sequence"
    unknown_part "whole words only" gpt2 's/"single_word":false/"single_word":true/' "added_tokens.0.single_word"
    unknown_part "a missing flag of an added token" gpt2 's/"single_word":false,//' \
        "added_tokens.0: has no single_word, which tokenizers needs"
    unknown_part "another one" llama3 's/"special":\s*true,?//; s/,(\s*\})/$1/' "added_tokens.0: has no special"
    unknown_part "an unknown key" gpt2 's/"fuse_unk"/"fuse_unkn"/' "model.fuse_unkn: is not a part that is known"
    unknown_part "a key that is empty" gpt2 's/"fuse_unk"/""/' "model.: is not a part that is known"
    unknown_part "a key that is a part of one" gpt2 's/"fuse_unk"/"fuse"/' "model.fuse: is not a part that is known"
    unknown_part "a key that is two" gpt2 's/"fuse_unk"/"vocab merges"/' "model.vocab merges: is not a part"
    unknown_part "a merge of one part" gpt2 's/"merges":\["[^"]*"/"merges":["ab"/' "model.merges.0: is not two parts"
    unknown_part "a merge of strangers" llama3 's/("merges":\s*\[\s*\[\s*)"[^"]*"/$1"qqqq"/' \
        "they or what they make is not in the vocabulary"
    unknown_part "a vocabulary without a byte" gpt2 's/"!":0,//' "has no token for byte 33"
    unknown_part "a negative id" gpt2 's/"!":0,/"!":-1,/' '`!` has no id from 0'
    unknown_part "an id in floating point" gpt2 's/"!":0,/"!":0.5,/' '`!` has no id from 0'
    unknown_part "another id of an added token" gpt2 's/"!":0,/"!":0,"<|endoftext|>":3,/' "in the vocabulary"
    unknown_part "an added token far off" gpt2 's/("added_tokens":\[\{"id":)\d+/${1}5000/; s/"<\|endoftext\|>":\d+,?//' \
        "added_tokens.0: \`<|endoftext|>\` is 5000 here, but tokenizers makes it"
    unknown_part "an added token with a word's id" llama3 's/("id":\s*)801/${1}276/' \
        "is 276 here, but tokenizers makes it 801: others follow the vocabulary in their order"
    unknown_part "added tokens in another order" llama3 's/("id":\s*)800(.*?"id":\s*)801/${1}801${2}800/s' \
        "added_tokens.0: \`<|begin_of_text|>\` is 801 here, but tokenizers makes it 800"
    unknown_part "a Metaspace after another step" llama3 \
        's/("pre_tokenizer":.*?"pretokenizers":\s*\[)/$1\{"type":"Digits","individual_digits":true},\{"type":"Metaspace","replacement":"\\u2581","prepend_scheme":"always","split":true},/s' \
        "pre_tokenizer.pretokenizers.1: Metaspace is supported as the first step only"
    unknown_part "an added token with a NUL" llama3 's/"content":\s*"<\|eot_id/"content":"\\u0000/' "holds a NUL"
    unknown_part "a vocabulary that is a list" gpt2 's/"vocab":\{/"vocab":[],"words":{/' "has no vocab or no merges"
    unknown_part "no JSON" gpt2 's/"merges":\[/"merges":[,/' "unexpected token near"
    unknown_part "cut off" gpt2 's/.{99}$//s' "unexpected"
    unknown_part "twice the same key" gpt2 's/"!":0,/"!":0,"!":1,/' "duplicate object key"
    # the first of two added tokens with one content counts
    printf 'x<|endoftext|> y' >"$out/twice.txt"
    changed gpt2 's/("added_tokens":\[)(\{[^}]*\})/my $t = $2; "$1$t," . ($t =~ s!"rstrip":false!"rstrip":true!r)/e'
    check "an added token twice" tok --tokenizer "$WORK/changed.json" -o "$out/twice1.bin" "$out/twice.txt"
    check "the first counts" tok --tokenizer "$data/gpt2.json" -o "$out/twice2.bin" "$out/twice.txt"
    check "so ids are the same" cmp <(ids_of "$out/twice1.bin") <(ids_of "$out/twice2.bin")
    # what a token takes of the white space behind it ends where another one begins, as in tokenizers
    changed gpt2 's/("added_tokens":\[)(\{[^}]*\})/$1$2,{"id":701,"content":"<a>","single_word":false,"lstrip":false,"rstrip":true,"normalized":false,"special":false},{"id":702,"content":"\\n\\n","single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}/'
    printf 'x<a> \n\ny<a> \n y' >"$out/spaces.txt"
    check "a token in the white space that another one takes" tok --tokenizer "$WORK/changed.json" \
        -o "$out/spaces.bin" "$out/spaces.txt"
    ids_of "$out/spaces.bin" | od -A n -t u2 | tr -s ' ' >"$WORK/spaces.ids"
    check "is found" grep -qx ' 87 701 702 88 701 88' "$WORK/spaces.ids"
    # files saved after a training carry these: ids are those without them
    changed gpt2 's/"truncation":null/"truncation":{"max_length":8}/; s/"padding":null/"padding":{"pad_id":0}/'
    tok --tokenizer "$WORK/changed.json" -o "$out/cut.bin" "$data/english.txt" \
        >"$WORK/cut.out" 2>"$WORK/cut.err"
    check "truncation and padding are taken" [ $? = 0 ]
    check "no document is cut" cmp <(ids_of "$out/cut.bin") "$data/english.gpt2.ids"
    check "with a warning for each" [ "$(grep -cE "changed.json:[0-9]+:[0-9]+: warning: (truncation|padding): is ignored: whole documents are tokenized" "$WORK/cut.err")" = 2 ]
    unknown_part "bytes that are not UTF-8" gpt2 's/"!":0,/"\xff":0,/' "unable to decode byte 0xff"
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 9\n' 0 >"$WORK/changed.json"
    refused "a pointer of Git LFS" 1 "changed.json:1:1: error: is a Git LFS pointer, not the file: git lfs pull" \
        --tokenizer "$WORK/changed.json" "$data/english.txt"
    perl -e 'print "[" x 100000' >"$WORK/changed.json"
    refused "deep JSON" 1 "maximum parsing depth reached" --tokenizer "$WORK/changed.json" "$data/english.txt"
    refused "no tokenizer" 1 "there is no such file" --tokenizer "$WORK/nothing.json" "$data/english.txt"
    refused "a folder without one" 1 "$WORK/tokenizer.json: error: there is no such" --tokenizer "$WORK" "$data/english.txt"
    # what costs: a piece of a megabyte, a hundred thousand merges of one letter
    perl -e 'print "a" x 1000000' >"$out/letter.txt"
    check "a piece of a megabyte" tok --tokenizer "$data/llama3.json" -o "$out/letter.bin" "$out/letter.txt"
    perl -e 'my @m = map { ("\"" . "a" x $_ . " a\"") } 1 .. 2000; my $m = join ",", @m;
        my $v = join "", map { ",\"" . "a" x $_ . "\":" . (1000 + $_) } 2 .. 2001;
        local $/; $_ = <STDIN>; s/"merges":\[.*\]/"merges":[$m]/s; s/"vocab":\{(.*)\},"merges"/
            "\"vocab\":{" . join(",", grep { !m{^"a{2,}":} } split m{,(?=")}, $1) . "$v},\"merges\""/se;
        my $words = () = /"vocab":\{(.*?)\},"merges"/s ? $1 =~ /":\d+/g : ();
        s/"id":700/"id":$words/; print' <"$data/gpt2.json" >"$WORK/changed.json"
    check "merges of merges of merges" tok --tokenizer "$WORK/changed.json" -o "$out/merges.bin" "$out/letter.txt"
    check "as many as they must be" [ "$(header "$out/merges.bin" | cut -d ' ' -f 3)" = 500000 ]
}
