# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the same bytes everywhere.

same_bytes() {
    gen "$WORK/a" || return 1
    gen "$WORK/b" && diff -r "$WORK/a" "$WORK/b"
}
elsewhere() { # another directory, home, time zone, user, locale, umask
    mkdir -p "$WORK/else where/home"
    cp "$model" "$WORK/else where/tiny_llama.lua"
    (cd "$WORK/else where" && umask 077 &&
        env -i PATH="$PATH" HOME="$WORK/else where/home" TZ=Pacific/Kiritimati USER=nobody \
            LANG="$1" LC_ALL="$1" "$FSDPGEN" tiny_llama.lua -o out >log 2>&1 || cat log) &&
        diff -r "$WORK/a" "$WORK/else where/out"
}
check "same bytes twice" same_bytes
for locale in C C.utf8 de_DE.UTF-8 tr_TR.UTF-8 nonsense; do
    check "same bytes under locale $locale" elsewhere "$locale"
    rm -rf "$WORK/else where"
done
if command -v faketime >/dev/null; then
    check "same bytes at another time" sh -c \
        "faketime '2001-02-03 04:05:06' '$FSDPGEN' '$model' -o '$WORK/t' && diff -r '$WORK/a' '$WORK/t'"
fi
ops_elsewhere() {
    cp -r "$ROOT/templates/ops" "$WORK/my ops" &&
        gen "$WORK/moved" --ops "$WORK/my ops" && diff -r "$WORK/a" "$WORK/moved"
}
check "same bytes with every op folder from elsewhere" ops_elsewhere
check "--ops names each folder whose code the trainer runs" sh -c \
    "grep -qF 'my ops/swiglu/cpu.c: note: this code becomes part of the trainer, which runs it' '$WORK/gen.log' &&
     ! grep -q 'my ops/lion' '$WORK/gen.log' &&
     [ \"\$(grep -c ': note: ' '$WORK/gen.log')\" = \"\$(grep ': note: ' '$WORK/gen.log' | sort -u | wc -l)\" ]"
check "no date, host, user or absolute path" sh -c \
    "! grep -rnE \"/work|/tmp|/home|/root|\$(hostname)|20[0-9][0-9]-[0-9][0-9]\" '$WORK/a' --include='*' --exclude-dir=runtime"
