#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything that wants a real GPU, in one command and under 8 minutes; needs the CUDA Toolkit
# and a C compiler, takes NCCL, compute-sanitizer and PyTorch where they are. Ends with a table
# and 'N passed, N failed'. Without a GPU it says so and passes.
#
#   tests/gpu/run.sh                everything
#   tests/gpu/run.sh STAGE...       some stages, with those they need; --list names them
#   tests/gpu/run.sh --resume       the stages that no call has yet run to their end without a failure,
#                                   on this commit and GPU, with those they need
#   tests/gpu/run.sh --prepare      where fsdpgen builds: what a machine without Lua and jansson
#                                   needs goes to build/gpu/bin, lib and commit, to be carried
#                                   there with the tree
#
# In: CUDA_HOME, NCCL_HOME (looked for when missing), FSDPGEN, FSDPGEN_BUILD, SEED. Out: OUT
# (default build/gpu/results): table.txt, figures.txt, bench.txt, logs.tar.gz, written after each stage.
# SMALL=1: a slow device, as the simulated one is; OPS=OP,OP and NAMES="NAME ..": those alone.
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"
. "$ROOT/tests/gpu/toolkit.sh"
prepared=$ROOT/build/gpu
OUT=${OUT:-$prepared/results}
LIMIT_SECONDS=${LIMIT_SECONDS:-460}
SMALL=${SMALL:-0}
data=$ROOT/LICENSE
cores=$(nproc)
export MAKEFLAGS=-s CC_CACHE=$WORK/objects

# ---- the generator --------------------------------------------------------------------

# Programs with the libraries that another machine may lack.
prepare() {
    local program lib from=$prepared/cmake
    cmake -S "$ROOT" -B "$from" -DCMAKE_BUILD_TYPE=Release -DGEMM=builtin \
        -DRUNTIME_ARCH=x86-64-v3 >"$WORK/cmake.log" 2>&1 &&
        cmake --build "$from" --target fsdpgen op_test -j "$cores" >>"$WORK/cmake.log" 2>&1 ||
        { tail -n 20 "$WORK/cmake.log"; return 1; }
    rm -rf "$prepared/bin" "$prepared/lib"
    mkdir -p "$prepared/bin" "$prepared/lib"
    for program in "$from/fsdpgen" "$from/tests/ops/op_test"; do
        cp "$program" "$prepared/bin/$(basename "$program").bin" || return 1
        printf '#!/bin/sh\nhere=$(dirname "$(readlink -f "$0")")\n%s exec "$0.bin" "$@"\n' \
            'LD_LIBRARY_PATH=$here/../lib' >"$prepared/bin/$(basename "$program")"
        chmod +x "$prepared/bin/$(basename "$program")"
        for lib in $(ldd "$program" | awk '$3 ~ /^\// { print $3 }' |
                     grep -vE '/(libc|libm|libdl|libpthread|librt|libgcc_s)\.so'); do
            cp "$lib" "$prepared/lib/"
        done
    done
    git -C "$ROOT" rev-parse --short=12 HEAD >"$prepared/commit" 2>/dev/null
    du -sh "$prepared/bin" "$prepared/lib"
}

# Sets FSDPGEN and OP_TEST.
find_generator() {
    OP_TEST=$BUILD/tests/ops/op_test
    "$FSDPGEN" --version >/dev/null 2>&1 && "$OP_TEST" --help 2>&1 | grep -q usage && return
    FSDPGEN=$prepared/bin/fsdpgen OP_TEST=$prepared/bin/op_test
    "$FSDPGEN" --version >/dev/null 2>&1 && return
    cmake -S "$ROOT" -B "$WORK/cmake" -DCMAKE_BUILD_TYPE=Release -DGEMM=builtin \
        >"$WORK/cmake.log" 2>&1 &&
        cmake --build "$WORK/cmake" --target fsdpgen op_test -j "$cores" >>"$WORK/cmake.log" 2>&1
    FSDPGEN=$WORK/cmake/fsdpgen OP_TEST=$WORK/cmake/tests/ops/op_test
    "$FSDPGEN" --version >/dev/null 2>&1
}

# ---- stages ---------------------------------------------------------------------------

# stage NAME COMMAND...: its checks, its seconds; left out when the time is over.
stage() {
    local name=$1 before_passed=$passed before_failed=$failed start=$SECONDS
    shift
    note=
    if [ $SECONDS -gt "$LIMIT_SECONDS" ]; then
        note="left out: $LIMIT_SECONDS s are over"
    else
        "$@"
    fi
    keep_stage "$name" "$(printf '%-12s %6d %6d %6d s  %s' "$name" $((passed - before_passed)) \
        $((failed - before_failed)) $((SECONDS - start)) "$note")"
}

# The table so far, with what earlier calls found, is there whatever ends this one.
keep_stage() { # NAME ROW
    echo "$2"
    {
        if [ "$(head -n 1 "$OUT/table.txt" 2>/dev/null)" = "$head" ]; then
            grep -v "^$1 " "$OUT/table.txt"
        else
            printf '%s\nstage        passed failed   seconds\n' "$head"
        fi
        echo "$2"
    } >"$OUT/table.new" && mv "$OUT/table.new" "$OUT/table.txt"
    tar -C "$WORK" -czf "$OUT/logs.new" logs 2>/dev/null && mv "$OUT/logs.new" "$OUT/logs.tar.gz"
}

# Has a call run this stage to its end, without a failure?
is_done() { # NAME
    [ "$(head -n 1 "$OUT/table.txt" 2>/dev/null)" = "$head" ] &&
        grep -E "^$1 +[0-9]+ +0 " "$OUT/table.txt" | grep -qv "left out: [0-9]* s are over"
}

figure() { echo "$*" >>"$OUT/figures.txt"; }

left_seconds() {
    local left=$((LIMIT_SECONDS + 20 - SECONDS))
    echo $((left < $1 ? (left < 10 ? 10 : left) : $1))
}

# Every kernel of every op folder, and products, against references, on random odd shapes.
ops() {
    local log=$WORK/logs/ops.log
    if ! cuda_cc "$WORK/op_gpu.so" -fPIC -shared -fvisibility=hidden -DRT_CUDA \
        -I"$ROOT/gen" -I"$ROOT/runtime" -I"$ROOT/runtime/cuda" "$ROOT/tests/ops/op_test_gpu.c" \
        "$ROOT/runtime/cuda/rt_blas.c" >"$log" 2>&1; then
        bad "ops: what runs kernels on the device does not build" "$log"
        return
    fi
    mkdir -p "$WORK/ops"
    op_test=("$OP_TEST" --target cuda --root "$ROOT" --device "$WORK/op_gpu.so"
             --nvcc "$CUDA_HOME/bin/nvcc" --work "$WORK/ops" --jobs "$cores"
             --seed $((SMALL == 1 && FULL == 0 ? 7 : SEED))) # CI meets no new shapes: bounds are of rounding
    check "ops" timeout "$(left_seconds $((SMALL == 1 ? 3600 : 200)))" "${op_test[@]}" \
        --cases $((SMALL == 1 ? 1 : 6)) ${OPS:+--only "$OPS"}
    cp "$WORK/check.log" "$log"
    note=$(grep -E '^op_test: [0-9]+ ops' "$log" | sed 's/op_test: //')
    figure "kernels on the device: ${note:-none}"
}

# Every float's rounding to fp8.
fp8() {
    if [ "$SMALL" = 1 ]; then
        note="left out: SMALL=1"
        return
    fi
    case $arch in
    sm_[5-7]* | sm_80 | sm_86 | sm_87) note="left out: no fp8 in its tensor cores"; return ;;
    esac
    if ! "$CUDA_HOME/bin/nvcc" -std=c++17 --fmad=false -arch="$arch" -I"$ROOT/runtime/cuda" -I"$ROOT/runtime" \
        -o "$WORK/fp8_all" "$ROOT/tests/gpu/fp8_all.cu" >"$WORK/logs/fp8.log" 2>&1; then
        bad "fp8: the test does not build" "$WORK/logs/fp8.log"
        return
    fi
    check "fp8: all floats" timeout 30 "$WORK/fp8_all"
    note=$(head -n 1 "$WORK/check.log")
}

# The trainers by name: flags_of has their descriptions, mesh_of their meshes, tolerance_of their bounds.
small=(--set model.layers=2 --set seq=9 --set micro_batch=1 --set global_batch=8)
wide=(--set model.layers=2 --set model.dim=256 --set model.kv_heads=2 --set model.ffn=344
      --set seq=200 --set micro_batch=2 --set global_batch=8)
read -ra names <<<"${NAMES:-llama_f32 gpt2_f32 muon_f32 parts_f32 tokens_bf16 both_bf16 llama_bf16_64 llama_bf16_128 llama_fp8 both_fp8}"
jits="gpt2_f32 llama_bf16_128" # NVRTC compiles what nvcc does; it need not for all of them

flags_of() { # sets flags
    case $1 in
    tokens_bf16) flags=("${wide[@]}" --set 'dtypes.param="bf16"' --set model.heads=4
                        --set model.head_dim=64 --set parts.context=4) ;;
    both_bf16) flags=("${wide[@]}" --set 'dtypes.param="bf16"' --set model.heads=4
                      --set model.head_dim=64 --set micro_batch=1 --set global_batch=4
                      --set parts.tensor=2 --set parts.context=2) ;;
    both_fp8) flags=("${wide[@]}" --set 'dtypes={param="bf16",linear="fp8"}' --set model.ffn=320
                     --set model.heads=4 --set model.head_dim=64 --set seq=192 --set micro_batch=1
                     --set global_batch=4 --set parts.tensor=2 --set parts.context=2) ;;
    *_bf16_64) flags=("${wide[@]}" --set 'dtypes.param="bf16"' --set model.heads=4
                      --set model.head_dim=64) ;;
    *_bf16_128) flags=("${wide[@]}" --set 'dtypes.param="bf16"' --set model.heads=4
                       --set model.head_dim=128 --set model.window=77
                       --set 'documents={end_id=10}') ;;
    llama_fp8) flags=("${wide[@]}" --set 'dtypes={param="bf16",linear="fp8"}' --set model.ffn=352
                      --set model.heads=4 --set model.head_dim=64) ;;
    muon_f32) flags=("${small[@]}" --set 'optimizer=muon{lr=2e-3}' --set model.kv_heads=1) ;;
    parts_f32) flags=("${small[@]}" --set parts.tensor=4 --set seq=8 --set model.vocab=259 --set model.heads=4
                      --set model.kv_heads=4 --set model.ffn=52) ;;
    *) flags=("${small[@]}") ;;
    esac
    [ "$SMALL" = 1 ] && [[ $1 = *bf16* || $1 = *fp8 ]] &&
        flags+=(--set seq=$([ "$1" = both_fp8 ] && echo 64 || echo 48) --set micro_batch=1 --set global_batch=4)
}

meshes="1:mesh.shard=1 2:mesh.shard=2 4:mesh.shard=4 4r:mesh.replicate=2,mesh.shard=2"

# mesh_of NAME SETS: a step in parts is shared along their axes instead of shard
mesh_of() {
    case $1 in
    parts_*) echo "${2//shard/tensor}" ;;
    tokens_*) echo "${2//shard/context}" ;;
    both_*) case $2 in
            mesh.shard=4) echo mesh.tensor=2,mesh.context=2 ;;
            mesh.shard=2) echo mesh.tensor=2 ;;
            *) echo "${2//shard/context}" ;;
            esac ;;
    *) echo "$2" ;;
    esac
}

# The dtype of a name's weights says how near the CPU's losses are.
tolerance_of() { case $1 in *_f32) echo 1e-4 ;; *) echo 2e-2 ;; esac; }

# trainer_of DIR NAME TARGET SETS [VARIABLE=value...]: generated and built
trainer_of() {
    local dir=$1 name=$2 target=$3 sets=$4 set flags model=tiny_llama
    shift 4
    flags_of "$name"
    for set in ${sets//,/ }; do flags+=(--set "$set"); done
    [[ $name = gpt2_* ]] && model=tiny_gpt2
    rm -rf "$dir"
    generate "$dir" "$ROOT/tests/models/$model.lua" --target "$target" \
        "${flags[@]}" && build_trainer "$dir" -j4 "$@"
}

# Everything that is trained later, side by side: for the CPU, by nvcc, by NVRTC at start.
builds() {
    local name mesh
    built=()
    for name in "${names[@]}"; do
        build_later "$name.cpu" "$name" cpu "" GEMM=builtin
        [[ " $jits " != *" $name "* ]] || build_later "$name.jit" "$name" cuda "" JIT=1
        for mesh in $meshes; do
            [ "$SMALL" = 1 ] && [ "${mesh%%:*}" = 4r ] && continue
            build_later "$name.${mesh%%:*}" "$name" cuda "$(mesh_of "$name" "${mesh#*:}")" ARCHS="$arch"
        done
    done
    wait
    for name in "${built[@]}"; do
        if [ -e "$WORK/$name.built" ]; then ok "builds: $name"
        else bad "builds: $name" "$WORK/$name.log"; fi
    done
}
build_later() {
    local dir=$WORK/$1
    built+=("$1")
    shift
    while [ "$(jobs -rp | wc -l)" -ge $((cores > 4 ? cores / 2 : 2)) ]; do sleep 0.1; done
    { trainer_of "$dir" "$@" && : >"$dir.built"; } &
}

# run DIR [NAME=VALUE...] -- [FLAGS...]: losses, norms, the weights' hash in DIR.result
STEPS=4
RUN_SECONDS=120
first_seconds=
run() {
    local dir=$1 code
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do local -x "${1?}"; shift; done
    [ $# -gt 0 ] && shift
    TRAIN_SECONDS=$(left_seconds "$RUN_SECONDS") train "$dir" "$data" $STEPS --quiet --verbose "$@"
    code=$?
    cp "$dir.log" "$WORK/logs/$(basename "$dir").log"
    return $code
}

# The first trainer of a call reads the libraries from a disk that may be slow.
first_run() {
    local start=$SECONDS
    if [ -n "$first_seconds" ]; then
        run "$@"
        return
    fi
    RUN_SECONDS=300 run "$@" || return
    first_seconds=$((SECONDS - start))
    figure "the first trainer of a call: $first_seconds s for $STEPS steps"
}

# equal LABEL DIR: the bits of its one-rank trainer
equal() {
    local name
    name=$(basename "$2")
    if cmp -s "$2.result" "$WORK/${name%%.*}.one"; then
        ok "$1"
    else
        diff "$2.result" "$WORK/${name%%.*}.one" >"$WORK/diff"
        bad "$1: other bits" "$WORK/diff"
    fi
}

# Losses against the CPU's trainer, by nvcc and by NVRTC.
against_cpu() {
    local name
    for name in "${names[@]}"; do
        check "$name: the CPU's trainer runs" run "$WORK/$name.cpu"
        if ! first_run "$WORK/$name.1"; then
            bad "$name: does not run" "$WORK/$name.1.log"
            continue
        fi
        cp "$WORK/$name.1.result" "$WORK/$name.one"
        check "$name: losses near the CPU's" near "$WORK/$name.cpu.jsonl" "$WORK/$name.1.jsonl" \
            "$(tolerance_of "$name")"
        [[ " $jits " = *" $name "* ]] || continue
        if run "$WORK/$name.jit" XDG_CACHE_HOME="$WORK/cache"; then
            check "$name: JIT=1, losses near the CPU's" near "$WORK/$name.cpu.jsonl" \
                "$WORK/$name.jit.jsonl" "$(tolerance_of "$name")"
            figure "$name: nvcc and NVRTC give $(cmp -s "$WORK/$name.jit.result" \
                "$WORK/$name.one" && echo equal || echo other) bits"
        else
            bad "$name: JIT=1 does not run" "$WORK/$name.jit.log"
        fi
    done
}

# The same again, call by call where the trainer replays graphs, and with guards.
reruns() {
    local name
    for name in "${names[@]}"; do
        [ -e "$WORK/$name.one" ] || continue
        check "$name: runs again" run "$WORK/$name.1"
        equal "$name: a second run" "$WORK/$name.1"
        check "$name: runs with --guard" run "$WORK/$name.1" -- --guard
        equal "$name: with --guard" "$WORK/$name.1"
        "$WORK/$name.1/trainer" --help | grep -q -e --no-graphs || continue
        check "$name: runs without graphs" run "$WORK/$name.1" -- --no-graphs
        equal "$name: without graphs" "$WORK/$name.1"
    done
}

# several NAME=VALUE... -- FLAGS...: every trainer of several ranks has one rank's bits
several() {
    local how=$1 name mesh
    shift
    for name in "${names[@]}"; do
        [ -e "$WORK/$name.one" ] || continue
        for mesh in $meshes; do
            mesh=${mesh%%:*}
            [ "$mesh" = 1 ] && continue
            [ -d "$WORK/$name.$mesh" ] || continue
            [[ $how = NCCL* ]] && [ "${mesh%r}" -gt "$nccl_ranks" ] && continue
            if run "$WORK/$name.$mesh" "$@"; then
                equal "$name: $mesh ranks, $how" "$WORK/$name.$mesh"
            else
                bad "$name: $mesh ranks, $how: does not run" "$WORK/$name.$mesh.log"
                [[ $how = NCCL* ]] && return # the others would wait as long
            fi
        done
    done
}

loopback() { several loopback -- --loopback; }

# A GPU for each rank where there are several; else two processes that NCCL takes for two hosts.
with_nccl() {
    nccl_ranks=$devices
    if [ "$devices" -gt 1 ]; then
        several "NCCL, a GPU each" --
    else
        nccl_ranks=2
        note="two processes on one GPU"
        several "NCCL on one GPU" NCCL_HOSTID=rank NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo \
            NCCL_MNNVL_ENABLE=0 --
    fi
}

# Two ranks that a launcher's variables put on two machines, which meet by TCP.
two_machines() {
    local name=llama_bf16_64 dir rank pids=()
    dir=$WORK/$name.2
    if [ ! -e "$WORK/$name.one" ] || [ ! -d "$dir" ]; then
        note="left out: no trainer of two ranks"
        return
    fi
    for rank in 1 0; do
        (
            export RANK=$rank WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=$rank
            export FSDPGEN_SECRET="the secret of two machines, $$"
            export NCCL_HOSTID=machine$rank NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo
            export NCCL_MNNVL_ENABLE=0
            [ "$devices" -gt 1 ] && export CUDA_VISIBLE_DEVICES=$rank
            [ $rank = 0 ] || dir=$dir.other
            [ -e "$dir" ] || ln -s "$name.2" "$dir"
            timeout "$(left_seconds "$RUN_SECONDS")" "$dir/trainer" --data "$data" --steps $STEPS --quiet \
                --log "$dir.jsonl" --weights-hash --meet 127.0.0.1:$((20000 + $$ % 9000)) \
                >"$dir.out" 2>>"$dir.log"
        ) &
        pids+=($!)
    done
    check "$name: two machines: rank 1 runs" wait "${pids[0]}"
    if wait "${pids[1]}"; then
        result_of "$dir"
        equal "$name: two machines" "$dir"
    else
        bad "$name: two machines: does not run" "$dir.log"
    fi
}

# cuDNN's attention: near the CPU's losses, the same bits again and on two ranks.
with_cudnn() {
    local name=llama_bf16_64 sets='target.attention="cudnn"' dir
    case $arch in
    sm_90*) ;;
    *) note="left out: the same bits every time on sm_90 only"; return ;;
    esac
    if [ -z "$CUDNN_HOME" ]; then
        note="left out: no cuDNN (CUDNN_HOME says where it is)"
        return
    fi
    [ -e "$WORK/$name.one" ] || return
    dir=$WORK/$name.cudnn
    if ! trainer_of "$dir" $name cuda "$sets" ARCHS="$arch" || ! run "$dir"; then
        note=$(sed -n 's/.*error: \(cuDNN [0-9]* is too old\).*/left out: \1/p' "$dir.log")
        [ -z "$note" ] || return
        bad "$name: attention by cuDNN does not run" "$dir.log"
        return
    fi
    check "$name, cuDNN: losses near the CPU's" near "$WORK/$name.cpu.jsonl" "$dir.jsonl" \
        "$(tolerance_of "$name")"
    figure "$(grep -h 'engine' "$dir.out" | head -n 2 | tr '\n' ';')"
    cp "$dir.result" "$dir.first"
    check "$name, cuDNN: runs again" run "$dir"
    check "$name, cuDNN: the same bits" cmp "$dir.result" "$dir.first"
    check "$name, cuDNN: without graphs" run "$dir" -- --no-graphs
    check "$name, cuDNN, without graphs: the same bits" cmp "$dir.result" "$dir.first"
    [ -d "$WORK/$name.2" ] || return
    if trainer_of "$dir.2" $name cuda "$sets,mesh.shard=2" ARCHS="$arch" &&
        run "$dir.2" -- --loopback; then
        check "$name, cuDNN: two ranks, the same bits" cmp "$dir.2.result" "$dir.first"
    else
        bad "$name, cuDNN: two ranks: does not run" "$dir.2.log"
    fi
}

# Stopped after two steps, resumed, also by two ranks: the bits of a run that never stopped.
checkpoints() {
    local name=llama_bf16_64 dir
    [ -e "$WORK/$name.one" ] || return
    dir=$WORK/$name.1
    if ! STEPS=2 run "$dir" -- --checkpoint "$WORK/ck" ||
        [ ! -e "$WORK/ck/step-00000002/MANIFEST" ]; then
        bad "$name: no checkpoint after two steps" "$dir.log"
        return
    fi
    ok "$name: a checkpoint after two steps"
    cp -R "$WORK/ck" "$WORK/ck2"
    resumed "$name: resumed" "$dir" "$WORK/ck"
    [ -d "$WORK/$name.2" ] || return
    resumed "$name: resumed by two ranks" "$WORK/$name.2" "$WORK/ck2" --loopback
}
resumed() {
    local label=$1 dir=$2 folder=$3 name
    shift 3
    name=$(basename "$dir")
    rm -f "$dir.result"
    run "$dir" -- --checkpoint "$folder" --resume "$@" # logs the last two steps only: 7 lines
    if [ "$(cat "$dir.result" 2>/dev/null | wc -l)" -eq 7 ] &&
        cmp -s <(tail -n 7 "$WORK/${name%%.*}.one") <(tail -n 7 "$dir.result"); then
        ok "$label"
    else
        bad "$label" "$dir.log"
    fi
}

# watched NAME TOOL...: under a tool that is a hundred times slower; where its time is over it has found nothing.
watched() {
    local name=$1 code
    shift
    timeout -k 5 "$(left_seconds 60)" "$@" >"$WORK/check.log" 2>&1
    code=$?
    case $code in
    0) ok "$name" ;;
    124 | 137) note="left out: $name took too long" ;;
    *) bad "$name: code $code" "$WORK/check.log" ;;
    esac
}

# Kernels alone (one process), then a whole step.
sanitizer() {
    local tool=compute-sanitizer kind dir=$WORK/llama_f32.1
    command -v $tool >/dev/null || tool=$CUDA_HOME/bin/compute-sanitizer
    if ! command -v "$tool" >/dev/null; then
        note="left out: no compute-sanitizer"
        return
    fi
    if ! timeout 60 "$tool" --error-exitcode 99 "$WORK/probe" >"$WORK/logs/sanitizer.log" 2>&1; then
        note="left out: compute-sanitizer does not work here (logs: sanitizer.log)"
        return
    fi
    for kind in memcheck racecheck; do
        watched "$kind: kernels" "$tool" --tool $kind \
            --error-exitcode 99 "${op_test[@]}" --cases 1 \
            --only rmsnorm,rmsnorm_bwd,attention,attention_bwd,embed_bwd
        [ -e "$dir/trainer" ] || continue
        watched "$kind: a step" "$tool" --tool $kind \
            --target-processes all --error-exitcode 99 "$dir/trainer" --data "$data" \
            --steps 1 --quiet
    done
}

benchmark() {
    local log=$WORK/logs/bench.log
    if [ "$SMALL" = 1 ]; then
        note="left out: SMALL=1"
        return
    fi
    check "the benchmark" timeout "$(left_seconds 150)" env FSDPGEN="$FSDPGEN" OUT="$OUT" \
        "$ROOT/tests/bench/gpu.sh" --quick
    cp "$WORK/check.log" "$log"
    grep -E '^\|' "$log" >"$OUT/bench.txt"
}

# ---- all of it ------------------------------------------------------------------------

resume=0
words=() words_left=()
for arg in "$@"; do
    case $arg in
    --prepare) prepare; exit $? ;;
    -h | --help) sed -n '3,/^set -u/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    --resume) resume=1 ;;
    *) words+=("$arg") ;;
    esac
done
read_arguments "${words[@]}"
part ops stage ops ops
part fp8 stage fp8 fp8
part build stage build builds
part cpu:build stage cpu against_cpu
part rerun:cpu stage rerun reruns
part loopback:cpu stage loopback loopback
part nccl:cpu stage nccl with_nccl
part machines:cpu stage machines two_machines
part cudnn:cpu stage cudnn with_cudnn
part checkpoint:cpu stage checkpoint checkpoints
part bench stage bench benchmark
part sanitizer:ops,cpu stage sanitizer sanitizer
known_parts

find_toolkit
case ${arch:-} in
sm_[5-7]* | sm_80 | sm_86 | sm_87) # their tensor cores have no fp8
    read -ra names <<<"$(printf '%s ' "${names[@]}" | sed 's/llama_fp8//; s/both_fp8//')"
    ;;
esac
[ -z "$no_gpu" ] || cannot_run "$no_gpu"
mkdir -p "$OUT" "$WORK/logs"
head="$gpu ($devices, $arch, $free_mib MiB free), driver $driver, toolkit $runtime, fsdpgen $(
    git -C "$ROOT" rev-parse --short=12 HEAD 2>/dev/null || cat "$prepared/commit" 2>/dev/null)"
echo "$head"
if [ $resume = 1 ]; then
    [ ${#part_names[@]} -gt 0 ] || part_names=("${part_order[@]}")
    for name in "${part_names[@]}"; do is_done "$name" || words_left+=("$name"); done
    part_names=("${words_left[@]}")
fi
[ "$(head -n 1 "$OUT/figures.txt" 2>/dev/null)" = "$head" ] || echo "$head" >"$OUT/figures.txt"
if ! find_generator; then
    bad "no fsdpgen here, and it does not build; carry what 'tests/gpu/run.sh --prepare' makes" \
        "$WORK/cmake.log"
    conclude
fi
if [ ! -e "$NCCL_HOME/include/nccl.h" ]; then
    echo "skipped: trainers of several ranks (no NCCL; NCCL_HOME says where it is)"
    meshes="1:mesh.shard=1"
fi
if [ $resume = 1 ] && [ ${#part_names[@]} = 0 ]; then
    echo "every stage has been run"
    cat "$OUT/table.txt"
    conclude
fi
run_parts
echo
cat "$OUT/table.txt"
echo "files: $OUT"
finish
