# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: a second C library. Its pow, sin, exp, ... differ from this machine's in the
# last bit of each result, as those of another version or processor do in some; what fsdpgen
# emits does not. A program that calls them shows that it would.
mkdir -p "$WORK/libm"
cd "$WORK/libm" || exit 70
cat >second.c <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
static double other(double x)
{
    return x == 0 || x == 1 || isinf(x) || isnan(x) ? x : nextafter(x, x > 0 ? 0 : 1);
}
#define ONE(name) \
    double name(double x) \
    { \
        return other(((double (*)(double))dlsym(RTLD_NEXT, #name))(x)); \
    }
#define TWO(name) \
    double name(double x, double y) \
    { \
        return other(((double (*)(double, double))dlsym(RTLD_NEXT, #name))(x, y)); \
    }
ONE(exp) ONE(log) ONE(log2) ONE(log10) ONE(sin) ONE(cos) ONE(tan) ONE(asin) ONE(acos)
TWO(pow) TWO(atan2)
C
cat >control.c <<'C'
#include <math.h>
#include <stdio.h>
int main(void)
{
    volatile double x = 0.3, y = 10000;

    printf("%a %a %a %a %a %a\n", pow(y, x), exp(x), log(y), log2(y), log10(x), sin(y));
    printf("%a %a %a %a %a\n", cos(y), tan(y), asin(x), acos(x), atan2(x, y));
    return 0;
}
C
# Constants of each function, folded by Lua's compiler and not, in fields that are emitted.
cat >model.lua <<'LUA'
local llama = require "arch.llama"
local t, dim = {}, 64
for i = 1, 16 do t[i] = 10000 ^ (-2 * i / dim) * math.sin(i) + math.cos(i) * math.tan(i / 3) end
local sum = 0
for i = 1, 16 do sum = sum + math.abs(t[i]) * 1e-5 end
return trainer {
    name = "tiny",
    model = llama {
        layers = 2, dim = dim, heads = 4, kv_heads = 2, ffn = 128, vocab = 256,
        init_std = 0.02 / 2.3 ^ 0.7, norm_eps = math.exp(-11.3),
        rope = { theta = 10000 * 8 ^ (dim / (dim - 2.5)) },
    },
    seq = 64, micro_batch = 2, global_batch = 16,
    dtypes = { param = "f32" },
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 1e-3 * math.log(19) ^ 0.3 + sum, betas = { math.asin(0.7), math.acos(0.3) / 2 },
        weight_decay = math.atan(0.1, 3), clip = math.log(7, 10) + math.log(5, 2),
    },
    lr = cosine { warmup = 10, steps = 100, min_ratio = 0.1 ^ 0.7 },
}
LUA
if ${CC:-cc} -fPIC -shared -O1 -fno-builtin second.c -o second.so -ldl >log 2>&1 &&
    ${CC:-cc} -O1 -fno-builtin control.c -o control -lm >>log 2>&1; then
    ./control >control.first
    LD_PRELOAD=$PWD/second.so ./control >control.second
    check "the second library is another in each function" awk '
        NR == FNR { for (i = 1; i <= NF; i++) first[FNR, i] = $i; next }
        { for (i = 1; i <= NF; i++) { n++; same += first[FNR, i] == $i } }
        END { exit !(n == 11 && same == 0) }' control.first control.second
    check "with this one" "$FSDPGEN" model.lua -o first
    check "with the second" env ASAN_OPTIONS=verify_asan_link_order=0 \
        LD_PRELOAD="$PWD/second.so" "$FSDPGEN" model.lua -o second
    check "the same bytes" diff -r first second
    check "without the processor's newer instructions" env \
        GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-FMA,-FMA4,-AVX2_Usable,-FMA_Usable \
        "$FSDPGEN" model.lua -o third
    check "the same bytes, too" diff -r first third
else
    bad "the second library is not built" log
fi
# Ties, holes and hashes: many runs, one folder (sandbox_test.c has more of them).
cat >ties.lua <<'LUA'
local t, seen = {}, {}
for i = 1, 5000 do t[i] = { key = (i <= 2500 and i or 5000 - i) // 3, i = i } end
table.sort(t, function(a, b) return a.key < b.key end)
local sum = 0
for i = 1, #t do sum = (sum * 31 + t[i].i) % 1000003 end
for i = 1, 12 do seen["k" .. i] = i end
for i = 1, 9 do seen["k" .. i] = nil end
for _, i in ipairs { 1, 2, 4, 5, 6, 7, 8, 16, 17 } do seen[i] = i end
local base = require "base"
return trainer {
    name = "tiny", model = base.model, seq = 64, micro_batch = 2, global_batch = 16,
    dtypes = { param = "f32" }, seed = sum * 100 + #seen,
}
LUA
sed 's/^return trainer/return/' "$here/base.lua" >base.lua
"$FSDPGEN" check ties.lua --dump=check >ties.first 2>log
for run in 1 2 3 4 5 6 7 8 9 10; do
    "$FSDPGEN" check ties.lua --dump=check 2>log | cmp -s - ties.first || break
done
if [ "$run" = 10 ] && grep -q '^seed = ' ties.first; then ok "sorts with ties and holes: 10 runs"
else bad "sorts with ties and holes: run $run" log; fi
