# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after apart.sh: config.json of the folder that --init names: what of it goes
# into that of checkpoints, what is told where it describes another model.

config_hf=$WORK/config.hf # a Hugging Face folder whose config.json is the trainers' own

config_folder() {
    rm -rf "$config_hf" && mkdir "$config_hf"
    cp "$WORK/llama0.ck/step-00000002"/{model.safetensors,config.json} "$config_hf/"
    cp "$config_hf/config.json" "$WORK/config.ours"
}

# plant KEY JSON...: $config_hf's config.json is ours with these values at its top
plant() {
    local text
    text=$(cat "$WORK/config.ours")
    while [ $# -gt 0 ]; do
        text=$(sed -E "/^  \"$1\": .*[^{[]$/d; \$d" <<<"$text" | sed '$s/,$//')
        text+=$(printf ',\n  "%s": %s\n}' "$1" "$2")
        shift 2
    done
    printf '%s\n' "$text" >"$config_hf/config.json"
}

# carry TRAINER STEPS [FLAGS...]: a run from $config_hf, whose last config.json is $carried
carry() {
    local ck=$WORK/config.ck
    rm -rf "$ck"
    run "$1" "$2" --checkpoint "$ck" --init "$config_hf" "${@:3}" ||
        bad 'a run begins with a config.json' "$WORK/$1.err"
    carried=$ck/step-0000000$2/config.json
}

# value_of KEY: at the top of $carried, without blanks
value_of() {
    tr -d ' \n' <"$carried" | grep -oE "\"$1\":(\[[^]]*\]|[^][,}]*)" | cut -d: -f2
}

# has KEY VALUE...: so says $carried
has() {
    while [ $# -gt 0 ]; do
        check "config.json has $1 = $2" test "$(value_of "$1")" = "$2"
        shift 2
    done
}

# ---- what is carried --------------------------------------------------------------------------------

carried_values() {
    config_folder
    carry llama0 1
    check 'an equal config.json changes nothing' cmp "$carried" "$WORK/config.ours"
    check 'and there is no word' test ! -s "$WORK/llama0.err"
    plant max_position_embeddings 131072 bos_token_id 0 eos_token_id '[128001,   128009]' \
        pad_token_id 128004
    carry llama0 1
    has max_position_embeddings 131072 bos_token_id 0 eos_token_id '[128001,128009]' \
        pad_token_id 128004
    sed -e 's/\(max_position_embeddings": \)19/\1131072/' -e 's/\(bos_token_id": \)null/\10/' -e \
        's/\(eos_token_id": \)null/\1[\n    128001,\n    128009\n  ],\n  "pad_token_id": 128004/' \
        "$WORK/config.ours" >"$WORK/config.want"
    check 'nothing else is another' cmp "$carried" "$WORK/config.want"
    check 'and there is no word' test ! -s "$WORK/llama0.err"
    cp "$carried" "$WORK/config.carried"
    carry llama3 1
    check '4 ranks write the bytes of 1' cmp "$carried" "$WORK/config.carried"
    # its source is gone: from here on the checkpoint's own is
    mv "$config_hf" "$config_hf.gone"
    run llama2 3 --checkpoint "$WORK/config.ck" --resume || bad 'it resumes' "$WORK/llama2.err"
    check 'a resume keeps them' cmp "$WORK/config.ck/step-00000003/config.json" "$WORK/config.carried"
    check 'without a word' test ! -s "$WORK/llama2.err"
    run llama1 4 --checkpoint "$WORK/config.ck" --resume
    check 'and the next one' cmp "$WORK/config.ck/step-00000004/config.json" "$WORK/config.carried"
    mv "$config_hf.gone" "$config_hf"
    plant max_position_embeddings 18 eos_token_id null
    carry llama1 1
    check 'a shorter one, null: ours' cmp "$carried" "$WORK/config.ours"
    rm "$config_hf/config.json"
    carry llama1 1
    check 'none: ours' cmp "$carried" "$WORK/config.ours"
    check 'without a word' test ! -s "$WORK/llama1.err"
}

# An end of documents of the trainer's own: it stays where the folder has none.
own_end() {
    config_folder
    make_trainer ended "$llama" 'documents={end_id=7}' mesh.shard=1 || return
    plant eos_token_id null
    carry ended 1
    has eos_token_id 7
    plant eos_token_id '[5, 6]'
    carry ended 1
    has eos_token_id '[5,6]'
}

# hostile KEY VALUE: is ignored with a word, and only it
hostile() {
    plant pad_token_id 3 "$1" "$2"
    carry llama0 1
    check "$1: ${2:0:30} is ignored" grep -q \
        "^trainer: warning: config.json of $config_hf: $1 is ignored: it is not an " "$WORK/llama0.err"
    check "$1: ${2:0:30}: ours" test "$(value_of "$1")" = "$3"
    has pad_token_id 3
}

hostile_values() {
    local value n
    config_folder
    n=$(printf '%.0s1,' {1..64})
    for value in -1 0 '"9"' 2147483649 99999999999999999999 1e5 131072.0 '[9]' '{"a": 1}' true; do
        hostile max_position_embeddings "$value" 19
    done
    for value in -1 '"</s>"' 2147483648 99999999999999999999 1.5 1e3 '[]' '[1, -2]' '[1, "2"]' \
        '[[1]]' '[1, null]' '{"a": 1}' true "[${n}1]"; do
        hostile eos_token_id "$value" null
    done
    plant max_position_embeddings 2147483648 bos_token_id 2147483647 eos_token_id "[${n%,}]"
    carry llama0 1
    has max_position_embeddings 2147483648 bos_token_id 2147483647 eos_token_id "[${n%,}]"
    check 'the largest are taken' test ! -s "$WORK/llama0.err"
    plant a_very_$(printf '%.0slong_' {1..99})key '"x"' 'an\u001bescape' '"\u001b[31m"' eos_token_id 5 \
        other '{"eos_token_id": 6, "list": [{"eos_token_id": 7}]}'
    carry llama0 1
    has eos_token_id 5
    check 'keys of others do not matter' test ! -s "$WORK/llama0.err"
}

# What is no config.json at all is told, once, and the run has ours.
hostile_files() {
    local what deep
    config_folder
    deep=$(printf '%.0s{"a":' {1..70})0$(printf '%.0s}' {1..70})
    for what in cut big deep list empty folder zero; do
        rm -rf "$config_hf/config.json"
        plant eos_token_id 5
        case $what in
        cut) truncate -s -3 "$config_hf/config.json" ;;
        big) printf '%2097152s' '' >>"$config_hf/config.json" ;;
        deep) plant eos_token_id 5 x "$deep" ;;
        list) echo '[{"eos_token_id": 5}]' >"$config_hf/config.json" ;;
        empty) : >"$config_hf/config.json" ;;
        folder) rm "$config_hf/config.json" && mkdir "$config_hf/config.json" ;;
        zero) printf '\0{}' >>"$config_hf/config.json" ;;
        esac
        carry llama1 1
        check "config.json, $what: ours" cmp "$carried" "$WORK/config.ours"
        check "config.json, $what: one word" test "$(grep -c \
            "config.json is ignored: it is not JSON of at most 1048576 bytes" "$WORK/llama1.err")" = 1
    done
    run llama1 1 --init "$config_hf"
    check 'and without checkpoints' test "$(grep -c 'is ignored: it is not JSON' "$WORK/llama1.err")" = 1
}

# ---- what is compared ---------------------------------------------------------------------------------

# differs TRAINER KEY THEIRS OURS: a run says so, and nothing else
differs() {
    run "$1" 0 --init "$config_hf" || bad "--init with another $2 runs" "$WORK/$1.err"
    check "another $2 ($3) is told" grep -qxF \
        "trainer: warning: --init: config.json of $config_hf says $2 $3, this model's is $4" \
        "$WORK/$1.err"
    check "another $2 ($3): one line" test "$(wc -l <"$WORK/$1.err")" = 1
}

# silent TRAINER WHAT: a run says nothing
silent() {
    run "$1" 0 --init "$config_hf" || bad "--init with $2 runs" "$WORK/$1.err"
    check "no word: $2" test ! -s "$WORK/$1.err"
}

compared_values() {
    config_folder
    silent llama0 'an equal config.json'
    set -- model_type '"mistral"' '"llama"' hidden_size 37 36 intermediate_size 51 50 \
        num_hidden_layers 4 3 num_attention_heads 4 3 num_key_value_heads 1 3 head_dim 12 14 \
        vocab_size 260 259 hidden_act '"gelu"' '"silu"' rms_norm_eps 0.001 1e-05 \
        rope_theta 500000.0 10000.0 tie_word_embeddings true false hidden_act 3 '"silu"'
    while [ $# -gt 0 ]; do
        plant "$1" "$2"
        differs llama3 "$1" "$2" "$3"
        shift 3
    done
    plant use_sliding_window true
    differs llama0 use_sliding_window true false
    plant hidden_act "\"$(printf '%.0slong ' {1..50})\""
    differs llama0 hidden_act 'another text' '"silu"'
    plant hidden_act '"\u001b[31m"'
    differs llama0 hidden_act 'another text' '"silu"'
    # at any depth
    plant deep '{"a": {"rms_norm_eps": 2}}'
    differs llama0 rms_norm_eps 2 1e-05
    plant rms_norm_eps 2 deep '{"rms_norm_eps": 3}'
    differs llama0 rms_norm_eps 2 1e-05
    # the same, spelt otherwise; what does not matter; what only they have
    plant rms_norm_eps 0.00001 rope_theta 1E+4 hidden_act '"\u0073ilu"' head_dim 14.0
    silent llama0 'other spellings'
    plant num_key_value_heads null head_dim null torch_dtype '"bfloat16"' dtype '"float16"' \
        transformers_version '"5.0"' architectures '["X"]' use_cache true attention_dropout 0.1 \
        initializer_range 0.5 bos_token_id 1 max_position_embeddings 77 mlp_bias false
    silent llama0 'keys that do not matter'
}

# Another family: it has rates of dropout, which are 0 here, and its own name for positions.
gpt2_values() {
    rm -rf "$config_hf" && mkdir "$config_hf"
    cp "$WORK/half0.ck/step-00000002"/{model*,config.json} "$config_hf/"
    cp "$config_hf/config.json" "$WORK/config.ours"
    plant attn_pdrop 0.1 resid_pdrop 0.1 summary_first_dropout 0.1
    silent half0 'rates of dropout'
    plant layer_norm_epsilon 0.5
    differs half0 layer_norm_epsilon 0.5 1e-05
    plant eos_token_id 50 max_position_embeddings 4096
    carry half0 1
    has eos_token_id 50 max_position_embeddings ''
}

# Rotary positions under both names, with and without a scaling; a window.
compared_positions() {
    local key type
    config_folder
    make_trainer roped "$llama" mesh.shard=1 'model.rope={theta=5e5,scaling={factor=8.0,
        low_freq_factor=1.0,high_freq_factor=4.0,original=8192}}' || return
    for type in rope_type type; do
        sed -i '/^  "rope_theta"/d' "$WORK/config.ours"
        plant rope_theta 500000 rope_scaling "{\"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4,
            \"original_max_position_embeddings\": 8192, \"$type\": \"llama3\"}"
        silent roped "a rope with $type"
        plant rope_parameters "{\"rope_theta\": 5e5, \"factor\": 8, \"low_freq_factor\": 1,
            \"high_freq_factor\": 4, \"original_max_position_embeddings\": 8192, \"$type\": \"llama3\"}"
        silent roped "rope_parameters with $type"
        for key in rope_theta factor original_max_position_embeddings; do
            plant rope_parameters "{\"$type\": \"llama3\", \"$key\": 3}"
            case $key in
            rope_theta) differs roped $key 3 500000.0 ;;
            factor) differs roped $key 3 8.0 ;;
            *) differs roped $key 3 8192 ;;
            esac
        done
        plant rope_parameters "{\"$type\": \"yarn\"}"
        differs roped rope_type '"yarn"' '"llama3"'
        differs llama0 rope_type '"yarn"' '"default"'
        plant rope_parameters "{\"$type\": \"default\", \"rope_theta\": 1e4}"
        silent llama0 "no scaling, $type"
    done
    plant rope_scaling null
    differs roped rope_type '"default"' '"llama3"'
    config_folder
    make_trainer windowed "$llama" mesh.shard=1 model.window=7 || return
    plant model_type '"mistral"' sliding_window 7
    silent windowed 'the window'
    for key in 8 null; do
        plant model_type '"mistral"' sliding_window $key
        differs windowed sliding_window $key 7
    done
}

# ---- none at all ------------------------------------------------------------------------------------

# checkpoint.config = "none" is outside the hash, and what reads checkpoints does without the file.
absent_config() {
    local ck=$WORK/absent.ck
    make_trainer present "$llama" mesh.shard=1 && run present 3 &&
        make_trainer absent "$llama" mesh.shard=1 checkpoint.config=none || {
        bad 'trainers with and without config.json' "$WORK/present.err"
        return
    }
    rm -rf "$ck"
    check 'a trainer without config.json saves' run absent 2 --checkpoint "$ck"
    check 'there is none' test -e "$ck/step-00000002/model.safetensors" -a \
        ! -e "$ck/step-00000002/config.json"
    check 'it verifies' "$WORK/absent/trainer" verify "$ck"
    check 'it resumes' run absent 3 --checkpoint "$ck" --resume
    check 'with the bits of a trainer with one' cmp "$WORK/absent.result" "$WORK/present.result"
    check 'its weights begin a run' "$WORK/absent/trainer" --data "$data" --steps 1 --threads 1 \
        --init "$ck/step-00000003"
    check 'a trainer with one goes on' run present 4 --checkpoint "$ck" --resume
    check 'and writes it' grep -q LlamaForCausalLM "$ck/step-00000004/config.json"
}

part absent_config absent_config
part carried_values:families carried_values
part own_end:families own_end
part hostile_values:families hostile_values
part hostile_files:families hostile_files
part compared_values:families compared_values
part gpt2_values:families gpt2_values
part compared_positions:families compared_positions
