# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: it compiles without a warning, and works from its own Makefile.

for cc in gcc clang; do
    command -v $cc >/dev/null || continue
    for file in trainer step bind math kernels tables; do
        check "$cc compiles $file.c without a warning" \
            $cc $strict -I"$WORK/a/runtime" "$WORK/a/$file.c"
    done
done
check "make help" sh -c "make -C '$WORK/a' help | grep -q GEMM"
check "make refuses an unknown GEMM" sh -c "! make -C '$WORK/a' GEMM=best -n"
# gemm_of WITHOUT ARCH: what auto takes where the compiler cannot link these libraries
gemm_of() {
    { echo "#!/bin/sh" && echo "case \" \$* \" in $1) exit 1 ;; esac" && echo 'exec cc "$@"'; } >"$WORK/cc_without"
    chmod +x "$WORK/cc_without"
    make -C "$WORK/a" CC="$WORK/cc_without" CFLAGS="-O0 -march=$2" BUILD=build-auto V=1 -n 2>"$WORK/err" |
        sed -n 's/.* -DRT_GEMM_\([A-Z]*\) .*/\1/p' | sort -u
}
if [ "$(uname -m)" = x86_64 ]; then
    for wanted in "*-l* x86-64-v3 BUILTIN" "*-ldnnl* x86-64-v4 BUILTIN" "*-ldnnl* x86-64-v3 CBLAS"; do
        read -r without arch library <<<"$wanted"
        [ "$library" != CBLAS ] || pkg-config --exists openblas || continue
        check "without $without auto takes $library for $arch" test "$(gemm_of "$without" "$arch")" = "$library"
    done
fi
export CC_CACHE=${CC_CACHE:-$WORK/objects}
check "make builds the trainer" make -C "$WORK/a" --no-print-directory CC="$ROOT/tests/cc_cached" \
    CFLAGS=-O0 GEMM=builtin
cp "$WORK/check.log" "$WORK/made"
check "make prints a short line a file" sh -c \
    "! grep -vE '^(CC [a-z0-9_/]+[.]c|LINK trainer)$' '$WORK/made' && grep -qx 'CC step.c' '$WORK/made' &&
     grep -qx 'CC runtime/job/rt_say.c' '$WORK/made' && tail -n 1 '$WORK/made' | grep -qx 'LINK trainer'"
check "make has nothing to do then" sh -c \
    "! make -C '$WORK/a' CC='$ROOT/tests/cc_cached' CFLAGS=-O0 GEMM=builtin | grep -E '^(CC|LINK) '"
check "other flags rebuild" sh -c \
    "make -C '$WORK/a' CFLAGS='-O0 -g' GEMM=builtin | grep -qx 'CC math.c'"
check "make V=1 shows commands" sh -c \
    "make -C '$WORK/a' V=1 CFLAGS=-O0 GEMM=builtin BUILD=build-v -n | grep -q ' -c -o build-v/math.o math.c$'"
check "-Ofast: only compilers get it, since a linker would turn subnormals into zeros" bash -c \
    "make -C '$WORK/a' V=1 CFLAGS=-Ofast GEMM=builtin BUILD=build-v -n >'$WORK/lines' &&
        grep -q 'Ofast .* -c -o build-v/math.o math.c$' '$WORK/lines' && grep -q ' -o trainer ' '$WORK/lines' &&
        ! grep ' -o trainer ' '$WORK/lines' | grep -q Ofast"
. "$here/harden.sh"
check "make clean leaves what was generated" sh -c "make -C '$WORK/a' clean && diff -r '$WORK/a' '$WORK/b'"
link_runtime() {
    gen "$WORK/linked" --link-runtime ../a/runtime && [ ! -e "$WORK/linked/runtime" ] &&
        grep -q '^RUNTIME ?= ../a/runtime$' "$WORK/linked/Makefile" &&
        same_mathematics "$WORK/linked" "$WORK/a"
}
check "--link-runtime leaves the copy out" link_runtime
check "--link-runtime refuses what a Makefile would obey" sh -c \
    "! '$FSDPGEN' '$model' -o '$WORK/bad' --link-runtime '\$(shell touch $WORK/pwned)' 2>'$WORK/err' && [ ! -e '$WORK/bad' ]"

# CPUs with AVX and without AVX2, such as Sandy Bridge: nothing here can run their code, but it compiles.
for file in math kernels runtime/cpu/rt_gemm_builtin; do
    check "$file.c compiles for AVX without AVX2" gcc $strict -march=sandybridge -DRT_GEMM_BUILTIN -I"$WORK/a/runtime" \
        "$WORK/a/$file.c"
done
