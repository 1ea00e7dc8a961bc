# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh and faults.sh, which set here, lua, data, STEPS: rows of the covering array,
# and one trainer against its model's reference.
runs=0    # trainers that ran
refused=0 # rows that the generator cannot do yet
tight=0   # rows that do not fit their budget, and get the least memory that fits

not_yet() { grep -q 'is not available yet' "$1"; }

# Asks the generator for every value alone; left_out names those that are not available.
matrix_left_out() {
    local name sets set flags
    left_out=
    while IFS=$'\t' read -r name sets; do
        flags=()
        while IFS= read -r -d $'\t' set; do
            [ -z "$set" ] || flags+=(--set "$set")
        done <<<"$sets"$'\t'
        "$FSDPGEN" check "$ROOT/tests/models/tiny_llama.lua" "${flags[@]}" \
            >"$WORK/value.log" 2>&1 && continue
        if not_yet "$WORK/value.log"; then
            left_out="$left_out;$name"
        else
            bad "$name: the generator refuses it" "$WORK/value.log"
        fi
    done < <("$lua" "$here/cover.lua" values)
    left_out=${left_out#;}
    [ -z "$left_out" ] || echo "skipped: not available yet: ${left_out//;/, }"
}

# matrix_rows SEED EACH [ONLY]: rows=(...), all of them, or EACH evenly spread from a random one
# on; of ONLY these values, as cover.lua reads them
matrix_rows() {
    local all count i
    if ! "$lua" "$here/cover.lua" rows "$1" "$left_out" "${3:-}" >"$WORK/rows" 2>"$WORK/covered"; then
        bad "the covering array" "$WORK/covered"
        rows=()
        return
    fi
    mapfile -t all <"$WORK/rows"
    count=${#all[@]}
    if [ "$2" = 0 ]; then
        rows=("${all[@]}")
        echo "figure: $(cat "$WORK/covered")"
        return
    fi
    rows=()
    random "$count"
    for ((i = 0; i < $2; i++)); do
        rows+=("${all[$(((random_value + i * count / $2) % count))]}")
    done
}

# matrix_reference NAME MODEL GEMM SETS: no choices, so one rank unless SETS says more. A trainer is also rebuilt from
# its objects: mathematics and runtime are the same in each row.
matrix_reference() {
    local dir=$WORK/reference_$1 set flags=()
    for set in $4; do flags+=(--set "$set"); done
    if ! generate "$dir" "$ROOT/tests/models/$2.lua" "${flags[@]}" ||
       ! build_trainer "$dir" GEMM="$3" "${build_flags[@]}" ||
       ! train "$dir" "$data" $STEPS --threads 2 "${train_flags[@]}"; then
        bad "$1: the reference does not run" "$dir.log"
        return 1
    fi
}
build_flags=()
train_flags=()

# least_memory LOG: what the generator says that a plan needs, rounded up
least_memory() {
    awk 'match($0, /the plan needs [0-9.]+ MiB/) {
        printf "%.2fMiB", substr($0, RSTART + 15, RLENGTH - 19) + 0.01
        exit
    }' "$1"
}

# matrix_row NAME MODEL GEMM SETS ROW
matrix_row() {
    local name=$1 reference=$WORK/reference_$1 dir=$WORK/row label threads sets set status least
    local flags=()
    IFS=$'\t' read -r label threads sets <<<"$5"
    while IFS= read -r -d $'\t' set; do
        [ -z "$set" ] || flags+=(--set "$set")
    done <<<"$sets"$'\t'
    for set in $4; do flags+=(--set "$set"); done
    rm -rf "$dir" "$dir".*
    generate "$dir" "$ROOT/tests/models/$2.lua" "${flags[@]}"
    status=$?
    if [ $status -eq 3 ]; then
        least=$(least_memory "$dir.log")
        generate "$dir" "$ROOT/tests/models/$2.lua" "${flags[@]}" --set "target.memory='$least'"
        status=$?
        tight=$((tight + 1))
    fi
    if [ $status -ne 0 ]; then
        if not_yet "$dir.log"; then
            refused=$((refused + 1))
        else
            bad "$name: $label: is not generated" "$dir.log"
        fi
        return
    fi
    cp -a "$reference/build" "$dir/build"
    rm -f "$dir"/build/{step,bind,tables,trainer}.o
    same_mathematics "$reference" "$dir" && touch "$dir"/build/{math,kernels}.o
    if ! build_trainer "$dir" GEMM="$3" "${build_flags[@]}" ||
       ! train "$dir" "$data" $STEPS --threads "$threads" --stats "$dir.stats" \
           "${train_flags[@]}"; then
        bad "$name: $label: does not run" "$dir.log"
    elif ! cmp -s "$reference.result" "$dir.result"; then
        diff "$reference.result" "$dir.result" >"$dir.diff"
        bad "$name: $label: other bits" "$dir.diff"
    elif ! same_mathematics "$reference" "$dir"; then
        bad "$name: $label: other mathematics files"
    elif [ "$(json_number "$dir.stats" arena_bytes)" != \
           "$(json_number "$dir/plan.json" arena)" ]; then
        bad "$name: $label: the arena mapped is not the arena planned" "$dir.stats"
    elif ! cmp -s <(grep '"numerics"' "$reference/manifest.json") \
                  <(grep '"numerics"' "$dir/manifest.json"); then
        bad "$name: $label: another numerics hash"
    else
        ok "$name: $label"
    fi
    runs=$((runs + 1))
}
