# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: a graph in parts is the graph without. The generator checks its invariants on each.

# parts_of NAME PARTS FAULTS ARGS...: tensor=1: the same text; more, "tensor=2,context=4": the same numbers,
# in f64.
parts_of() {
    local name="$1, parts of $2" parts=$2 faults=$3
    shift 3
    "$FSDPGEN" "$@" --dump=encode >"$WORK/whole" 2>"$WORK/err" &&
        "$FSDPGEN" "$@" --dump=split --set "parts={$parts}" >"$WORK/split" 2>"$WORK/err" ||
        { bad "$name" "$WORK/err"; return; }
    if [ "$parts" = tensor=1 ]; then
        check "$name" cmp "$WORK/whole" "$WORK/split"
        return
    fi
    check "$name" "$WORK/lua_run" "$here/parts.lua" "$ops" "$WORK/whole" "$WORK/split"
    [ "$faults" = 1 ] && check "$name: planted faults" "$WORK/lua_run" "$here/parts.lua" "$ops" \
        "$WORK/whole" "$WORK/split" faults
}

# pick NAME N...: one of several
pick() {
    random $#
    eval "picked=\${$((random_value + 1))}"
}

# A model whose heads, features and tokens PARTS divides.
random_model() { # llama|gpt2 PARTS
    local kv heads
    pick 1 2 3
    kv=$(($2 * picked))
    [ "$2" = 8 ] && kv=8
    pick 1 2
    heads=$((kv * picked))
    pick 8 16 24
    args=(--set seq="$picked" --set micro_batch=1 --set model.layers=1)
    [ "$1" = gpt2 ] && args+=(--set model.max_positions="$picked")
    local rows
    pick 16 24 31
    rows=$picked
    pick 0 1 2 # padding, where parts do not divide the rest; each part has a row
    [ "$picked" -lt $((rows / $2)) ] || picked=1
    args+=(--set model.vocab=$((rows - picked)) --set model.heads=$heads)
    pick 1 2
    [ "$1" = gpt2 ] && args+=(--set model.dim=$((heads * 2 * picked)) --set model.ffn=$((24 * picked)))
    [ "$1" = llama ] && args+=(--set model.kv_heads=$kv --set model.head_dim=$((2 * picked))
        --set model.ffn=$(($2 * 3 * picked)) --set model.dim=$((heads * 3)))
    local flag flags="tied"
    [ "$1" = llama ] && flags="tied qkv_bias qk_norm post_norm geglu attention_sinks"
    for flag in $flags; do
        pick false true
        args+=(--set model."$flag"="$picked")
    done
    pick 0 5
    [ "$1" = llama ] && args+=(--set model.window="$picked")
    pick 1 2 4
    args+=(--set micro_batch="$picked")
    pick 0 0.01
    args+=(--set loss.z="$picked")
    pick 0 0.1
    args+=(--set loss.label_smoothing="$picked")
    pick false true
    args+=(--set loss.mask="$picked")
    pick "" 3
    [ "$1" = llama ] && [ -n "$picked" ] &&
        args+=(--set model.logits_softcap="$picked" --set model.logits_scaling=2.0)
    pick "" --set
    [ -n "$picked" ] && args+=(--set documents.end_id=3)
}

# padded VOCAB PARTS ROWS: of the vocabulary in each part. Multiples of 8 are fast on GPUs; the last part
# has rows of its own.
padded() {
    "$FSDPGEN" "$models/tiny_gpt2.lua" --dump=split --set parts.tensor="$2" --set model.heads="$2" \
        --set model.dim=$(($2 * 2)) --set model.vocab="$1" --set seq=16 >"$WORK/split" 2>"$WORK/err"
    check "$1 rows in $2 parts: $3 in each" grep -q "= embed_bwd(.* vocab=$3 " "$WORK/split"
}

padded 50257 4 12568 # GPT-2's
padded 1028 4 264    # although 4 parts of 257 have no zeros
padded 256 8 32
padded 264 8 33      # 7 parts of 40 leave the last none
padded 281 8 40
padded 29 8 4

# both_axes NAME llama|gpt2 PARTS FAULTS: the same model in as many parts, along both axes; four of llama have
# copies of key and value heads
both_axes() {
    local tensor=$(((turn + n) % 4 < 2 ? 2 : $3 / 2)) heads=()
    [ "$2$3" = llama4 ] && heads=(--set model.kv_heads=$tensor)
    parts_of "$1" tensor=$tensor,context=$(($3 / tensor)) "$4" "$models/tiny_$2.lua" "${args[@]}" "${heads[@]}"
}

ops=$ROOT/templates/ops
lua_flags=$(pkg-config --cflags --libs lua5.4 2>/dev/null || pkg-config --cflags --libs lua-5.4)
# shellcheck disable=SC2086
if cc -O2 "$here/lua_run.c" -o "$WORK/lua_run" $lua_flags >"$WORK/err" 2>&1; then
    random 4
    turn=$random_value
    n=0
    times=1
    [ "$FULL" = 1 ] && times=12
    for ((i = 0; i < times; i++)); do
        for parts in 1 2 4 8; do
            for family in llama gpt2; do
                random_model $family $parts
                name="random $family $n"
                faults=$((FULL || n % 4 == turn))
                parts_of "$name" tensor=$parts $faults "$models/tiny_$family.lua" "${args[@]}"
                [ $parts -lt 4 ] || [ $((FULL || (n + turn) % 2)) = 0 ] ||
                    both_axes "$name" $family $parts $((FULL || n % 4 == (turn ^ 1)))
                pick 1 $(((parts + 1) / 2)) "" # fewer key and value heads than parts, so some are repeated
                [ $family = llama ] && [ -n "$picked" ] && args+=(--set model.kv_heads=$picked)
                [ $parts = 1 ] || parts_of "$name" context=$parts $((FULL || (n + 1) % 4 == turn)) \
                    "$models/tiny_$family.lua" "${args[@]}"
                n=$((n + 1))
            done
        done
    done
    # products in fp8, whose scales are the largest of all parts'
    sizes=(--set dtypes.linear=fp8 --set micro_batch=1 --set model.layers=1 --set model.vocab=47)
    small=("${sizes[@]}" --set seq=32 --set model.dim=32 --set model.heads=2 --set model.ffn=32)
    wide=("${sizes[@]}" --set seq=64 --set model.dim=64 --set model.heads=4 --set model.ffn=64)
    parts_of "llama in fp8" tensor=2 1 "$models/tiny_llama.lua" "${small[@]}" --set model.head_dim=16
    parts_of "llama in fp8" context=2 1 "$models/tiny_llama.lua" "${small[@]}" --set model.head_dim=16
    parts_of "GPT-2 in fp8" tensor=2 1 "$models/tiny_gpt2.lua" "${small[@]}" --set model.max_positions=32
    parts_of "llama in fp8" tensor=2,context=2 $FULL "$models/tiny_llama.lua" "${wide[@]}" --set model.head_dim=16
else
    bad "lua_run.c" "$WORK/err"
fi
