#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Emitted CUDA trainers, unmodified, on the simulated device: built by their own Makefiles with a
# CUDA_HOME of stand-ins. Tiny llama and GPT-2 on 1, 2 and 4 ranks: losses within tolerance of the
# CPU's trainer, and bit for bit the same over ranks, wrap, prefetch, reshard, recompute,
# accumulation, orders of threads and streams, with all ranks on one device or on several machines,
# and whether steps are replayed as CUDA graphs, as they are from the second one on. Planted faults
# must be told, and what may go wrong with devices, ranks and machines must end with a line that
# says so.
# FULL=1: every row, every wait left out in turn; else a sample by SEED.
set -u
. "$(dirname "$0")/../lib.sh"
export TMPDIR=$WORK # of the simulated compiler, which may be killed
quick_builds=1
. "$ROOT/tests/e2e/common.sh"
. "$ROOT/tests/e2e/chains.sh"
. "$ROOT/tests/cudasim/tune.sh"
. "$ROOT/tests/cudasim/cache.sh"
. "$ROOT/tests/cudasim/cudnn.sh"
. "$ROOT/tests/cudasim/lease.sh"
. "$ROOT/tests/cudasim/machines.sh"
. "$ROOT/tests/cudasim/muon.sh"
. "$ROOT/tests/cudasim/parts.sh"
. "$ROOT/tests/cudasim/signals.sh"
. "$ROOT/tests/cudasim/sums.sh"
home=$BUILD/tests/cudasim/home
data=$ROOT/LICENSE
STEPS=2
export CUDASIM_SEED=$SEED MAKEFLAGS=-s

# Small, and no size divides another.
small=(--set model.layers=2 --set seq=9 --set micro_batch=1 --set global_batch=8)

# trainer DIR MODEL TARGET [FLAGS...]
trainer() {
    local dir=$1 model=$2 target=$3
    shift 3
    rm -rf "$dir" "$dir".*
    generate "$dir" "$ROOT/tests/models/$model.lua" --target "$target" "${small[@]}" "$@"
}

build_cuda() { build_trainer "$1" CUDA_HOME="$home"; }

# run_cuda DIR [NAME=VALUE...]: the environment of the run; STEPS, FLAGS of the trainer,
# LOOPBACK=1: --loopback
run_cuda() {
    local dir=$1
    shift
    (FLAGS=
     for set in TRAIN_SECONDS=600 "$@"; do export "${set?}"; done
     train "$dir" "$data" $STEPS --quiet --verbose --threads 1 ${LOOPBACK:+--loopback} $FLAGS)
}

# reference NAME MODEL TOLERANCE [FLAGS...]: on one rank, on the CPU and the device, every access
# checked
reference() {
    local name=$1 model=$2 tolerance=$3 cpu=$WORK/cpu_$1 dir=$WORK/reference_$1
    shift 3
    if ! trainer "$cpu" "$model" cpu "$@" || ! build_trainer "$cpu" GEMM=builtin ||
       ! train "$cpu" "$data" $STEPS --quiet --threads 1; then
        bad "$name: the CPU's trainer does not run" "$cpu.log"
        return 1
    fi
    if ! trainer "$dir" "$model" cuda "$@" || ! build_cuda "$dir" || ! run_cuda "$dir"; then
        bad "$name: the trainer does not run on the simulated device" "$dir.log"
        return 1
    fi
    check "$name: losses and norms near the CPU's" near "$cpu.jsonl" "$dir.jsonl" "$tolerance"
}

# same_bits LABEL DIR REFERENCE
same_bits() {
    if cmp -s "$2.result" "$WORK/reference_$3.result"; then
        ok "$1"
    else
        diff "$2.result" "$WORK/reference_$3.result" >"$2.diff"
        bad "$1: other bits" "$2.diff"
    fi
}

# row NAME MODEL CHECKED FLAGS...: the reference's bits, by the same kernels; then with the ranks
# on one device
row() {
    local name=$1 model=$2 checked=$3 dir=$WORK/row label
    shift 3
    label="$name: ${*//--set /}"
    if ! trainer "$dir" "$model" cuda "$@" ||
       ! CUDASIM_UNCHECKED=$((1 - checked)) build_cuda "$dir" ||
       ! run_cuda "$dir" CUDASIM_SEED=$((SEED + $#)); then
        bad "$label: does not run" "$dir.log"
        return
    fi
    cmp "$dir/kernels.cu" "$WORK/reference_$name/kernels.cu" >"$dir.cmp" 2>&1 ||
        bad "$label: other kernels" "$dir.cmp"
    same_bits "$label" "$dir" "$name"
    if run_cuda "$dir" CUDASIM_SEED=$((SEED + 7)) CUDASIM_DEVICES=1 LOOPBACK=1; then
        same_bits "$label, loopback" "$dir" "$name"
    else
        bad "$label, loopback: does not run" "$dir.log"
    fi
}

rows() {
    local name=$1 model=$2
    cat >"$WORK/rows" <<'TABLE'
mesh.shard=2
mesh.shard=4 recompute=block prefetch=2
mesh.replicate=2 mesh.shard=2
mesh.shard=4 accumulate=unsharded wrap=root_only
mesh.shard=2 reshard_after_forward=false prefetch=0
mesh.shard=2 wrap=2 recompute=cheap accumulate=unsharded
mesh.shard=4 strategy=shard_optimizer
TABLE
    local number=0 wanted=$(((SEED % 6 + $3 + 1) % 7)) sets set flags
    while read -r sets; do
        flags=()
        for set in $sets; do flags+=(--set "$set"); done
        if [ "$FULL" = 1 ] || [ $number = "$3" ] || [ $number = $wanted ]; then
            row "$name" "$model" $((FULL)) "${flags[@]}"
        fi
        number=$((number + 1))
    done <"$WORK/rows"
}

# ---- formulas -------------------------------------------------------------------------

formulas() {
    random_chains "$WORK/chains" "$SEED"
    TRAIN_SECONDS=600 fused_or_not "random chains in bf16" "$WORK/chains" CUDA_HOME="$home" -- \
        --target cuda --set 'dtypes.param="bf16"'
    [ "$FULL" = 0 ] || TRAIN_SECONDS=600 fused_or_not "random chains in f32" "$WORK/chains" \
        CUDA_HOME="$home" -- --target cuda
}

# Products whose bias a GPU's kernels add in the chain that follows, and in that of the backward:
# the bits of all ops one by one. (A loss in chunks, or with rows to fill up to 16 bytes, sums in
# another order.)
biases() {
    local dir=$WORK/biases fuse sets=(--set 'dtypes.param="bf16"' --set loss.chunk_tokens=64)
    sets+=(--set model.layers=2 --set model.vocab=264)
    for fuse in true false; do
        if ! trainer "$dir.$fuse" tiny_gpt2 cuda "${sets[@]}" --set fuse=$fuse ||
           ! CUDASIM_UNCHECKED=1 build_cuda "$dir.$fuse" || ! run_cuda "$dir.$fuse"; then
            bad "biases: does not run with fuse=$fuse" "$dir.$fuse.log"
            return
        fi
    done
    check "biases: chains have the bits of the ops one by one" \
        cmp "$dir.true.result" "$dir.false.result"
    check "biases: chains have them" test "$(grep -c '^void map_bias_' "$dir.true/kernels.h")" = 3
    check "biases: a chain sums the gradient" grep -q '^void map_bias_gelu_bwd_colsum' "$dir.true/kernels.h"
}

# ---- faults ---------------------------------------------------------------------------

# fault WHAT EXPECTED DIR [NAME=VALUE...]: the run must end with a line that has EXPECTED
fault() {
    local what=$1 expected=$2 dir=$3
    shift 3
    if run_cuda "$dir" "$@"; then
        bad "missed: $what"
    elif grep -qE "$expected" "$dir.log"; then
        ok "$what"
    else
        bad "$what: another message" "$dir.log"
    fi
    : >"$dir.log"
}

# A rank that is stopped while graphs are replayed: told as itself, not as who waits for it, with
# the place that its device came to, or that it logs what the device has done.
stopped() {
    local dir=$1 job rank
    : >"$dir.out" # has steps of an earlier run until this one begins
    "$dir/trainer" --data "$data" --steps 100000 --threads 1 --deadline 5 >"$dir.out" 2>"$dir.err" &
    job=$!
    if ! timeout 600 bash -c "until grep -qs '^step *3/' '$dir.out' || ! kill -0 $job; do sleep 0.1; done"; then
        bad "a rank that is to stand still: no third step in ten minutes" "$dir.err"
        kill -KILL $job
        return
    fi
    rank=$(pgrep -P $job | sed -n 2p)
    kill -STOP "$rank"
    timeout 600 tail --pid=$job -f /dev/null
    check "a rank that stands still" \
        grep -qE 'rank 1 has stood still .* at (embed|layers|head|gradient norm|update|logging).* of step' "$dir.err"
    kill -KILL $job 2>/dev/null
    wait $job 2>/dev/null
}

# Without the n-th wait of a stream the run must be refused, or be the same to the bit: then
# another wait orders the same. The first step has about 110, its capture comes after it: there a
# missing wait is a graph's that is not joined, or a stream outside of it.
waits() {
    local dir=$1 reference=$2 caught=0 same=0 n step=$([ "$FULL" = 1 ] && echo 1 || echo 23)
    for ((n = SEED % step; n < 170; n += step)); do
        if run_cuda "$dir" CUDASIM_DROP_WAIT=$n; then
            cmp -s "$dir.result" "$reference" || bad "wait $n is left out: other bits, unseen"
            same=$((same + 1))
        elif grep -qE "no event makes it wait|StreamCapture(Unjoined|Isolation)" \
            "$dir.log"; then
            caught=$((caught + 1))
        else
            bad "wait $n is left out: another message" "$dir.log"
        fi
        : >"$dir.log"
    done
    echo "figure: waits left out in turn: $caught caught, $same redundant in that run"
    check "missing waits are caught" [ $caught -gt 0 ]
}

# plant DIR FILE SED: a fault in an emitted file, or a file of its runtime, and the trainer again
plant() {
    cp "$1/$2" "$1/before"
    sed -i "$3" "$1/$2"
    ! cmp -s "$1/$2" "$1/before" && build_cuda "$1"
}

# faulty_runtime DIR WHAT FILE SED: the trainer again, with a fault in a file of runtime/
faulty_runtime() {
    local dir=$1 runtime=$WORK/runtime_faulty
    rm -rf "$runtime"
    cp -R "$ROOT/runtime" "$runtime"
    sed -i "$4" "$runtime/$3"
    ! cmp -s "$runtime/$3" "$ROOT/runtime/$3" &&
        CUDASIM_UNCHECKED=1 build_trainer "$dir" CUDA_HOME="$home" RUNTIME="$runtime" && return
    bad "$2: not planted" "$dir.log"
    return 1
}

faults() {
    local dir=$WORK/fault text
    trainer "$dir" tiny_llama cuda --set mesh.shard=2 && build_cuda "$dir" ||
        { bad "faults: no trainer" "$dir.log"; return; }
    evaluation
    targets
    saves_beside
    if [ "$FULL" = 1 ]; then signals "$dir" 50; else signals "$dir" 1; fi
    waits "$dir" "$WORK/reference_llama.result"
    fault "a lost rank" "rank 1" "$dir" CUDASIM_LOST=1:5
    stopped "$dir"
    fault "a lost rank while a graph is replayed" "rank 1 .* of step 2" "$dir" CUDASIM_LOST=1:45
    fault "a failing gather" "ncclAllGather" "$dir" CUDASIM_FAIL=ncclAllGather:3
    fault "a failing capture" "EndCapture.* while embed .*backward was captured" "$dir" \
        CUDASIM_FAIL=cudaStreamEndCapture:0
    fault "a failing launch" "cudaLaunchKernelExC|launch of" "$dir" \
        CUDASIM_FAIL=cudaLaunchKernelExC:40
    fault "no GPU" "no GPU is found" "$dir" CUDASIM_DEVICES=0
    fault "a GPU too few" "2 ranks need a GPU each" "$dir" CUDASIM_DEVICES=1
    fault "an old driver" "driver is too old" "$dir" CUDASIM_DRIVER=11080
    fault "another GPU" "kernels are for sm_90a" "$dir" CUDASIM_ARCH=80
    fault "too little memory" "planned arena takes" "$dir" CUDASIM_MEMORY=1000000
    fault "a failing meeting" "cudaLaunchHostFunc" "$dir" LOOPBACK=1 CUDASIM_DEVICES=1 \
        CUDASIM_FAIL=cudaLaunchHostFunc:9
    check "the loopback loses a rank: the others end" loses_rank "$dir"
    rm -f "$WORK/ctas"
    # strangers could join by the one, and a graph with the other ends the process
    if run_cuda "$dir" NCCL_COMM_ID=127.0.0.1:29400 NCCL_LAUNCH_ORDER_IMPLICIT=1 CUDASIM_CTAS="$WORK/ctas"; then
        same_bits "NCCL_COMM_ID is not used" "$dir" llama
        text=$(sed -n 's/.*within_ctas = \([0-9]*\).*/\1/p' "$dir/tables.c" | head -n 1)
        check "NCCL is told the tables' limit of a sum's blocks, by each rank" \
            [ "$(grep -c "^send of 2 ranks: ${text:-none}$" "$WORK/ctas")" = 2 ]
        check "16 for sums without one, and none for gathers" \
            [ "$(grep -cE '^(send of 2 ranks: 16|all-gather of 2 ranks: 0)$' "$WORK/ctas")" = 4 ]
        check "and a line says so, once" [ "$(grep -c 'warning: NCCL_COMM_ID is not used' "$dir.log")" = 1 ]
    else
        bad "NCCL_COMM_ID is not used" "$dir.log"
    fi
    : >"$dir.log"
    # the one between others[] being written by all and read by all (embed_bwd)
    if plant "$dir" kernels.cu '/others\[threadIdx.x\] =/{n;s/rt_block_sync();/;/}'; then
        fault "a kernel's missing barrier" "with no barrier since|nobody has written" "$dir"
    else
        bad "no barrier to leave out in kernels.cu" "$dir.log"
    fi
    cp "$dir/before" "$dir/kernels.cu"
    # same kernels, but for the name that says of which mathematics they are
    if plant "$dir" kernels.cu 's/^math_[0-9a-f]*(/math_0123456789abcdef(/'; then
        fault "kernels of another generation" \
            "kernels.c and the kernels for .* come from different generations" "$dir"
    else
        bad "kernels.cu does not name its generation" "$dir.log"
    fi
    cp "$dir/before" "$dir/kernels.cu"
    # With one side registered NCCL waits for ever where GPUs access each other's memory.
    text="sends of registered buffers into others"
    if faulty_runtime "$dir" "$text" cuda/ranks/rt_nccl.c '/NCCL_LOCAL_REGISTER/d'; then
        check "both sides of an exchange are registered, or none is" run_cuda "$dir"
        sed -i 's/rt_symmetric(rt, [a-z>-]*staging_offset)/rt_local(rt, 0)/' "$WORK/runtime_faulty/cuda/ranks/rt_tree.c"
        CUDASIM_UNCHECKED=1 build_trainer "$dir" CUDA_HOME="$home" RUNTIME="$WORK/runtime_faulty" &&
            fault "$text" "one of them has registered its buffer" "$dir"
    fi
    text=$(grep -o 'GATHERED_LAYERS_[01]_FORWARD' "$dir/step.c" | sort -u | head -n 2)
    if [ "$(echo "$text" | wc -l)" = 2 ] &&
       plant "$dir" step.c '/rt_all_gather_start/s/GATHERED_LAYERS_1_FORWARD/GATHERED_LAYERS_0_FORWARD/'; then
        wrong "a gather into the wrong slot" "$dir"
    else
        bad "no slots to mix up in step.c" "$dir.log"
    fi
}

# One of two ranks that share a device is killed while they train.
loses_rank() {
    local dir=$1 pid rank='' i
    rm -f "$dir.jsonl"
    CUDASIM_DEVICES=1 "$dir/trainer" --data "$data" --steps 100000 --quiet --threads 1 \
        --loopback --log "$dir.jsonl" >"$dir.out" 2>&1 &
    pid=$!
    for ((i = 0; i < 6000; i++)); do [ -s "$dir.jsonl" ] && break; sleep 0.1; done
    read -r rank _ <"/proc/$pid/task/$pid/children"
    kill -KILL "${rank:-$pid}"
    for ((i = 0; i < 6000; i++)); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
    cat "$dir.out"
    if kill -KILL $pid 2>/dev/null; then # it stands still
        return 1
    fi
    wait $pid
    grep -q 'rank [01] was killed by signal 9' "$dir.out"
}

# wrong WHAT DIR [NAME=VALUE...]: ended by what a rank or the device says, or other bits than those
# of REFERENCE
REFERENCE=llama
wrong() {
    : >"$2.log"
    if ! run_cuda "${@:2}"; then
        check "$1: a rank or the device says so" grep -qE '\[rank [0-9]+\]|simulated device' "$2.log"
    elif cmp -s "$2.result" "$WORK/reference_$REFERENCE.result"; then
        bad "missed: $1"
    else
        ok "$1"
    fi
}

# other WHAT DIR [NAME=VALUE...]: it runs to the end, with other bits than those of REFERENCE
other() {
    if ! run_cuda "${@:2}"; then
        bad "$1: does not run" "$2.log"
    elif cmp -s "$2.result" "$WORK/reference_$REFERENCE.result"; then
        bad "missed: $1"
    else
        ok "$1"
    fi
}

# Held-out loss near the CPU's, sampled tokens; the same bits on two ranks, and the training is
# that of a run which never evaluates.
evaluation() {
    local held=$WORK/held.txt one=$WORK/reference_llama two=$WORK/fault cpu=$WORK/cpu_llama dir
    head -c 300 "$data" >"$held"
    for dir in "$one" "$two" "$cpu"; do
        rm -rf "$dir.ck"
        if ! timeout 600 "$dir/trainer" --data "$data" --steps $STEPS --quiet --threads 1 \
                --log "$dir.eval.jsonl" --weights-hash --checkpoint "$dir.ck" \
                --eval "$held" --eval-every 1 >"$dir.eval.out" 2>>"$dir.log" ||
           ! timeout 600 "$dir/trainer" sample --prompt "5 6 7" --checkpoint "$one.ck" \
                --tokens 8 --threads 1 >"$dir.ids" 2>>"$dir.log"; then
            bad "evaluation: $dir does not run" "$dir.log"
            return
        fi
        grep -o '"eval_loss_hex": "[^"]*"' "$dir.eval.jsonl" >"$dir.hex"
    done
    check "evaluation: the training is that without" bash -c \
        "[ \"\$(grep ^weights '$one.eval.out')\" = \"\$(grep ^weights '$one.result')\" ]"
    check "evaluation: two ranks, equal bits" cmp "$one.hex" "$two.hex"
    for dir in "$one" "$two"; do
        timeout 600 "$dir/trainer" eval --checkpoint "$one.ck" --data "$held" --threads 1 --json \
            >"$dir.evaluated" 2>>"$dir.log"
        check "evaluation: trainer eval of ${dir##*/} has its bits" test \
            "$(grep -o '"loss_hex": "[^"]*"' "$dir.evaluated")" = "$(tail -n 1 "$one.hex" | sed 's/eval_//')"
    done
    timeout 600 "$two/trainer" --dry-run --data "$data" --steps $STEPS --threads 1 >"$two.dry" 2>>"$two.log"
    check "dry run: two ranks on two devices meet" grep -qE '^  launch +(ok|note) +2 ranks met' "$two.dry"
    check "evaluation: near the CPU's" near "$cpu.eval.jsonl" "$one.eval.jsonl" 1e-4 eval_loss
    check "sample: two ranks, equal tokens" cmp "$one.ids" "$two.ids"
    check "sample: the CPU's tokens" cmp "$cpu.ids" "$one.ids"
}

# crosses FROM TO: TO begins with the weights of FROM's checkpoint, and the moments: two steps
# further its losses are near those of FROM, never stopped.
crosses() {
    local from=$1 to=$2 label
    label="a checkpoint of ${from##*/} goes on as ${to##*/}"
    # goes_on DIR STEPS [FLAGS...]
    goes_on() {
        timeout 600 "$1/trainer" --data "$data" --steps "$2" --quiet --threads 1 --weights-hash \
            "${@:3}" >"$1.going" 2>>"$1.log" || bad "$label: $1 does not run" "$1.log"
    }
    rm -rf "$from.go" "$from.going.jsonl" "$to.going.jsonl"
    cp -r "$from.ck" "$from.go"
    goes_on "$to" $STEPS --checkpoint "$from.go" --resume
    check "$label: its weights" test "$(grep ^weights "$to.going")" = \
        "$(grep ^weights "$from.eval.out")"
    goes_on "$to" $((STEPS + 2)) --checkpoint "$from.go" --resume --log "$to.going.jsonl"
    goes_on "$from" $((STEPS + 2)) --log "$from.going.jsonl"
    sed -i "1,$((STEPS + 1))d" "$from.going.jsonl"
    check "$label: its losses" near "$from.going.jsonl" "$to.going.jsonl" 1e-4
}

targets() {
    crosses "$WORK/reference_llama" "$WORK/cpu_llama"
    crosses "$WORK/cpu_llama" "$WORK/fault"
}

# Saves beside training, from pinned copies or, where the machine pins none, from others: the bytes
# of saves that are waited for.
saves_beside() {
    local dir=$WORK/fault how
    for how in waited beside unpinned; do
        rm -rf "$dir.$how"
        local fail= flag=
        [ $how = unpinned ] && fail=cudaHostRegister:0
        [ $how = waited ] && flag=--wait-for-saves
        CUDASIM_FAIL=$fail timeout 600 "$dir/trainer" --data "$data" --steps 3 --quiet --threads 1 \
            --checkpoint "$dir.$how" --checkpoint-every 1 $flag >"$dir.beside.out" 2>&1 ||
            bad "saves: $how: does not run" "$dir.beside.out"
        (cd "$dir.$how" && find . -type f | sort | xargs md5sum) >"$dir.$how.files"
        check "saves: $how: three" test "$(ls "$dir.$how" | wc -l)" = 3
        check "saves: $how: the bytes of those that are waited for" \
            cmp "$dir.$how.files" "$dir.waited.files"
        [ $how = beside ] && check "saves: pinned without a word" \
            test -z "$(grep warning "$dir.beside.out")"
    done
    check "saves: memory that cannot be pinned is told" \
        grep -q 'warning: \[rank [01]\] .* for saves cannot be pinned' "$dir.beside.out"
}

# Ranks that share a device and do not wait for each other's bytes.
unmet() {
    local dir=$WORK/unmet runtime=$WORK/runtime_unmet
    cp -R "$ROOT/runtime" "$runtime"
    # the second meeting of an exchange: between laying out and taking
    sed -i '/^static void exchange/,/^}/{/cudaMemcpyDeviceToHost/,/cudaMemcpyHostToDevice/s/enqueue(rt, meet);//}' \
        "$runtime/cuda/ranks/rt_loopback.c"
    if cmp -s "$runtime/cuda/ranks/rt_loopback.c" "$ROOT/runtime/cuda/ranks/rt_loopback.c" ||
       ! trainer "$dir" tiny_llama cuda --set mesh.shard=4 ||
       ! CUDASIM_UNCHECKED=1 build_trainer "$dir" CUDA_HOME="$home" RUNTIME="$runtime"; then
        bad "a loopback without its second meeting: not planted" "$dir.log"
        return
    fi
    wrong "a loopback without its second meeting" "$dir" CUDASIM_DEVICES=1 LOOPBACK=1
}

# same WHAT DIR REFERENCE: the result has the reference's bits
same() {
    if cmp -s "$2.result" "$3.result"; then
        ok "$1"
    else
        diff "$2.result" "$3.result" >"$2.diff"
        bad "$1: other bits" "$2.diff"
    fi
}

# Steps replayed as graphs and enqueued call by call, in f16 whose loss scale grows until an update
# is skipped, with every kind of micro-step and merge: the same bits. A number of the host in a
# graph must be seen.
graphs() {
    local dir=$WORK/graphs one=$WORK/one f16
    f16=(--set 'dtypes.param="f16"' --set loss_scale.growth_interval=2 --set leaves=4)
    if ! trainer "$one" tiny_llama cuda "${f16[@]}" ||
       ! CUDASIM_UNCHECKED=1 build_cuda "$one" || ! run_cuda "$one" STEPS=5; then
        bad "graphs: no trainer of one rank" "$one.log"
        return
    fi
    if ! trainer "$dir" tiny_llama cuda "${f16[@]}" --set mesh.shard=2 \
            --set accumulate=unsharded || ! CUDASIM_UNCHECKED=1 build_cuda "$dir" ||
       ! run_cuda "$dir" STEPS=5; then
        bad "graphs: no trainer of two ranks" "$dir.log"
        return
    fi
    check "graphs: the loss scale overflows" grep -q '"skipped": [1-9]' "$dir.jsonl"
    same "graphs: one rank and two, other micro-steps" "$dir" "$one"
    if run_cuda "$dir" STEPS=5 FLAGS=--no-graphs; then
        same "graphs: replayed and call by call" "$dir" "$one"
    else
        bad "--no-graphs: does not run" "$dir.log"
    fi
    # that NCCL knows no order of communicators: all collectives are on one stream
    if run_cuda "$dir" STEPS=5 CUDASIM_NCCL=21805; then
        same "graphs: collectives on one stream" "$dir" "$one"
    else
        bad "an old NCCL: does not run" "$dir.log"
    fi
    # the learning rate as an argument of a kernel instead of in device memory
    cp -R "$ROOT/runtime" "$WORK/baked"
    sed -i 's/const RtStepIn \*in, RtStepOut \*out,/double lr, &/; s/u.lr64 = in->lr;/u.lr64 = lr;/' \
        "$WORK/baked/cuda/rt_kernels.h"
    sed -i 's/&words, &micro_batches, &step_in/\&words, \&micro_batches, \&in->lr, \&step_in/' \
        "$WORK/baked/cuda/rt_norm.c"
    if ! CUDASIM_UNCHECKED=1 build_trainer "$dir" CUDA_HOME="$home" RUNTIME="$WORK/baked" ||
       ! run_cuda "$dir" STEPS=5 FLAGS=--no-graphs; then
        bad "a baked learning rate: not planted" "$dir.log"
        return
    fi
    same "a learning rate as an argument, call by call" "$dir" "$one"
    if ! run_cuda "$dir" STEPS=5; then
        bad "a graph that keeps the first learning rate: does not run" "$dir.log"
    elif cmp -s "$dir.result" "$one.result"; then
        bad "missed: a graph that keeps the first learning rate"
    else
        ok "a graph that keeps the first learning rate"
    fi
}

llama() { reference llama tiny_llama 1e-4; }
gpt2() {
    if reference gpt2 tiny_gpt2 1e-4; then rows gpt2 tiny_gpt2 2; fi
}
structure() { # columns, heads and rows that move, with documents
    local model=../graph/structure sets=(--set documents.end_id=10)
    sets+=(--set model.layers=1)
    reference structure $model 1e-4 "${sets[@]}" &&
        row structure $model $((FULL)) "${sets[@]}" --set mesh.shard=2 --set recompute=cheap
}
bf16() {
    local sets=(--set 'dtypes.param="bf16"' --set model.attention_sinks=true)
    reference llama_bf16 tiny_llama 2e-2 "${sets[@]}" && [ "$FULL" = 1 ] &&
        row llama_bf16 tiny_llama 1 "${sets[@]}" --set mesh.shard=4
}
f16() { # leaves of several micro-batches: gradients are stored, then added to
    reference llama_f16 tiny_llama 2e-2 --set 'dtypes.param="f16"' --set leaves=2 --set model.attention_sinks=true \
        --set documents.end_id=10
}
# Products in fp8 with their scales in device memory; losses near those of the CPU's trainer, whose
# operands have the same bits but for what sums before them rounded otherwise.
fp8() {
    local sets=(--set 'dtypes={param="bf16",linear="fp8"}' --set seq=16 --set model.dim=32
                --set model.head_dim=16 --set model.ffn=48) dir=$WORK/row
    reference fp8 tiny_llama 2e-2 "${sets[@]}" || return
    check "fp8: a tensor is read once for both layouts" grep -q '^void fp8_both_' "$WORK/reference_fp8/kernels.h"
    row fp8 tiny_llama 0 "${sets[@]}" --set mesh.shard=2 --set recompute=block
    [ "$FULL" = 0 ] || row fp8 tiny_llama 0 "${sets[@]}" --set mesh.shard=4 --set wrap=root_only
    # frozen weights keep the scales of before the first step; large ones, so that it shows
    reference fp8_frozen tiny_llama 2e-2 "${sets[@]}" --set model.init_std=0.4 --set 'groups={{match="*mlp*",frozen=true}}'
    REFERENCE=fp8
    if plant "$dir" kernels.c 's/, b, sb, /, b, sa, /'; then
        other "fp8: products with the scale of another tensor" "$dir"
    else
        bad "fp8: no scales to mix up" "$dir.log"
    fi
    REFERENCE=llama
}
part llama llama
part rows:llama turn 1 2 rows llama tiny_llama 1
part library_sums:llama turn 0 2 library_sums
part sliced_sums:llama turn 1 2 sliced_sums
part faults:llama turn 3 4 faults
part unordered:llama turn 1 2 unordered
part unmet:llama turn 0 2 unmet
part tuning:llama turn 1 2 tuning
part calibration:llama turn 0 2 calibration
part compiled_at_start:llama turn 0 2 compiled_at_start
part graphs turn 1 2 graphs
part machines machines
part matrices turn 1 4 matrices
part shared_parts turn 0 4 shared_parts
part packed_sums turn 2 4 packed_sums
part held_starts turn 1 2 held_starts
part cudnn_attention turn 2 4 cudnn_attention
part gpt2 turn 0 2 gpt2
part structure turn 0 2 structure
part formulas turn 1 2 formulas
part biases turn 0 2 biases
part bf16 turn 0 2 bf16
part f16 turn 1 2 f16
part fp8 turn 1 2 fp8
part fp8_parts turn 1 4 fp8_parts
part gpu_script gpu_script
part kept_rows kept_rows
part recorded_rows recorded_rows
part lease lease
[ -e "$home/lib64/libcudasim.so" ] ||
    cannot_run "the simulated device (no g++, or no headers of CUDA and NCCL)"
[ -e "$ROOT/runtime/cuda/rt_gpu.c" ] || cannot_run "CUDA trainers (the runtime for CUDA is not here)"
finish
