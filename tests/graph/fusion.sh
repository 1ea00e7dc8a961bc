# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: fusion never changes a bit.
. "$ROOT/tests/e2e/common.sh"

weights() { # FUSE ARGS...: the hash of the weights after three steps
    rm -rf "$WORK/trainer"
    "$FSDPGEN" "${@:2}" --set fuse="$1" --set loss.chunk_tokens=64 -o "$WORK/trainer" \
        --link-runtime "$ROOT/runtime" >"$WORK/err" 2>&1 &&
        build_trainer "$WORK/trainer" &&
        "$WORK/trainer/trainer" --data "$here/run.sh" --steps 3 --weights-hash 2>>"$WORK/err" |
        sed -n 's/^weights //p'
}

unchanged() { # NAME ARGS...
    local fused unfused
    fused=$(weights true "${@:2}")
    unfused=$(weights false "${@:2}")
    same "$1: fused and unfused weights" "$fused" "$unfused"
}

sample() { # N: is it this run's turn? all with FULL
    [ "$FULL" = 1 ] || [ "$1" = "$turn" ]
}
random 5
turn=$random_value
# shellcheck disable=SC2086
sample 0 && unchanged "llama bf16" "$models/tiny_llama.lua" $full --set dtypes.param=bf16
sample 1 && unchanged "gpt2 bf16" "$models/tiny_gpt2.lua" --set dtypes.param=bf16
# shellcheck disable=SC2086
sample 2 && unchanged "llama f32" "$models/tiny_llama.lua" $full
sample 3 && unchanged "shared f32" "$here/shared.lua" --set model.vocab=256
random 100000
sample 4 && unchanged "random graph $random_value" "$here/random/model.lua" \
    --set model.graph=$random_value
