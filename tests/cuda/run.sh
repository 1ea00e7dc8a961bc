#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernels of emitted CUDA trainers, compiled as both kinds of build compile
# them: by nvcc (make) and by NVRTC (make JIT=1), for each architecture. Needs the toolkit's
# compilers, no GPU. A kernel that keeps much of its registers in memory is a failure. A table:
# seconds of the processor (medians of RUNS, 1 without), kernels, the most registers of one, bytes
# spilled; for NVRTC also how long a start takes, which compiles parts of the kernels at once: the
# longest part. For llama8b that must be less than a second, as a median. Each kernel's row is in
# $BUILD/cuda_kernels.txt; budgets.txt has what the large ones may cost (budgets.sh). FULL=1: every
# shipped model, every architecture; without, a sample by SEED. With FULL=1, or OLDEST=1, also
# with the oldest CUDA and NCCL: oldest.sh. Ends with 'N passed, N failed'.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"
. "$here/oldest.sh"
. "$here/cudnn.sh"
. "$here/budgets.sh"
export RUNS=${RUNS:-1}

without_gpu() { # what is for machines that have one
    CUDA_VISIBLE_DEVICES='' "$ROOT/tests/$1" | tee "$WORK/without" | grep -qx '0 passed, 0 failed' &&
        grep -qE '^skipped: no (GPU|CUDA Toolkit) is here' "$WORK/without"
}
no_gpu() {
    local script
    for script in gpu/run.sh bench/gpu.sh; do
        check "without a GPU $script says so and passes" without_gpu $script
    done
}
part no_gpu no_gpu

CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
nvcc=$CUDA_HOME/bin/nvcc
table=$BUILD/cuda_kernels.txt

with_nvcc() { [ ! -x "$nvcc" ] || "$@"; }

# Sets nvrtc and lib, where libraries are, and begins the table.
compilers() {
    local dir
    lib=
    if [ ! -x "$nvcc" ]; then
        echo "no nvcc in $CUDA_HOME: kernels are not compiled here (CUDA_HOME says where it is)"
        return
    fi
    for dir in "$CUDA_HOME"/lib64 "$CUDA_HOME"/lib "$CUDA_HOME"/targets/*/lib; do
        [ -e "$dir/libnvrtc.so" ] && lib=$dir && break
    done
    nvrtc=
    if [ -n "$lib" ] && [ -e "$CUDA_HOME/include/nvrtc.h" ]; then
        check "the NVRTC compiler builds" "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror \
            -DRT_CUDA -I"$ROOT/runtime" -I"$ROOT/runtime/cuda" -isystem "$CUDA_HOME/include" \
            -o "$WORK/nvrtc" "$here/nvrtc.c" "$ROOT"/runtime/job/rt_{say,sha256}.c \
            -L"$lib" -Wl,-rpath,"$lib" -lnvrtc -lpthread
        nvrtc=$WORK/nvrtc
    else
        echo "no NVRTC in $CUDA_HOME: make JIT=1 is not tried"
    fi
    : >"$table"
}

# What a kernel may keep of its registers in memory, stores and loads together: a few bytes are
# what ptxas pays for more threads at once.
SPILL_BYTES=64
# Of the median of some runs; a single one, on a machine that is busy with other things, is a figure.
most_seconds=1

# rows LOG: "kernel registers stack spilled" of each kernel, from what ptxas says.
rows() {
    awk '/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
         /bytes stack frame/ { stack = $1; spilled = $5 + $9 }
         /Used [0-9]+ registers/ { sub(/.*Used /, ""); print name, $1, stack, spilled }' "$1"
}

# report MODEL ARCH COMPILER SECONDS LOG [SECONDS OF A START]
report() {
    rows "$5" >"$WORK/rows"
    awk -v head="$1 $2 $3" '{ print head, $0 }' "$WORK/rows" >>"$table"
    awk -v model="$1" -v arch="$2" -v by="$3" -v seconds="$4" -v limit="$SPILL_BYTES" \
        -v start="${6:+, ready after $6 s}" '
        $2 > most { most = $2; name = $1 }
        $4 > limit { spills = spills " " $1 ":" $4 }
        { kernels++; spilled += $4 }
        END {
            printf "%-14s %-8s %-6s %6.2f s %4d kernels %4d registers %5d bytes spilled (%s)%s\n",
                model, arch, by, seconds, kernels, most, spilled, name, start
            if (spills != "") print "spilled:" spills
            exit !(kernels > 0 && spills == "")
        }' "$WORK/rows" >"$WORK/report"
    local bad=$?
    head -n 1 "$WORK/report"
    if [ $bad = 0 ]; then ok "$1 $2 $3"; else bad "$1 $2 $3: kernels spill" "$WORK/report"; fi
}

# Seconds that the processor is busy with a command, the median of RUNS; its messages are in log.
busy() {
    local i TIMEFORMAT='%U %S'
    for ((i = 0; i < RUNS; i++)); do
        { time "$@" 2>"$WORK/log" || echo failed; } 2>&1 | awk '/failed/ { exit 1 } { print $1 + $2 }' ||
            return 1
    done | sort -n | sed -n "$((RUNS / 2 + 1))p"
    return "${PIPESTATUS[0]}"
}

image() { # image DIR ARCH FILE: as make compiles kernels.cu
    "$nvcc" -cubin -std=c++17 --fmad=false -Xptxas -v \
        -gencode="arch=compute_${2#sm_},code=$2" -I"$1/runtime/cuda" -o "$3" "$1/kernels.cu"
}

compile() { # compile MODEL DIR ARCH
    local name=$1 dir=$2 arch=$3 seconds together start
    if seconds=$(busy image "$dir" "$arch" "$WORK/image"); then
        report "$name" "$arch" nvcc "$seconds" "$WORK/log"
        check "$name $arch: nvcc warns of nothing" awk '/warning #/ { print; n++ } END { exit n > 0 }' "$WORK/log"
        budget_keep "$name.$arch" "$dir"
    else
        bad "$name $arch: nvcc" "$WORK/log"
    fi
    [ -n "$nvrtc" ] || return
    if "$nvrtc" "$arch" "$dir/kernels.cu" "$dir"/runtime/cuda/*.h >"$WORK/log" 2>"$WORK/error"; then
        read -r seconds together start <"$WORK/log"
        report "$name" "$arch" nvrtc "$seconds" "$WORK/log" "$start"
        [ "$name" != llama8b ] || [ "$RUNS" -lt 3 ] || check "$name $arch: compiled in less than $most_seconds s at start" \
            awk "BEGIN { print \"$together s in all, $start s\"; exit !($start < $most_seconds) }"
    else
        bad "$name $arch: NVRTC" "$WORK/error"
    fi
}

# model NAME FILE ARCHS [ARGS...]
model() {
    local name=$1 file=$2 archs=$3 dir=$WORK/$1
    shift 3
    # recompute: outside the hash, so the kernels are the same; the largest model must fit
    "$FSDPGEN" "$file" -o "$dir" --target cuda --set 'recompute="block"' "$@" >"$WORK/log" 2>&1
    if [ ! -s "$dir/kernels.cu" ]; then
        bad "$name has kernels for CUDA" "$WORK/log"
        return
    fi
    for arch in $archs; do compile "$name" "$dir" "$arch"; done
    rm -rf "$dir"
}

archs="sm_80 sm_89 sm_90a sm_100a sm_120a"
models=()
for file in "$ROOT"/models/*.lua; do # fsdpgen.lua is for editors
    [ "$(basename "$file")" = fsdpgen.lua ] || models+=("$file")
done
shipped() { # NAME: all of them with FULL=1, or of CI's choice
    if [ "$FULL" = 1 ]; then
        model "$1" "$ROOT/models/$1.lua" "$archs"
    elif [ ${#part_names[@]} -gt 0 ] || [ "$1" = llama8b ] || [ "$1" = "$chosen" ]; then
        model "$1" "$ROOT/models/$1.lua" sm_90a
    fi
}

# both axes of parts: shipped sizes, or tiny ones
drawn_axes() {
    if [ "$FULL" = 1 ] || [ $((SEED / 2 % 2)) = 0 ]; then
        model llama8b_axes "$ROOT/models/llama8b.lua" sm_90a --set 'parts={tensor=2,context=2}' \
            --set 'mesh={tensor=2,context=2,shard=2}'
    fi
    if [ "$FULL" = 1 ] || [ $((SEED / 2 % 2)) = 1 ]; then
        model tiny_axes "$ROOT/tests/models/tiny_llama.lua" sm_90a --set seq=16 --set 'parts={tensor=4,context=2}' \
            --set model.heads=8 --set model.kv_heads=8 --set model.ffn=64 --set model.vocab=264 \
            --set model.qkv_bias=true --set model.qk_norm_all=true
    fi
}

part compilers compilers
random ${#models[@]}
chosen=$(basename "${models[random_value]}" .lua)
for file in "${models[@]}"; do
    name=$(basename "$file" .lua)
    part "$name:compilers" with_nvcc shipped "$name"
done
# what no shipped model has: odd shapes, f32, noise, f16, whole matrices, parts, fp8
part tiny_gpt2:compilers turn 0 2 with_nvcc model tiny_gpt2 "$ROOT/tests/models/tiny_gpt2.lua" sm_80
part tiny_llama:compilers turn 1 2 with_nvcc model tiny_llama "$ROOT/tests/models/tiny_llama.lua" sm_100a \
    --set model.logits_softcap=30 --set 'dtypes={param="bf16",master="bf16",moments="bf16"}'
part tiny_muon:compilers turn 0 2 with_nvcc model tiny_muon "$ROOT/tests/models/tiny_llama.lua" sm_90a \
    --set 'optimizer=muon{}' --set 'dtypes={param="bf16",moments="bf16"}'
along=tensor kv_heads=8
[ $((SEED % 2)) = 0 ] || along=context kv_heads=2 # which have copies
part tiny_parts:compilers turn 1 2 with_nvcc model tiny_parts "$ROOT/tests/models/tiny_llama.lua" sm_90a --set seq=16 \
    --set parts.$along=8 --set model.heads=8 --set model.kv_heads=$kv_heads --set model.ffn=64 --set model.vocab=264 \
    --set model.qkv_bias=true --set model.qk_norm_all=true
part tiny_fp8:compilers turn 0 2 with_nvcc model tiny_fp8 "$ROOT/tests/models/tiny_llama.lua" sm_90a --set seq=32 \
    --set model.dim=64 --set model.head_dim=16 --set model.ffn=96 --set 'dtypes={param="bf16",linear="fp8"}'
# rows of norms that are too long for registers, at widths where threads hold different numbers of accesses
wide_norms() {
    model wide_gpt2 "$ROOT/tests/models/tiny_gpt2.lua" sm_90a --set model.dim="$1" --set model.heads=$(($1 / 128)) \
        "${wide[@]}"
    model wide_llama "$ROOT/tests/models/tiny_llama.lua" sm_90a --set model.dim="$1" --set model.heads=$(($1 / 128)) \
        --set model.kv_heads=$(($1 / 128)) --set model.head_dim=128 --set model.qk_norm_all=true "${wide[@]}"
}
wide=(--set 'dtypes={param="bf16"}' --set 'optimizer=sgd{lr=0.1}' --set mesh.shard=256 --set global_batch=256
    --set leaves=256 --set micro_batch=1 --set model.layers=1)
part wide:compilers turn 1 2 with_nvcc wide_norms 15360
part both_axes:compilers with_nvcc drawn_axes
part budgets:compilers with_nvcc budgets
part cudnn:compilers with_nvcc cudnn
[ "${OLDEST:-$FULL}" = 0 ] || part oldest:compilers with_nvcc oldest
finish
