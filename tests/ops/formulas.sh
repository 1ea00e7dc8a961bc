#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Random formulas (formulas.awk) as ops: their derivatives against finite differences, and the bits of
# their kernels, on the CPU and on the simulated device, against a plain interpreter; many of them in
# one file of C. A compiler that optimises takes most of the time, and no bit depends on it (bits.sh),
# so all are compiled without, and the first of them again for vectors. And faults planted in the
# generator, which that must find. In: the op_test binary, `cuda` where a device can be simulated.
# Out: exit 1 if anything differs. FULL=1: 1,000 of them, all faults; else 32, and the fault that SEED
# chooses.
set -u
op_test=$1 root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
seed=${SEED:-1}
if [ "${FULL:-0}" = 1 ]; then count=1000 again=200; else count=32 again=12; fi

# formulas COUNT TARGET OPTION...
formulas() {
    rm -rf "$work/ops" "$work/run"
    mkdir -p "$work/ops" "$work/run"
    awk -v seed="$seed" -v count="$1" -v dir="$work/ops" -f "$root/tests/ops/formulas.awk"
    target=$2
    shift 2
    "$op_test" --work "$work/run" --ops "$work/ops" --formulas yes --cases 1 --seed "$seed" \
        --target "$target" "$@" >"$work/log" 2>&1
}

failed=0
# passes COUNT TARGET HOW OPTION...
passes() {
    of=$1 on=$2 how=$3
    shift 3
    if formulas "$of" "$on" "$@"; then
        echo "formulas: $of $how: $(grep ' kernels, ' "$work/log")"
    else
        echo "formulas: seed $seed, of $of $how:"
        tail -n 20 "$work/log"
        failed=1
    fi
}
passes $count cpu "on the CPU" --flags -O0
passes $again cpu "in vectors"
[ -z "${2:-}" ] || passes $again "$2" "on the simulated device"

# fault FILE SED WHAT
number=0
fault() {
    number=$((number + 1))
    [ "${FULL:-0}" = 1 ] || [ $((seed % 10 + 1)) = $number ] || return 0
    rm -rf "$work/share"
    mkdir -p "$work/share"
    cp -R "$root/gen" "$root/templates" "$root/models" "$root/runtime" "$work/share"
    sed -i "$2" "$work/share/gen/lua/$1"
    if cmp -s "$work/share/gen/lua/$1" "$root/gen/lua/$1"; then
        echo "formulas: \"$2\" changes nothing in $1"
        failed=1
    elif formulas 25 cpu --flags -O0 --share "$work/share" || ! grep -q FAIL "$work/log"; then
        echo "formulas: missed: $3"
        failed=1
    else
        echo "formulas: found: $3 ($(grep -m 1 FAIL "$work/log"))"
    fi
}
fault formula_grad.lua '/^  tanh = /s/num(1)/num(1.001)/' 'the derivative of tanh, 0.001 off'
fault formula_grad.lua '/^  softplus = /s/b:mul(d, b.pool:call("sigmoid", n\[1\]))/b:select("<", b:num(0), n[1], d, b:num(0))/' 'the slope of softplus, that of relu'
fault formula_grad.lua '/^  div = /s/b:neg(b:mul/(b:mul/' 'the derivative of a quotient, without its sign'
fault formula_grad.lua '/^  max = /,/^  end/s/zero, d)/zero, zero)/' 'the first argument of max without derivative'
fault formula_grad.lua 's/^  if a == b then return self:num(0) end/  if a == b then return a end/' 'a - a is not 0'
fault formula_kernel.lua 's/ || %s != %s ?/ || %s < %s ?/' 'a kernel of max or min that loses NaN'
fault formula_kernel.lua 's/rt_%s${_f}/rt_%s/' 'functions of f64 in f32'
fault formula.lua 's/at_least(node\[2\], own + 1)/at_least(node[2], own)/' 'a - (b - c) without parentheses'
fault formula_grad.lua 's/pool:call("rsum", over_row\[n\])/over_row[n]/' 'the derivative of a mean, not summed over the row'
fault formula_rows.lua 's/half = 16/half = 2/' 'a sum without most of its lanes'
exit $failed
