# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: programs, each with its own count.

# Adds a program's own count to ours, and shows its failures and figures.
count_program() {
    local name=$1 line
    shift
    "$@" >"$WORK/$name.out" 2>"$WORK/$name.err"
    local status=$?
    grep -E '^(FAIL|figure)' "$WORK/$name.out"
    line=$(tail -n 1 "$WORK/$name.out" | grep -E '^[0-9]+ passed, [0-9]+ failed$')
    if [ -z "$line" ]; then
        bad "$name ended with status $status" "$WORK/$name.err"
        return
    fi
    passed=$((passed + ${line%% *}))
    line=${line#*, }
    failed=$((failed + ${line%% *}))
}

# models, choices of each architecture and of each in parts, cases of `auto`. Under sanitizers a
# memory error in the passes shows in any model: fewer of them, a third with FULL=1.
counts=(5 1 1 3)
[ "$FULL" = 0 ] || counts=(600 24 24 20 3)
if grep -qs '^FSDPGEN_SANITIZE:.*=.' "$BUILD/CMakeCache.txt"; then
    counts=(3 1 1 2)
    [ "$FULL" = 0 ] || counts=(200 8 8 7)
fi
count_program test_plan "$BUILD/tests/plan/test_plan" "${counts[0]}" "$SEED"
turn 0 2 count_program test_models "$BUILD/tests/plan/test_models" "$here" "${counts[1]}" "$SEED"
turn 1 4 count_program test_parts "$BUILD/tests/plan/test_parts" "$here" "${counts[2]}" "$SEED"
# `auto` against every choice, of small models: it searches, so that it comes near the best of a model is
# no theorem, and CI meets no new ones
count_program test_auto "$BUILD/tests/plan/test_auto" "$here" "${counts[3]}" \
    "$([ "$FULL" = 1 ] && echo "$SEED" || echo 1)" ${counts[4]:-}
count_program test_split "$BUILD/tests/plan/test_split" "$here"
