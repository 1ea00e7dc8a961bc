# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: what must hold between runs: which changes are inside the hash.

hash_of() { "$FSDPGEN" "$@" --dump=fuse 2>/dev/null | sed -n 's/^numerics //p'; }

other() { # NAME A B
    if [ -n "$2" ] && [ -n "$3" ] && [ "$2" != "$3" ]; then ok "$1"; else bad "$1: $2, $3"; fi
}

plain=$(hash_of "$models/tiny_llama.lua")
for out in mesh.shard=2 wrap=2 prefetch=0 reshard_after_forward=false "accumulate=unsharded" \
    "strategy=no_shard" max_skipped=3; do
    same "$out is outside the hash" "$plain" "$(hash_of "$models/tiny_llama.lua" --set "$out")"
done
for in in seed=2 model.ffn=51 model.norm_eps=1e-6 fuse=false loss.chunk_tokens=12 \
    micro_batch=4 leaves=4 optimizer.lr=1e-3 dtypes.param=bf16 model.tied=true \
    model.window=5 model.init_std=0.03 "optimizer=sgd{lr=2e-3}" "lr=linear{steps=20}" \
    'groups={{match="*norm*",lr=0.5}}' 'groups={{match="*norm*",frozen=true}}'; do
    other "$in is inside the hash" "$plain" "$(hash_of "$models/tiny_llama.lua" --set "$in")"
done

# Summands of parts are in the hash as far as they are in the graph.
summands() { hash_of "$models/tiny_llama.lua" --set seq=16 --set model.heads=4 --set model.ffn=52 --set parts.dtype="$1" "${@:2}"; }
for sets in "dtypes.param=bf16" "parts.tensor=2" "parts.tensor=2 dtypes.param=f32"; do
    flags=()
    for set in $sets; do flags+=(--set "$set"); done
    same "parts.dtype is outside the hash with $sets" "$(summands param "${flags[@]}")" "$(summands f32 "${flags[@]}")"
done
for dtype in bf16 f16; do
    other "parts.dtype is inside with parts in $dtype" "$(summands param --set parts.tensor=2 --set dtypes.param=$dtype)" \
        "$(summands f32 --set parts.tensor=2 --set dtypes.param=$dtype)"
done
# No value of parts of tokens is a sum, but for gradients of weights.
same "parts.dtype is outside with parts of tokens" "$(summands param --set parts.context=2 --set dtypes.param=bf16)" \
    "$(summands f32 --set parts.context=2 --set dtypes.param=bf16)"

# What is read by people, or by one target, is not in the hash; a version of the arithmetic is.
# shared NAME same|other FILE SED: with the file of our own sources edited so.
shared() {
    local name=$1 how=$2 file=$3 edit=$4
    rm -rf "$WORK/share" && mkdir -p "$WORK/share/gen"
    cp -r "$ROOT/templates" "$ROOT/models" "$WORK/share/" && cp -r "$ROOT/gen/lua" "$WORK/share/gen/"
    sed -i "$edit" "$WORK/share/$file"
    cmp -s "$ROOT/$file" "$WORK/share/$file" && bad "$name: the edit changes nothing"
    $how "$name" "$plain" "$(hash_of "$models/tiny_llama.lua" --share "$WORK/share")"
}
ops=templates/ops
shared "a rule's comment is outside the hash" same $ops/add/op.lua 's/^-- add:.*/-- another comment/'
shared "its documentation is" same $ops/add/op.lua 's/doc = "y = a + b"/doc = "a sum"/'
shared "its test cases are" same $ops/add/op.lua 's/r(1, 30)/r(1, 31)/'
shared "a kernel's text for the CPU is" same $ops/swiglu/cpu.c 's/^\/\/@ --.*/&/; $a /* more */'
shared "a kernel's text for CUDA is" same $ops/swiglu/cuda.cu '$a /* more */'
shared "the name of a value is" same models/arch/llama.lua 's/"ffn_act"/"ffn_activation"/'
shared "a new field of an architecture is" same models/arch/llama.lua \
    's/^\( *\){ "ffn", /\1{ "new_one", "int", default = 3, doc = "new" },\n&/'
shared "a new field with its neutral value is" same gen/lua/describe.lua \
    's/^    { "fuse", "bool"/    { "new_one", "int", default = 3, neutral = 3, hash = "in", doc = "new" },\n&/'
shared "a new field with another value is inside" other gen/lua/describe.lua \
    's/^    { "fuse", "bool"/    { "new_one", "int", default = 4, neutral = 3, hash = "in", doc = "new" },\n&/'
shared "another arithmetic is inside" other $ops/add/op.lua 's/arithmetic = 1/arithmetic = 2/'
shared "another arithmetic of the optimizer is" other $ops/adamw/op.lua 's/arithmetic = 1/arithmetic = 2/'
shared "that of an op that is not used is outside" same $ops/gelu/op.lua 's/arithmetic = 1/arithmetic = 2/'

# An op in the place of another one keeps the hash by its canonical name; its arithmetic is then
# the other's. renamed SED: swiglu is silu_gate in a copy of our sources, its rule edited so.
renamed() {
    rm -rf "$WORK/share" && mkdir -p "$WORK/share/gen"
    cp -r "$ROOT/templates" "$ROOT/models" "$WORK/share/" && cp -r "$ROOT/gen/lua" "$WORK/share/gen/"
    mv "$WORK/share/$ops/swiglu" "$WORK/share/$ops/silu_gate"
    sed -i "$1" "$WORK/share/$ops/silu_gate/op.lua"
    sed -i 's/g\.swiglu\>/g.silu_gate/' "$WORK/share/models/arch/llama.lua"
}
renamed ''
check "an op in another folder is in the graph" sh -c \
    "'$FSDPGEN' '$models/tiny_llama.lua' --share '$WORK/share' --dump=graph | grep -q ' = silu_gate('"
same "a folder's name is outside the hash" "$plain" \
    "$(hash_of "$models/tiny_llama.lua" --share "$WORK/share")"
renamed '/canonical/d'
other "without its canonical name the op is another one" "$plain" \
    "$(hash_of "$models/tiny_llama.lua" --share "$WORK/share")"
renamed 's/arithmetic = 1/arithmetic = 2/'
"$FSDPGEN" check "$models/tiny_llama.lua" --share "$WORK/share" >"$WORK/out" 2>&1
same "two arithmetics of one canonical name are a bug: exit" $? 70
check "two arithmetics of one canonical name are a bug: message" grep -q \
    'ops silu_gate and swiglu are both hashed as swiglu, but their arithmetic is 2 and 1' "$WORK/out"
rm -rf "$WORK/moved" && mkdir -p "$WORK/moved" && cp -r "$ROOT/templates/ops/gelu" "$WORK/moved/silu"
sed -i '/canonical/d' "$WORK/moved/silu/op.lua"
renamed ''
sed -i 's/canonical = "gelu"/canonical = "silu"/' "$WORK/share/$ops/gelu/op.lua"
"$FSDPGEN" check "$models/tiny_llama.lua" --share "$WORK/share" --ops "$WORK/moved" >"$WORK/out" 2>&1
same "a user's op by the canonical name of a built-in one: exit" $? 1
check "a user's op by the canonical name of a built-in one: message" grep -q \
    'op silu: the hash has the built-in op gelu by this name' "$WORK/out"

rm -rf "$WORK/moved" && cp -r "$ROOT/templates/ops" "$WORK/moved"
for pass in graph fuse span; do
    "$FSDPGEN" "$models/tiny_llama.lua" --dump=$pass >"$WORK/a" 2>/dev/null
    "$FSDPGEN" "$models/tiny_llama.lua" --ops "$WORK/moved" --dump=$pass >"$WORK/b" 2>/dev/null
    check "--ops with the same ops: same $pass" cmp "$WORK/a" "$WORK/b"
done
frozen='groups={{match="*norm*",frozen=true}}'
same "--ops with the same ops: forms of ops, too" "$(hash_of "$models/tiny_llama.lua" --set "$frozen")" \
    "$(hash_of "$models/tiny_llama.lua" --ops "$WORK/moved" --set "$frozen")"
for file in add/op.lua swiglu/cpu.c swiglu/cuda.cu adamw/op.lua; do
    rm -rf "$WORK/moved" && cp -r "$ROOT/templates/ops" "$WORK/moved"
    echo >>"$WORK/moved/$file"
    sed -i '/canonical/d' "$WORK/moved/${file%/*}/op.lua" # another op than the built-in one
    other "an op from --ops is its text: $file" "$plain" \
        "$(hash_of "$models/tiny_llama.lua" --ops "$WORK/moved")"
done
rm -rf "$WORK/moved" && cp -r "$ROOT/templates/ops" "$WORK/moved"
sed -i '/canonical/d' "$WORK/moved/gelu/op.lua"
same "one that is not used is outside the hash" "$plain" \
    "$(hash_of "$models/tiny_llama.lua" --ops "$WORK/moved")"

# A user's op, its backward and a fused op of it: matched, and the same gradients.
# A formula is its operations: not its names, its text's blanks or what is written around it.
cp -r "$ROOT/tests/e2e/outside" "$WORK/formulas"
formula_hash() { hash_of "$WORK/formulas/formula_net.lua" --ops "$WORK/formulas/ops"; }
formula=$(formula_hash)
formula_is() { # WHAT same|other FORMULA: of relu2
    printf '%s\n' "$3" >"$WORK/formulas/ops/relu2/op.lua"
    $2 "a formula's $1 is $([ $2 = same ] && echo outside || echo inside) the hash" "$formula" "$(formula_hash)"
}
formula_is "spelling" same 'return op.map { y = "max( (x),0)^2" }'
formula_is "input's name" same 'return op.map { doc = "relu, squared", out = "square(relu(value))" }'
formula_is "order of operations" other 'return op.map { y = "relu(x) * relu(x)" }'
formula_is "numbers" other 'return op.map { y = "max(x, 1e-9)^2" }'
formula_is "own backward" other \
    'return op.map { y = "square(relu(x))", backward = function(g, n, d) return { x = d.y } end }'

"$FSDPGEN" "$here/user/model.lua" --ops "$here/user/ops" --dump=fuse >"$WORK/user" 2>"$WORK/err"
check "a user's op differentiates and fuses" \
    grep -q 'scale_add(.*by=0.5' "$WORK/user"
check "attributes are matched: another scale is another op" \
    grep -q 'scale(.*by=0.25' "$WORK/user"
check "a value with another user is not hidden inside a fused op" \
    grep -q '^    kept .* = scale(' "$WORK/user"
check "without fusion there is no fused op" sh -c \
    "'$FSDPGEN' '$here/user/model.lua' --ops '$here/user/ops' --set fuse=false --dump=fuse |
     grep -q ' = scale(' && ! '$FSDPGEN' '$here/user/model.lua' --ops '$here/user/ops' \
     --set fuse=false --dump=fuse | grep -q replaces"
