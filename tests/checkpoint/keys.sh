# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: segments of every key. fsdpgen_keys (keys.c) emits trainers whose parameters
# are stored as boxes, along the last dim or the first, which ranks of a tensor axis share, and whose
# vectors lie in segments of f32; idle.c takes their mathematics away. Initial weights are those of a
# trainer without boxes. Updates, hashes, gradients as they are debugged and checkpoints are to the byte
# those of one rank that has all boxes.

# keyed NAME TENSOR WIDE SHARD [BOXES]
keyed() {
    local dir=$WORK/$1
    TENSOR=$2 WIDE=$3 BOXES=${5:-4} FSDPGEN=$BUILD/tests/checkpoint/fsdpgen_keys generate "$dir" "$llama" \
        --set=dtypes.param=bf16 --set=mesh.shard="$4" || {
        bad "$1 is generated" "$dir.log"
        return 1
    }
    # kernels of bf16 are called with vectors of f32: the compiler warns
    build_trainer "$dir" -j2 GEMM=builtin CFLAGS="$flags" \
        LDFLAGS="-Wl,--wrap=rt_main $WORK/idle.o" || {
        bad "$1 is built" "$dir.log"
        return 1
    }
}

# touched NAME STEP [FLAGS...]: what it says of its weights in $WORK/NAME.STEP.hash
touched() {
    local name=$1 step=$2
    shift 2
    timeout 60 "$WORK/$name/trainer" --data "$data" --threads 1 --quiet --weights-hash \
        --steps "$step" "$@" >"$WORK/$name.out" 2>"$WORK/$name.err" || {
        bad "$name runs" "$WORK/$name.err"
        return 1
    }
    grep '^weights' "$WORK/$name.out" >"$WORK/$name.$step.hash"
}

# touches NAME LIKE: NAME's trainer starts, updates and saves as LIKE's, and goes on from its step.
touches() {
    local name=$1 like=$2 step
    rm -rf "$WORK/$name.ck" "$WORK/$name.goes"
    touched "$name" 1 --checkpoint "$WORK/$name.ck" --debug-gradients "$WORK/$name.json" || return
    files_of "$WORK/$name.ck" >"$WORK/$name.1.files"
    cp -r "$WORK/$like.ck" "$WORK/$name.goes"
    touched "$name" 2 --checkpoint "$WORK/$name.goes" --resume || return
    files_of "$WORK/$name.goes" >"$WORK/$name.2.files"
    [ "$name" != "$like" ] || return 0
    check "$name: the gradients are those of $like" cmp "$WORK/$name.json" "$WORK/$like.json"
    for step in 1 2; do
        check "$name: the weights' hash after step $step is that of $like" \
            cmp "$WORK/$name.$step.hash" "$WORK/$like.$step.hash"
        check "$name: the files after step $step are those of $like" \
            cmp "$WORK/$name.$step.files" "$WORK/$like.$step.files"
    done
}

has_key() { grep -q "$2" "$WORK/$1/tables.c"; }

keys() {
    local name
    cc -O1 -Wall -Wextra -Werror -march="$ISA_ARCH" -I"$ROOT/runtime" \
        -c "$ROOT/tests/checkpoint/idle.c" -o "$WORK/idle.o" || {
        bad 'idle.c is built'
        return
    }
    keyed plain 1 0 2 1 && keyed boxes 1 0 2 && keyed cut 2 0 2 && keyed cut4 4 0 1 &&
        keyed vectors 1 1 4 && keyed both 2 1 2 || return
    check 'neutral keys are not printed' test -z "$(grep 'axes = \|cut_dim = \|BOXES' "$WORK/plain/tables.c")"
    check 'a cut has its axes' has_key cut '\.axes = 0x1 \|\.axes = 0x1,'
    check 'and its dim' has_key cut '\.cut_dim = 1\|BOXES(4, 0, 1)'
    check 'a second dtype is a segment' has_key both 'RT_F32'
    for name in plain boxes; do
        rm -rf "$WORK/$name.ck"
        touched $name 0 --checkpoint "$WORK/$name.ck"
    done
    check 'boxes begin with the weights of what has none' cmp "$WORK/boxes.0.hash" "$WORK/plain.0.hash"
    touches boxes boxes || return
    touches cut boxes
    touches cut4 boxes
    touches vectors vectors || return
    touches both vectors
    check 'weights without masters have the hash of masters' \
        cmp "$WORK/both.1.hash" "$WORK/boxes.1.hash"
}

part keys turn 0 2 keys
