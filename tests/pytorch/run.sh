#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trainers against PyTorch's figures (figures.json; figures.py says how they were made):
# losses of ten steps, gradient norms and projections of the first, in f32, f64, bf16 and f16.
# PyTorch is not needed to run this. FULL=1 runs every case in every dtype; else a sixth
# of the cases, as SEED chooses, in one of f32 and f64, and a seeded choice of them in its others. A case that the
# generator says it cannot do yet is skipped, and told. The part drawn has random cases on random
# meshes (drawn.json, of drawn.py), whose memory is also compared with the plan: all 200 with FULL=1,
# else two; DRAWN="7 8" names others.
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"
. "$ROOT/tests/e2e/mapped.sh"

figures=$ROOT/tests/pytorch/figures.json
compare=$BUILD/tests/pytorch/pytorch_compare

# The cases of figures.json: name, description, --set, dtypes, ranks, data, from its own lines.
cases() {
    sed -n 's/^ *{"name": "\([a-z0-9_]*\)", "description": "\([a-z0-9_]*\)", "set": \[\(.*\)\], "dtypes": \[\(.*\)\], "ranks": \([0-9]*\), "data": "\([a-z]*\)",$/\1|\2|\3|\4|\5|\6/p' \
        "$figures"
}

text=$ROOT/LICENSE
# shellcheck disable=SC2034 # cases name it
masked=$WORK/masked.txt
masked_text "$masked"
# shellcheck disable=SC2034
uneven=$WORK/uneven.txt
masked_text "$uneven" 'int(t / 500) % 3 > 0 || t % 7 == 3'

skipped=0 steps=10 quick=() watched=()
flags_of() { # SETS DTYPE RANKS: flags
    local set
    flags=(--set "dtypes.param=\"$2\"" --set "mesh.shard=$3")
    while IFS= read -r set || [ -n "$set" ]; do
        [ -z "$set" ] || flags+=(--set "$set")
    done < <(printf '%s' "$1" | sed 's/^"//; s/"$//; s/", "/\n/g')
}

one() { # NAME DESCRIPTION SETS DTYPE RANKS DATA
    local name=$1 model=$2 dtype=$4 ranks=$5 data=${!6} dir=$WORK/$1_$4 flags
    flags_of "$3" "$dtype" "$ranks"
    if ! generate "$dir" "$ROOT/tests/models/$model.lua" "${flags[@]}"; then
        if grep -q 'is not available yet' "$dir.log"; then
            echo "skipped: $name $dtype: not available yet"
            skipped=$((skipped + 1))
        else
            bad "$name $dtype: is not generated" "$dir.log"
        fi
        return
    fi
    if ! build_trainer "$dir" "${quick[@]}" ||
       ! MAP_HOOK_FILE=$dir.mapped LD_PRELOAD=${watched:+$WORK/map_hook.so} \
            train "$dir" "$data" "$steps" --debug-gradients "$dir.gradients" \
            ${watched:+"${watched[@]}" --stats "$dir.stats"}; then
        bad "$name $dtype: does not run" "$dir.log"
        return
    fi
    if "$compare" "$figures" "$name" "$dtype" "$dir.gradients" "$dir.jsonl" \
           "$WORK/${name}_f64.gradients" >"$dir.compare" 2>&1; then
        ok "$name $dtype, $ranks ranks"
        echo "figure: $name $dtype: $(tail -n 1 "$dir.compare")"
    else
        bad "$name $dtype, $ranks ranks" "$dir.compare"
    fi
    [ ${#watched[@]} -gt 0 ] || return 0
    if mapped_as_planned "$dir" "$ranks" >"$dir.memory"; then
        ok "$name $dtype, $ranks ranks: memory as planned"
    else
        bad "$name $dtype, $ranks ranks: memory is not as planned" "$dir.memory"
    fi
}

case_of() { # NUMBER NAME DESCRIPTION SETS DTYPES RANKS DATA: f32 first; of others a few
    local number=$1 first=1 dtype
    shift
    [ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ] || [ $(((number + SEED) % 6)) = 0 ] || return 0
    for dtype in $(printf '%s' "$4" | tr -d '",' | awk '{
            for (i = NF; i > 0; i--) if ($i == "f32") print $i
            for (i = 1; i <= NF; i++) if ($i != "f32") print $i }'); do
        random 10
        if [ "$FULL" = 1 ] || [ $first = 1 ] || [ "$random_value" -lt 1 ]; then
            one "$1" "$2" "$3" "$dtype" "$5" "$6"
        fi
        first=0
    done
}

drawn() {
    local figures=$ROOT/tests/pytorch/drawn.json number=0 steps=5
    local name model sets dtypes ranks data dtype
    local watched=(--guard) quick=()
    # What compiles sooner computes the same; for a few the other cases' objects of the runtime do.
    [ "$FULL${DRAWN:-}" = 0 ] || quick=("CFLAGS=-O1 -march=$ISA_ARCH")
    map_hook || { bad "map_hook.c"; return; }
    while IFS='|' read -r name model sets dtypes ranks data; do
        number=$((number + 1))
        case " ${DRAWN:-} " in
        "  ") [ "$FULL" = 1 ] || [ $((number % 100)) = $((SEED % 100)) ] || continue ;;
        *" $number "*) ;;
        *) continue ;;
        esac
        for dtype in $(printf '%s' "$dtypes" | tr -d '",'); do # f64 first
            one "$name" "$model" "$sets" "$dtype" "$ranks" "$data"
        done
        rm -rf "$WORK/${name}_"*
    done < <(cases)
}
part drawn drawn

# Trainers in two parts have the figures of PyTorch, which computes whole: the random cases that two parts
# divide. Without FULL=1 one along each axis and one along both, from a place on that SEED chooses.
drawn_parts() { # AXIS, or both
    local figures=$ROOT/tests/pytorch/drawn.json axis=$1 steps=5 i found=0 lines flags
    local name model sets dtypes ranks data dtype
    local watched=() quick=("CFLAGS=-O1 -march=$ISA_ARCH")
    mapfile -t lines < <(cases)
    for ((i = 0; i < ${#lines[@]}; i++)); do
        IFS='|' read -r name model sets dtypes ranks data <<<"${lines[(SEED * 7 + i) % ${#lines[@]}]}"
        case $axis in
        both) sets="$sets, \"parts={tensor=2,context=2}\"" ;;
        *) sets="$sets, \"parts.$axis=2\"" ;;
        esac
        dtypes=$(printf '%s' "$dtypes" | tr -d '",')
        flags_of "$sets" "${dtypes%% *}" "$ranks"
        "$FSDPGEN" check "$ROOT/tests/models/$model.lua" "${flags[@]}" >/dev/null 2>&1 || continue
        found=$((found + 1))
        for dtype in $dtypes; do # f64 first
            one "$name" "$model" "$sets" "$dtype" "$ranks" "$data"
        done
        rm -rf "$WORK/${name}_"*
        [ "$FULL" = 1 ] || break
    done
    at_least "random cases in parts of $axis" $found 1
}
part drawn_context drawn_parts context
part drawn_tensor drawn_parts tensor
part drawn_both drawn_parts both

number=0
while IFS='|' read -r name model sets dtypes ranks data; do
    number=$((number + 1))
    part "$name" case_of $number "$name" "$model" "$sets" "$dtypes" "$ranks" "$data"
done < <(cases)
ended() {
    [ $skipped = 0 ] || echo "skipped: $skipped cases that the generator cannot do yet"
}
part ended ended
finish
