#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [FSDPGEN] [--update]: the passes ops, graph, grad, fuse and span. Wrong architectures and
# wrong op rules, each with the exact message; golden dumps of two tiny models; what must hold
# between runs (same bytes with --ops, hashes that change only with what is inside them, a
# user's op that fuses and differentiates); generation time. --update writes messages and
# dumps as they are now, for a reader to judge with `git diff`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
suite_args "$@"
here=$ROOT/tests/graph

# ---- wrong architectures, wrong rules ------------------------------------------------------------

# Takes a case file apart: for each case NAME/text (its lines), NAME/expect, NAME/args.
split_cases() {
    awk -v out="$2" '
    function flush() {
        if (name == "") return
        printf "%s", text > (dir "/text"); close(dir "/text")
        printf "%s", args > (dir "/args"); close(dir "/args")
        printf "%s", expect > (dir "/expect"); close(dir "/expect")
    }
    /^=== / {
        flush()
        name = $2; dir = out "/" name; mode = "text"
        if (name in seen) { print "two cases " name > "/dev/stderr"; exit 1 }
        seen[name] = 1
        system("mkdir -p " dir)
        print name >> (out "/list")
        text = ""; args = ""; expect = ""
        next
    }
    name == "" { next }
    /^expect: / { mode = "expect" }
    mode == "expect" { expect = expect $0 "\n"; next }
    /^arg: / { args = args substr($0, 6) "\n"; next }
    { text = text $0 "\n" }
    END { flush() }' "$1"
}

# Prints "expect: CODE" and what went to stderr.
run_in() {
    local dir=$1 args=()
    shift
    mapfile -t args <"$dir/args"
    (cd "$dir" && timeout 60 "$FSDPGEN" model.lua --dump=span "$@" ${args[@]+"${args[@]}"} \
        >stdout 2>stderr </dev/null)
    echo "expect: $?"
    sed -E 's/[0-9]+ million instructions/N million instructions/' "$dir/stderr"
}

# suite FILE: every case; prepare_FILE builds its folder.
suite() {
    local file=$here/$1.txt dir=$WORK/$1 name
    mkdir -p "$dir"
    split_cases "$file" "$dir" || { bad "$1 cannot be read"; return; }
    while read -r name; do
        "prepare_$1" "$dir/$name" >"$dir/$name/actual"
        if cmp -s "$dir/$name/expect" "$dir/$name/actual"; then
            ok "$1 $name"
        else
            diff -u "$dir/$name/expect" "$dir/$name/actual" | tail -n +3 >"$dir/$name/diff"
            bad "$1 $name" "$dir/$name/diff"
        fi
    done <"$dir/list"
    if [ "$update" = 1 ]; then
        {
            sed '/^=== /,$d' "$file"
            while read -r name; do
                echo "=== $name"
                sed 's/^/arg: /' "$dir/$name/args"
                cat "$dir/$name/text" "$dir/$name/actual"
            done <"$dir/list"
        } >"$WORK/updated" && cp "$WORK/updated" "$file"
    fi
}

prepare_arch() {
    cp "$here/model.lua" "$1/model.lua"
    { sed '/^-- BODY/,$d' "$here/arch.lua"; cat "$1/text"
      sed '1,/^-- BODY/d' "$here/arch.lua"; } >"$1/family.lua"
    run_in "$1"
}

prepare_ops() {
    cp "$here/model.lua" "$1/model.lua"
    { sed '/^-- BODY/,$d' "$here/arch.lua"; cat "$here/body.lua"
      sed '1,/^-- BODY/d' "$here/arch.lua"; } >"$1/family.lua"
    mkdir -p "$1/ops/mine"
    # an op may come in two files: "op: NAME" starts another one
    awk -v dir="$1/ops" -v f="$1/ops/mine/op.lua" '
    /^op: / { f = dir "/" $2 "/op.lua"; system("mkdir -p " dir "/" $2); next }
    { print > f }' "$1/text"
    run_in "$1" --ops ops
}

suite arch
suite ops

# ---- golden dumps ---------------------------------------------------------------------------------

golden() { # NAME PASS ARGS...
    local name=$1 pass=$2 file=$here/golden/$1.$2.txt
    shift 2
    "$FSDPGEN" "$@" --dump="$pass" >"$WORK/dump" 2>"$WORK/err"
    if [ $? -ne 0 ]; then
        bad "dump $pass of $name" "$WORK/err"
        return
    fi
    # a rule's text is in the hash, so the hash is no golden: its tests come below
    sed -i '/^numerics [0-9a-f]*$/d' "$WORK/dump"
    [ "$update" = 1 ] && cp "$WORK/dump" "$file"
    if cmp -s "$file" "$WORK/dump"; then
        ok "dump $pass of $name"
    else
        diff -u "$file" "$WORK/dump" >"$WORK/diff"
        bad "dump $pass of $name" "$WORK/diff"
    fi
}

models=$ROOT/tests/models
full="--set model.qk_norm=true --set model.qkv_bias=true --set model.tied=true
      --set model.window=7 --set model.kv_heads=1"
for pass in graph grad fuse span; do
    golden tiny_llama $pass "$models/tiny_llama.lua"
    golden tiny_gpt2 $pass "$models/tiny_gpt2.lua"
done
# shellcheck disable=SC2086
golden full_llama grad "$models/tiny_llama.lua" $full
# shellcheck disable=SC2086
golden full_llama span "$models/tiny_llama.lua" $full --set dtypes.param=bf16
golden unfused_gpt2 span "$models/tiny_gpt2.lua" --set fuse=false
golden shared span "$here/shared.lua"

# ---- what must hold between runs --------------------------------------------------------------------

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

# ---- documents -----------------------------------------------------------------------------------------

# g:starts() is nil without documents, so nothing of them is emitted; an architecture that
# never asks for it cannot have them.
check "documents need an architecture that tells them apart" bash -c "
    '$FSDPGEN' '$here/user/model.lua' --ops '$here/user/ops' --set documents.end_id=1 \
        --dump=graph 2>&1 | grep -q 'documents: family does not tell documents apart'"

# ---- gradients -----------------------------------------------------------------------------------------

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
    gradients "a user's op" "$here/user/ops:$ops" "$here/user/model.lua" --ops "$here/user/ops"
    # shellcheck disable=SC2086
    gradients "a llama with everything" "$ops" "$models/tiny_llama.lua" $full $small \
        --set model.window=4
    # shellcheck disable=SC2086
    gradients "a gpt2" "$ops" "$models/tiny_gpt2.lua" $small --set model.dim=12
    loss="--set documents.end_id=3 --set loss.z=0.01 --set loss.label_smoothing=0.2"
    # shellcheck disable=SC2086
    gradients "a llama with documents" "$ops" "$models/tiny_llama.lua" $full $small $loss \
        --set model.window=3
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

# ---- fusion never changes a bit ---------------------------------------------------------------------

weights() { # FUSE ARGS...: the hash of the weights after three steps
    rm -rf "$WORK/trainer"
    "$FSDPGEN" "${@:2}" --set fuse="$1" --set loss.chunk_tokens=64 -o "$WORK/trainer" \
        >"$WORK/err" 2>&1 && make -C "$WORK/trainer" >>"$WORK/err" 2>&1 &&
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

# ---- every shipped model ------------------------------------------------------------------------------

for model in "$ROOT"/models/*.lua; do
    name=$(basename "$model" .lua)
    [ "$name" = fsdpgen ] && continue
    check "$name: graph, grad, fuse, span hold their invariants" \
        "$FSDPGEN" "$model" --dump=span
done

# An op's name in C would be a rule that does not live in its folder. Names that are also words
# (add, bias, embed, linear, an optimizer's) cannot be searched for; what other programs call
# an activation (gen/import) is their word.
names=$(ls "$ROOT/templates/ops" | grep _ | tr '\n' '|')
grep -nE "(${names}rmsnorm|layernorm|swiglu|gelu|colsum|conv1d)" "$ROOT"/gen/*/*.c |
    grep -v '/gen/import/' >"$WORK/names"
check "no op's name in gen/" test ! -s "$WORK/names"

# 126 layers, every pass up to span: processor time, the best of three on a busy machine; all of
# generation is promised in 0.3 s.
best=1000000
TIMEFORMAT='%U %S'
for _ in 1 2 3; do
    { time "$FSDPGEN" "$ROOT/models/llama405b.lua" --dump=span >/dev/null 2>&1; } 2>"$WORK/time"
    ms=$(awk '{ printf "%d", ($1 + $2) * 1000 }' "$WORK/time")
    [ "$ms" -lt "$best" ] && best=$ms
done
if [ "$best" -lt 200 ]; then ok "llama405b to span: $best ms"; else bad "llama405b to span: $best ms"; fi

finish
