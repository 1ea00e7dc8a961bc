# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after matrix.sh: what rows of the matrix cannot show of the contract, on a
# model's reference trainer.

# The compiler's part of the contract: no contraction, no libm, no lane or tail in a result. So
# builds that share an instruction set agree, whatever is vectorised or inlined.
builds() { # NAME GEMM
    local dir=$WORK/reference_$1 what cc flags
    cp "$dir.result" "$WORK/built.want"
    for what in "cc -O1" "clang -O3"; do
        read -r cc flags <<<"$what"
        if ! command -v "$cc" >/dev/null; then
            echo "skipped: $cc is not installed"
        elif ! build_trainer "$dir" BUILD="$WORK/built" GEMM="$2" REAL_CC="$cc" \
                CFLAGS="$flags -march=$ISA_ARCH" ||
             ! train "$dir" "$data" $STEPS --threads 3; then
            bad "$1: built with $what: does not run" "$dir.log"
        else
            check "$1: built with $what" diff "$WORK/built.want" "$dir.result"
        fi
        rm -rf "$WORK/built"
    done
}

# Nothing of libm in the objects of a trainer: another libm would be other bits.
symbols() { # NAME
    local object found=$WORK/symbols
    for object in "$WORK/reference_$1"/build/*.o "$WORK/reference_$1"/build/runtime/{,*/}*.o; do
        nm -u "$object" | sed "s#^ *U#${object##*/}#"
    done | grep -E ' (exp|log|pow|sin|cos|tan|sqrt|cbrt|fma|hypot|erf|ldexp|fmod|round)[a-z0-9]*$' \
        >"$found"
    if [ -s "$found" ]; then
        bad "$1: calls libm" "$found"
    else
        ok "$1: calls nothing of libm"
    fi
}
