# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. target.attention = "cudnn": the graphs that the trainer hands to cuDNN are
# computed by the stand-in as they are described, operation by operation. Gradients near those of
# the generated kernels, whose sums are rounded elsewhere; the same bits over ranks, orders and
# replays; faults in the graphs told by the gradients.

# Weights so large that scores matter, groups of heads, sequences that are no whole blocks.
cudnn_flags=(--set 'dtypes.param="bf16"' --set model.init_std=0.3 --set model.layers=1
    --set seq=13 --set micro_batch=2 --set model.heads=4 --set model.kv_heads=2
    --set model.head_dim=8)

# cudnn_trainer DIR [RUNTIME=DIR] [FLAGS...]: generated, built, and its first gradients in DIR.g
cudnn_trainer() {
    local dir=$1 runtime=
    shift
    case ${1-} in RUNTIME=*) runtime=${1#*=}; shift ;; esac
    trainer "$dir" tiny_llama cuda "${cudnn_flags[@]}" "$@" &&
        CUDASIM_UNCHECKED=1 build_trainer "$dir" CUDA_HOME="$home" ${runtime:+RUNTIME="$runtime"} &&
        STEPS=1 run_cuda "$dir" FLAGS="--debug-gradients $dir.g"
}

# gradients_near A B: norms and projections of every parameter, within a part of its norm
gradients_near() {
    local file
    for file in "$1" "$2"; do
        sed -n 's/.*"name": "\([^"]*\)", "norm": \([^,]*\), "projections": \[\([^,]*\), \([^]]*\)\].*/\1 \2 \3 \4/p' \
            "$file" >"$file.rows"
    done
    [ -s "$1.rows" ] && paste -d ' ' "$1.rows" "$2.rows" | awk '
        function far(a, b) { return a == "nan" || b == "nan" || (a - b) ^ 2 > (0.04 * $2) ^ 2 }
        $1 != $5 || NF != 8 || far($2, $6) || far($3, $7) || far($4, $8) { print; bad = 1 }
        END { exit bad }'
}

cudnn_case() { # NAME FLAGS...
    local name=$1
    shift
    if ! cudnn_trainer "$WORK/generated" "$@" ||
       ! cudnn_trainer "$WORK/cudnn" "$@" --set target.attention=cudnn; then
        bad "cuDNN, $name: does not run" "$WORK/cudnn.log"
        return 1
    fi
    check "cuDNN, $name: gradients near the generated kernels'" \
        gradients_near "$WORK/generated.g" "$WORK/cudnn.g"
}

# A slice of the backward is of so few bytes that several are needed: the ops from elsewhere.
cudnn_slices() {
    cp -R "$ROOT/templates/ops" "$WORK/ops"
    sed -i 's/512 << 20/1 << 20/; s/(1 << 20)$/(1 << 16)/' \
        "$WORK/ops/attention_bwd/op.lua" "$WORK/ops/attention_bwd/cudnn.cu"
    cudnn_case "$1" --ops "$WORK/ops" "${@:3}" --set seq=300 --set micro_batch=2 --set global_batch=2 &&
        check "cuDNN, $1: $2" grep -q "$2" "$WORK/cudnn/kernels.c"
    rm -rf "$WORK/ops"
}

# "auto", and layers of which one has softcaps, which cuDNN has not: it runs the other one's attention.
cudnn_some() {
    local models=$WORK/some
    mkdir -p "$models/arch"
    cp "$ROOT/tests/models/tiny_llama.lua" "$models/"
    sed 's/softcap = m.attention_softcap/softcap = way.window > 0 and 3 or nil/' \
        "$ROOT/models/arch/llama.lua" >"$models/arch/llama.lua"
    for by in generated auto; do
        generate "$WORK/$by" "$models/tiny_llama.lua" --target cuda "${small[@]}" \
            "${cudnn_flags[@]}" --set model.layers=2 --set model.window=5 --set model.global_every=2 \
            --set model.head_dim=72 --set target.attention=$by &&
            CUDASIM_UNCHECKED=1 build_trainer "$WORK/$by" CUDA_HOME="$home" &&
            STEPS=1 run_cuda "$WORK/$by" FLAGS="--debug-gradients $WORK/$by.g" && continue
        bad "cuDNN for some layers: does not run" "$WORK/$by.log"
        return
    done
    check "cuDNN for some layers: it and generated kernels, forward and backward" test \
        "$(grep -c '^static RtAttention' "$WORK/auto/kernels.c") $(grep -cE '^attention_(bwd_)?[0-9].*(lse|dq)?\(' "$WORK/auto/kernels.cu")" = "2 3"
    check "cuDNN for some layers: gradients near the generated kernels'" \
        gradients_near "$WORK/generated.g" "$WORK/auto.g"
}

# "auto", and heads that cuDNN cannot, or with which it is slower: the trainer needs none, and is
# that of generated kernels.
cudnn_nowhere() {
    local by
    check "auto: says why it leaves heads of 64 to generated kernels" grep -qF \
        'note: target.attention: a generated kernel runs attention: heads are 64 wide, and with heads of 64 it was faster' \
        <("$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --target cuda "${cudnn_flags[@]}" \
            --set model.head_dim=64 --set target.attention=auto 2>&1)
    for by in generated auto; do
        "$FSDPGEN" "$ROOT/tests/models/tiny_llama.lua" -o "$WORK/nowhere_$by" --target cuda \
            "${cudnn_flags[@]}" --set model.head_dim=12 --set target.attention=$by \
            >"$WORK/nowhere.log" 2>&1 || { bad "auto: does not generate" "$WORK/nowhere.log"; return; }
        # but for what names the description
        (cd "$WORK/nowhere_$by" && cat ./*.c ./*.h ./*.cu Makefile plan.txt) |
            sed 's/[0-9a-f]\{16\}//g; /attention/s/"auto"\|"generated"//' >"$WORK/nowhere_$by.text"
    done
    check "auto: says why cuDNN runs no attention" grep -qF \
        'note: target.attention: a generated kernel runs attention, because cuDNN cannot: heads are 12 wide' \
        "$WORK/nowhere.log"
    check "auto: without cuDNN the generated kernels' trainer" \
        cmp "$WORK/nowhere_generated.text" "$WORK/nowhere_auto.text"
    cp -R "$ROOT/templates/ops" "$WORK/ops"
    sed -i 's/n.head_dim > 128/n.head_dim > 64/' "$WORK/ops/attention_bwd/op.lua"
    check "auto: a rule that refuses what its sibling takes is refused" grep -q \
        'target.attention: cuDNN can run one of attention and attention_bwd, not both' \
        <("$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --target cuda --ops "$WORK/ops" \
            "${cudnn_flags[@]}" --set model.head_dim=128 --set target.attention=auto 2>&1)
    rm -rf "$WORK/ops"
}

cudnn_turn() { # N: is it this run's turn? all with FULL
    [ "$FULL" = 1 ] || [ $((SEED / 2 % 2)) = "$1" ]
}

cudnn_faults=0
cudnn_fault() { # WHAT SED; all with FULL, else a third
    local runtime=$WORK/cudnn_runtime
    [ "$FULL" = 1 ] || [ $((cudnn_faults++ % 3)) = $((SEED % 3)) ] || return
    rm -rf "$runtime"
    cp -R "$ROOT/runtime" "$runtime"
    sed -i "$2" "$runtime/cuda/cudnn/rt_cudnn_graph.c"
    if cmp -s "$runtime/cuda/cudnn/rt_cudnn_graph.c" "$ROOT/runtime/cuda/cudnn/rt_cudnn_graph.c"; then
        bad "cuDNN, $1: not planted"
    elif ! cudnn_trainer "$WORK/planted" RUNTIME="$runtime" --set target.attention=cudnn --set model.window=5; then
        bad "cuDNN, $1: does not run" "$WORK/planted.log"
    elif gradients_near "$WORK/generated.g" "$WORK/planted.g" >"$WORK/planted.cmp"; then
        bad "missed: cuDNN, $1"
    else
        ok "cuDNN, $1"
    fi
}

# --tune-kernels runs attention several times: bits that vary, although no note of the library says so, are reported.
cudnn_steady() { # TRAINER'S FOLDER
    local n
    local -x CUDASIM_L2=4096 # which the simulator overwrites slowly
    check "cuDNN: --tune-kernels checks its bits" "$1/trainer" --tune-kernels
    for n in "" " backward"; do
        check "cuDNN: the bits of attention$n are checked" grep -Eq \
            "^attention$n of 2 x 13 tokens, 4 heads of 2, 8 wide: engine [0-9]+, [0-9.]+ us, the same bits in 9 runs$" \
            <("$1/trainer" --tune-kernels 2>&1)
    done
    for n in 9 13; do # the last run of the forward, one of the backward
        check "cuDNN: bits that vary in run $n are reported" grep -Eq \
            'attention.* of 2 x 13 tokens.*: engine [0-9]+ of cuDNN [0-9]+ gave other bits in run [0-9]+; generate without' \
            <(CUDASIM_UNSTEADY_CUDNN=$n "$1/trainer" --tune-kernels 2>&1)
    done
    rm -f "$1/kernels.wis"
}

# "tune": a trainer with both kernels of each attention. Its steps are those of "auto"; with times
# of the simulator, --tune-kernels writes the faster kernels as a file, from which "auto" takes them.
cudnn_tune() { # TRAINER'S FOLDER
    CUDASIM_L2=4096 timeout 600 "$1/trainer" --tune-kernels >"$1.tune" 2>&1 ||
        bad "tune: --tune-kernels does not run" "$1.tune"
}

# chosen WHAT FILE KERNELS COMMENT: one site, these kernels
chosen() {
    check "tune: $1: $3" test "$(grep -c 'site = ' "$2") $(grep -cxF -- \
        "        { site = \"window of 5 over 13 tokens, 4 heads of 2, 8 wide, bf16\", kernels = \"$3\" }," \
        "$2") $(grep -cE -- "^        -- cuDNN [0-9.]+ us${4-}, generated [0-9.]+ us$" "$2")" = "1 1 1" ||
        cat "$2"
}

# by_choice NAME KERNELS: a trainer of "auto" with the choices of $WORK/tune
by_choice() {
    trainer "$WORK/$1" tiny_llama cuda "${cudnn_flags[@]}" --set model.window=5 --path "$WORK/tune" \
        --set target.attention=auto --set 'target.attention_choices=require "attention"' ||
        bad "tune: the choices are not read" "$WORK/$1.log"
    check "tune: $2 kernels by choice" grep -q "^    .choices = \".*: $2\",$" "$WORK/$1/trainer.c"
    check "tune: the emitted description has the choices" \
        test "$(grep -c -- '--path' "$WORK/$1/description.lua")" = 0
}

# numerics, and all that computes, of two folders; hashes that name the description are left out
same_computation() {
    local dir
    for dir in "$@"; do
        (cd "$dir" && grep '"numerics"' manifest.json &&
            cat kernels.c kernels.cu kernels.h math.c bind.c step.c tables.c calibrate.c Makefile |
                sed 's/[0-9a-f]\{16\}//g') >"$dir.text"
    done
    cmp "$1.text" "$2.text"
}

cudnn_choose() { # FOLDERS of the trainers by generated kernels and by cuDNN, of the same description
    local dir=$WORK/tune file=$WORK/tune/attention.lua generated=$1 cudnn=$2 link
    if ! cudnn_trainer "$dir" --set model.window=5 --set target.attention=tune; then
        bad "tune: does not run" "$dir.log"
        return
    fi
    check "tune: steps have the bits of the kernels that the rule prefers" cmp "$generated.g" "$dir.g"
    check "tune: the platform's text names them" grep -q \
        '; attention window of 5 over 13 tokens, 4 heads of 2, 8 wide, bf16: generated)$' "$dir.out"
    CUDASIM_CUDNN_US=30 CUDASIM_KERNEL_US=100 cudnn_tune "$dir"
    check "tune: both times of both ops are printed" test "$(grep -cE \
        '^attention(_bwd)? window of 5 over 13 tokens, 4 heads of 2, 8 wide, bf16: cuDNN [0-9]+ 30.0 us, generated [1-9]00.0 us$' \
        "$dir.tune")" = 2 || cat "$dir.tune"
    chosen "a faster cuDNN" "$file" cudnn
    cp "$file" "$dir.first"
    CUDASIM_CUDNN_US=30 CUDASIM_KERNEL_US=100 cudnn_tune "$dir"
    check "tune: the same times make the same file" cmp "$dir.first" "$file"
    by_choice by_cudnn cuDNN
    check "tune: the trainer of target.attention=cudnn" same_computation "$cudnn" "$WORK/by_cudnn"
    CUDASIM_CUDNN_US=300 CUDASIM_KERNEL_US=10 cudnn_tune "$dir"
    chosen "a slower cuDNN" "$file" generated
    by_choice by_generated generated
    check "tune: the trainer of generated kernels" same_computation "$generated" "$WORK/by_generated"
    cudnn_tune "$dir"
    chosen "equal times" "$file" generated
    CUDASIM_CUDNN_US=30 CUDASIM_KERNEL_US=100 CUDASIM_UNSTEADY_CUDNN=9 cudnn_tune "$dir"
    check "tune: the run with other bits is named" grep -q 'us; its bits were others in run 9$' "$dir.tune"
    chosen "bits that vary" "$file" generated ", but its bits vary"
    rm "$file"
    mkdir "$file"
    check "tune: a file that cannot be written is reported" grep -q 'attention.lua cannot be written: ' \
        <(CUDASIM_L2=4096 "$dir/trainer" --tune-kernels 2>&1)
    rmdir "$file"
    echo 'return arch {}' >"$WORK/tune.mine"
    for link in -s ''; do
        ln $link "$WORK/tune.mine" "$file"
        check "tune: a file of others (ln $link) is refused before anything is measured" test "$(grep -c \
            'attention.lua: the file is there and does not begin as what --tune-kernels writes: move it\|generated [0-9.]* us' \
            <(CUDASIM_L2=4096 "$dir/trainer" --tune-kernels 2>&1))" = 1
        check "tune: it stays" test "$(cat "$file" "$WORK/tune.mine" | uniq -c)" = "      2 return arch {}"
        rm "$file"
    done
}

cudnn_attention() {
    if [ ! -e "$home/include/cudnn.h" ]; then
        echo "skipped: attention by cuDNN (no headers of cuDNN)"
        return
    fi
    cudnn_turn 0 && cudnn_slices "slices of some heads" 'kv += 1)' --set model.heads=8
    cudnn_turn 1 && cudnn_slices "slices of a sequence" 'for (int64_t i = 0; i < 600; i += 300) {$' \
        --set model.heads=2 --set model.kv_heads=1
    cudnn_nowhere
    cudnn_turn 1 && cudnn_some
    cudnn_turn 0 && cudnn_case "as many keys as queries" --set model.kv_heads=4 --set 'dtypes.param="f16"'
    cudnn_case "a window" --set model.window=5 || return
    # of that one: ranks, orders, replayed steps
    local dir=$WORK/cudnn_ranks one=$WORK/cudnn
    if ! run_cuda "$one" STEPS=3 ||
       ! trainer "$dir" tiny_llama cuda "${cudnn_flags[@]}" --set model.window=5 \
            --set target.attention=cudnn --set mesh.shard=2 --set recompute=block ||
       ! build_trainer "$dir" CUDA_HOME="$home" || ! run_cuda "$dir" STEPS=3 CUDASIM_SEED=$((SEED + 5)); then
        bad "cuDNN on two ranks: does not run" "$dir.log"
    else
        same "cuDNN: two ranks, recomputed, other orders" "$dir" "$one"
        check "cuDNN: call by call: runs" run_cuda "$dir" STEPS=3 FLAGS=--no-graphs
        same "cuDNN: call by call" "$dir" "$one"
    fi
    check "cuDNN is named in the platform's text" \
        grep -q 'cuDNN [0-9]' <("$dir/trainer" --help | cat; "$dir/trainer" --numerics-hash 2>&1 |
            cat; STEPS=1 timeout 600 "$dir/trainer" --data "$data" --steps 1 --threads 1 --verbose 2>&1)
    cudnn_turn 0 && cudnn_steady "$one"
    cudnn_turn 1 && cudnn_choose "$WORK/generated" "$one"
    fault "an old cuDNN" 'cuDNN 90100 is too old: attention needs 91501 or later' "$one" CUDASIM_CUDNN=90100
    fault "cuDNN cannot run it" 'cudnnBackendExecute.* on GPU 0.*: an error of the library' "$one" \
        CUDASIM_FAIL=cudnnBackendExecute:3
    fault "cuDNN cannot plan it" 'cuDNN [0-9]* cannot do attention of 2 x 13 tokens, 4 heads of 2, 8 wide' \
        "$one" CUDASIM_FAIL=cudnnBackendFinalize:60
    check "cuDNN: heads of another width are refused" grep -q \
        'target.attention: cuDNN has no attention: heads are 12 wide, not a multiple of 8 up to 128' \
        <("$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --target cuda --set 'dtypes.param="bf16"' \
            --set model.head_dim=12 --set target.attention=cudnn 2>&1)
    cudnn_fault "a key after the query" 's/hide(g, scores, CUDNN_POINTWISE_CMP_GE, query, key)/hide(g, scores, CUDNN_POINTWISE_CMP_GE, key, query)/'
    cudnn_fault "a window that is one longer" 's/CUDNN_POINTWISE_CMP_GT, end, query/CUDNN_POINTWISE_CMP_GE, end, query/'
    cudnn_fault "scores that are not scaled" 's/s = masked(g, with(g, CUDNN_POINTWISE_MUL, s, value(g, RT_DNN_SCALE), all));/s = masked(g, s);/'
    cudnn_fault "gradients without delta" 's/Desc ds = with(g, CUDNN_POINTWISE_SUB, dp, delta, all);/Desc ds = dp; (void)delta;/'
    cudnn_fault "values where keys are" 's/Desc keys = reshape(g, k,/Desc keys = reshape(g, v,/'
    cudnn_fault "weights that are not turned" 's/nowhere(g, element(a), turned(pairs(a)))/nowhere(g, element(a), pairs(a))/'
}
