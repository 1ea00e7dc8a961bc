# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Storage dtypes: whatever they are, ranks, sharding and the place of
# accumulation change no bit; each of them is inside the hash and really changes bits.

# name|description|--set for the whole row
precision_rows() {
    cat <<TABLE
reduce|tests/models/tiny_llama.lua|dtypes.reduce="bf16" leaves=4
reduce_bf16|tests/models/tiny_gpt2.lua|dtypes.param="bf16" dtypes.reduce="bf16"
moments|tests/models/tiny_llama.lua|dtypes.param="bf16" dtypes.moments="bf16"
master_bf16|tests/models/tiny_gpt2.lua|dtypes.param="bf16" dtypes.moments="bf16" dtypes.master="bf16"
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
        for choice in "mesh.shard=4 accumulate=unsharded" "mesh.shard=2" \
            "mesh.shard=2 strategy=no_shard"; do
            [ "$FULL" = 1 ] || [ "$choice" != "mesh.shard=2 strategy=no_shard" ] || continue
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

# A split master is an f32 master in other bytes: equal bits, two bytes less a parameter;
# only the hash of the kernels' text differs.
precision_split() {
    local one=$WORK/precision_one dir=$WORK/precision_more choice bytes_one bytes_more
    for choice in "mesh.shard=1" "mesh.shard=2 optimizer.lr=0.05"; do
        # shellcheck disable=SC2086 # words are settings
        precision_train "f32 master" "$one" tests/models/tiny_llama.lua 'dtypes.param="bf16"' \
            $choice || return
        # shellcheck disable=SC2086
        precision_train "split master" "$dir" tests/models/tiny_llama.lua \
            'dtypes.param="bf16" dtypes.master="split"' $choice || return
        check "split master, $choice: the bits of an f32 master" cmp "$one.result" "$dir.result"
    done
    bytes_one=$("$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --json \
        --set 'dtypes.param="bf16"' | tr -d '\n' | sed 's/.*"optimizer": *\([0-9]*\).*/\1/')
    bytes_more=$("$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --json \
        --set 'dtypes.param="bf16"' --set 'dtypes.master="split"' | tr -d '\n' |
        sed 's/.*"optimizer": *\([0-9]*\).*/\1/')
    check "split master: 10 bytes of state instead of 12" [ "$((bytes_one * 10))" = \
        "$((bytes_more * 12))" ]
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
