# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the two programs, each with its own count.

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

if [ "$FULL" = 1 ]; then
    count_program test_plan "$BUILD/tests/plan/test_plan" 600 "$SEED"
    count_program test_models "$BUILD/tests/plan/test_models" "$here" 24 "$SEED"
else
    count_program test_plan "$BUILD/tests/plan/test_plan" 40 "$SEED"
    count_program test_models "$BUILD/tests/plan/test_models" "$here" 4 "$SEED"
fi

# `auto` against every choice: 20 small cases.
if [ "$FULL" = 1 ]; then
    count_program test_auto "$BUILD/tests/plan/test_auto" "$here" 20 "$SEED" 3
else
    count_program test_auto "$BUILD/tests/plan/test_auto" "$here" 20 "$SEED"
fi
