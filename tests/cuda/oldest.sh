# SPDX-License-Identifier: Apache-2.0
# oldest.sh, read by run.sh: trainers are built, and their kernels compiled, with the oldest CUDA
# and NCCL that are supported: 12.8, whose runtime is the first to load kernels as a library
# (cudaLibraryLoadData), and 2.18, the first that splits communicators (ncclCommSplit). They come
# as Python packages, about 1 GB, kept in $BUILD/oldest; where those cannot be had this is skipped
# and says so. nvcc is in no package: kernels are compiled by NVRTC, as make JIT=1 does.
oldest_packages=(nvidia-cuda-runtime-cu12==12.8.57 nvidia-cuda-nvcc-cu12==12.8.61
    nvidia-cuda-nvrtc-cu12==12.8.61 nvidia-cublas-cu12==12.8.3.14 nvidia-nccl-cu12==2.18.1)

# A CUDA_HOME of the packages' files.
oldest_home() {
    local packages=$BUILD/oldest home=$1 part
    if [ ! -e "$packages/complete" ]; then
        rm -rf "$packages"
        python3 -m pip install -q --no-deps --target "$packages" "${oldest_packages[@]}" \
            >"$WORK/pip.log" 2>&1 || return 1
        touch "$packages/complete"
    fi
    mkdir -p "$home/include" "$home/lib64"
    for part in "$packages"/nvidia/*/; do
        [ ! -d "${part}include" ] || cp -rsf "${part}include/." "$home/include/"
    done
    find "$packages/nvidia" -path '*/lib/*.so*' -exec ln -sf {} "$home/lib64/" \;
}

# oldest_trainer HOME MODEL
oldest_trainer() {
    local dir=$WORK/oldest_$2
    "$FSDPGEN" "$ROOT/models/$2.lua" -o "$dir" --target cuda --set 'recompute="block"' \
        >"$WORK/log" 2>&1
    check "$2 builds with CUDA 12.8 and NCCL 2.18" make -s -C "$dir" CUDA_HOME="$1" JIT=1 \
        CFLAGS="-O1 -Werror"
    check "$2 finds their libraries" "$dir/trainer" --help
}

oldest() {
    local home=$WORK/oldest dir=$WORK/oldest_llama8b arch
    if ! oldest_home "$home"; then
        echo "skipped: the oldest CUDA and NCCL (no packages: $(tail -n 1 "$WORK/pip.log"))"
        return
    fi
    oldest_trainer "$home" llama8b
    oldest_trainer "$home" gpt2_124m # of one rank: no NCCL
    check "the NVRTC compiler builds with CUDA 12.8" "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror \
        -DRT_CUDA -I"$ROOT/runtime" -I"$ROOT/runtime/cuda" -isystem "$home/include" \
        -o "$WORK/oldest_nvrtc" "$here/nvrtc.c" "$ROOT"/runtime/job/rt_{say,sha256}.c \
        -L"$home/lib64" -Wl,-rpath,"$home/lib64" \
        -l:libnvrtc.so.12 -lpthread
    for arch in $archs; do
        if "$WORK/oldest_nvrtc" "$arch" "$dir/kernels.cu" "$dir"/runtime/cuda/*.h \
            >"$WORK/log" 2>"$WORK/error"; then
            report llama8b "$arch" "12.8" "$(head -n 1 "$WORK/log" | cut -d' ' -f1)" "$WORK/log"
        else
            bad "llama8b $arch: NVRTC of CUDA 12.8" "$WORK/error"
        fi
    done
}
