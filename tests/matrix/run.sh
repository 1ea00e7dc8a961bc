#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The matrix: trainers that differ in nothing but choices outside the numerics hash (mesh,
# strategy, wrap, prefetch, reshard, recompute, accumulation, threads: choices.lua) must agree
# in every bit with the plainest trainer of their model over 20 steps (losses, gradient norms,
# weights), have byte-identical mathematics files, and map the arena their plan states. Tiny
# llama and GPT-2, f32 and bf16, each over its own covering array of all pairs of choices
# (cover.lua).
# FULL=1 runs every row; else a sample by SEED. What the generator says it cannot do yet is left
# out, and counted.
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"
here=$ROOT/tests/matrix
lua=$BUILD/tests/matrix/matrix_lua
data=$ROOT/LICENSE
STEPS=20
. "$here/matrix.sh"
. "$here/checks.sh"
. "$here/faults.sh"
. "$here/hash.sh"

# name|description|sets; llama sums leaves of one micro-batch on our own tiles, GPT-2 leaves of
# two, on the library
models() {
    cat <<TABLE
llama_f32|tiny_llama|builtin|
llama_bf16|tiny_llama|builtin|dtypes.param="bf16" model.tied=true model.kv_heads=1
gpt2_f32|tiny_gpt2|auto|global_batch=32
gpt2_bf16|tiny_gpt2|auto|global_batch=32 dtypes.param="bf16"
TABLE
}

matrix() {
    local name model gemm sets row variant=0 each=3
    [ "$FULL" = 1 ] && each=0
    matrix_left_out
    while IFS='|' read -r name model gemm sets; do
        matrix_reference "$name" "$model" "$gemm" "$sets" || continue
        matrix_rows $((SEED * 4 + variant)) "$each"
        for row in "${rows[@]}"; do
            matrix_row "$name" "$model" "$gemm" "$sets" "$row"
        done
        symbols "$name"
        if [ "$FULL" = 1 ] || [ $((SEED % 4)) = $variant ]; then
            builds "$name" "$gemm"
        fi
        variant=$((variant + 1))
    done < <(models)
    echo "figure: $runs runs of $STEPS steps; left out: $refused rows not available yet, $large" \
        "that do not fit their budget"
    [ "$FULL" = 0 ] || check "at least 200 runs" [ "$runs" -ge 200 ]
}

# Arguments: parts (matrix, faults, hash, hash=PATTERN, or faults by name); without any, all.
if [ $# -eq 0 ]; then
    matrix
    if [ "$FULL" = 1 ]; then faults_sample 0; else faults_sample 3; fi
    if [ "$FULL" = 1 ]; then hashes 1; else hashes 12; fi
fi
for part; do
    case $part in
    matrix) matrix ;;
    faults) faults_sample 0 ;;
    hash) hashes 1 ;;
    hash=*) hashes 1 "${part#hash=}" ;;
    *) faults "$part" ;;
    esac
done
finish
