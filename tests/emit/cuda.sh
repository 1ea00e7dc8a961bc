# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: what target = cuda emits. Where the toolkit is, it is compiled and linked, too;
# the simulated device (tests/cudasim) runs it.

cuda() { # cuda DIR [ARGS...]
    local dir=$1
    shift
    rm -rf "$dir"
    "$FSDPGEN" "$model" -o "$dir" --target cuda "$@" >"$WORK/gen.log" 2>&1 ||
        { cat "$WORK/gen.log"; return 1; }
}
check "cuda: two ranks" cuda "$WORK/cuda" --set mesh.shard=2
for file in kernels.cu kernels.c kernels.h math.c math.h step.c bind.c trainer.c tables.c calibrate.c Makefile runtime/rt.h \
            runtime/cuda/rt_device.h runtime/cuda/ranks/rt_nccl.c; do
    check "cuda: has $file" test -s "$WORK/cuda/$file"
done
check "cuda: no file of the cpu's runtime" sh -c \
    "test -s '$WORK/cuda/runtime/rt_main.c' && ! test -e '$WORK/cuda/runtime/cpu'"
check "cpu: no file of cuda's" sh -c "! find '$WORK/a' | grep -i cuda"
check "cuda: kernels read no header of the toolkit" sh -c \
    "! grep -n '#include <' '$WORK/cuda/kernels.cu' '$WORK/cuda/runtime/cuda/'rt_[dkmr]*.h 2>/dev/null | grep -v rt_memory"
check "cuda: kernels keep to rt_device.h's names" sh -c \
    "! grep -nE '__[a-z]|\basm\b|atomic[A-Z]' '$WORK/cuda/kernels.cu'"
check "cuda: kernels.cu and kernels.c name one generation" sh -c \
    "id=\$(sed -n 's/^#define MATH_IDENTITY 0x//p' '$WORK/cuda/kernels.h') && [ -n \"\$id\" ] &&
     grep -q \"^math_\$id(\" '$WORK/cuda/kernels.cu' && grep -q \"\\\"math_\$id\\\"\" '$WORK/cuda/kernels.c'"
check "cuda: every kernel that is launched is there" sh -c \
    "grep -o '\.name = \"[a-z_0-9]*\"' '$WORK/cuda/kernels.c' | cut -d'\"' -f2 | while read -r k; do
         grep -q \"^\$k(\" '$WORK/cuda/kernels.cu' || { echo \"\$k\"; exit 1; }; done"
check "cuda: one rank does without NCCL" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/cuda1' --target cuda >/dev/null 2>&1 &&
     ! grep -i nccl '$WORK/cuda1/Makefile' && [ ! -e '$WORK/cuda1/runtime/cuda/ranks/rt_nccl.c' ]"
check "cuda: the numerics hash is the cpu's" sh -c \
    "grep -h numerics_hash '$WORK/cuda/trainer.c' '$WORK/a/trainer.c' | sort -u | wc -l | grep -qx 1"
for choice in mesh.shard=4 wrap=2 prefetch=2 'accumulate="unsharded"' recompute=block \
              'target=cuda{gpu="h200",arch={"sm_80","sm_90a"}}'; do
    same_cuda() {
        cuda "$WORK/choice" --set mesh.shard=2 --set "$choice" &&
            cmp "$WORK/choice/kernels.cu" "$WORK/cuda/kernels.cu" &&
            same_mathematics "$WORK/choice" "$WORK/cuda"
    }
    check "cuda: mathematics with $choice" same_cuda
done
# A device takes 65,535 blocks along y: what grows with the tokens lies along x.
within_grid() { # MODEL ARGS...
    "$FSDPGEN" "$ROOT/tests/models/$1.lua" -o "$WORK/grid" --target cuda --set seq=131072 --set micro_batch=64 \
        --set global_batch=64 --set leaves=1 --set loss.chunk_tokens=131072 --set model.dim=64 --set model.layers=1 \
        --set 'dtypes={param="bf16",linear="fp8"}' "${@:2}" >"$WORK/gen.log" 2>&1 || { cat "$WORK/gen.log"; return 1; }
    tr -s ' \n' ' ' <"$WORK/grid/kernels.c" | grep -o 'rt_launch(rt, &[a-z_0-9]*, [^,]*, [^,]*,' >"$WORK/launches"
    grep -qF ', 8388608, 1,' "$WORK/launches" && awk -F', ' '$4 + 0 > 65535 { print; n++ } END { exit n > 0 }' "$WORK/launches"
}
check "cuda: grids of 8,388,608 tokens, llama" within_grid tiny_llama --set model.head_dim=16 --set model.ffn=96
check "cuda: grids of 8,388,608 tokens, GPT-2" within_grid tiny_gpt2 --set model.heads=4 --set model.max_positions=131072
# What the rules' check_cuda says; the CPU's kernels take such rows.
too_wide() { # TEXT MODEL ARGS...
    local args=("$ROOT/tests/models/$2.lua" --set mesh.shard=64 --set global_batch=64 --set leaves=64
        --set micro_batch=1 --set model.layers=1 --set 'optimizer=sgd{lr=0.1}' "${@:3}")
    "$FSDPGEN" check "${args[@]}" >"$WORK/err" 2>&1 || { cat "$WORK/err"; return 1; }
    "$FSDPGEN" check "${args[@]}" --target cuda >"$WORK/err" 2>&1
    [ $? = 1 ] && grep -qF "error: layers.0: $1, but its kernel for GPUs takes at most" "$WORK/err"
}
check "cuda: rmsnorm names its longest row" too_wide 'rmsnorm: rows of 32776 elements' tiny_llama --set model.dim=32776
check "cuda: so does layernorm" too_wide 'layernorm: rows of 20484 elements' tiny_gpt2 --set model.dim=20484
check "cuda: qk_norm its longest head" too_wide 'qk_norm: heads of 1538 elements' tiny_llama --set model.head_dim=1538 \
    --set model.qk_norm=true
check "cuda: half of it in f64" too_wide 'qk_norm: heads of 770 elements' tiny_llama --set model.head_dim=770 \
    --set model.qk_norm=true --set 'dtypes={param="f64"}'
check "cuda: and over all heads" too_wide 'qk_norm: rows of q of 32772 elements' tiny_llama --set model.head_dim=10924 \
    --set model.qk_norm_all=true
no_kernel() { # an op that has only the cpu's
    cp -r "$ROOT/templates/ops/swiglu" "$WORK/swiglu" && rm "$WORK/swiglu/cuda.cu" &&
        sed -i '/canonical/d' "$WORK/swiglu/op.lua" &&
        mkdir -p "$WORK/noops" && cp -r "$WORK/swiglu" "$WORK/noops/" || return 1
    "$FSDPGEN" "$model" -o "$WORK/none" --target cuda --ops "$WORK/noops" 2>"$WORK/err"
    [ $? = 1 ] && grep -q 'op swiglu: .* has no cuda.cu' "$WORK/err" &&
        grep -q 'help: write its cuda.cu, or choose another target' "$WORK/err"
}
check "cuda: an op without cuda.cu is named" no_kernel
check "cuda: muon on two ranks" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/cuda_muon' --target cuda --set mesh.shard=2 \
         --set 'optimizer=muon{}' && cd '$WORK/cuda_muon' && grep -q rt_to_owners_start step.c &&
         test -s runtime/cuda/rt_matrix.c && grep -q cuda/rt_matrix Makefile"
check "cuda: nothing of matrices without muon" sh -c \
    "! grep 'rt_matrix\|rt_owners' '$WORK/cuda/Makefile' &&
         ! find '$WORK/cuda/runtime' | grep 'rt_matrix\|rt_owners'"
too_small() {
    "$FSDPGEN" plan "$ROOT/models/llama8b.lua" --target cuda --set mesh.shard=1 2>"$WORK/err" >/dev/null
    [ $? = 3 ] && grep -q 'target.gpu: the plan needs .* the budget is 79.10 GiB' "$WORK/err"
}
check "cuda: a plan that does not fit the gpu ends with 3" too_small

no_toolkit() {
    ! make -C "$WORK/cuda" CUDA_HOME=/nowhere 2>"$WORK/err" &&
        grep -q 'CUDA_HOME=/nowhere: no CUDA Toolkit is there' "$WORK/err" &&
        make -C "$WORK/cuda" CUDA_HOME=/nowhere help | grep -q ARCHS
}
check "cuda: make without a toolkit says so, and helps" no_toolkit

home=${CUDA_HOME:-/usr/local/cuda}
if [ -e "$home/include/cublasLt.h" ] && [ -e "${NCCL_HOME:-$home}/include/nccl.h" ]; then
    host="-DRT_CUDA -DRT_NCCL -I$WORK/cuda/runtime -I$WORK/cuda/runtime/cuda
          -isystem $home/include -isystem ${NCCL_HOME:-$home}/include"
    echo >"$WORK/images.h"
    for file in "$WORK"/cuda/*.c "$WORK"/cuda/runtime/cuda/*.c \
        "$WORK"/cuda/runtime/cuda/*/*.c; do
        [ "$(basename "$file")" = rt_image.c ] && continue
        check "cuda: ${file#"$WORK"/cuda/} without a warning" gcc $strict $host "$file"
    done
    for file in math.c kernels.c tables.c step.c bind.c calibrate.c runtime/cuda/rt_matrix.c; do
        check "cuda: muon: $file without a warning" gcc $strict $host "$WORK/cuda_muon/$file" \
            -I"$WORK/cuda_muon/runtime"
    done
    for file in rt_jit.c rt_cache.c; do
        check "cuda: $file without a warning" gcc $strict $host -DRT_JIT \
            "$WORK/cuda/runtime/cuda/$file"
    done
else
    echo "emit: no CUDA headers: the cuda target's C is not compiled"
fi
if [ -x "$home/bin/nvcc" ] && [ -e "$home/lib64/libcudart.so" ]; then
    check "cuda: make by nvcc" make -C "$WORK/cuda" CUDA_HOME="$home" CFLAGS=-O0
    no_gpu() {
        "$WORK/cuda/trainer" --data "$ROOT/LICENSE" --steps 1 >"$WORK/out" 2>&1
        [ $? = 1 ] && [ "$(wc -l <"$WORK/out")" = 1 ] && grep -qE 'driver|GPU' "$WORK/out"
    }
    [ -e /dev/nvidia0 ] || check "cuda: without a GPU one line says so" no_gpu
    check "cuda: make JIT=1" make -C "$WORK/cuda" CUDA_HOME="$home" CFLAGS=-O0 JIT=1 \
        BUILD=build-jit TRAINER=trainer-jit
else
    echo "emit: no nvcc: no kernels are compiled"
fi
