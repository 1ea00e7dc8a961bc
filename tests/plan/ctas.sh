# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: limits of sums to some multiprocessors, against the formula of docs/gpu.md.

# limits MODEL SETS...: "NUMBER LIMIT" of the sums that have one, "0" if none has
limits() {
    "$FSDPGEN" "$ROOT/models/$1.lua" --target cuda "${@:2}" --dump=unroll 2>"$WORK/err" |
        awk '/ on [0-9]+ multiprocessors/ { sub(/.* on /, ""); n[$1 + 0]++ }
             END { for (c in n) { print n[c], c; some = 1 } if (!some) print 0 }'
}
# Twice 24 times 28.1 GB over 360 GB/s in the backward's time: docs/gpu.md. All but those of layers.0
# and embed, with which the micro-step ends.
check "llama8b on 8 GPUs: 8" [ "$(limits llama8b)" = "32 8" ]
check "and with shorter micro-steps 16" [ "$(limits llama8b --set seq=4096)" = "32 16" ]
check "bytes of half the size need half" \
    [ "$(limits llama8b --set seq=4096 --set 'dtypes.reduce="bf16"')" = "32 8" ]
check "a slow link: no limit" [ "$(limits llama8b --set target.rates.link=90)" = 0 ]
check "NCCL's own sums: no limit" [ "$(limits llama8b --set 'reduction="library"')" = 0 ]
check "two nodes: no limit" [ "$(limits llama8b --set mesh.shard=16 --set leaves=16)" = 0 ]
check "a limit is at most half of the GPU's" [ "$(limits llama8b --set target.rates.sms=16)" = "32 8" ]
check "and otherwise none" [ "$(limits llama8b --set target.rates.sms=15)" = 0 ]
"$FSDPGEN" "$ROOT/models/llama8b.lua" --target cuda -o "$WORK/limits" --link-runtime "$ROOT/runtime" \
    >"$WORK/out" 2>&1
check "the tables have the limit" grep -q 'within_ctas = 8' "$WORK/limits/tables.c"
