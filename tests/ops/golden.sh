#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# golden.sh OP_TEST [--update]: the bits of every op's kernel, for each instruction set, as
# golden/bits.txt keeps them. Changed bits need a new version: `arithmetic = N + 1` in the op's rule,
# which gives every model with that op another numerics hash. Products are the built-in ones, which
# are ours, and built here for the set. Optimisation changes no bit (bits.sh), so most sets are
# compiled without it. FULL=1 optimises all sets; else one is optimised, and of the others SEED takes
# every second. In: the op_test binary. Out: exit 1 if bits changed without their version, or a row is
# missing. --update writes the rows of the sets that this machine has, and drops those of other
# versions. For another processor that an emulator runs (tests/aarch64): CC, and GOLDEN_CPU, the flags
# of /proc/cpuinfo there.
set -u -o pipefail
op_test=$1 update=${2:-}
root=$(cd "$(dirname "$0")/../.." && pwd)
table=$root/tests/ops/golden/bits.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$root/tests/isa.sh"

# set|flags of /proc/cpuinfo that it needs|of the compiler
sets() {
    local v4='avx512f avx512bw avx512cd avx512dq avx512vl'
    cat <<TABLE
v2|sse4_2 popcnt|-march=x86-64-v2
v3|avx2 fma bmi2|-march=x86-64-v3
v4|$v4|-march=x86-64-v4
v4-bf16|$v4 avx512_bf16|-march=x86-64-v4 -mavx512bf16
neon|asimd|-march=armv8-a
TABLE
    [ -n "${GOLDEN_CPU:-}" ] || echo "cuda||"
}

digests() { # SET FLAGS LEVEL: lines "op dtypes version digest"
    local name=$1 flags=$2 level=$3 target=cpu file objects=()
    mkdir -p "$work/$name.d"
    if [ "$name" = cuda ]; then
        target=cuda flags=$level
    else
        for file in rt_gemm rt_gemm_builtin; do
            # shellcheck disable=SC2086
            ${CC:-cc} -std=gnu11 -O2 $flags -fPIC -fopenmp -ffp-contract=off -fno-fast-math \
                -fno-math-errno -Wno-psabi -DRT_GEMM_BUILTIN -I"$root/runtime" \
                -c "$root/runtime/cpu/$file.c" -o "$work/$name.d/$file.o" || return
            objects+=("$work/$name.d/$file.o")
        done
        flags="$level $flags -Wno-psabi ${objects[*]} -Wl,-Bsymbolic"
    fi
    "$op_test" --work "$work/$name.d" --cases 1 --golden yes --target "$target" --flags "$flags" \
        ${CC:+--cc "$CC"} \
        >"$work/$name.log" 2>&1 || return
    sed -n 's/^golden //p' "$work/$name.log"
}

: >"$work/now"
skipped=() taken=() number=0
cpu=" ${GOLDEN_CPU:-$(sed -nE 's/^(flags|Features)[^:]*: //p;T;q' /proc/cpuinfo 2>/dev/null)} "
while IFS='|' read -r name needs flags; do
    for flag in $needs; do
        [[ $cpu = *" $flag "* ]] || { skipped+=("$name"); continue 2; }
    done
    level=-O0 number=$((number + 1))
    if [ "${FULL:-0}" = 1 ] || [ $((number % 5)) = $((${SEED:-1} % 5)) ]; then
        level=-O2
    elif [ -z "$update" ] && [ $(((number + ${SEED:-1} / 5) % 2)) = 0 ]; then
        continue
    fi
    if ! digests "$name" "$flags" $level >"$work/rows"; then
        tail -n 20 "$work/$name.log" >&2
        echo "golden: the kernels of $name do not run"
        exit 1
    fi
    awk -v set="$name" '{ print $1, $2, set, $3, $4 }' "$work/rows" >>"$work/now"
    taken+=("$name")
done < <(sets)

head_of() { sed -n '/^#/p' "$table"; }
if [ "$update" = --update ]; then
    { head_of; { cat "$work/now"; grep -v '^#' "$table"; } |
        awk -f "$root/tests/ops/golden.awk" | LC_ALL=C sort; } >"$work/table"
    cp "$work/table" "$table"
    echo "golden: $(grep -vc '^#' "$table") rows; written: ${taken[*]}${skipped[*]:+, not here: ${skipped[*]}}"
    exit 0
fi
awk -v sets="${taken[*]}" '
    NR == FNR { if ($0 !~ /^#/) { version[$1 " " $2 " " $3] = $4; bits[$1 " " $2 " " $3] = $5 } next }
    { key = $1 " " $2 " " $3; seen[key] = 1 }
    !(key in bits) { print key ": no row: tests/ops/golden.sh OP_TEST --update"; next }
    version[key] != $4 { print key ": arithmetic = " $4 ", the row is of " version[key] ": --update"; next }
    bits[key] != $5 { print key ": other bits with arithmetic = " $4 ": raise it in the rule, then --update" }
    END {
        n = split(sets, set, " ")
        for (i = 1; i <= n; i++) here[set[i]] = 1
        for (key in bits) { split(key, k, " "); if (here[k[3]] && !seen[key]) print key ": a row of nothing: --update" }
    }' "$table" "$work/now" >"$work/bad"
if [ -s "$work/bad" ]; then
    echo "golden: $(wc -l <"$work/bad") kernels differ from tests/ops/golden/bits.txt:"
    LC_ALL=C sort "$work/bad" | head -n 20
    exit 1
fi
echo "golden: $(wc -l <"$work/now") kernels have their bits: ${taken[*]}${skipped[*]:+; not here: ${skipped[*]}}"
