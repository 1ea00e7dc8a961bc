#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gemm_libraries.sh: which library is the fastest under the products of GPT-2 124M, one thread. In: a
# compiler and the libraries that it finds. Out: a table on stdout, a line for each product: the rate of
# rt_gemm's tiles (GFLOP/s) with each library, medians of turns, and for each library over oneDNN; the
# last line counts each product as often as a step has it.
#
#   tests/bench/gemm_libraries.sh [DTYPE [TOKENS]]     default f32 1024
#   ISA=avx2        another instruction set of tests/isa.sh, for compiler and libraries
#   ROUNDS=3        turns of all of them
#   ONEDNN3=DIR     also another oneDNN: DIR/include/oneapi/dnnl/dnnl.h, DIR/lib/libdnnl.so
#   BLIS=DIR        also BLIS: DIR/include/cblas.h, DIR/lib/libblis.so; its kernels are those that
#                   BLIS_ARCH_TYPE chooses (a number: 0 AVX-512, 3 AVX2 in BLIS 0.9)
#   PYTHON=python3  also PyTorch's products of whole matrices, if it is there
#   TURN="chrt -f 50"  before each program: on a busy machine it then keeps its core
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
dtype=${1:-f32}
tokens=${2:-1024}
ROUNDS=${ROUNDS:-3}
export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
case $ISA in
*v3 | *avx2)
    export ONEDNN_MAX_CPU_ISA=AVX2 OPENBLAS_CORETYPE=Haswell BLIS_ARCH_TYPE=3
    export ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2
    ;;
esac
names=()

# build_with NAME FLAGS LIBRARIES: $WORK/NAME, if it can be built
build_with() {
    # shellcheck disable=SC2086 # words
    cc -std=gnu11 -O3 "-march=$ISA_ARCH" -ffp-contract=off -fopenmp $2 -I"$ROOT/runtime" \
        "$ROOT"/runtime/cpu/rt_gemm*.c "$ROOT/tests/bench/gemm_ceiling.c" -o "$WORK/$1" $3 \
        2>"$WORK/log" && names+=("$1")
}

build_with onednn -DRT_GEMM_ONEDNN -ldnnl || {
    echo "gemm_libraries: no oneDNN to compare with (Debian: apt-get install libdnnl-dev)" >&2
    exit 4
}
[ -z "${ONEDNN3:-}" ] ||
    build_with onednn3 "-DRT_GEMM_ONEDNN -I$ONEDNN3/include" "-L$ONEDNN3/lib -ldnnl -Wl,-rpath,$ONEDNN3/lib"
build_with openblas -DRT_GEMM_CBLAS -lopenblas
[ -z "${BLIS:-}" ] ||
    build_with blis "-DRT_GEMM_CBLAS -I$BLIS/include" "-L$BLIS/lib -lblis -Wl,-rpath,$BLIS/lib"
build_with builtin "" ""

# lines as once prints them, of whole matrices
cat >"$WORK/products.py" <<'PYTHON'
import sys, time, torch
dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[sys.argv[1]]
torch.set_num_threads(1)
print(f"PyTorch {torch.__version__} ({torch.backends.cpu.get_cpu_capability()}), 1 threads")
for line in sys.stdin:
    name, count, m, n, k, op = line.strip().split("|")
    m, n, k = int(m), int(n), int(k)
    a = torch.rand(*((k, m) if op == "TN" else (m, k)), dtype=dtype)
    b = torch.rand(*((n, k) if op == "NT" else (k, n)), dtype=dtype)
    a, b = a.t() if op == "TN" else a, b.t() if op == "NT" else b
    torch.mm(a, b)
    seconds = []
    for _ in range(5):
        start = time.monotonic()
        torch.mm(a, b)
        seconds.append(time.monotonic() - start)
    print(f"{name}|{count}|{m}|{n}|{k}|{2e-9 * m * n * k / sorted(seconds)[2]:.1f}", flush=True)
PYTHON
"${PYTHON:-python3}" -c 'import torch' 2>/dev/null && names+=(pytorch)

# once NAME: a line for each product, name|count|m|n|k|rate; the library's name in NAME.is
once() {
    if [ "$1" = pytorch ]; then
        # layouts as in gemm_ceiling.c: of the head, which is tied, the other way round
        awk -F'|' -v OFS='|' '{
            dx = $1 ~ / dx$/
            layout = $1 ~ / dw$/ ? "TN" : dx != ($1 ~ /^head/) ? "NT" : "NN"
            print $0, layout }' "$WORK/products" |
            ${TURN:-} "${PYTHON:-python3}" "$WORK/products.py" "$dtype"
    else
        ${TURN:-} "$WORK/$1" "$dtype" 1 "$tokens"
    fi >"$WORK/log" 2>&1 || { tail -n 5 "$WORK/log" >&2; exit 1; }
    sed -n '1s/, 1 threads.*//p' "$WORK/log" >"$WORK/$1.is"
    sed -n 's/^\(.*[a-z]\)  *\([0-9]*\) x  *\([0-9]*\) x  *\([0-9]*\) x  *\([0-9]*\)  whole.*tiles *\([0-9.]*\) .*/\1|\2|\3|\4|\5|\6/
        /^[a-z ]*|/p' "$WORK/log" | sed 's/ *|/|/' >"$WORK/once"
    [ -s "$WORK/products" ] || cut -d'|' -f 1-5 "$WORK/once" >"$WORK/products"
    cut -d'|' -f 6 "$WORK/once" >>"$WORK/$1.rates"
}

for ((round = 0; round < ROUNDS; round++)); do
    for name in "${names[@]}"; do once "$name"; done
done
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), 1 thread, -march=$ISA_ARCH, $dtype," \
    "$tokens tokens: $(for name in "${names[@]}"; do cat "$WORK/$name.is"; done | paste -sd ';' | sed 's/;/; /g')"
for name in "${names[@]}"; do echo "$name $WORK/$name.rates"; done | awk -v products="$WORK/products" '
    function median(list, n,    v, i, j, t) {
        split(list, v, " ")
        for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] > v[j]; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
        return v[int((n + 1) / 2)]
    }
    function cell(c, rate, ratio) {
        if (c == 1) printf " %9.1f", rate
        else printf " %9.1f %6.3f", rate, ratio
    }
    BEGIN { while ((getline line < products) > 0) product[++rows] = line }
    {
        name[++columns] = $1
        for (n = 0; (getline rate < $2) > 0; n++) all[columns, n % rows + 1] = all[columns, n % rows + 1] " " rate
        turns = n / rows
    }
    END {
        printf "%-9s %2s %6s %6s %6s", "product", "", "m", "n", "k"
        for (c = 1; c <= columns; c++) printf " %9s%s", name[c], (c > 1 ? "  of it" : "")
        print ""
        for (r = 1; r <= rows; r++) {
            split(product[r], p, "|")
            printf "%-9s %2d %6d %6d %6d", p[1], p[2], p[3], p[4], p[5]
            flops = p[2] * p[3] * p[4] * p[5]
            sum += flops
            for (c = 1; c <= columns; c++) {
                rate = median(all[c, r], turns)
                seconds[c] += flops / rate
                if (c == 1) first = rate
                cell(c, rate, rate / first)
            }
            print ""
        }
        printf "%-33s", "a step"
        for (c = 1; c <= columns; c++) cell(c, sum / seconds[c], seconds[1] / seconds[c])
        print ""
    }'
