# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the config.json that a checkpoint will carry. A case of config.txt is a copy
# of a shipped architecture with changes, its message, and then what comes without the check: it
# must be a trainer, or the case shows nothing.

# prepare_config DIR: DIR/text has `arch: NAME`, then `change: OLD ==> NEW` of models/arch/NAME.lua.
prepare_config() {
    local arch
    arch=$(sed -n 's/^arch: //p' "$1/text")
    mkdir -p "$1/arch"
    cp "$models/tiny_$arch.lua" "$1/model.lua"
    awk -v cases="$1/text" '
    { text = text $0 "\n" }
    END {
        while ((getline line < cases) > 0) {
            if (line !~ /^change: /) continue
            line = substr(line, 9)
            gsub(/<newline>/, "\n", line)
            at = index(line, " ==>")
            old = substr(line, 1, at - 1)
            new = substr(line, at + 5)
            at = index(text, old)
            if (!at) { print "no \"" old "\" in the architecture"; continue }
            text = substr(text, 1, at - 1) new substr(text, at + length(old))
        }
        printf "%s", text
    }' "$ROOT/models/arch/$arch.lua" >"$1/arch/$arch.lua"
    run_in "$1" --ops "$here/config/ops"
    run_in "$1" --ops "$here/config/ops" --set checkpoint.config=unchecked |
        sed 's/^expect:/unchecked:/; 2,$d'
}

suite config

# says FILE TEXT ARGS...: what the plan says of it.
says() {
    local file=$1 text=$2
    shift 2
    "$FSDPGEN" "$file" --dump=config "$@" >"$WORK/said" 2>"$WORK/said.err"
    if [ "$(head -n 1 "$WORK/said")" = "config.json: $text" ]; then
        ok "$(basename "$file") $*: config.json: $text"
    else
        bad "$(basename "$file") $*: config.json: $text" "$WORK/said"
    fi
}

config_says() {
    local name model class
    for model in "$ROOT"/models/*.lua; do
        name=$(basename "$model" .lua)
        [ "$name" = fsdpgen ] && continue
        case $name in
        gpt2*) class=GPT2LMHeadModel ;;
        mistral*) class=MistralForCausalLM ;;
        qwen2*) class=Qwen2ForCausalLM ;;
        qwen3*) class=Qwen3ForCausalLM ;;
        granite*) class=GraniteForCausalLM ;;
        smollm3*) class=SmolLM3ForCausalLM ;;
        olmo2*) class=Olmo2ForCausalLM ;;
        gemma2*) class=Gemma2ForCausalLM ;;
        gemma3*) class=Gemma3ForCausalLM ;;
        phi4*) class=Phi3ForCausalLM ;;
        *) class=LlamaForCausalLM ;;
        esac
        says "$model" "$class, which computes this graph"
    done
    # shellcheck disable=SC2086
    says "$models/tiny_llama.lua" \
        "none: the architecture llama says that Hugging Face has no such model" $full
    says "$models/tiny_llama.lua" "Qwen3ForCausalLM, which computes this graph" \
        --set model.qk_norm=true --set model.window=7 --set documents.end_id=3 --set loss.z=0.1
    local gemma='--set model.sandwich_norm=true --set model.norm_less_one=true
        --set model.geglu=true --set model.scale_embedding=true --set model.window=7
        --set model.global_every=2 --set model.logits_softcap=3 --set model.tied=true'
    # shellcheck disable=SC2086
    {
        says "$models/tiny_llama.lua" "Gemma2ForCausalLM, which computes this graph" $gemma \
            --set model.attention_softcap=2
        says "$models/tiny_llama.lua" "Gemma3ForCausalLM, which computes this graph" $gemma \
            --set model.qk_norm=true --set model.rope.local_theta=50 \
            --set 'model.rope.scaling={factor=8,original=1}'
        local none="none: the architecture llama says that Hugging Face has no such model"
        # transformers computes no softcap of scores in Gemma 3; the scalar is a whole number
        says "$models/tiny_llama.lua" "$none" $gemma --set model.qk_norm=true \
            --set model.attention_softcap=2
        says "$models/tiny_llama.lua" "$none" $gemma --set model.attention_multiplier=0.3
        says "$models/tiny_llama.lua" "$none" $gemma --set model.geglu=false
    }
    says "$models/tiny_llama.lua" "none: checkpoint.config says so" --set checkpoint.config=none
    says "$models/tiny_llama.lua" "LlamaForCausalLM, unchecked: checkpoint.config says so" \
        --set checkpoint.config=unchecked
    says "$models/tiny_llama.lua" \
        "modeling_mine.MineForCausalLM, a class of your own: what it computes is not checked" \
        --set 'checkpoint.class="modeling_mine.MineForCausalLM"'
    says "$here/user/model.lua" "none: the architecture family writes none" --ops "$here/user/ops"
    mkdir -p "$WORK/replaced/swiglu"
    cp "$ROOT"/templates/ops/swiglu/* "$WORK/replaced/swiglu/"
    sed -i '/canonical =/d' "$WORK/replaced/swiglu/op.lua"
    says "$models/tiny_llama.lua" \
        "LlamaForCausalLM; it computes this graph if swiglu of --ops computes what ours does" \
        --ops "$WORK/replaced"
}
config_says

# the class of a user's own stands in the file, once
"$FSDPGEN" "$models/tiny_llama.lua" --dump=config \
    --set 'checkpoint.class="modeling_mine.MineForCausalLM"' >"$WORK/own"
check "config.json names the class of checkpoint.class" sh -c "
    grep -qF '\"AutoModelForCausalLM\": \"modeling_mine.MineForCausalLM\"' '$WORK/own' &&
    grep -qF '\"MineForCausalLM\"' '$WORK/own' && ! grep -q LlamaForCausalLM '$WORK/own'"
check "plan and plan.json say it" sh -c "
    '$FSDPGEN' plan '$models/tiny_llama.lua' --all |
        grep -qxF 'config.json: LlamaForCausalLM, which computes this graph' &&
    '$FSDPGEN' plan '$models/tiny_llama.lua' --json | tr -d '\n ' |
        grep -qF '\"config\":{\"class\":\"LlamaForCausalLM\",\"checked\":true,'"
none=$("$FSDPGEN" "$models/tiny_llama.lua" --set checkpoint.config=none --dump=fuse | tail -n 1)
check "checkpoint.config is outside the numerics hash" \
    test "$none" = "$("$FSDPGEN" "$models/tiny_llama.lua" --dump=fuse | tail -n 1)"
