# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: descriptions that are wrong or hostile, and what is said of them.

suite bad.txt
suite escapes.txt
suite names.txt
suite optimizers.txt
# what an escape would have left: its word in a message, or a file
if grep -l 'error:.*ESCAPED' "$WORK"/escapes/*/actual >"$WORK/escaped"; then
    bad "something escaped" "$WORK/escaped"
else
    ok "nothing escaped"
fi
find "$WORK"/{bad,escapes,names} -mindepth 2 ! -name model.lua ! -name args \
    ! -name head ! -name expect ! -name actual ! -name diff ! -name stdout \
    ! -name stderr >"$WORK/written"
if [ -s "$WORK/written" ]; then
    bad "a description wrote files" "$WORK/written"
else
    ok "no description wrote a file"
fi
at_least "wrong descriptions" "$(count bad)" $((100 / every))
at_least "distinct messages" "$(distinct bad)" $((60 / every))
at_least "sandbox escapes" "$(count escapes)" $((40 / every))
at_least "hostile names" "$(count names)" $((30 / every))
at_least "wrong optimizers" "$(count optimizers)" $((70 / every))
