# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Parts meet, and ranks come late or not at all: four ranks that sleep at random, each in
# its own way, around both joins of every meet end with the bits of ranks that do not. Without the second
# join they end with others, so the sleeps would expose a missing join. Where a rank stays away from
# one meet, the run ends: a line says who stands still, or the bits are others.

# Around a join: mostly nothing, now and then up to 2 ms, in which other ranks come past the next kernels.
meets_sleep='static void sleep_some(const Rt *rt)\
{\
    static unsigned at;\
    at = at ? at : SEED * 64u + (unsigned)rt->rank + 1;\
    if (rand_r(\&at) % 4 == 0)\
        usleep((unsigned)rand_r(\&at) % 2000);\
}\
\
'

# meets_built NAME [SED...]: the trainer with rt_meet.c changed, and with sleeps if the first SED is `asleep`
meets_built() {
    local name=$1 runtime=$WORK/meets_runtime file=cpu/rt_meet.c edit edits=()
    shift
    for edit; do edits+=(-e "$edit"); done
    rm -rf "$runtime" && cp -r "$ROOT/runtime" "$runtime" && sed -i "${edits[@]}" "$runtime/$file"
    ! cmp -s "$runtime/$file" "$ROOT/runtime/$file" &&
        build_trainer "$WORK/meets" GEMM=builtin RUNTIME="$runtime" && return
    bad "meets: $name: not planted" "$WORK/meets.log"
    return 1
}

# meets_run NAME: its losses, norms and weights in meets_NAME.result
meets_run() {
    TRAIN_SECONDS=600 train "$WORK/meets" "$data" 2 --threads 1 && mv "$WORK/meets.result" "$WORK/meets_$1.result" &&
        return
    bad "meets: $1: does not run" "$WORK/meets.log"
    return 1
}

# Rank 1 stays away from one meet, the one that SEED chooses of the first micro-batch.
meets_absent() {
    local dir=$WORK/meets code
    meets_built "a rank that stays away" "/^void rt_meet(/,/^}/s/^    Rt \*rt = .*/&\\
    static int meets;\\
    if (rt->rank == 1 \&\& ++meets == $((1 + SEED % 16)))\\
        return;/" || return
    rm -f "$dir.jsonl" "$dir.result"
    timeout -k 5 60 "$dir/trainer" --data "$data" --steps 2 --threads 1 --deadline 4 --log "$dir.jsonl" \
        --weights-hash >"$dir.out" 2>"$dir.err"
    code=$?
    [ $code != 0 ] || result_of "$dir"
    case $code in
    0) check "meets: a rank that stays away ends with other bits" bash -c "! cmp -s '$dir.result' '${dir}_plain.result'" ;;
    124 | 137) bad "meets: a rank stays away, and the others wait for ever" "$dir.err" ;;
    *) check "meets: a rank stays away, and a line says who stands still" \
        grep -qE 'rank [0-3] has stood still for 4\.0 s' "$dir.err" ;;
    esac
}

meets() {
    local include='s|^#include "cpu/rt_cpu.h"|&\n#include <stdlib.h>\n#include <unistd.h>|' join='rt_comm_join(rt, along->ranks);'
    local function="s/^void rt_meet(/${meets_sleep//SEED/$SEED}&/" around="s/^    $join/    sleep_some(rt);\\n&\\n    sleep_some(rt);/"
    generate "$WORK/meets" "$ROOT/tests/models/tiny_llama.lua" --set parts.tensor=2 --set parts.context=2 \
        --set mesh.tensor=2 --set mesh.context=2 --set model.layers=2 --set model.heads=4 --set model.ffn=52 \
        --set micro_batch=1 --set seq=8 --set global_batch=8 &&
        build_trainer "$WORK/meets" GEMM=builtin || { bad "meets: a trainer" "$WORK/meets.log"; return; }
    meets_run plain || return
    meets_built "ranks that sleep" "$include" "$function" "$around" && meets_run asleep &&
        check "meets: ranks that sleep around joins have the bits of those that do not" \
            cmp "$WORK/meets_plain.result" "$WORK/meets_asleep.result"
    # the second join comes after the loop over lanes
    meets_built "no second join" "$include" "$function" "/^    }\$/{n;s/^    $join/    sleep_some(rt);\\n    sleep_some(rt);/}" \
        "$around" && meets_run unjoined &&
        check "meets: without the second join they have others" \
            bash -c "! cmp -s '$WORK/meets_plain.result' '$WORK/meets_unjoined.result'"
    meets_absent
}
