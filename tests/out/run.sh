#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The committed trainers in out/ are what models/ gives today, byte for byte, and build
# from a checkout with `make` alone. tests/out/regenerate.sh writes them again.
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/out/models.sh"
case $FSDPGEN in /*) ;; *) FSDPGEN=$PWD/$FSDPGEN ;; esac
export CC_CACHE=${CC_CACHE:-$WORK/objects}
cd "$ROOT" || exit 70

# The same folders under another root, made now: what --check compares, seen from
# outside it.
same_bytes() {
    local name=$1 copy=$WORK/tree
    mkdir -p "$copy/out"
    [ -e "$copy/models" ] || cp -R models "$copy/models"
    (cd "$copy" && out_generate "$name" "out/$name") || return 1
    # what make leaves is not of the trainer's source
    diff -r -x build -x trainer "out/$name" "$copy/out/$name"
}

# make, in a copy of what a checkout has, so that nothing is left in the tree. Without FULL=1 make says
# that it finds all sources there, and compiles those of the tree, as other suites do.
builds() {
    local name=$1 copy=$WORK/checkout tree=
    [ "$FULL" = 1 ] || tree=RUNTIME=$ROOT/runtime
    mkdir -p "$copy/out"
    [ -e "$copy/runtime" ] || cp -R runtime "$copy/runtime"
    cp -R "out/$name" "$copy/out/$name"
    rm -rf "$copy/out/$name/build" "$copy/out/$name/trainer"
    make -C "$copy/out/$name" -n >"$WORK/dry" && grep -q '/runtime/rt_main.c' "$WORK/dry" &&
        make -C "$copy/out/$name" CC="$ROOT/tests/cc_cached" $tree "${ISA_MAKE[@]}" &&
        "$copy/out/$name/trainer" --help >"$WORK/help"
}

one() { # NAME
    local name=$1
    if [ ! -e "out/$name/manifest.json" ]; then
        bad "out/$name is missing: run tests/out/regenerate.sh"
        return
    fi
    check "out/$name is what models/$name.lua gives" \
        out_generate "$name" "out/$name" --check
    check "out/$name has the same bytes in another tree" same_bytes "$name"
    case " $OUT_CUDA " in
    *" $name "*)
        if [ ! -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ]; then
            echo "skipped: building out/$name: no CUDA toolkit here"
        else
            turn 1 4 check "out/$name builds with make" builds "$name"
        fi ;;
    *) check "out/$name builds with make" builds "$name" ;;
    esac
    if grep -rlE "$ROOT|$(uname -n)" "out/$name" --exclude-dir=build --exclude=trainer \
        >"$WORK/leaks" && [ -s "$WORK/leaks" ]; then
        bad "out/$name holds this machine's name or paths" "$WORK/leaks"
    else
        ok "out/$name holds no machine's name or paths"
    fi
}

# One trained step shows that the copy is a trainer, not only a program.
trains() {
    check "out/demo trains" "$WORK/checkout/out/demo/trainer" --data "$ROOT/LICENSE" --steps 1
}

known() {
    local folder name
    for folder in out/*/; do
        name=$(basename "$folder")
        case " $OUT_MODELS " in
        *" $name "*) ok "out/$name is known" ;;
        *) bad "out/$name: tests/out/models.sh does not know how it is made" ;;
        esac
    done
}

# --check tells drift: one byte more, one file less, one file that is not ours
drift() {
    cd "$WORK/tree" || return
    echo >>out/demo/math.c
    if out_generate demo out/demo --check >"$WORK/drift" 2>&1; then
        bad "a hand edit is not told"
    else
        check "a hand edit is told" grep -q 'math.c.*edited by hand' "$WORK/drift"
    fi
    rm out/demo/math.c
    if out_generate demo out/demo --check >"$WORK/drift" 2>&1; then
        bad "a missing file is not told"
    else
        check "a missing file is told" grep -q 'math.c.*is missing' "$WORK/drift"
    fi
    cd "$ROOT" || return
}

for name in $OUT_MODELS; do part "$name" one "$name"; done
part trains:demo trains
part known known
part drift:demo drift
finish
