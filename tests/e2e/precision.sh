# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Storage dtypes: whatever they are, ranks, sharding and the place of
# accumulation change no bit; each of them is inside the hash and really changes bits.

# name|description|--set for the whole row
precision_rows() {
    cat <<TABLE
reduce|tests/models/tiny_llama.lua|dtypes.reduce="bf16" leaves=4
reduce_bf16|tests/models/tiny_gpt2.lua|dtypes.param="bf16" dtypes.reduce="bf16"
f16|tests/models/tiny_llama.lua|dtypes.param="f16"
f16_unfused|tests/models/tiny_gpt2.lua|dtypes.reduce="bf16" dtypes.param="f16" fuse=false
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
    local name model sets one=$WORK/precision_one dir=$WORK/precision_more choice row=0
    while IFS='|' read -r name model sets; do
        row=$((row + 1)) # every other one, as SEED chooses
        [ "$FULL" = 1 ] || [ $(((row + SEED / 2) % 2)) = 0 ] || continue
        precision_train "$name" "$one" "$model" "$sets" || continue
        for choice in "mesh.shard=4 accumulate=unsharded" "mesh.shard=2" \
            "mesh.shard=2 strategy=no_shard"; do
            [ "$FULL" = 1 ] || [ "$choice" != "mesh.shard=2 strategy=no_shard" ] || continue
            # shellcheck disable=SC2086 # words are settings
            precision_train "$name, $choice" "$dir" "$model" "$sets" $choice || continue
            check "$name, $choice: equal bits" cmp "$one.result" "$dir.result"
            check "$name, $choice: the same mathematics" same_mathematics "$one" "$dir"
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

# A scale that overflows at once: steps are skipped, weights stay, the scale shrinks until
# gradients are finite, then training goes on; it grows again after its interval. All of it
# is equal on all ranks.
precision_overflow() {
    local one=$WORK/precision_one dir=$WORK/precision_more ranks
    local sets='dtypes.param="f16" loss_scale.init=1<<30 loss_scale.factor=16
                loss_scale.growth_interval=3'
    precision_train "f16 overflow" "$one" tests/models/tiny_llama.lua "$sets" || return
    check "overflow: the third step is skipped too" [ \
        "$(grep -c '"grad_norm": null' "$one.jsonl")" = 3 ]
    "$one/trainer" --data "$data" --steps 1 --quiet --weights-hash 2>"$one.log" >"$one.first"
    check "overflow: weights stay" [ "$(grep '^weights' "$one.first")" = \
        "$(grep '^weights' "$one.out")" ]
    check "overflow: twelve steps" train "$one" "$data" 12 --threads 2
    grep -o '"loss_scale": [0-9]*' "$one.jsonl" | sed 's/.* //' >"$one.scales"
    check "overflow: the scale shrinks, and grows after three updates" \
        precision_scales "$one.scales"
    check "overflow: then the loss falls" awk '
        match($0, /"loss": [0-9.]*/) { v = substr($0, RSTART + 8, RLENGTH - 8) + 0
            if (!n++) first = v; last = v }
        END { exit !(last < first - 0.05) }' "$one.jsonl"
    for ranks in 2 4; do
        precision_train "f16 overflow, $ranks ranks" "$dir" tests/models/tiny_llama.lua \
            "$sets" "mesh.shard=$ranks" || continue
        train "$dir" "$data" 12 --threads 1
        check "overflow: equal bits on $ranks ranks" cmp "$one.result" "$dir.result"
    done
    precision_train "another scale" "$dir" tests/models/tiny_llama.lua \
        'dtypes.param="f16" loss_scale.init=64' || return
    precision_train "the usual scale" "$one" tests/models/tiny_llama.lua \
        'dtypes.param="f16"' || return
    check "loss_scale is inside the hash" differ "$(precision_hash "$one")" \
        "$(precision_hash "$dir")"
    check "loss_scale changes bits" differ "$(cat "$one.result")" "$(cat "$dir.result")"
}

# It never grows but by its factor after three updates, nor shrinks but after an overflow.
precision_scales() {
    awk 'NR == FNR { if (/^{"step"/) null[++n] = /"grad_norm": null/; next }
        { scale[FNR] = $1 }
        END {
            for (i = 1; i < FNR; i++) {
                if (null[i]) { run = 0; want = scale[i] / 16; if (want < 1) want = 1 }
                else if (++run == 3) { run = 0; want = scale[i] * 16; grown++ }
                else want = scale[i]
                if (scale[i + 1] != want) { print i, scale[i + 1], want; exit 1 }
            }
            exit !(null[1] && grown)
        }' "${1%.scales}.jsonl" "$1"
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
