#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The bits of every kernel that stays off products and vectors of the machine's width
# must not depend on optimisation, instruction set or compiler: runs the same cases with
# several and compares digests of the outputs. In: the op_test binary, and the -march of the
# runtime that it links. Out: exit 1 if any differ. FULL=1: with all of them; else with one, as
# SEED chooses.
set -eu
op_test=$1 arch=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# digests NAME OPTION...
digests() {
    name=$1
    shift
    mkdir -p "$work/$name.d"
    if ! "$op_test" --work "$work/$name.d" --cases 1 --seed 7 --digests yes "$@" \
        >"$work/$name.log"; then
        grep -v '^bits of' "$work/$name.log"
        exit 1
    fi
    grep '^bits of' "$work/$name.log" >"$work/$name"
}

digests vectors --flags "-O3 -march=$arch"
plain=1 clang=0
command -v clang >/dev/null 2>&1 && clang=1
if [ "${FULL:-0}" != 1 ] && [ $clang = 1 ]; then
    plain=$((${SEED:-1} % 2)) clang=$((1 - ${SEED:-1} % 2))
fi
set --
if [ $plain = 1 ]; then
    digests plain --flags '-O1'
    set -- plain
fi
if [ $clang = 1 ]; then # it warns of loops that it leaves as they are
    digests clang --cc clang --flags "-O2 -march=$arch -Wno-pass-failed"
    set -- "$@" clang
fi
for other; do
    if ! diff "$work/vectors" "$work/$other" >"$work/diff"; then
        echo "bits: -O3 -march=$arch and $other differ:"
        head -n 6 "$work/diff"
        exit 1
    fi
done
echo "bits: $(wc -l <"$work/vectors") kernels, equal bits with -march=$arch, $*"
