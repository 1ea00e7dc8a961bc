#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The matrix: trainers that differ in nothing but choices outside the numerics hash (mesh, ranks along
# tensor and context, strategy, wrap, prefetch, reshard, recompute, accumulation, threads:
# choices.lua) must agree in every bit with the plainest trainer of their model over 20 steps
# (losses, gradient norms, weights), have byte-identical mathematics files, and map the arena their plan states. Tiny
# llama and GPT-2, f32 and bf16, plain and with what meets choices in other ways (uneven targets,
# f16 that overflows, state in bf16, frozen parameters, sums in a library's order), in parts of
# features and tokens also in f64, each over its own covering array of all pairs of choices
# (cover.lua), their dtype among them where a model has several. FULL=1 runs every row; else a
# quarter of the models and a sample of their rows, by SEED. What the generator says it cannot do
# yet is left out, and counted.
#
#   tests/matrix/run.sh pairs          all models; 'llama_*': those of the table whose names match
#   tests/matrix/run.sh faults         all planted mistakes; fault_split_k: this one
#   tests/matrix/run.sh hash           all fields, and bits of each; 'hash_mesh.*': those that match
set -u
. "$(dirname "$0")/../lib.sh"
quick_builds=1
. "$ROOT/tests/e2e/common.sh"
here=$ROOT/tests/matrix
lua=$BUILD/tests/matrix/matrix_lua
data=$ROOT/LICENSE
STEPS=20
. "$here/matrix.sh"
. "$here/checks.sh"
. "$here/faults.sh"
. "$here/hash.sh"

# name|description|products|sets|data|only these values of choices; llama sums leaves of one
# micro-batch on our own tiles, GPT-2 leaves of two, on the library. In f16 the loss scale overflows
# at once and whenever it grows, also where Muon's matrices go to owners. With sums in a library's
# order all of `mesh` is inside the hash, its nodes too.
models() {
    cat <<TABLE
llama_f32|tiny_llama|builtin||text|$data_ranks
llama_bf16|tiny_llama|builtin|dtypes.param="bf16" model.tied=true model.kv_heads=1|text|$data_ranks
gpt2_bf16|tiny_gpt2|$ISA_GEMM|global_batch=32 dtypes.param="bf16"|text|$data_ranks
gpt2_f32|tiny_gpt2|$ISA_GEMM|global_batch=32|text|$data_ranks
llama_packed|tiny_llama|builtin|documents.end_id=10|text|$data_ranks
gpt2_f16|tiny_gpt2|$ISA_GEMM|dtypes.param="f16" dtypes.moments="bf16" dtypes.reduce="bf16" \
 loss.mask=true groups={{match="*.c_attn.*",frozen=true}} optimizer=lion{lr=3e-4} \
 loss_scale={init=1<<24,factor=16,growth_interval=3}|uneven|$few
llama_state|tiny_llama|builtin|dtypes.param="bf16" dtypes.moments="bf16" dtypes.master="split" \
 loss.mask=true documents.end_id=32 groups={{match="model.layers.1.*",frozen=true}}|masked|$few
llama_library|tiny_llama|$ISA_GEMM|reduction=library mesh.replicate=2 mesh.shard=2 \
 dtypes.param="bf16" dtypes.moments="bf16" dtypes.master="bf16" \
 groups={{match="*norm*",frozen=true}}|text|mesh=2x2;along=1x1;node=all;$placed
llama_muon|tiny_llama|builtin|optimizer=muon{lr=2e-3} model.kv_heads=1 dtypes.param="f16" \
 dtypes.moments="bf16" groups={{match="model.layers.0.*",frozen=true}} \
 loss_scale={init=1<<24,factor=16,growth_interval=3}|text|$few
granite_gemma|tiny_llama|builtin|dtypes.param="bf16" model.kv_heads=1 model.nope_every=2 \
 model.embedding_multiplier=12 model.attention_multiplier=0.3 model.residual_multiplier=0.22 \
 model.logits_scaling=1.7 model.rope={fraction=0.75} model.window=7 model.attention_chunk=9 \
 model.global_every=2 model.attention_sinks=true \
 model.sandwich_norm=true model.norm_less_one=true model.geglu=true model.scale_embedding=true \
 model.attention_softcap=2 model.logits_softcap=3|text|$few
olmo2|tiny_llama|builtin|model.heads=6 model.kv_heads=2 model.head_dim=6 model.post_norm=true \
 model.qk_norm_all=true|text|$few
llama_parts|tiny_llama|builtin|parts.tensor=8 $shorter model.heads=16 model.kv_heads=8 model.head_dim=6 \
 model.ffn=56 model.vocab=260 seq=20 model.tied=true documents.end_id=10 dtypes.param=TURN \
 groups={{match="model.layers.1.*",frozen=true}}|text|$parts;along=$tensor
gpt2_parts|tiny_gpt2|$ISA_GEMM|parts.tensor=8 $shorter model.heads=8 model.dim=48 model.vocab=260 \
 seq=20 dtypes.param=TURN dtypes.master=TURN parts.dtype="param" loss.mask=true $whole|uneven|$parts;along=$tensor
llama_context|tiny_llama|builtin|parts.context=8 micro_batch=1 global_batch=4 model.layers=2 model.heads=8 \
 model.kv_heads=1 model.head_dim=6 model.vocab=259 seq=24 model.tied=true documents.end_id=10 dtypes.param=TURN \
 optimizer=muon{lr=1e-3}|text|$parts;along=$context
gpt2_context|tiny_gpt2|$ISA_GEMM|parts.context=8 $shorter model.heads=8 model.dim=48 seq=20 loss.mask=true \
 dtypes.param=TURN|uneven|$parts;along=$context
llama_both|tiny_llama|builtin|parts.tensor=8 parts.context=2 $shorter model.heads=16 model.kv_heads=8 \
 model.head_dim=6 model.ffn=64 model.vocab=259 seq=24 model.tied=true documents.end_id=10 dtypes.param=TURN \
 optimizer=muon{lr=1e-3}|text|$parts;along=$tensor,1x2,2x2,4x2
gpt2_both|tiny_gpt2|$ISA_GEMM|parts.tensor=2 parts.context=8 $shorter model.heads=16 model.dim=48 seq=16 \
 loss.mask=true dtypes.param=TURN|uneven|$parts;along=$context,2x1,2x2,2x4
both_fp8|tiny_llama|builtin|parts.tensor=2 parts.context=2 $shorter seq=32 model.dim=64 model.heads=4 \
 model.head_dim=16 model.ffn=64 dtypes.param="bf16" dtypes.linear="fp8"|text|$parts;along=1x1,2x1,1x2,2x2
TABLE
}
wraps="wrap=block,inside,name,root"
data_ranks="along=1x1"
parts="mesh=1x1,1x2,2x1,1x4,2x2,4x1;$wraps"
tensor=1x1,2x1,4x1,8x1
context=1x1,1x2,1x4,1x8
shorter="global_batch=8 model.layers=2" # many parts, so many calls of kernels
placed="strategy=hybrid_shard;accumulate=sharded;$wraps"
few="mesh=1x2,1x4,2x2,4x2;along=1x1;$wraps"
whole=$([ $((SEED / 16 % 2)) = 0 ] || echo 'optimizer=muon{lr=1e-3}') # else noise by elements alone

# matrix_model NAME VARIANT: all models where parts are named or with FULL=1, else a quarter of them.
# The variant chooses the rows: the same ones whichever models run. TURN is a dtype: with FULL=1 a
# choice like the others, each against a reference of its own; else one, and the next SEED that
# runs the model, which is SEED + 4, takes the next.
matrix_model() {
    local name model gemm sets file only row dtype dtypes=(f32 bf16 f64) variant=$2 each=2 data=$data
    local runs_before=$runs tight_before=$tight
    [ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ] || [ $(((SEED + variant) % 4)) = 0 ] || return 0
    IFS='|' read -r name model gemm sets file only < <(models | grep "^$1|")
    case $file in
    masked) data=$WORK/masked.txt; masked_text "$data" ;;
    uneven) data=$WORK/uneven.txt; masked_text "$data" 'int(t / 500) % 3 > 0 || t % 7 == 3' ;;
    esac
    case $FULL$sets in
    1*TURN*) ;;
    *TURN*) dtypes=("${dtypes[(SEED / 4 + variant) % 3]}") ;;
    *) dtypes=(own) ;;
    esac
    [ "$FULL" = 1 ] && each=0
    for dtype in "${dtypes[@]}"; do
        matrix_reference "${name}_$dtype" "$model" "$gemm" "${sets//TURN/\"$dtype\"}" || return
    done
    matrix_rows $((SEED * 9 + variant)) "$each" "$only;dtype=$(IFS=,; echo "${dtypes[*]}")"
    for row in "${rows[@]}"; do
        dtype=${row#*, dtype }
        dtype=${dtype%%,*}
        matrix_row "${name}_$dtype" "$model" "$gemm" "${sets//TURN/\"$dtype\"}" "$row"
    done
    [ "$FULL" = 0 ] || share_of_runs "$name" $((runs - runs_before)) $((tight - tight_before))
    for dtype in "${dtypes[@]}"; do
        symbols "${name}_$dtype"
        [ "$FULL" = 0 ] && [ $((SEED / 4 % 5)) != $((variant / 4)) ] || builds "${name}_$dtype" "$gemm"
    done
}

# Several calls may share the models, so each has its part of the 200 runs that are promised.
share_of_runs() { # NAME RUNS TIGHT
    echo "figure: $1: $2 runs of $STEPS steps, $3 of them with the least memory that auto finds"
    at_least "$1: runs, of 200 by all models" "$2" $(((199 + model_count) / model_count))
}

pairs() { # after the models
    echo "figure: $runs runs of $STEPS steps, $tight of them with the least memory that auto finds;" \
        "left out: $refused rows not available yet"
}

# all NAME:NEEDS COMMAND...: a name for parts that are there already, which --list does not show: where
# several calls share the parts of the list, as test.sh --full has it, each is run once.
all() { [ $list_parts = 1 ] || part "$@"; }

if [ ! -x "$lua" ]; then
    echo "$0: no $lua, which names the faults and fields: build it first" >&2
    exit 2
fi
mapfile -t names < <(models | cut -d'|' -f1)
model_count=${#names[@]}
part values matrix_left_out
for ((i = 0; i < ${#names[@]}; i++)); do
    part "${names[i]}:values" matrix_model "${names[i]}" $i
done
all "pairs:$(IFS=,; echo "${names[*]}")" pairs

mapfile -t names < <("$lua" "$here/faults.lua" list)
part planted plant_all "${names[@]}"
for name in "${names[@]}"; do part "fault_$name" fault_part "$name"; done
all "faults:planted,$(IFS=,; echo "${names[*]/#/fault_}")" :

"$lua" "$here/hash.lua" "$ROOT" >"$WORK/fields" 2>"$WORK/missing"
mapfile -t names < <(cut -d'|' -f1 "$WORK/fields")
part fields fields
for name in "${names[@]}"; do part "hash_$name:fields" hash_field "$name"; done
all "hash:$(IFS=,; echo "${names[*]/#/hash_}")" hash_figure
finish
