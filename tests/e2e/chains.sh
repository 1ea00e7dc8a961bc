# SPDX-License-Identifier: Apache-2.0
# Sourced by suites: chains of formulas in one kernel have the bits of the formulas one by one, and
# their graph in the numerics hash, in random models (chains.awk).

# random_chains FOLDER NUMBER: a model and its ops
random_chains() {
    mkdir -p "$1/ops" "$1/arch"
    awk -v seed="$2" -v count=20 -v chained=1 -v dir="$1/ops" -f "$ROOT/tests/ops/formulas.awk"
    awk -v seed="$2" -v count=20 -v layers=4 -v dir="$1" -f "$ROOT/tests/e2e/chains.awk"
}

# fused_or_not WHAT FOLDER BUILD... -- FLAGS...: both trainers have the same bits; BUILD: arguments of make
fused_or_not() {
    local what=$1 folder=$2 dir=$2/trainer build=() fuse
    shift 2
    while [ "$1" != -- ]; do build+=("$1"); shift; done
    shift
    for fuse in true false; do
        rm -rf "$dir.$fuse" "$dir.$fuse".*
        if ! generate "$dir.$fuse" "$folder/chains.lua" --ops "$folder/ops" --set fuse=$fuse "$@" ||
           ! build_trainer "$dir.$fuse" "${build[@]}" ||
           ! train "$dir.$fuse" "$data" 3 --threads 2; then
            bad "$what does not run with fuse=$fuse" "$dir.$fuse.log"
            return 1
        fi
    done
    check "$what: the bits of the formulas one by one" cmp "$dir.true.result" "$dir.false.result"
    check "$what: chains save kernels" test "$(grep -c '^void map_' "$dir.true"/kernels.h)" -ge 6
    # of the graph; the field fuse is in the hash as well
    check "$what: the numerics hash knows no chains" cmp <(grep -o 'graph = [0-9a-f]*' \
        "$dir.true/checkpoint.c") <(grep -o 'graph = [0-9a-f]*' "$dir.false/checkpoint.c")
}

chains() {
    local folder number dtype dtypes count=1 share=$WORK/chains.share
    [ "$FULL" = 1 ] && count=5
    for ((number = SEED; number < SEED + count; number++)); do
        folder=$WORK/chains.$number
        random_chains "$folder" "$number"
        dtypes=$([ "$FULL" = 1 ] && echo f32 bf16 f64 || { [ $((SEED / 2 % 2)) = 1 ] && echo bf16 || echo f32; })
        for dtype in $dtypes; do
            fused_or_not "random chains $number in $dtype" "$folder" GEMM=builtin -- \
                --set "dtypes.param=\"$dtype\"" || return
        done
    done
    # a chain that keeps what it should round is found as it is made
    mkdir -p "$share"
    cp -R "$ROOT/gen" "$ROOT/templates" "$ROOT/models" "$ROOT/runtime" "$share"
    sed -i 's/dtype == self.given.acc and nodes/true and nodes/' "$share/gen/lua/formula_chain.lua"
    "$FSDPGEN" check "$folder/chains.lua" --ops "$folder/ops" --share "$share" \
        --set 'dtypes.param="bf16"' >"$WORK/chains.fault" 2>&1
    check "a chain that does not round in between is found" \
        grep -q 'by its ops one by one' "$WORK/chains.fault"
}
