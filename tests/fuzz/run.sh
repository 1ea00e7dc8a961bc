#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Hostile input: fsdpgen against changed, random and endless descriptions, architectures
# and ops, tokenizers, config.json files and logs; the runtime's readers against data files and weights
# whose headers or indexes lie; what a machine hears from another one that lies; random legal
# descriptions, trained. The same SEED gives the same cases. FULL=1: the promised counts (100,000
# descriptions, 10^6 cases of each reader), and a tenth of them where FSDPGEN_BUILD is a sanitized build.
set -u
. "$(dirname "$0")/../lib.sh"

# Many small files are written: in memory if there is a place for them. No programs: it
# may be mounted noexec.
CASES=$WORK
if [ "${KEEP:-0}" != 1 ] && [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ]; then
    CASES=$(mktemp -d /dev/shm/fsdpgen-fuzz.XXXXXX) || exit 70
    trap 'remove_at_end "$WORK" "$CASES"' EXIT
fi

jobs=$(nproc)
sanitized=0
grep -qs '^FSDPGEN_SANITIZE:.*=.*address' "$BUILD/CMakeCache.txt" && sanitized=1
if [ "$FULL" = 1 ]; then
    most=$((sanitized ? 100000 : 1000000))
    descriptions=$((most / 10)) tokenizers=$most configs=$most diffs=$((most / 10)) runs=$most
    headers=1000000 trainers=60
elif [ $sanitized = 1 ]; then
    descriptions=200 tokenizers=600 configs=2500 diffs=700 runs=3000
else
    descriptions=400 tokenizers=600 configs=5000 diffs=2000 runs=3000 headers=20000 trainers=2
fi
export ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:allocator_may_return_null=1
export UBSAN_OPTIONS=print_stacktrace=1:abort_on_error=1

# spread NAME COUNT PROGRAM: the cases of this seed, shared by all cores; adds up what
# each part counted. A part that ends without counting is a failure.
spread() {
    local name=$1 count=$2 program=$3 part each=$((($2 + jobs - 1) / jobs)) pids=() p line
    local good_cases=0 bad_cases=0
    for ((part = 0; part * each < count; part++)); do
        mkdir -p "$CASES/$name.$part"
        "$program" "$SEED" $((part * each)) \
            $((each < count - part * each ? each : count - part * each)) \
            "$CASES/$name.$part" >"$WORK/$name.$part.log" 2>&1 &
        pids+=($!)
    done
    for ((p = 0; p < ${#pids[@]}; p++)); do
        wait "${pids[$p]}"
        local status=$?
        grep -a -A 24 '^FAIL' "$WORK/$name.$p.log" | head -n 200
        line=$(grep -aE '^[0-9]+ passed, [0-9]+ failed$' "$WORK/$name.$p.log" | tail -n 1)
        if [ -z "$line" ]; then
            bad "$name: part $p ended with status $status" "$WORK/$name.$p.log"
            continue
        fi
        good_cases=$((good_cases + ${line%% *}))
        line=${line#*, }
        bad_cases=$((bad_cases + ${line%% *}))
        if [ $status -ne 0 ] && [ "${line%% *}" = 0 ]; then
            bad "$name: part $p ended with status $status" "$WORK/$name.$p.log"
        fi
        sed -n "s/^codes: /figure: $name: /p" "$WORK/$name.$p.log"
    done
    echo "$name: seed $SEED, $good_cases good, $bad_cases bad"
    passed=$((passed + good_cases))
    failed=$((failed + bad_cases))
}


tool_of() { # NAME COUNT: a tool that CMake has built
    if [ -x "$BUILD/tests/fuzz/fuzz_$1" ]; then
        spread "$1" "$2" "$BUILD/tests/fuzz/fuzz_$1"
    else
        bad "$1: $BUILD/tests/fuzz/fuzz_$1 is not built"
    fi
}

# A case that ends its process, as a bug of fsdpgen's does, is a failure.
dies() {
    cat >"$WORK/dies.c" <<'C'
#include "batch.h"
static const char *dies(Random *r, int *taken)
{
    (void)r;
    if (++*taken == 7)
        exit(70);
    return NULL;
}
int main(int argc, char **argv)
{
    return argc != 4 || run_batches(argv, dies);
}
C
    if ${CC:-cc} -std=gnu11 -Wall -Wextra -I"$ROOT/tests/fuzz" "$WORK/dies.c" \
        "$ROOT/tests/fuzz/mutate.c" -o "$WORK/dies" >"$WORK/dies.log" 2>&1; then
        "$WORK/dies" 1 0 100 >"$WORK/dies.log"
        check "a case that ends its process is told" grep -qx '6 passed, 94 failed' "$WORK/dies.log"
    else
        bad "the loop of cases does not build" "$WORK/dies.log"
    fi
}

# A reader is a file of the runtime; it is built here with the sanitizers whatever BUILD is.
reader() { # NAME
    local flags="-fsanitize=address,undefined -fno-sanitize-recover=all"
    [ $sanitized = 0 ] || { echo "skipped: $1: any build reads them with the sanitizers"; return; }
    if ! echo 'int main(void) { return 0; }' |
        ${CC:-cc} $flags -x c - -o "$WORK/probe" 2>/dev/null; then
        echo "skipped: the sanitizers are not installed; $1 are read without them"
        flags=
    fi
    if ${CC:-cc} -std=gnu11 -O1 -g -Wall -Wextra -Werror $flags -I"$ROOT/runtime" \
        "$ROOT/tests/fuzz/$1.c" "$ROOT/tests/fuzz/mutate.c" -o "$WORK/$1" \
        >"$WORK/$1.log" 2>&1; then
        spread "$1" $headers "$WORK/$1"
    else
        bad "building the fuzzer of $1" "$WORK/$1.log"
    fi
}

train() {
    [ $sanitized = 0 ] || { echo "skipped: random trainers: of an unsanitized build"; return; }
    [ -x "$BUILD/tests/fuzz/fuzz_descriptions" ] || return 0
    . "$ROOT/tests/fuzz/train.sh"
    train_random $trainers
}

part descriptions tool_of descriptions $descriptions
part dies dies
part tokenizers tool_of tokenizers $tokenizers
part configs tool_of configs $configs
part diffs tool_of diffs $diffs
part runs tool_of runs $runs
for name in headers indexed tensors machines carried; do part $name reader $name; done
part trainers train
finish
