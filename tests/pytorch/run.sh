#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trainers against PyTorch's figures (figures.json; figures.py says how they were made):
# losses of ten steps, gradient norms and projections of the first, in f32, f64 and bf16.
# PyTorch is not needed to run this. FULL=1 runs every case in every dtype; else f32 has
# all of them, and a seeded choice has the others.
set -u
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"

figures=$ROOT/tests/pytorch/figures.json
compare=$BUILD/tests/pytorch/pytorch_compare

# The cases of figures.json: name, description, --set, from its own lines.
cases() {
    sed -n 's/^ *{"name": "\([a-z0-9_]*\)", "description": "\([a-z0-9_]*\)", "set": \[\(.*\)\],$/\1|\2|\3/p' \
        "$figures"
}

one() { # NAME DESCRIPTION SETS DTYPE RANKS
    local name=$1 model=$2 dtype=$4 ranks=$5 dir=$WORK/$1_$4 set
    local flags=(--set "dtypes.param=\"$dtype\"" --set "mesh.shard=$ranks")
    while IFS= read -r set || [ -n "$set" ]; do
        [ -z "$set" ] || flags+=(--set "$set")
    done < <(printf '%s' "$3" | sed 's/^"//; s/"$//; s/", "/\n/g')
    if ! generate "$dir" "$ROOT/tests/models/$model.lua" "${flags[@]}" ||
       ! build_trainer "$dir" ||
       ! train "$dir" "$ROOT/LICENSE" 10 --debug-gradients "$dir.gradients"; then
        bad "$name $dtype: does not run" "$dir.log"
        return
    fi
    if "$compare" "$figures" "$name" "$dtype" "$dir.gradients" "$dir.jsonl" >"$dir.compare" 2>&1
    then
        ok "$name $dtype, $ranks ranks"
        echo "figure: $name $dtype: $(tail -n 1 "$dir.compare")"
    else
        bad "$name $dtype, $ranks ranks" "$dir.compare"
    fi
}

while IFS='|' read -r name model sets; do
    one "$name" "$model" "$sets" f32 2
    for dtype in bf16 f64; do
        random 10
        if [ "$FULL" = 1 ] || [ "$random_value" -lt 4 ]; then
            one "$name" "$model" "$sets" $dtype 1
        fi
    done
done < <(cases)
finish
