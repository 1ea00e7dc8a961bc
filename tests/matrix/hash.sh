# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after matrix.sh. For every field of a description (hash.lua): a change of
# one inside the numerics hash changes the hash, and really changes bits (losses, norms or
# weights); of one outside, neither. Hashes of all; bits of all with FULL=1, else of some.

# hash_trainer DIR MODEL SETS: DIR.log says why not; 2: not available yet
hash_trainer() {
    local dir=$1 model=$2 set flags=(--set model.layers=2)
    for set in $3; do flags+=(--set "$set"); done
    [ -e "$dir/manifest.json" ] && return 0
    generate "$dir" "$ROOT/tests/models/$model.lua" "${flags[@]}" && return 0
    not_yet "$dir.log" && return 2
    return 1
}

# Builds and runs it once; a change that wants a mask finds one beside the data.
hash_run() {
    [ -e "$1.result" ] && return 0
    build_trainer "$1" GEMM=builtin CFLAGS="-O1 -march=$ISA_ARCH" &&
        train "$1" "$WORK/masked.txt" 6 --threads 2
}

numerics_of() { sed -n 's/.*"numerics": *"\([0-9a-f]*\)".*/\1/p' "$1/manifest.json"; }

hash_bits() { # FIELD BITS BASE CHANGED
    if ! hash_run "$3" || ! hash_run "$4"; then
        bad "$1: does not run" "$([ -e "$3.result" ] && echo "$4.log" || echo "$3.log")"
    elif cmp -s "$3.result" "$4.result"; then
        if [ "$2" = same ]; then ok "$1: the same bits"; else bad "$1: changes no bit"; fi
    else
        diff "$3.result" "$4.result" >"$WORK/diff"
        if [ "$2" = same ]; then bad "$1: changes bits" "$WORK/diff"; else ok "$1: other bits"; fi
    fi
}

hash_one() { # FIELD SIDE BITS MODEL BASE SETS
    local base changed=$WORK/changed status
    base=$WORK/base_$(printf '%s' "$4 $5" | cksum | cut -d' ' -f1)
    rm -rf "$changed" "$changed".*
    hash_trainer "$base" "$4" "$5" && hash_trainer "$changed" "$4" "$5 $6"
    status=$?
    if [ $status = 2 ]; then
        echo "skipped: not available yet: $1"
        return
    elif [ $status = 1 ]; then
        bad "$1: is not generated" "$([ -e "$base/manifest.json" ] && echo "$changed.log" ||
            echo "$base.log")"
        return
    fi
    if [ "$(numerics_of "$base")" = "$(numerics_of "$changed")" ]; then
        if [ "$2" = in ]; then bad "$1: the hash does not change"; else ok "$1: the same hash"; fi
    else
        if [ "$2" = in ]; then ok "$1: another hash"; else bad "$1: the hash changes"; fi
    fi
    if [ "$3" != any ] && [ $((place % every)) = "$chosen" ]; then
        hash_bits "$1" "$3" "$base" "$changed"
    fi
    place=$((place + 1))
}

# fields: before the first of them. Which bits are compared: of one field in 16, of all with FULL=1
# or where parts are named.
fields() {
    every=16
    if [ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ]; then every=1; fi
    random "$every"
    chosen=$random_value
    place=0
    masked_text "$WORK/masked.txt"
    [ ! -s "$WORK/missing" ] || bad "fields without a row in hash.lua" "$WORK/missing"
    [ -s "$WORK/fields" ] || bad "hash.lua gives no fields"
}

hash_field() { # FIELD
    local field side bits model base sets
    IFS='|' read -r field side bits model base sets < <(
        awk -F'|' -v field="$1" '$1 == field' "$WORK/fields")
    hash_one "$field" "$side" "$bits" "$model" "$base" "$sets"
}

hash_figure() { # after the fields
    echo "figure: $(wc -l <"$WORK/fields") fields changed, bits of one in $every compared"
}
