# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the folder is looked after.

rm -rf "$WORK/kept"
gen "$WORK/kept"
check "--check is content with what it wrote" "$FSDPGEN" "$model" -o "$WORK/kept" --check
check "--check reports drift" sh -c "! '$FSDPGEN' '$model' -o '$WORK/kept' --check --set seed=2"
check "--check wrote nothing" diff -r "$WORK/kept" "$WORK/b"
echo '/* mine */' >>"$WORK/kept/step.c"
check "a hand edit is refused" sh -c \
    "! '$FSDPGEN' '$model' -o '$WORK/kept' 2>'$WORK/err' && grep -q step.c '$WORK/err' && tail -n 1 '$WORK/kept/step.c' | grep -q mine"
check "--force takes it back" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/kept' --force && cmp '$WORK/kept/step.c' '$WORK/b/step.c'"
echo notes >"$WORK/kept/notes.txt"
check "a stale file is removed, a foreign one left alone" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/kept' --link-runtime ../a/runtime && [ ! -e '$WORK/kept/runtime/rt.h' ] && [ -e '$WORK/kept/notes.txt' ]"
mtime() { stat -c %Y.%y "$WORK/kept/math.c"; }
before=$(mtime)
gen "$WORK/kept" --link-runtime ../a/runtime --set wrap=2
check "an unchanged file keeps its time" test "$(mtime)" = "$before"
