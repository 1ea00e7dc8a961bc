#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Arm hosts (Grace, Graviton), with Debian's cross compiler and qemu's emulation of a processor: the
# generator writes the bytes that it writes here, every kernel meets its reference and has its golden
# bits, trainers have equal bits for any number of ranks and after a stop, and the C of a CUDA trainer
# compiles. FULL=1 or parts by name only: the emulation is slow. The libraries' packages come from
# Debian, into this suite's folder.
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/out/models.sh"
target=aarch64-linux-gnu
march=armv8.2-a
sysroot=$WORK/sysroot
libraries=$sysroot/usr/lib/$target
native=$FSDPGEN
arm=(qemu-aarch64-static -L /usr/$target -E "LD_LIBRARY_PATH=$libraries")

# Packages of the other architecture, unpacked where nothing of this machine sees them. apt's
# folders and its list of what is installed are this suite's too.
fetch_libraries() {
    local apt=(apt-get -q -o "Dir::State::lists=$WORK/apt/lists" -o "Dir::Cache=$WORK/apt/cache"
        -o "Dir::State::status=/dev/null" -o APT::Architecture=arm64 -o APT::Architectures=arm64
        -o APT::Sandbox::User=root -o Debug::NoLocking=1)
    mkdir -p "$WORK/apt/lists/partial" "$WORK/apt/cache/archives/partial" "$WORK/debs" "$sysroot" || return
    cd "$WORK/debs" && "${apt[@]}" update &&
        "${apt[@]}" download liblua5.4-dev liblua5.4-0 libjansson-dev libjansson4 libxxhash-dev \
            libxxhash0 libyaml-dev libyaml-0-2 libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 \
            libzstd-dev libzstd1 libcmocka-dev libcmocka0 || return
    local package
    for package in *.deb; do dpkg -x "$package" "$sysroot" || return; done
    cd "$ROOT" || return
}

tests="math_test op_test runtime_collective_test runtime_data_test runtime_door_test runtime_hash_test
    runtime_known_test runtime_norm_test runtime_strangers_test"
cross_build() {
    local emulator
    emulator=$(IFS=\; && echo "${arm[*]}")
    cat >"$WORK/toolchain.cmake" <<CMAKE
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER $target-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR "$emulator")
set(CMAKE_C_FLAGS_INIT "-isystem $sysroot/usr/include/$target")
set(CMAKE_EXE_LINKER_FLAGS_INIT "-L$libraries -Wl,-rpath-link,$libraries")
CMAKE
    # shellcheck disable=SC2086 # names
    PKG_CONFIG_LIBDIR=$libraries/pkgconfig PKG_CONFIG_SYSROOT_DIR=$sysroot cmake -S "$ROOT" \
        -B "$WORK/build" -DCMAKE_TOOLCHAIN_FILE="$WORK/toolchain.cmake" -DCMAKE_BUILD_TYPE=Release \
        -DRUNTIME_ARCH=$march -DGEMM=builtin &&
        cmake --build "$WORK/build" -j "$(nproc)" --target fsdpgen $tests
}

build() {
    check "the libraries' packages are there" fetch_libraries
    check "generator, runtime and C tests compile without a warning" cross_build
}

# Each program of the other architecture, as a command of this one.
as_command() { # FILE PROGRAM
    printf '#!/bin/sh\nexec %s "%s" "$@"\n' "${arm[*]}" "$2" >"$1"
    chmod +x "$1"
}

same_output() { # MODEL
    local name=$1
    rm -rf "$WORK/here" "$WORK/there"
    (cd "$ROOT" && FSDPGEN=$native out_generate "$name" "$WORK/here") &&
        (cd "$ROOT" && FSDPGEN=$WORK/fsdpgen out_generate "$name" "$WORK/there") &&
        diff -r "$WORK/here" "$WORK/there"
}

generator() {
    local name
    as_command "$WORK/fsdpgen" "$WORK/build/fsdpgen"
    for name in $OUT_MODELS; do
        check "$name: the same bytes from a generator on Arm" same_output "$name"
    done
}

units() {
    check "the runtime's units" ctest --test-dir "$WORK/build" --output-on-failure \
        -R '^(ops_math|runtime_(collective|data|door|hash|known|norm|strangers))$'
}

ops() {
    as_command "$WORK/op_test" "$WORK/build/tests/ops/op_test"
    mkdir -p "$WORK/ops"
    check "every kernel against its reference" "$WORK/op_test" --work "$WORK/ops" --cases 1 \
        --seed "$SEED" --cc $target-gcc --flags "-O2 -march=$march"
    if [ $update = 1 ]; then
        CC=$target-gcc GOLDEN_CPU=asimd "$ROOT/tests/ops/golden.sh" "$WORK/op_test" --update
    fi
    check "golden bits" env CC=$target-gcc GOLDEN_CPU=asimd "$ROOT/tests/ops/golden.sh" "$WORK/op_test"
}

# More than 64 tokens, so that attention has several tiles.
trainer_for() { # FOLDER MODEL SET...: FOLDER/trainer
    local folder=$WORK/$1 model=$2
    shift 2
    "$native" "$ROOT/tests/models/$model.lua" "$@" -o "$folder" &&
        make -s -C "$folder" -j "$(nproc)" CC=$target-gcc ARCH=$march GEMM=builtin
}

train() { # FOLDER CHECKPOINTS FLAG...
    local folder=$1 kept=$2
    shift 2
    timeout 300 "${arm[@]}" "$WORK/$folder/trainer" --data "text:$ROOT/LICENSE" --checkpoint "$WORK/$kept" "$@"
}

equal_weights() { # CHECKPOINTS CHECKPOINTS
    local file
    for file in model.safetensors optimizer/moment1.safetensors optimizer/moment2.safetensors; do
        cmp "$WORK/$1/step-00000006/$file" "$WORK/$2/step-00000006/$file" || return
    done
}

trainers() { # NAME MODEL SET...
    local name=$1 model=$2
    shift 2
    check "$name compiles" trainer_for "$name.1" "$model" "$@"
    check "$name compiles for four ranks" trainer_for "$name.4" "$model" "$@" --set mesh.shard=2 \
        --set mesh.replicate=2
    check "$name trains" train "$name.1" "$name.whole" --steps 6
    check "$name trains on four ranks" train "$name.4" "$name.four" --steps 6
    check "$name: one rank and four, equal weights" equal_weights "$name.whole" "$name.four"
    check "$name stops" train "$name.1" "$name.twice" --steps 3
    check "$name goes on with four ranks" train "$name.4" "$name.twice" --steps 6 --resume=must
    check "$name: stopped and continued, equal weights" equal_weights "$name.whole" "$name.twice"
}

# Hosts of GPUs, such as Grace: the C of a CUDA trainer and of its runtime. Kernels are nvcc's.
cuda_hosts() {
    local cuda=${CUDA_HOME:-/usr/local/cuda} file folder=$WORK/cuda
    [ -e "$cuda/include/nccl.h" ] || { echo "skipped: hosts of GPUs (no headers of CUDA and NCCL)"; return; }
    check "a CUDA trainer is generated" "$native" "$ROOT/tests/models/tiny_llama.lua" --target cuda \
        --set mesh.shard=2 --set 'dtypes.param="bf16"' --set model.head_dim=16 --set 'target.attention="cudnn"' -o "$folder"
    : >"$WORK/images.h"
    find "$folder"/*.c "$ROOT/runtime" -name '*.c' -not -path '*/cpu/*' >"$WORK/hosts"
    while read -r file; do
        check "${file##*/}" $target-gcc -std=gnu11 -O2 -march=$march -Wall -Wextra -Werror -fopenmp \
            -fsyntax-only -DRT_CUDA -DRT_NCCL -DRT_JIT "-DRT_IMAGES=\"$WORK/images.h\"" -I"$ROOT/runtime" \
            -I"$ROOT/runtime/cuda" -isystem "$cuda/include" "$file"
    done <"$WORK/hosts"
    at_least "files of hosts of GPUs" "$(grep -c . "$WORK/hosts")" 100
}

part build build
part cuda_hosts cuda_hosts
part generator:build generator
part units:build units
part ops:build ops
part f32:build trainers f32 tiny_llama --set seq=75
part bf16:build trainers bf16 tiny_gpt2 --set dtypes.param=bf16 --set seq=75 --set model.max_positions=80
part f64:build trainers f64 tiny_llama --set dtypes.param=f64 --set seq=75
known_parts
[ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ] || cannot_run "slow: FULL=1, or parts by name"
for need in $target-gcc qemu-aarch64-static apt-get; do
    command -v $need >/dev/null || cannot_run "no $need here"
done
finish
