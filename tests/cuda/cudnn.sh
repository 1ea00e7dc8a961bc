# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Without a GPU cuDNN plans for a device that is described to it, where some
# driver is there that says yes to everything: so the graphs of attention are shown to be such as
# the library has kernels for, and their workspaces within the planned ones, for each shipped model.

# cudnn_driver DIR: a libcuda.so.1 of which every function succeeds and does nothing
cudnn_driver() {
    mkdir -p "$1"
    {
        echo '#define _GNU_SOURCE'
        echo '#include <dlfcn.h>'
        nm -D --defined-only "$lib/stubs/libcuda.so" | awk '$2 == "T" { print $3 }' | sort -u |
            grep -vxE 'cuGetProcAddress(_v2)?|cuGetError(String|Name)|cuDriverGetVersion|cuDeviceGetCount|cuGetExportTable' |
            sed 's/.*/int &(void) { return 0; }/'
        cat <<'C'
/* The library's own tables are not there: who asks must do without. */
int cuGetExportTable(void) { return 500; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 0; return 0; }
int cuGetErrorString(int error, const char **s) { (void)error; *s = "none"; return 0; }
int cuGetErrorName(int error, const char **s) { (void)error; *s = "none"; return 0; }
int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long flags, int *status)
{
    (void)version, (void)flags;
    if (status) *status = 0;
    *f = dlsym(RTLD_DEFAULT, name);
    return *f ? 0 : 500;
}
int cuGetProcAddress(const char *name, void **f, int version, unsigned long flags)
{
    return cuGetProcAddress_v2(name, f, version, flags, 0);
}
C
    } >"$1/driver.c"
    "${CC:-cc}" -w -shared -fPIC -fno-builtin "$1/driver.c" -o "$1/libcuda.so.1" \
        -Wl,-soname,libcuda.so.1 -ldl
}

# cudnn_refuses NAME FILE WORDS: the description is refused, and the message says why
cudnn_refuses() {
    "$FSDPGEN" check "$2" --target cuda --set target.gpu=h200 --set target.attention=cudnn \
        >"$WORK/log" 2>&1
    check "$1: attention by cuDNN is refused" test $? = 1 -a -n "$(grep -F "$3" "$WORK/log")"
}

# cudnn_leaves NAME FILE WORDS: with "auto" the generated kernels run all attention, and a note says why
cudnn_leaves() {
    local dir=$WORK/cudnn_$1
    "$FSDPGEN" "$2" -o "$dir" --target cuda --set target.gpu=h200 --set recompute=block \
        --set target.attention=auto >"$WORK/log" 2>&1
    check "$1: \"auto\" leaves attention to the generated kernels" test $? = 0 -a \
        -n "$(grep -F 'a generated kernel runs attention, because cuDNN cannot: ' "$WORK/log" | grep -F "$3")" -a \
        -s "$dir/kernels.c" -a -z "$(grep RtAttention "$dir/kernels.c")"
    rm -rf "$dir"
}

# cudnn_plans NAME FILE [ARGS...]
cudnn_plans() {
    local name=$1 file=$2 dir=$WORK/cudnn_$1
    shift 2
    if ! "$FSDPGEN" "$file" -o "$dir" --target cuda --set target.gpu=h200 --set recompute=block \
            --set target.attention=cudnn "$@" >"$WORK/log" 2>&1; then
        bad "$name: attention by cuDNN" "$WORK/log"
        return
    fi
    sed -n '/^static RtAttention/,/^};/p' "$dir/kernels.c" >"$dir/plans"
    sed -n 's/^static RtAttention \([a-z0-9_]*\) = {$/ENTRY(\1)/p' "$dir/kernels.c" >"$dir/list"
    if ! "${CC:-cc}" -std=gnu11 -Wall -Wextra -Werror -DRT_CUDA -DPLANS="\"$dir/plans\"" \
            -DLIST="\"$dir/list\"" -I"$ROOT/runtime" -I"$ROOT/runtime/cuda" \
            -isystem "$CUDNN_HOME/include" -isystem "$CUDA_HOME/include" -o "$dir/plan" \
            "$here/cudnn_plans.c" "$ROOT/runtime/cuda/cudnn/rt_cudnn_graph.c" \
            -L"$cudnn_lib" -Wl,-rpath,"$cudnn_lib" -lcudnn >"$WORK/log" 2>&1; then
        bad "$name: cuDNN's plans do not build" "$WORK/log"
        return
    fi
    LD_LIBRARY_PATH=$WORK/driver:$lib timeout 120 "$dir/plan" >"$WORK/log" 2>&1
    check "$name: cuDNN plans every attention within its workspace" \
        test $? = 0 -a "$(grep -c '^[a-z].*: engine' "$WORK/log")" = "$(wc -l <"$dir/list")" -a -s "$dir/list"
    sed -n "s/^\(attention.*: engine.*\)/figure: cuDNN, $name: \1/p" "$WORK/log"
    rm -rf "$dir"
}

cudnn() {
    CUDNN_HOME=${CUDNN_HOME:-$CUDA_HOME}
    cudnn_lib=
    for dir in "$CUDNN_HOME"/lib64 "$CUDNN_HOME"/lib "$CUDNN_HOME"/targets/*/lib; do
        [ -e "$dir/libcudnn.so" ] && cudnn_lib=$dir && break
    done
    if [ -z "$cudnn_lib" ] || [ ! -e "$CUDNN_HOME/include/cudnn.h" ] || [ ! -e "$lib/stubs/libcuda.so" ]; then
        echo "skipped: attention by cuDNN (no cuDNN in $CUDNN_HOME, or no stub of the driver)"
        return
    fi
    if ! cudnn_driver "$WORK/driver" >"$WORK/log" 2>&1; then
        bad "a driver that does nothing" "$WORK/log"
        return
    fi
    local file name each=$([ "$FULL" = 1 ] && echo 1 || echo 4) number=0
    for file in "${models[@]}"; do
        name=$(basename "$file" .lua)
        case $name in
        demo) cudnn_refuses "$name" "$file" "cuDNN has none of f32" ;;
        llama8b_sft) cudnn_refuses "$name" "$file" "does not support documents" ;;
        gemma2_2b) cudnn_refuses "$name" "$file" "does not support softcap" ;;
        llama8b_128k)
            cudnn_refuses "$name" "$file" "128.00 GiB for 4 heads over 131072 tokens"
            cudnn_leaves "$name" "$file" "128.00 GiB for 4 heads"
            ;;
        gemma3_*) cudnn_refuses "$name" "$file" "heads are 256 wide" ;;
        *) [ $((number++ % each)) = $((SEED % each)) ] && cudnn_plans "$name" "$file" ;;
        esac
    done
    cudnn_plans odd "$ROOT/tests/models/tiny_llama.lua" --set 'dtypes.param="f16"' \
        --set model.head_dim=24 --set model.heads=6 --set model.kv_heads=2 --set model.window=7
}
