# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: graphs with dtypes.linear = "fp8" are those without, on rounded operands; which
# products it takes, and what it says of those that it leaves.

ops=$ROOT/templates/ops
lua_flags=$(pkg-config --cflags --libs lua5.4 2>/dev/null || pkg-config --cflags --libs lua-5.4)

fp8_of() { # NAME ARGS...
    local name="fp8: $1"
    shift
    "$FSDPGEN" "$@" --dump=grad >"$WORK/grad" 2>"$WORK/err" &&
        "$FSDPGEN" "$@" --dump=grad --set dtypes.linear=fp8 >"$WORK/fp8" 2>"$WORK/err" &&
        "$FSDPGEN" "$@" --dump=encode --set dtypes.linear=fp8 >"$WORK/codes" 2>"$WORK/err" ||
        { bad "$name" "$WORK/err"; return; }
    check "$name" "$WORK/lua_run" "$here/fp8.lua" "$ops" "$WORK/grad" "$WORK/fp8" "$WORK/codes" faults
}

# fp8_fused TARGET ARGS...: how often each op makes a scale after fuse, and the numerics hash.
fp8_fused() {
    "$FSDPGEN" "${@:2}" --target "$1" --dump=fuse --set dtypes.linear=fp8 >"$WORK/fused" 2>"$WORK/err"
    grep -oE '= [a-z_0-9]*_scale(_frozen)?\(' "$WORK/fused" | sort | uniq -c | tr -s ' =\n' ' '
    grep -o '^numerics .*' "$WORK/fused"
}

# fp8_says NAME TEXT ARGS...
fp8_says() {
    "$FSDPGEN" check "${@:3}" --set dtypes.linear=fp8 >"$WORK/err" 2>&1
    check "fp8: $1" grep -qF "$2" "$WORK/err"
}

# shellcheck disable=SC2086
if cc -O2 "$here/lua_run.c" -o "$WORK/lua_run" $lua_flags >"$WORK/err" 2>&1; then
    sizes=(--set seq=16 --set micro_batch=1 --set model.dim=32 --set model.layers=1 --set model.vocab=48)
    fp8_of "llama" "$models/tiny_llama.lua" "${sizes[@]}" --set model.head_dim=16 --set model.ffn=48
    fp8_of "GPT-2, tied" "$models/tiny_gpt2.lua" "${sizes[@]}" --set model.heads=2
    fp8_of "llama, some products left" "$models/tiny_llama.lua" "${sizes[@]}" --set model.head_dim=16 \
        --set model.ffn=47
    fp8_of "llama, frozen" "$models/tiny_llama.lua" "${sizes[@]}" --set model.head_dim=16 \
        --set model.ffn=48 --set 'groups={{match="*mlp*",frozen=true}}'
    fp8_says "products that are left are counted" \
        "warning: dtypes.linear: 6 of 12 products stay in f32: a size is not a multiple of 16" \
        "$models/tiny_llama.lua" "${sizes[@]}" --set model.head_dim=16 --set model.ffn=47
    fp8_says "none is left" "error: dtypes.linear: no product of this model can be \"fp8\": each has a size" \
        "$models/tiny_llama.lua"
    check "fp8: what was made of rows in the forward is used again" \
        test "$(grep -c '= fp8_scale(' "$WORK/fp8")" = 12
    # on a device, what makes a tensor finds its scale; the hash does not see it
    llama=("$models/tiny_llama.lua" "${sizes[@]}" --set model.head_dim=16 --set model.ffn=48)
    gpt2=("$models/tiny_gpt2.lua" "${sizes[@]}" --set model.heads=2)
    hash=$(fp8_fused cpu "${llama[@]}")
    check "fp8: processors find scales apart" [ "${hash% numerics *}" = " 8 fp8_scale(" ]
    hash=${hash#*numerics }
    check "fp8: kernels of llama that make scales" [ "$(fp8_fused cuda "${llama[@]}")" = " 1 add_rmsnorm_scale( 2 \
fp8_scale( 1 rmsnorm_bwd_add_scale( 1 rmsnorm_scale( 1 rope_bwd_scale( 1 swiglu_bwd_scale( 1 swiglu_scale( numerics $hash" ]
    check "fp8: and of GPT-2, with the bias of the residual" [ "$(fp8_fused cuda "${gpt2[@]}" | sed 's/ numerics.*//')" = \
        " 1 bias_add_layernorm_scale( 5 fp8_scale( 1 layernorm_bwd_add_scale( 1 layernorm_scale(" ]
    frozen=("${llama[@]}" --set 'groups={{match="*norm*",frozen=true}}')
    check "fp8: and of frozen norms" [ "$(fp8_fused cuda "${frozen[@]}" | grep -o '1 rms[a-z_]*add[a-z_]*')" = \
        "1 rmsnorm_bwd_add_scale_frozen" ]
    mkdir -p "$WORK/own_swiglu/swiglu"
    cp "$ops"/swiglu/c* "$WORK/own_swiglu/swiglu"
    sed 's/canonical = .*//; s/doc = .*/doc = "mine",/' "$ops/swiglu/op.lua" >"$WORK/own_swiglu/swiglu/op.lua"
    check "fp8: an op of --ops has no such kernel" [ "$(fp8_fused cuda --ops "$WORK/own_swiglu" "${llama[@]}" |
        grep -c ' 1 swiglu_scale(')" = 0 ]
    check "fp8: others keep theirs" [ "$(fp8_fused cuda --ops "$WORK/own_swiglu" "${llama[@]}" |
        grep -c ' 3 fp8_scale( .* 1 swiglu_bwd_scale(')" = 1 ]
    mkdir -p "$WORK/named/swiglu_scale"
    sed 's/canonical = .*//' "$ops/swiglu/op.lua" >"$WORK/named/swiglu_scale/op.lua"
    cp "$ops"/swiglu/c* "$WORK/named/swiglu_scale"
    check "fp8: a folder may have such a name" [ "$(fp8_fused cuda --ops "$WORK/named" "${llama[@]}" |
        grep -c ' 3 fp8_scale( .* 1 swiglu_bwd_scale(')" = 1 ]
    kept() { # RECOMPUTE: bytes of activations
        "$FSDPGEN" plan "${llama[@]}" --set model.layers=3 --set dtypes.linear=fp8 --target cuda --set "recompute=$1" \
            --json 2>"$WORK/err" | grep -o '"activations": *[0-9]*' | grep -o '[0-9]*'
    }
    check "fp8: what makes scales is computed again by the op's name" \
        test "$(kept 'ops{"swiglu"}')" -lt "$(kept '"none"')"
    # two calls whose given inputs are equal, but not their places
    mkdir -p "$WORK/places/linear" "$WORK/places/plus"
    cat >"$WORK/places/plus/op.lua" <<'OP'
return op {
    inputs = { { "x", "t k" }, { "a", "1", class = "any", optional = true }, { "b", "1", class = "any", optional = true } },
    outputs = { { "y", "t k", dtype = "x" } },
    axes = { t = "parallel", k = "parallel" },
    flops = function(n) return n.t * n.k end,
}
OP
    awk '/^    fp8 = / { print "    fp8 = function(g, n)"
             print "        local s = g.fp8_scale { n.x }"
             print "        local sum = g.add { g.plus { n.x, s }, g.plus { n.x, nil, s } }"
             print "        return { y = g.linear { sum, n.w } }"
             print "    end,"; skip = 1 }
         !skip { print } /^    end,/ { skip = 0 }' "$ops/linear/op.lua" >"$WORK/places/linear/op.lua"
    "$FSDPGEN" "$models/tiny_llama.lua" "${sizes[@]}" --ops "$WORK/places" --set model.head_dim=16 \
        --set model.ffn=48 --dump=grad --set dtypes.linear=fp8 >"$WORK/fp8" 2>"$WORK/err"
    check "fp8: calls that omit different inputs are two" \
        [ "$(grep -c '= plus(' "$WORK/fp8") $(grep -c '= plus(.*, -, ' "$WORK/fp8")" = "8 4" ]
    # a weight that one call rounds otherwise is gathered as it is
    small=(--set seq=16 --set micro_batch=1 --set model.dim=32 --set model.layers=1 --set model.vocab=48
        --set model.head_dim=16 --set model.ffn=48 --set dtypes.linear=fp8 --dump=encode)
    "$FSDPGEN" "$models/tiny_llama.lua" "${small[@]}" >"$WORK/codes" 2>"$WORK/err"
    check "fp8: a layer's four weights are gathered in fp8" test "$(grep -c ' gathered e4m3' "$WORK/codes")" = 4
    mkdir -p "$WORK/wide/linear"
    sed 's/g\.fp8_scale { n\.w }/g.fp8_scale { n.w, to = "e5m2" }/
         s/g\.fp8_rows { n\.w, sb }/g.fp8_rows { n.w, sb, to = "e5m2" }/' "$ops/linear/op.lua" >"$WORK/wide/linear/op.lua"
    check "fp8: weights that a call rounds to e5m2" "$FSDPGEN" "$models/tiny_llama.lua" --ops "$WORK/wide" "${small[@]}"
    check "fp8: are gathered as they are" [ "$(grep -c 'to="e5m2"' "$WORK/check.log") $(grep -c ' gathered ' "$WORK/check.log")" = "20 0" ]
    mkdir -p "$WORK/seven"
    cp -r "$ROOT"/{gen,templates,runtime,models} "$WORK/seven"
    sed 's/^    encoded = .*/    encoded = function(g, n) return 7 end,/' "$ops/fp8_rows/op.lua" \
        >"$WORK/seven/templates/ops/fp8_rows/op.lua"
    "$FSDPGEN" "$models/tiny_llama.lua" --share "$WORK/seven" "${small[@]}" >"$WORK/codes" 2>"$WORK/err"
    check "fp8: an encoded that returns a number" \
        grep -qF "fp8_rows: its encoded returns 7, not a table of its outputs or nil" "$WORK/err"
    # codes have the bits of built-in ops, and so has what takes in several of them
    for op in fp8_rows fp8_scale; do
        mkdir -p "$WORK/own_$op"
        cp -r "$ops/$op" "$WORK/own_$op"
        echo "-- mine" >>"$WORK/own_$op/$op/op.lua"
        "$FSDPGEN" "$models/tiny_llama.lua" --ops "$WORK/own_$op" "${small[@]}" >"$WORK/codes" 2>"$WORK/err"
        check "fp8: $op of --ops rounds weights itself" [ "$(grep -c "= $op(" "$WORK/codes") $(grep -c ' gathered ' "$WORK/codes")" = "12 0" ]
    done
    "$FSDPGEN" "$models/tiny_llama.lua" --ops "$WORK/own_fp8_rows" "${small[@]/encode/fuse}" --target cuda >"$WORK/codes" 2>"$WORK/err"
    check "fp8: its own kernel runs" [ "$(grep -c '= fp8_both(' "$WORK/codes") $(grep -c '= fp8_rows(' "$WORK/codes")" = "0 12" ]
else
    bad "lua_run.c" "$WORK/err"
fi
