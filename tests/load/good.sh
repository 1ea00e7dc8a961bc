# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: what must work. Overrides, defaults, the hash's text, modules, odd
# files, the command line.
mkdir -p "$WORK/good/sub/arch" "$WORK/path/arch"
cd "$WORK/good" || exit 70
cp "$here/base.lua" base.lua

# resolves ARGS... WANT: `check base.lua ARGS` ends well and its dump has the line WANT.
resolves() {
    local want=${!#} args=("${@:1:$#-1}")
    if "$FSDPGEN" check base.lua --dump=check "${args[@]}" >dump 2>log &&
        grep -qxF -- "$want" dump
    then ok "${args[*]} gives $want"
    else bad "${args[*]} gives $want" log
    fi
}
resolves --set wrap=2 'wrap = per_block(2)'
resolves --set 'wrap=per_block(3)' 'wrap = per_block(3)'
resolves --set wrap.blocks=4 'wrap = per_block(4)'
resolves --set 'wrap=per_block { 2, embed = "join" }' 'wrap = per_block(2), embed joins'
resolves --set 'wrap=by_size(1e6)' 'wrap = by_size(1000000)'
resolves --set 'wrap=by_size { params = 3, head = "join" }' 'wrap = by_size(3), head joins'
resolves --set 'wrap=by_name { "layers.*" }' 'wrap = by_name'
resolves --set wrap=root_only 'wrap = root_only'
resolves --set 'wrap=function(b) return true end' 'wrap = a function'
resolves --set 'wrap=function(b) local a, c = 1, 2 return true end' 'wrap = a function'
after_number() { # SET SET LINE: a field of what was a number
    "$FSDPGEN" check base.lua --set "$1" --set "$2" --dump=check >"$WORK/out" 2>"$WORK/err"
    check "--set $1 --set $2" grep -qxF "$3" "$WORK/out"
}
after_number prefetch=2 prefetch.order=post 'prefetch.forward = 2'
after_number wrap=2 wrap.embed=join 'wrap = per_block(2), embed joins'
resolves --set prefetch=0 'prefetch.forward = 0'
resolves --set prefetch=3 'prefetch.backward = 3'
resolves --set prefetch.backward=2 'prefetch.forward = 1'
resolves --set strategy=no_shard 'strategy = no_shard'
resolves --set mesh.shard=1 'strategy = no_shard'
resolves --set 'mesh={ replicate = 4 }' 'strategy = no_shard'
resolves --set mesh.shard=8 'world_size = 8'
resolves --set dtypes.param=bf16 'dtypes.reduce = "f32"'
resolves --set dtypes.param=f64 'dtypes.moments = "f64"'
resolves --set 'dtypes=nil' 'dtypes.param = "bf16"'
resolves --set lr=nil 'lr = constant'
resolves --set 'lr=constant { warmup = 7 }' 'lr.warmup = 7'
resolves --set optimizer.lr=1/4 'optimizer.lr = 0.25'
resolves --set 'optimizer.betas={ 0.5, 0.75 }' 'optimizer.betas = { 0.5, 0.75 }'
resolves --set optimizer=nil --set optimizer.clip=0 'optimizer.clip = 0.0'
resolves --set seq=1e2 'seq = 100'
resolves --set 'seq=16 * 4' 'seq = 64'
resolves --set accumulate=unsharded 'accumulate = unsharded'
resolves --set fuse=false 'fuse = false'
resolves --set reshard_after_forward=false 'reshard_after_forward = false'
resolves --set global_batch=24 --set micro_batch=1 'leaves = 8'
resolves --set global_batch=512 'leaves = 8'
resolves --set global_batch=6 --set mesh.shard=1 'leaves = 1'
# The head's chunk: all tokens; 2^22 elements of dim; no more than 2^29 logits; what is written.
resolves --set seq=64 --set micro_batch=2 'loss.chunk_tokens = 128'
wide=(--set seq=8192 --set micro_batch=1 --set model.dim=4096 --set model.heads=32)
resolves "${wide[@]}" 'loss.chunk_tokens = 1024'
resolves "${wide[@]}" --set model.vocab=900000 'loss.chunk_tokens = 512'
resolves "${wide[@]}" --set loss.chunk_tokens=7 'loss.chunk_tokens = 7'
resolves --set dtypes.linear=param 'dtypes.linear = "param"'
resolves --set 'parts={ tensor = 1 }' 'parts.context = 1'
# The runtime has room for as many parts as a description may have, and a rank for all of them.
room=$(sed -n 's/^enum { RT_MAX_PARTS = \([0-9]*\) };.*/\1/p' "$ROOT/runtime/rt.h")
resolves --set parts.tensor="$room" "parts.tensor = $room"
resolves --set parts.tensor="$room" --set mesh.tensor="$room" "mesh.tensor = $room"
for field in parts.tensor mesh.tensor; do
    "$FSDPGEN" check base.lua --set "$field=$((2 * room))" >dump 2>log
    check "$field = $((2 * room)) is too large" grep -q "$field: $((2 * room)) is too large" log
done
resolves --set model.rope.theta=5e5 'model.rope.theta = 500000.0'
resolves --set seed=7 --set seed=8 'seed = 8'
resolves --target cpu --set target.arch=x86-64-v2 'target = cpu'

# Fields outside the hash do not reach its text; fields inside do.
inside() {
    "$FSDPGEN" check base.lua --dump=check "$@" 2>log |
        sed '/^outside the hash/,$d; /^name /d'
}
inside >reference
for set in wrap=2 'wrap=by_size(9)' wrap=root_only 'wrap=by_name{"embed"}' mesh.shard=4 \
    mesh.node=1 target.comm_thread=true prefetch=0 strategy=no_shard accumulate=unsharded name=other max_skipped=3 \
    reshard_after_forward=false target.arch=x86-64-v3; do
    inside --set "$set" >changed
    check "$set stays outside the hash" cmp reference changed
done
for set in seq=32 seed=2 fuse=false optimizer.lr=1e-4 leaves=4 dtypes.param=bf16 \
    loss.chunk_tokens=32 micro_batch=1 model.vocab=512 lr.warmup=1 loss.mask=true \
    loss.z=1e-4 loss.label_smoothing=0.1 documents.end_id=3 \
    'groups={{match="*norm*",lr=0.5}}' 'groups={{match="*norm*",frozen=true}}'; do
    inside --set "$set" >changed
    if [ -s changed ] && ! cmp -s reference changed; then ok "$set is inside the hash"
    else bad "$set is inside the hash" log; fi
done

# A library's order of sums knows the mesh: then it is inside, and what deals the work with it.
inside --set reduction=library >reference
for set in mesh.shard=4 mesh.replicate=2 strategy=no_shard accumulate=unsharded; do
    inside --set reduction=library --set $set >changed
    if [ -s changed ] && ! cmp -s reference changed; then ok "library: $set is inside the hash"
    else bad "library: $set is inside the hash" log; fi
done
for set in wrap=2 prefetch=0 reshard_after_forward=false; do
    inside --set reduction=library --set $set >changed
    check "library: $set stays outside the hash" cmp reference changed
done

# Modules: the description's folder first, then --path, then the built-in models.
arch_file() { # NAME VALUE
    printf 'return arch { name = "%s", build = function() end,\n%s default = %s } } }\n' \
        "$1" '  fields = { { "vocab", "int",' "$2"
}
cat >sub/module.lua <<'LUA'
local mine = require "arch.mine"
return trainer { name = "a", model = mine {}, seq = 8, micro_batch = 1, global_batch = 1 }
LUA
arch_file mine 7 >"$WORK/path/arch/mine.lua"
vocab() {
    "$FSDPGEN" check sub/module.lua --dump=check "$@" 2>log | grep -x 'model.vocab = .*'
}
check "a module is missing" bash -c "! '$FSDPGEN' check sub/module.lua --dump=check"
if [ "$(vocab --path "$WORK/path")" = "model.vocab = 7" ]; then ok "--path"
else bad "--path" log; fi
arch_file mine 9 >sub/arch/mine.lua
if [ "$(vocab --path "$WORK/path")" = "model.vocab = 9" ]; then ok "folder before --path"
else bad "folder before --path" log; fi

# A name with dots is a file in folders, else a file with dots in its name.
sed -i 's/arch\.mine/arch.mine-2.5_b/' sub/module.lua
arch_file mine 11 >"$WORK/path/arch.mine-2.5_b.lua"
check "a file with dots in its name" [ "$(vocab --path "$WORK/path")" = "model.vocab = 11" ]
mkdir -p "$WORK/path/arch/mine-2"
arch_file mine 12 >"$WORK/path/arch/mine-2/5_b.lua"
check "folders go before it" [ "$(vocab --path "$WORK/path")" = "model.vocab = 12" ]
arch_file mine 13 >sub/arch.mine-2.5_b.lua
check "the description's folder goes before both" [ "$(vocab --path "$WORK/path")" = "model.vocab = 13" ]
sed -i 's/arch\.mine-2\.5_b/arch.mine/' sub/module.lua
echo 'return require "qwen2.5_0.5b"' >qwen.lua
check "a built-in model with a dot in its name" "$FSDPGEN" check qwen.lua

# says NAME TEXT ARGS...: exit 1 with TEXT on stderr, nothing on stdout.
says() {
    local name=$1 text=$2
    shift 2
    timeout 300 "$FSDPGEN" "$@" >out 2>log </dev/null
    local code=$?
    if [ $code = 1 ] && grep -qF -- "$text" log && ! [ -s out ]; then ok "$name"
    else echo "exit $code" >>log; bad "$name" log; fi
}
sed 's/seq = 64/["se" .. "q"] = 64, ["se" .. "ed"] = 7/' "$here/base.lua" >keys.lua
check "keys that begin alike and are computed" "$FSDPGEN" check keys.lua
sed 's/^return trainer {/local k = "x"\nlocal t = { [k] = 1, k = 2, [k .. "y"] = 3, [k .. "z"] = 4 }\n&/' "$here/base.lua" >keys.lua
check "a computed key and a name" "$FSDPGEN" check keys.lua
echo 'return require "arch.mine"' >sub/arch/mine.lua
says "a module that requires itself" "requires itself" check sub/module.lua
echo 'local x = 1' >sub/arch/mine.lua
says "a module that returns nothing" "returns nothing" check sub/module.lua
printf 'local x\n\nx.y = 1\n' >sub/arch/mine.lua
says "an error inside a module" "sub/arch/mine.lua:3:1: error" check sub/module.lua
printf 'return arch {\n  name = "x" fields = 1 }' >sub/arch/mine.lua
says "a syntax error inside a module" "sub/arch/mine.lua:2:14: error" check sub/module.lua
echo 'return arch { name = "x", fields = { { "vocab", "int", default = 1 } },
  check = function(m, fail) fail("vocab", "is bad", "make it good") end,
  build = error }' >sub/arch/mine.lua
says "an architecture's own check" "help: make it good" check sub/module.lua
sed -i 's/fail("vocab".*good")/while true do end/' sub/arch/mine.lua
says "an architecture's endless check" "million instructions" check sub/module.lua

# Files that are no description.
says "no such file" "there is no such file" check nothing.lua
says "a folder" "it is a folder" check sub
mkfifo fifo
says "a FIFO" "not a regular file" check fifo
says "a device" "not a regular file" check /dev/zero
: >empty.lua
says "an empty file" "returns nothing" check empty.lua
printf '\033Lua\124\0\31\223\r\n\032\n' >binary.lua
says "bytecode" "compiled Lua" check binary.lua
head -c 9000000 /dev/zero | tr '\0' ' ' >large.lua
says "a file too large" "larger than" check large.lua
head -c 3000 /dev/urandom >random.lua
says "random bytes" "error" check random.lua
printf 'return trainer {\0}' >nul.lua
says "a NUL" "error" check nul.lua
sed 's/$/\r/' base.lua >crlf.lua
check "CRLF lines" "$FSDPGEN" check crlf.lua --dump=check
sed 's/seq = 64/seq = 0/' crlf.lua >crlf_bad.lua
says "a place in CRLF lines" "crlf_bad.lua:7:11: error: seq: 0 is too small" \
    check crlf_bad.lua
if grep -q '\\x0d' log; then bad "CR is not shown" log; else ok "CR is not shown"; fi
{ printf '\357\273\277'; cat base.lua; } >bom.lua
check "a byte order mark" "$FSDPGEN" check bom.lua --dump=check
mkdir -p $'odd \033[31mname'
cp empty.lua $'odd \033[31mname/a\nb.lua'
says "an odd file name" 'odd \x1b[31mname/a\x0ab.lua:1:1: error' \
    check $'odd \033[31mname/a\nb.lua'

# Colours only when asked; the reference and the editors' annotations come from the table.
"$FSDPGEN" check empty.lua --color=always 2>log
check "--color=always" grep -q $'\033\\[1;31merror' log
"$FSDPGEN" check empty.lua 2>log
check "no colour into a file" bash -c "! grep -q $'\033' log"
"$FSDPGEN" docs lua >annotations.lua 2>log
check "models/fsdpgen.lua is what docs lua prints" \
    cmp annotations.lua "$ROOT/models/fsdpgen.lua"
"$FSDPGEN" docs >docs.md 2>log
for field in name model seq leaves dtypes.master optimizer mesh.shard strategy wrap \
    prefetch.in_flight; do
    check "docs has $field" grep -qF "| \`$field\` |" docs.md
done

# What has been checked stays as it is, whatever an architecture's functions do to what they get.
# net DIR DEFAULT CHECK BUILD: $WORK/DIR/arch/net.lua and a description of it
net() {
    mkdir -p "$1/arch"
    echo 'return { { "embed", "head", name = "ends" } }' >"$1/units.lua"
    cat >"$1/arch/net.lua" <<LUA
local units, saved = require "units", {}
return arch {
    name = "net",
    fields = {
        { "dim", "int" }, { "vocab", "int" }, { "dims", "list", item = { "dims", "int" }, default = { 1 } },
        { "x", "int", default = function(m, t) saved.m, saved.t = m, t; $2 return 1 end },
    },
    check = function(m) $3 end,
    build = function(m, b)
        $4
        local x = b:block("embed", "embed", "net.", function(g)
            return g.embed { g:tokens(), g:param { "w", { m.vocab, m.dim }, init = "normal", std = m.x / 10 } }
        end)
        b:block("head", "head", "", function(g, y)
            local w = g:param { "head.w", { m.vocab, m.dim }, init = "normal", std = m.dims[1] / 10 }
            return g.cross_entropy { g.linear { y, w }, g:targets() }
        end, x)
    end,
}
LUA
    cat >"$1/net.lua" <<'LUA'
local net = require "arch.net"
return trainer {
    name = "net", model = net { dim = 8, vocab = 16 }, seq = 16, global_batch = 2,
    dtypes = { param = "f32" }, wrap = by_name(require "units"),
}
LUA
    "$FSDPGEN" "$1/net.lua" -o "$1/out" >"$1/log" 2>&1 || bad "the architecture of $1" "$1/log"
}
net honest '' '' ''
net hostile 't.name, t.micro_batch, m.dim = "../$(id)", 0, 0;' \
    'saved.t.name, saved.t.micro_batch, saved.m.dim = "$(id)", 0, 0; m.dims[1] = "$(id)"' \
    'saved.t.seq, units[1].name, units[1][1], units[2] = -1, "a\n$(id)", {}, units; m.dims[1] = 1'
check "an architecture changes nothing that was checked" diff -r -x manifest.json honest/out hostile/out

# Usage: exit 2, nothing written.
usage() {
    timeout 300 "$FSDPGEN" "$@" >out 2>log </dev/null
    if [ $? = 2 ] && [ -s log ] && ! [ -s out ]; then ok "usage: $*"
    else bad "usage: $*" log; fi
}
usage
usage base.lua
usage generate base.lua
usage base.lua -o
usage base.lua --output=
usage base.lua base.lua -o x
usage check base.lua --dump=shrad
usage check base.lua --dumb=shard
usage check base.lua --sett seq=1
usage check base.lua --set
usage check base.lua --color=blue
usage check base.lua --json=yes
usage check base.lua -x
usage check
"$FSDPGEN" check base.lua --sett x=1 2>log
check "a misspelt option has a suggestion" grep -q 'did you mean --set' log
check "--help" "$FSDPGEN" --help
check "--version" "$FSDPGEN" --version
for pass in load check ops graph grad fuse span shard policy unroll schedule place \
    simulate emit; do
    "$FSDPGEN" --help >log
    check "--help names the pass $pass" grep -q " $pass\\b" log
done
cd "$ROOT" || exit 70
