# SPDX-License-Identifier: Apache-2.0
# Sourced by test.sh and the suites: which instruction set a run of the tests uses, of the
# compiler and of the library under the matrix products. Bits belong to a platform, so what
# holds on one has to be seen on others, and a machine has several. In the environment:
#   ISA=NAME         one of those below; default: native, what trainers are built with anyway
# Out: what CMake and make are asked for, and the libraries' own variables, exported:
#   ISA_ARCH         the compiler's -march
#   ISA_GEMM         library under the products: auto, onednn, cblas, builtin
#   ISA_MAKE         the same as arguments for an emitted Makefile; none for native

# name|flags of /proc/cpuinfo that it needs|-march|library|its variable. Where there is no AVX-512,
# avx2 is v3 and onednn-avx2 is native: they need it.
isa_table() {
    local v4="avx512f avx512bw avx512cd avx512dq avx512vl"
    cat <<TABLE
native||native|auto|
v3|avx2 fma bmi2|x86-64-v3|auto|
v4|$v4|x86-64-v4|auto|
avx2|$v4|x86-64-v3|onednn|ONEDNN_MAX_CPU_ISA=AVX2
onednn-sse41|sse4_1|native|onednn|ONEDNN_MAX_CPU_ISA=SSE41
onednn-avx|avx|native|onednn|ONEDNN_MAX_CPU_ISA=AVX
onednn-avx2|$v4|native|onednn|ONEDNN_MAX_CPU_ISA=AVX2
onednn-avx512|$v4|native|onednn|ONEDNN_MAX_CPU_ISA=AVX512_CORE
openblas-nehalem|sse4_2|native|cblas|OPENBLAS_CORETYPE=Nehalem
openblas-haswell|avx2 fma|native|cblas|OPENBLAS_CORETYPE=Haswell
openblas-zen|avx2 fma|native|cblas|OPENBLAS_CORETYPE=Zen
openblas-skylakex|$v4|native|cblas|OPENBLAS_CORETYPE=SkylakeX
builtin||native|builtin|
builtin-v2|sse4_2|x86-64-v2|builtin|
builtin-v3|avx2 fma bmi2|x86-64-v3|builtin|
TABLE
}

isa_openblas() { # one that chooses kernels when it runs
    echo 'extern char *openblas_get_config(void); int puts(const char *);
        int main(void) { return puts(openblas_get_config()) < 0; }' |
        cc -x c - -o "$1" -lopenblas 2>/dev/null && "$1" | grep -q DYNAMIC_ARCH
}

# isa_names: those that this machine has, one a line.
isa_names() {
    local name needs arch gemm set flags flag openblas=no onednn=no
    local try=${TMPDIR:-/tmp}/fsdpgen-isa.$$
    flags=" $(sed -n 's/^flags[^:]*: //p;T;q' /proc/cpuinfo 2>/dev/null) "
    isa_openblas "$try" && openblas=yes
    echo '#include <oneapi/dnnl/dnnl.h>' | cc -E -x c - >/dev/null 2>&1 && onednn=yes
    rm -f "$try"
    while IFS='|' read -r name needs arch gemm set; do
        for flag in $needs; do
            [[ $flags = *" $flag "* ]] || continue 2
        done
        case $gemm in
        onednn) [ $onednn = yes ] || continue ;;
        cblas) [ $openblas = yes ] || continue ;;
        esac
        echo "$name"
    done < <(isa_table)
}

isa_use() { # NAME
    local name needs arch gemm set
    while IFS='|' read -r name needs arch gemm set; do
        [ "$name" = "$1" ] || continue
        export ISA=$name ISA_ARCH=$arch ISA_GEMM=$gemm
        [ -z "$set" ] || export "${set?}"
        ISA_MAKE=()
        [ "$name" = native ] || ISA_MAKE=("ARCH=$arch" "GEMM=$gemm")
        return 0
    done < <(isa_table)
    echo "ISA=$1: choose one of: $(isa_names | tr '\n' ' ')" >&2
    exit 2
}
