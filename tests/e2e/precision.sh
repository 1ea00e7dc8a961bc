# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Storage dtypes: whatever they are, ranks, sharding and the place of
# accumulation change no bit; each of them is inside the hash and really changes bits.

# name|description|--set for the whole row
precision_rows() {
    cat <<TABLE
reduce|tests/models/tiny_llama.lua|dtypes.reduce="bf16" leaves=4
reduce_bf16|tests/models/tiny_gpt2.lua|dtypes.param="bf16" dtypes.reduce="bf16"
TABLE
}

# precision_train NAME DIR MODEL SETS FLAGS...: one trainer, three steps.
precision_train() {
    local what=$1 dir=$2 model=$3 sets=$4 set flags=()
    shift 4
    for set in $sets "$@"; do flags+=(--set "$set"); done
    rm -rf "$dir" "$dir".*
    if generate "$dir" "$ROOT/$model" "${flags[@]}" && build_trainer "$dir" &&
       train "$dir" "$data" 3 --threads 2; then
        return 0
    fi
    bad "$what: does not run" "$dir.log"
    return 1
}

precision_hash() { # DIR
    "$1/trainer" --numerics-hash | grep -i numerics
}

precision() {
    local name model sets one=$WORK/precision_one dir=$WORK/precision_more choice
    while IFS='|' read -r name model sets; do
        precision_train "$name" "$one" "$model" "$sets" || continue
        for choice in "mesh.shard=2" "mesh.shard=4 accumulate=unsharded" \
            "mesh.shard=2 strategy=no_shard"; do
            # shellcheck disable=SC2086 # words are settings
            precision_train "$name, $choice" "$dir" "$model" "$sets" $choice || continue
            check "$name, $choice: equal bits" cmp "$one.result" "$dir.result"
            check "$name, $choice: the same mathematics" cmp "$one/math.c" "$dir/math.c"
        done
        precision_train "$name: default dtypes" "$dir" "$model" \
            "$(precision_without "$sets")" || continue
        check "$name is inside the hash" differ "$(precision_hash "$one")" \
            "$(precision_hash "$dir")"
        check "$name changes bits" differ "$(cat "$one.result")" "$(cat "$dir.result")"
    done < <(precision_rows)
}

# The settings without the last one that names a dtype.
precision_without() {
    local set last= out=
    for set in $1; do case $set in dtypes.*) last=$set ;; esac; done
    for set in $1; do [ "$set" = "$last" ] || out="$out $set"; done
    echo "$out"
}

differ() {
    [ -n "$1" ] && [ -n "$2" ] && [ "$1" != "$2" ]
}
