# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. A trainer in parts has the gradients of one without, in f64, where a leaf has several
# micro-batches: what parts make of a gradient is added to that of the micro-batches before, whether it
# is a sum, all of their pieces, or a piece of a whole one. In bf16 it has them if summands are f32. Products in
# fp8 have the scales of whole tensors. Updates are those of one without, too, of whole matrices that are stored
# as boxes: losses and norms of three steps.

parts_gradients() { # NAME AXIS MODEL ARGS...: of four parts, along `both` two times two. LINEAR: dtypes.linear
    local name=$1 axis=$2 model=$3 dir=$WORK/$1_$2 n parts dtypes="{param=\"f64\",linear=\"${LINEAR:-param}\"}"
    shift 3
    for n in 1 4; do
        case $axis in
        both) parts="parts={tensor=$((n > 1 ? 2 : 1)),context=$((n > 1 ? 2 : 1))}" ;;
        *) parts=parts.$axis=$n ;;
        esac
        if ! generate "$dir.$n" "$model" --set model.vocab=257 --set "$parts" --set micro_batch=1 \
            --set seq=16 --set global_batch=4 --set leaves=1 "$@" --set "dtypes=$dtypes" ||
           ! build_trainer "$dir.$n" ||
           ! train "$dir.$n" "$data" 3 --threads 1 --debug-gradients "$dir.$n.gradients"; then
            bad "parts: $name trains in $n parts of $axis" "$dir.$n.log"
            return
        fi
    done
    [ -n "${LINEAR:-}" ] ||
        check "parts of $axis: $name has the losses of one without" near "$dir.1.jsonl" "$dir.4.jsonl" 1e-9
    check "parts of $axis: $name has the gradients of one without" gradients_equal "$dir.1.gradients" "$dir.4.gradients"
}

# parts_rounded_once NAME PARTS MODEL ARGS...: each value in bf16 is rounded as often as without parts, if its
# summands are in f32, and more often if they are in bf16. By our own products, whose sums do not depend on how
# many rows and columns there are; a BLAS's do, and some of its values then round otherwise.
parts_rounded_once() {
    local name=$1 parts=$2 model=$3 dir=$WORK/rounded_$1 way sets
    shift 3
    for way in whole f32 param; do
        sets="parts={$parts,dtype=\"$way\"}"
        [ $way = whole ] && sets=parts.tensor=1
        if ! generate "$dir.$way" "$model" --set model.vocab=257 --set "$sets" --set micro_batch=1 --set seq=16 \
            --set global_batch=4 --set leaves=1 "$@" --set 'dtypes={param="bf16"}' ||
           ! build_trainer "$dir.$way" GEMM=builtin ||
           ! train "$dir.$way" "$data" 1 --threads 1 --debug-gradients "$dir.$way.gradients"; then
            bad "parts: $name in bf16, $parts, $way: does not run" "$dir.$way.log"
            return
        fi
    done
    check "parts: $name in bf16, $parts: summands in f32 have the gradients of one without" \
        gradients_equal "$dir.whole.gradients" "$dir.f32.gradients" 1e-3
    check "parts: and summands in bf16 have not" bash -c \
        "$(declare -f gradients_equal); ! gradients_equal '$dir.whole.gradients' '$dir.param.gradients' 1e-3 2>&1"
}

# The kernel that joins the scales of four parts: the largest wherever it stands, and NaN wherever one stands.
parts_largest() {
    local dir=$WORK/largest
    generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set dtypes.linear=fp8 --set parts.tensor=4 --set seq=32 \
        --set model.dim=64 --set model.heads=4 --set model.head_dim=16 --set model.ffn=64 || { bad "parts: scales" "$dir.log"; return; }
    {
        printf '%s\n' '#include <math.h>' '#include <stdint.h>' '#define RT_ALWAYS static inline'
        sed -n '/^RT_ALWAYS float .*_larger(/,/^}/p; /the largest of x.* over 4 parts/,/^}/p' "$dir/kernels.c"
        cat <<'C'
int main(void)
{
    const float of[] = { 0x1p-126f, 0.5f, 4, NAN };
    for (int i = 0; i < 256; i++) {
        float x[4], y = 0, top = 0, nan = 0;
        for (int p = 0; p < 4; p++) {
            x[p] = of[i >> 2 * p & 3];
            top = x[p] > top ? x[p] : top;
            nan += x[p] != x[p];
        }
        joined(0, (const void *const[]){ x, x + 1, x + 2, x + 3 }, &y, 0);
        if (nan > 0 ? y == y : y != top)
            return 1;
    }
    return 0;
}
C
    } | sed 's/^void meet_[a-z0-9_]*(/void joined(/' >"$dir.c"
    check "parts: scales of parts join in the largest, or NaN" bash -c "cc -O2 -Wall -fopenmp '$dir.c' -o '$dir.run' && '$dir.run'"
}

parts_suite() {
    parts_largest
    local outside=$ROOT/tests/e2e/outside
    # a table of positions, whose gradient is gathered; the last part has fewer tokens of the vocabulary
    turn 2 4 parts_gradients gpt2 tensor "$ROOT/tests/models/tiny_gpt2.lua" --set model.heads=4 --set model.dim=48 \
        --set 'optimizer=muon{}'
    # norms of all heads together; of the gradient of q, k and v a part takes its piece
    turn 0 4 parts_gradients llama tensor "$ROOT/tests/models/tiny_llama.lua" --set model.heads=4 --set model.ffn=52 \
        --set model.qk_norm_all=true --set model.qkv_bias=true
    # values turn from tokens to columns
    turn 0 4 parts_gradients turned tensor "$outside/turned.lua" --set model.vocab=256
    turn 0 4 parts_rounded_once gpt2 tensor=2,context=2 "$ROOT/tests/models/tiny_gpt2.lua" --set model.heads=4 \
        --set model.dim=48
    turn 2 4 parts_rounded_once llama tensor=4 "$ROOT/tests/models/tiny_llama.lua" --set model.heads=4 \
        --set model.kv_heads=4 --set model.ffn=52
    # pieces of a table that no weight makes; a value that is made again beside a full chain
    turn 0 4 parts_gradients chained tensor "$outside/chained.lua" --ops "$outside/ops"
    turn 2 4 parts_gradients chained both "$outside/chained.lua" --ops "$outside/ops"
    # nothing is marked
    turn 2 4 parts_gradients unmarked tensor "$outside/relu_net.lua" --set model.vocab=256 --ops "$outside/ops"
    # sequences: heads turn, weights are gathered; positions and documents are those of the whole sequence;
    # chunks of the loss do not divide a part's four tokens
    turn 0 4 parts_gradients gpt2 context "$ROOT/tests/models/tiny_gpt2.lua" --set model.heads=4 --set model.dim=48 \
        --set loss.chunk_tokens=3 --set 'optimizer=muon{}'
    turn 2 4 parts_gradients llama context "$ROOT/tests/models/tiny_llama.lua" --set model.heads=4 \
        --set model.kv_heads=4 --set model.window=5 --set documents.end_id=10 --set loss.chunk_tokens=3
    # more parts than key and value heads
    turn 2 4 parts_gradients copies context "$ROOT/tests/models/tiny_llama.lua" --set model.heads=8 \
        --set model.kv_heads=2 --set model.head_dim=6 --set model.qk_norm=true --set documents.end_id=10
    # pieces of pieces
    turn 2 4 parts_gradients gpt2 both "$ROOT/tests/models/tiny_gpt2.lua" --set model.heads=4 --set model.dim=48
    turn 0 4 parts_gradients llama both "$ROOT/tests/models/tiny_llama.lua" --set model.heads=8 \
        --set model.kv_heads=$((SEED % 4 < 2 ? 2 : 4)) --set model.head_dim=6 --set model.ffn=52 --set model.qkv_bias=true \
        --set model.window=5 --set documents.end_id=10 --set 'optimizer=muon{}'
    # scales of weights, values and gradients are the largest of all parts'
    LINEAR=fp8 turn 0 4 parts_gradients fp8 both "$ROOT/tests/models/tiny_llama.lua" --set seq=64 --set model.heads=4 \
        --set model.dim=64 --set model.head_dim=16 --set model.ffn=128
}
