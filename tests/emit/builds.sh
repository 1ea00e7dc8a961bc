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
check "make builds the trainer" make -C "$WORK/a" CFLAGS=-O0 GEMM=builtin
check "make has nothing to do then" sh -c \
    "! make -C '$WORK/a' CFLAGS=-O0 GEMM=builtin | grep -E ' -c | -o '"
check "other flags rebuild" sh -c \
    "make -C '$WORK/a' CFLAGS='-O0 -g' GEMM=builtin | grep -q math.c"
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
