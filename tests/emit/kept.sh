# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the folder is looked after.

rm -rf "$WORK/kept"
gen "$WORK/kept"
check "--check is content with what it wrote" "$FSDPGEN" "$model" -o "$WORK/kept" --check
check "--check reports drift" sh -c "! '$FSDPGEN' '$model' -o '$WORK/kept' --check --set seed=2"
check "--check names the file with the command" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/kept' --check --set seed=2 2>&1 | grep -q 'help: generate it again; .*/kept/description.lua says how it was made'"
check "--check wrote nothing" diff -r "$WORK/kept" "$WORK/b"
echo '/* mine */' >>"$WORK/kept/step.c"
check "a hand edit is refused" sh -c \
    "! '$FSDPGEN' '$model' -o '$WORK/kept' 2>'$WORK/err' && grep -q step.c '$WORK/err' && tail -n 1 '$WORK/kept/step.c' | grep -q mine"
check "--check says that a hand edit needs --force" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/kept' --check 2>&1 | grep -A 1 'was edited by hand' | grep -q 'again with --force'"
check "--force takes it back" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/kept' --force && cmp '$WORK/kept/step.c' '$WORK/b/step.c'"
echo notes >"$WORK/kept/notes.txt"
check "a stale file is removed, a foreign one left alone" sh -c \
    "'$FSDPGEN' '$model' -o '$WORK/kept' --link-runtime ../a/runtime && [ ! -e '$WORK/kept/runtime/rt.h' ] && [ -e '$WORK/kept/notes.txt' ]"
mtime() { stat -c %Y.%y "$WORK/kept/math.c"; }
before=$(mtime)
gen "$WORK/kept" --link-runtime ../a/runtime --set wrap=2
check "an unchanged file keeps its time" test "$(mtime)" = "$before"
noted() { # noted COUNT [ARGS...]: how often a generation says that the numerics changed
    [ "$("$FSDPGEN" "$model" -o "$WORK/kept" "${@:2}" 2>&1 |
        grep -c 'note: the numerics hash was [0-9a-f]\{16\} and is [0-9a-f]\{16\} now')" = "$1" ]
}
check "another schedule is not noted" noted 0 --set wrap=1
check "other numerics are noted" noted 1 --set seed=2
check "the same numerics are not noted" noted 0 --set seed=2
