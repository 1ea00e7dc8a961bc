# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: what must hold between runs: which changes are inside the hash.

hash_of() { "$FSDPGEN" "$@" --dump=fuse 2>/dev/null | sed -n 's/^numerics //p'; }

same() { # NAME A B
    if [ -n "$2" ] && [ "$2" = "$3" ]; then ok "$1"; else bad "$1: $2, $3"; fi
}

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

cp -r "$ROOT/templates/ops" "$WORK/moved"
for pass in graph fuse span; do
    "$FSDPGEN" "$models/tiny_llama.lua" --dump=$pass >"$WORK/a" 2>/dev/null
    "$FSDPGEN" "$models/tiny_llama.lua" --ops "$WORK/moved" --dump=$pass >"$WORK/b" 2>/dev/null
    check "--ops with the same ops: same $pass" cmp "$WORK/a" "$WORK/b"
done
sed -i 's/^-- SPDX.*/-- another comment/' "$WORK"/moved/*/op.lua
same "a comment in a rule is outside the hash" "$plain" \
    "$(hash_of "$models/tiny_llama.lua" --ops "$WORK/moved")"
sed -i 's/doc = "y = a + b"/doc = "y = a + b, differently"/' "$WORK/moved/add/op.lua"
other "another rule is inside the hash" "$plain" \
    "$(hash_of "$models/tiny_llama.lua" --ops "$WORK/moved")"

cp "$ROOT/templates/ops/add/op.lua" "$WORK/moved/add/op.lua"
sed -i 's/doc = "AdamW/doc = "an AdamW/' "$WORK/moved/adamw/op.lua"
other "another rule of the optimizer is inside the hash" "$plain" \
    "$(hash_of "$models/tiny_llama.lua" --ops "$WORK/moved")"

# A user's op, its backward and a fused op of it: matched, and the same gradients.
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
