#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# bits.sh OP_TEST ARCH FOLDER [kernels]: with `kernels`, kernels against their references, compiled
# as trainers are, for the -march of the runtime that OP_TEST links: of every other op, as SEED chooses (turn.sh);
# FULL=1: of all, then two more cases of each with -O2. The digests of the outputs stay in FOLDER. Without it, the same cases with other
# optimisation, instruction set or compiler, on which no bit of a kernel may depend that stays off
# products and vectors of the machine's width: with one of them, as SEED chooses; FULL=1: with all.
# Out: exit 1 if a kernel is wrong, or digests differ.
set -eu
op_test=$1 arch=$2 folder=$3 only=$("$(dirname "$0")/turn.sh" 0)
mkdir -p "$folder"

# digests NAME OPTION...
digests() {
    name=$1
    shift
    rm -rf "$folder/$name" "$folder/$name.d"
    mkdir "$folder/$name.d"
    if ! "$op_test" --work "$folder/$name.d" --cases 1 --seed 7 --digests yes $only "$@" \
        >"$folder/$name.log"; then
        grep -v '^bits of' "$folder/$name.log"
        exit 1
    fi
    grep '^bits of' "$folder/$name.log" >"$folder/$name"
    grep -v '^bits of' "$folder/$name.log"
}

if [ "${4:-}" = kernels ]; then
    digests vectors --flags "-O3 -march=$arch"
    [ "${FULL:-0}" != 1 ] || "$op_test" --work "$folder/vectors.d" --cases 2
    exit
fi
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
    if ! diff "$folder/vectors" "$folder/$other" >"$folder/diff"; then
        echo "bits: -O3 -march=$arch and $other differ:"
        head -n 6 "$folder/diff"
        exit 1
    fi
done
echo "bits: $(wc -l <"$folder/vectors") kernels, equal bits with -march=$arch, $*"
