# SPDX-License-Identifier: Apache-2.0
# Sourced: finds the CUDA Toolkit, NCCL and the GPU, wherever a machine keeps them: a folder of
# the toolkit, a distribution's folders, wheels of Python. Expects $ROOT and a folder $WORK.

python=${PYTHON:-python3}

# Folders that may hold headers and libraries, the best first.
toolkit_folders() {
    local nvcc
    nvcc=$(command -v nvcc 2>/dev/null) && dirname "$(dirname "$(readlink -f "$nvcc")")"
    printf '%s\n' "${CUDA_PATH:-}" "${NCCL_HOME:-}" /usr/local/cuda /usr/local /usr
    "$python" -c 'import nvidia, os
for path in nvidia.__path__:
    for name in sorted(os.listdir(path)): print(os.path.join(path, name))' 2>/dev/null
}

# The libraries' folders of one of these.
library_folders() {
    printf '%s\n' "$1"/lib64 "$1"/lib "$1"/targets/*/lib "$1/lib/$(uname -m)-linux-gnu"
}

# A folder that looks like a toolkit, of links to what is found in several: $1.
assemble_toolkit() {
    local home=$1 folder file name
    mkdir -p "$home/include" "$home/lib64" "$home/bin"
    while read -r folder; do
        [ -d "$folder" ] || continue
        if [ ! -e "$home/bin/nvcc" ] && [ -x "$folder/bin/nvcc" ]; then
            # nvcc looks for its parts beside itself
            printf '#!/bin/sh\nexec "%s/bin/nvcc" "$@"\n' "$folder" >"$home/bin/nvcc"
            chmod +x "$home/bin/nvcc"
        fi
        for file in cuda_runtime_api.h cublasLt.h nccl.h nvrtc.h cudnn.h; do
            [ -e "$folder/include/$file" ] || continue
            name='*' # of /usr/include no more than the one, and the library's others
            [ "$folder" = /usr ] && name=${file%.h}\*.h
            for file in "$folder"/include/$name; do
                [ -e "$home/include/${file##*/}" ] || ln -s "$file" "$home/include/"
            done
        done
        while read -r name; do
            for file in "$name"/lib{cudart,cublas,cublasLt,nccl,nvrtc,nvrtc-builtins,cudnn*}.so*; do
                [ -e "$file" ] && [ ! -e "$home/lib64/${file##*/}" ] &&
                    ln -s "$file" "$home/lib64/"
            done
        done < <(library_folders "$folder")
    done < <(toolkit_folders)
}

# Sets CUDA_HOME, NCCL_HOME and, where it is, CUDNN_HOME; or no_gpu to the reason why nothing runs
# here.
find_toolkit() {
    no_gpu=
    if [ -z "${CUDA_HOME:-}" ] || [ ! -e "$CUDA_HOME/include/cublasLt.h" ] ||
       [ ! -e "$CUDA_HOME/include/nccl.h" -a ! -e "${NCCL_HOME:-/}/include/nccl.h" ]; then
        assemble_toolkit "$WORK/cuda"
        CUDA_HOME=$WORK/cuda
    fi
    [ -e "${NCCL_HOME:-/}/include/nccl.h" ] || NCCL_HOME=$CUDA_HOME
    [ -e "${CUDNN_HOME:-/}/include/cudnn.h" ] || CUDNN_HOME=$CUDA_HOME
    [ -e "$CUDNN_HOME/include/cudnn.h" ] || CUDNN_HOME=
    export CUDA_HOME NCCL_HOME CUDNN_HOME
    if [ ! -e "$CUDA_HOME/include/cublasLt.h" ]; then
        no_gpu="no CUDA Toolkit is here (CUDA_HOME says where it is)"
        return
    fi
    for cuda_lib in "$CUDA_HOME"/lib64 "$CUDA_HOME"/lib "$CUDA_HOME"/targets/*/lib; do
        [ -d "$cuda_lib" ] && break
    done
    # cuDNN opens libcublas by its name alone; another cuDNN than the toolkit's comes first.
    export LD_LIBRARY_PATH=$cuda_lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    if [ -n "$CUDNN_HOME" ] && [ "$CUDNN_HOME" != "$CUDA_HOME" ]; then
        LD_LIBRARY_PATH=$CUDNN_HOME/lib64:$CUDNN_HOME/lib:$LD_LIBRARY_PATH
    fi
    find_gpu
}

# link_library NAME: a library's file, also where only its versioned name is
link_library() {
    local file
    for file in "$cuda_lib/lib$1.so" "$cuda_lib/lib$1.so."*; do
        [ -e "$file" ] && echo "$file" && return
    done
}

# cuda_cc OUT FLAGS... SOURCES...: C for the host, with the toolkit's headers and libraries
cuda_cc() {
    local out=$1
    shift
    "${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -isystem "$CUDA_HOME/include" -o "$out" "$@" \
        "$(link_library cublasLt)" "$(link_library cudart)" -Wl,-rpath,"$cuda_lib" -lm
}

# Sets devices, arch, free_mib, driver, runtime, gpu; or no_gpu.
find_gpu() {
    if ! cuda_cc "$WORK/probe" "$ROOT/tests/gpu/probe.c" >"$WORK/probe.log" 2>&1; then
        no_gpu="the CUDA Toolkit in $CUDA_HOME does not link: $(tail -n 1 "$WORK/probe.log")"
    elif ! "$WORK/probe" >"$WORK/probe.out" 2>"$WORK/probe.log"; then
        no_gpu="no GPU is here: $(head -n 1 "$WORK/probe.log")"
    else
        read -r devices arch free_mib driver runtime gpu <"$WORK/probe.out"
    fi
}
