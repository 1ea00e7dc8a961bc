# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, which has made $WORK/a: programs are hardened where the compiler can do it, and
# what it cannot do is left out.

# hardened PROGRAM: addresses are random, tables read-only, the stack is no code, ends are checked
hardened() {
    readelf -lW "$1" | grep -q 'GNU_RELRO' && readelf -dW "$1" | grep -q 'FLAGS_1.*NOW.*PIE' &&
        readelf -lW "$1" | grep 'GNU_STACK' | grep -qv E &&
        nm -D "$1" | grep -q '_chk@' && nm -D "$1" | grep -q ' __stack_chk_fail'
}

flags_of() { make -C "$WORK/a" GEMM=builtin BUILD=build-none -pn "$@" 2>/dev/null | grep '^flags :='; }

case $(cc -dumpmachine) in
*-linux-gnu*)
    check "fsdpgen is hardened" hardened "$FSDPGEN"
    gen "$WORK/hard" --link-runtime "$ROOT/runtime"
    check "make, optimised" make -C "$WORK/hard" CC="$ROOT/tests/cc_cached" \
        CFLAGS="-O1 -march=$ISA_ARCH" GEMM=builtin
    check "a trainer is hardened" hardened "$WORK/hard/trainer"
    ;;
*) echo "skipped: hardening is tested on GNU/Linux" ;;
esac
check "HARDEN=0 leaves it out" sh -c "! echo '$(flags_of HARDEN=0)' | grep -q 'FORTIFY\|-fstack'"
check "and so does a sanitizer" sh -c \
    "! echo '$(flags_of CFLAGS='-O1 -fsanitize=address')' | grep -q 'FORTIFY\|-fstack'"
cat >"$WORK/old-cc" <<'END'
#!/bin/sh
case " $* " in *" -fcf-protection "* | *"-z,now"*) exit 1 ;; esac
exec cc "$@"
END
chmod +x "$WORK/old-cc"
check "flags that a compiler does not know are left out" sh -c \
    "echo '$(flags_of CC="$WORK/old-cc")' | grep -v cf-protection | grep -q 'FORTIFY.*-fstack-protector'"
