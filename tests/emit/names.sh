# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: a model whose every name is a word that C, a compiler, a header, CUDA, Make,
# the runtime or the emitted files have. Each is refused or compiles; what compiles trains as the
# same model with other names does. FULL=1: all of them, else a seeded sample of the many.
names=$WORK/names
mkdir -p "$names"

# ---- the words --------------------------------------------------------------------------------

# these are in every run
cat >"$names/always" <<'LIST'
linux unix i386 mips sparc sun NULL EOF I NAN INFINITY BUFSIZ errno stdin stdout stderr assert main
offsetof true false bool asm typeof alignas alignof constexpr nullptr static_assert thread_local
and or not xor bitand bitor compl not_eq and_eq or_eq xor_eq complex imaginary noreturn unreachable
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while _Bool _Complex _Atomic _Generic __linux__ __FILE__ __LINE__ __func__ __attribute__
catch class concept const_cast consteval co_await decltype delete dynamic_cast explicit export friend
mutable namespace new noexcept operator private protected public requires template this throw try
typeid typename using virtual wchar_t
__global__ __device__ __host__ __shared__ __constant__ __launch_bounds__ threadIdx blockIdx blockDim
gridDim warpSize dim3 float4 half cudaError_t CUDART_VERSION __CUDA_ARCH__
y0 y1 j0 j1 jn yn gamma index exp log sin signal raise read write open close abs div time exit printf
memcpy strlen malloc free rand environ stat getpid SIGINT SIGKILL isnan signbit setjmp va_start
int8_t int32_t uint16_t int64_t size_t ptrdiff_t FILE
w dw m_w m_m_w saved scratch loss loss_scale rt math trainer beta beta_w tokens targets starts row logits
p parts here from to
Rt RtUpdate rt_bf16 rt_f16 rt_main rt_at rt_wait rt_local RT_F32 RT_GLOBAL RT_GATHER RT_IDENTITY
SEG_EMBED AT_NORM N_PARAMS TOKENS CONTROL OUT_EMBED GRAD_EMBED SAVED_HEAD MATH_IDENTITY TRAINER_IDENTITY
forward backward evaluate update micro_step trainer_step trainer_setup trainer_evaluate math_prepare
math_setup head_forward embed_forward rmsnorm_64x32_f32 optimizer_update block_in d_x p0 m_linux m_NULL
define endef ifeq ifneq endif include override vpath unexport MAKE MAKEFLAGS SHELL CC CFLAGS LDLIBS
all clean help force build runtime makefile Makefile
end then local function nil repeat until elseif
LIST
headers="assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp stdarg
stdatomic stdio stdlib string time wchar wctype"
for h in $headers; do echo "#include <$h.h>"; done >"$names/headers.h"
macros() { # FLAGS...: of the compilers, of the headers, and of the emitted files
    local cc
    for cc in gcc clang; do
        command -v $cc >/dev/null || continue
        $cc -dM -E -fopenmp "$names/headers.h" "$@"
        $cc -dM -E -fopenmp -I"$WORK/a/runtime" "$WORK/a/kernels.c" "$@"
        $cc -dM -E -fopenmp -I"$WORK/a/runtime" "$WORK/a/step.c" "$@"
        $cc -dM -E -fopenmp -I"$WORK/a/runtime" "$WORK/a/bind.c" "$@"
    done 2>/dev/null
}
nvcc=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
{
    macros -std=gnu11
    macros -std=gnu2x
    : >"$names/empty.cu"
    [ ! -x "$nvcc" ] || "$nvcc" -E -Xcompiler -dM "$names/empty.cu" 2>/dev/null
} | sed -n 's/^#define \([A-Za-z_][A-Za-z_0-9]*\).*/\1/p' |
    grep -xE '[a-z][a-z_0-9]*|[A-Z][A-Z_0-9]*' | sort -u >"$names/macros"
{
    grep '[a-z]' "$names/macros"
    if [ "$FULL" = 1 ]; then
        cat "$names/macros"
        grep -ohE '\b[Rr][Tt]_?[A-Za-z_0-9]+' "$ROOT"/runtime/*.h "$ROOT"/runtime/*/*.h | sort -u
    else
        grep -v '[a-z]' "$names/macros" | awk -v seed="$SEED" '
            BEGIN { srand(seed) } rand() < 0.15'
    fi
    tr ' ' '\n' <"$names/always"
} | grep -E '^[A-Za-z_][A-Za-z_0-9]{0,62}$' | awk '!seen[$0]++' >"$names/list"
n=$(wc -l <"$names/list")
at_least "hostile words" "$n" 350

# ---- the model --------------------------------------------------------------------------------

cat >"$names/named.lua" <<'LUA'
-- Blocks of norms, whose weights and results have the words' names; then a block for each word that
-- may be one, of its own class, with two pieces.
local list = require "list"
local function other(f) -- a name that is refused leaves the default
    local good, a, b = pcall(f)
    if good then return a, b end
end
local n = #list.words
return arch {
  name = "named", fields = { { "vocab", "int" }, { "dim", "int" } },
  build = function(m, b)
    local x = b:block("embed", "embed", "model.", function(g)
      return g.embed { g:tokens(),
        g:param { "embed.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 }, name = "x" }
    end)
    local function norm(g, x, param, value, eps)
      local w = other(function() return g:param { param, { m.dim }, init = "ones" } end)
        or g:param { "refused", { m.dim }, init = "ones" }
      local y = other(function() return (g.rmsnorm { x, w, name = value, eps = eps }) end)
      return y or (g.rmsnorm { x, w, eps = eps })
    end
    for first = 1, n, 100 do
      x = b:block("words." .. first, "words" .. first, "words." .. first .. ".", function(g, x)
        for i = first, math.min(first + 99, n) do
          x = norm(g, x, list.words[i], list.words[(i + n // 2) % n + 1], 1e-5)
        end
        return x
      end, x)
    end
    for i, word in ipairs(list.blocks) do
      local function build(g, x)
        g:cut(word)
        x = norm(g, x, "first", "y", 1e-5 + i * 1e-7)
        g:cut(word .. "_" .. word)
        return norm(g, x, "second", "z", 1e-5)
      end
      x = b:block(word, word, "block." .. word .. ".", build, x)
    end
    b:block("trainer", "trainer", "", function(g, x)
      local w = g:param { "lm_head.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 }
      return (g.cross_entropy { g.linear { x, w, name = "TOKENS" }, g:targets(), name = "stdin" })
    end, x)
  end,
}
LUA
cat >"$names/model.lua" <<'LUA'
return trainer { name = "errno", model = require "named" { vocab = 256, dim = 32 }, seq = 16,
                 micro_batch = 1, global_batch = 2, mesh = { shard = 2 },
                 optimizer = adamw { lr = 1e-3 }, dtypes = { param = "f32" } }
LUA
# lua_list FILE: words of it in Lua's quotes
lua_list() { sed 's/.*/"&",/' "$1" | tr -d '\n'; }
# refused as a block's, class's and piece's: what is no [a-z][a-z0-9_]* or a word of C or Lua, as the
# generator says; short ones, so that word_word is one, too
grep -xE '[a-z][a-z0-9_]{0,18}' "$names/list" | grep -vxE "$(tr '\n' ' ' <<<"auto break case char const
continue default do double else enum extern float for goto if inline int long register restrict return
short signed sizeof static struct switch typedef union unsigned void volatile while asm bool true false
main and or not end then local function nil in repeat until elseif embed trainer" | sed 's/ $//; s/ /|/g')" |
    { if [ "$FULL" = 1 ]; then cat; else head -n 120; fi; } >"$names/blocks"
at_least "names of blocks, classes and pieces" "$(wc -l <"$names/blocks")" 100
# a model has at most 1024 blocks: this many in each
split -l 400 "$names/blocks" "$names/blocks."
list_of() { # WORDS BLOCKS
    echo "return { words = {"
    lua_list "$1"
    echo "}, blocks = {"
    lua_list "$2"
    echo "} }"
}
list_of "$names/list" "$names/blocks.aa" >"$names/list.lua"
named() { # DIR [ARGS...]
    local dir=$1
    shift
    "$FSDPGEN" "$names/model.lua" -o "$dir" "$@" >"$WORK/gen.log" 2>&1 ||
        { grep -A 3 'error: ' "$WORK/gen.log"; return 1; }
}
check "a model of hostile words is generated" named "$names/cpu"
# every word is a field of math.h as it is or as m_WORD, or one that the generator refuses
fields() {
    grep -ohE '\*[A-Za-z_0-9]+;' "$names/cpu/math.h" | tr -d '*;' | sort -u >"$names/fields"
    while read -r word; do
        grep -qxE "(m_)?$word" "$names/fields" || echo "$word"
    done <"$names/list" | tr '\n' ' ' >"$names/refused"
    for word in $(cat "$names/refused"); do
        case $word in
        _[A-Z_]* | asm | auto | break | case | char | const | continue | default | do | double | else | \
            enum | extern | float | for | goto | if | inline | int | long | register | restrict | \
            return | short | signed | sizeof | static | struct | switch | typedef | union | unsigned | \
            void | volatile | while | bool | true | false | main | and | or | not | end | then | \
            local | function | nil | repeat | until | elseif) ;;
        *) echo "$word is not a field, and is not a word that is refused"; return 1 ;;
        esac
    done
}
check "each word is a field or refused" fields

# ---- a constant whose name is another value's ---------------------------------------------------

cat >"$names/tabs.lua" <<'LUA'
return arch {
  name = "tabs", fields = { { "vocab", "int" }, { "dim", "int" } },
  build = function(m, b)
    local x = b:block("embed", "embed", "model.", function(g)
      return g.embed { g:tokens(), g:param { "embed.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 } }
    end)
    local function turn(table_name, out, scale) -- one table, which the first class names
      return function(g, x)
        local t = g.rope_table { seq = m.seq, head_dim = 8, theta = 1e4, factor = 1.0, low_freq_factor = 1.0,
                                 high_freq_factor = 4.0, original = 0, name = table_name }
        local w = g:param { "w", { 3 * m.dim, m.dim }, init = "normal", std = 0.1 }
        local sizes = { heads = m.dim // 8, kv_heads = m.dim // 8, head_dim = 8, seq = m.seq }
        local q = g.rope { g.linear { x, w }, t, g:starts(), heads = sizes.heads, kv_heads = sizes.kv_heads,
                           head_dim = 8, seq = m.seq, rotary = 0 }
        local a = g.attention { q, g:starts(), heads = sizes.heads, kv_heads = sizes.kv_heads, head_dim = 8,
                                seq = m.seq, window = 0, scale = scale }
        return g.add { x, a, name = out }
      end
    end
    x = b:block("a", "a", "a.", turn("tab", "y", 0.3), x)
    x = b:block("b", "b", "b.", turn("other", "tab", 0.4), x)
    local function turn_twice(first, second, inner, out, scale) -- two tables in one span
      local function table_of(g, name, theta)
        return g.rope_table { seq = m.seq, head_dim = 8, theta = theta, factor = 1.0, low_freq_factor = 1.0,
                              high_freq_factor = 4.0, original = 0, name = name }
      end
      return function(g, x)
        local heads = m.dim // 8
        local q = g.linear { x, g:param { "w", { 3 * m.dim, m.dim }, init = "normal", std = 0.1 } }
        for i, t in ipairs { table_of(g, first, 1e5), table_of(g, second, 1e6) } do
          q = g.rope { q, t, g:starts(), heads = heads, kv_heads = heads, head_dim = 8, seq = m.seq, rotary = 0,
                       name = i == 1 and inner or nil }
        end
        local a = g.attention { q, g:starts(), heads = heads, kv_heads = heads, head_dim = 8, seq = m.seq, window = 0,
                                scale = scale }
        return g.add { x, a, name = out }
      end
    end
    x = b:block("c", "c", "c.", turn_twice("u", "u_const", "q", "y", 0.3), x)
    x = b:block("d", "d", "d.", turn_twice("first", "second", "q", "u", 0.4), x)
    x = b:block("e", "e", "e.", turn_twice("first", "second", "u_const", "u", 0.5), x)
    for i, name in ipairs { "p", "parts" } do
      x = b:block(name, name, name .. ".", function(g, x)
        return (g.rmsnorm { x, g:param { "w", { m.dim }, init = "ones" }, name = name, eps = i * 1e-5 })
      end, x)
    end
    b:block("head", "head", "", function(g, x)
      local w = g:param { "lm_head.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 }
      return (g.cross_entropy { g.linear { x, w }, g:targets() })
    end, x)
  end,
}
LUA
sed 's/"named"/"tabs"/; s/name = "errno"/name = "tabs"/' "$names/model.lua" >"$names/tabs_model.lua"
for parts in 1 2; do # in parts, p counts them
    check "a constant with another value's name, parts.context=$parts" \
        "$FSDPGEN" "$names/tabs_model.lua" -o "$names/tabs$parts" --set parts.context=$parts
    for file in math bind kernels; do
        check "and $file.c compiles" gcc $strict -I"$names/tabs$parts/runtime" "$names/tabs$parts/$file.c"
    done
done

# ---- it compiles, alone and beside the headers; and trains as with other names -----------------

each_compiles() { # CC DIR: each file by itself
    local file
    for file in trainer step bind math kernels tables checkpoint; do
        check "hostile words: $1 compiles $file.c without a warning" $1 $strict -I"$2/runtime" "$2/$file.c"
    done
}
for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    each_compiles $cc "$names/cpu"
    for file in step bind math kernels; do
        check "hostile words: $cc compiles $file.c beside the headers of C" \
            $cc $strict -std=gnu2x -include "$names/headers.h" -I"$names/cpu/runtime" \
            "$names/cpu/$file.c"
    done
done
plain() { # the same model, no word of which is anyone's, but for those that are refused
    mkdir -p "$names/other"
    cp "$names/named.lua" "$names/model.lua" "$names/other"
    awk -F'"' -v OFS='"' -v refused=" $(cat "$names/refused")" '{
        for (i = 2; i < NF; i += 2) if (!index(refused, " " $i " ")) $i = "q" ++n "q"
        print }' "$names/list.lua" >"$names/other/list.lua"
    "$FSDPGEN" "$names/other/model.lua" -o "$names/plain" >"$WORK/gen.log" 2>&1
}
trains_alike() {
    local dir
    export CC_CACHE=${CC_CACHE:-$WORK/objects}
    plain || return 1
    for dir in cpu plain; do
        make -C "$names/$dir" CC="$ROOT/tests/cc_cached" CFLAGS=-O0 GEMM=builtin &&
            "$names/$dir/trainer" --data "$ROOT/LICENSE" --steps 2 --log "$names/$dir.jsonl" || return 1
        grep -o '"[a-z_]*_hex": *"[^"]*"' "$names/$dir.jsonl" >"$names/$dir.result"
    done
    [ -s "$names/cpu.result" ] && cmp "$names/cpu.result" "$names/plain.result"
}
check "hostile words: it trains as with other names" trains_alike

home=${CUDA_HOME:-/usr/local/cuda}
if [ -e "$home/include/cublasLt.h" ] && [ -e "${NCCL_HOME:-$home}/include/nccl.h" ]; then
    check "hostile words: generated for a GPU" named "$names/cuda" --target cuda
    for file in step bind math kernels; do
        check "hostile words: $file.c of a GPU's trainer, beside the headers of CUDA" gcc $strict \
            -DRT_CUDA -DRT_NCCL -I"$names/cuda/runtime" -I"$names/cuda/runtime/cuda" \
            -isystem "$home/include" -isystem "${NCCL_HOME:-$home}/include" \
            -include cuda_runtime.h -include cublasLt.h -include nccl.h "$names/cuda/$file.c"
    done
    [ "$FULL" = 1 ] && [ -x "$nvcc" ] &&
        check "hostile words: nvcc compiles kernels.cu" make -C "$names/cuda" CUDA_HOME="$home" \
            ARCHS=sm_90a build/sm_90a.cubin
fi

# the other blocks, with a few of the words
head -n 20 "$names/list" >"$names/few"
for rest in "$names"/blocks.*; do
    [ "$rest" != "$names/blocks.aa" ] || continue
    list_of "$names/few" "$rest" >"$names/list.lua"
    check "hostile words: more blocks" named "$names/more"
    for cc in gcc clang; do
        ! command -v $cc >/dev/null || each_compiles $cc "$names/more"
    done
done

# ---- names that meet: each alone is fine, two of them make one word ------------------------------

mkdir -p "$names/meeting"
cat >"$names/meeting/meeting.lua" <<'LUA'
-- grad_shard of x and grad of shard_x; the frozen segment of y and y_frozen; piece b of a and block
-- a_b, also as functions; constants Angle and angle; a tied parameter w and one named beta_w; names of
-- 63 letters, whose d_NAME and NAME_rstd are cut short and meet.
return arch {
  name = "meeting", fields = { { "vocab", "int" }, { "dim", "int" } },
  build = function(m, b)
    local eps = 1e-5
    local function norm(g, x, name, value)
      eps = eps + 1e-7 -- so that each block has a class of its own
      local w = g:param { name, { m.dim }, init = "ones" }
      return (g.rmsnorm { x, w, name = value or "y", eps = eps })
    end
    local function tied(g)
      return g:param { global = "w", { m.dim }, init = "ones" }
    end
    local x = b:block("embed", "embed", "model.", function(g)
      return g.embed { g:tokens(),
        g:param { "embed.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 }, name = "x" }
    end)
    for _, name in ipairs { "x", "shard_x", "again_x", "y", "y_frozen", "a", "a_b", "lengthy" } do
      x = b:block(name, name, name .. ".", function(g, x)
        if name == "a" then g:cut "c" end
        if name == "lengthy" then
          local most = ("n"):rep(62)
          x = norm(g, x, most .. "a", most .. "b")
          x = norm(g, x, most .. "c", most .. "d")
        end
        x = norm(g, x, "first")
        if name == "y" then x = norm(g, x, "cold", "z") end
        if name == "a" then
          g:cut "b"
          x = norm(g, x, "beta", "u")
          x = (g.rmsnorm { x, tied(g), name = "v", eps = eps })
          x = norm(g, x, "beta_w", "beta_w_y")
        end
        if name == "a_b" then
          x = (g.rmsnorm { x, tied(g), name = "v", eps = eps })
          local function turned(theta, name)
            return g.rope_table { seq = 16, head_dim = 8, theta = theta, name = name }
          end
          local w = g:param { "qkv", { 3 * m.dim, m.dim }, init = "normal", std = 0.5 }
          local qkv = g.linear { x, w, name = "qkv_product" }
          local function rope(name, table)
            return g.rope { qkv, table, g:starts(), heads = 4, kv_heads = 4, head_dim = 8, seq = 16,
                            name = name }
          end
          qkv = rope("once", turned(1e4, "Angle"))
          qkv = rope("twice", turned(1e5, "angle"))
          x = g.attention { qkv, g:starts(), heads = 4, kv_heads = 4, head_dim = 8, seq = 16,
                            window = 0, scale = 0.5, name = "mixed" }
        end
        return x
      end, x)
    end
    b:block("head", "head", "", function(g, x)
      local w = g:param { "lm_head.weight", { m.vocab, m.dim }, init = "normal", std = 0.5 }
      return (g.cross_entropy { g.linear { x, w }, g:targets() })
    end, x)
  end,
}
LUA
cat >"$names/meeting/model.lua" <<'LUA'
return trainer { name = "meeting", model = require "meeting" { vocab = 256, dim = 32 }, seq = 16,
                 micro_batch = 1, global_batch = 4, leaves = 2, mesh = { shard = 2 },
                 wrap = by_name { "a.c", "a.b" }, optimizer = adamw { lr = 1e-3 },
                 groups = { { match = "y.cold", frozen = true } }, dtypes = { param = "f32" } }
LUA
meeting() { # ARGS...: generated, compiled without a warning (a macro defined twice is one), trained
    rm -rf "$names/met"
    "$FSDPGEN" "$names/meeting/model.lua" -o "$names/met" "$@" || return 1
    for file in trainer step bind math kernels tables checkpoint; do
        gcc $strict -I"$names/met/runtime" "$names/met/$file.c" || return 1
    done
    make -C "$names/met" CC="$ROOT/tests/cc_cached" CFLAGS=-O0 GEMM=builtin &&
        "$names/met/trainer" --data "$ROOT/LICENSE" --steps 1
}
check "names that meet" meeting
check "names that meet, in units of one block" meeting --set wrap=1
