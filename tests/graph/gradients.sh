# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: gradients, against differences.

# The graph's own derivatives, by the ops' references in f64, against central differences; and
# the fused graph against the unfused one.
gradients() { # NAME OPS_FOLDERS ARGS...
    local name=$1 ops=$2
    shift 2
    "$FSDPGEN" "$@" --dump=grad >"$WORK/grad" 2>"$WORK/err" &&
        "$FSDPGEN" "$@" --dump=fuse >"$WORK/fuse" 2>"$WORK/err" ||
        { bad "gradients of $name" "$WORK/err"; return; }
    check "gradients of $name" "$WORK/lua_run" "$here/gradcheck.lua" "$ops" "$WORK/grad" "$WORK/fuse"
}

ops=$ROOT/templates/ops
small="--set model.layers=1 --set model.vocab=23 --set seq=6"
# shellcheck disable=SC2046
if cc -O2 "$here/lua_run.c" -o "$WORK/lua_run" \
    $(pkg-config --cflags --libs lua5.4 2>/dev/null || pkg-config --cflags --libs lua-5.4) \
    >"$WORK/err" 2>&1; then
    gradients shared "$ops" "$here/shared.lua"
    gradients "cut columns, heads and rows" "$ops" "$here/structure.lua" --set model.layers=1 \
        --set model.vocab=23 --set seq=6 --set documents.end_id=3
    gradients "a user's op" "$here/user/ops:$ops" "$here/user/model.lua" --ops "$here/user/ops"
    gradients "docs/ops.md's examples" "$ROOT/tests/e2e/outside/ops:$ops" \
        "$ROOT/tests/e2e/outside/mixed.lua" --ops "$ROOT/tests/e2e/outside/ops" --set model.layers=1 \
        --set model.vocab=23 --set model.dim=12 --set model.heads=2 --set model.ffn=10 --set seq=6
    # shellcheck disable=SC2086
    gradients "a llama with everything" "$ops" "$models/tiny_llama.lua" $full $small \
        --set model.window=4 --set model.attention_sinks=true
    # shellcheck disable=SC2086
    gradients "a gpt2" "$ops" "$models/tiny_gpt2.lua" $small --set model.dim=12
    loss="--set documents.end_id=3 --set loss.z=0.01 --set loss.label_smoothing=0.2"
    # shellcheck disable=SC2086
    gradients "a llama with documents" "$ops" "$models/tiny_llama.lua" $full $small $loss \
        --set model.window=3 --set model.attention_chunk=4 --set model.attention_sinks=true
    # shellcheck disable=SC2086
    gradients "a gpt2 with documents" "$ops" "$models/tiny_gpt2.lua" $small $loss \
        --set model.dim=12
    # random graphs; every pass checks its invariants on them too
    graphs=8
    [ "$FULL" = 1 ] && graphs=300
    for ((i = 0; i < graphs; i++)); do
        random 100000
        n=$random_value
        gradients "random graph $n" "$ops" "$here/random/model.lua" --set model.graph=$n \
            --set model.vocab=7
        check "random graph $n: spans" "$FSDPGEN" "$here/random/model.lua" \
            --set model.graph=$n --dump=span
    done
else
    bad "lua_run.c" "$WORK/err"
fi
