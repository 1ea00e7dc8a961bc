#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--update]: the passes shard to simulate. Synthetic models and faults (test_plan), real
# architectures under the interpreter (test_models), golden dumps, plans of the shipped models
# against their lower bounds, plan --json, budgets. --update writes the golden dumps as they
# are now, for a reader to judge with `git diff`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$ROOT/tests/plan

number() { sed -n "s/.*\"$1\": *\([0-9.eE+-]*\).*/\1/p" "$WORK/plan.json" | tail -n 1; }

# Each classical mistake, planted, is warned of with the number that its closed form gives.
mistakes() {
    local line
    python3 "$here/mistakes.py" "$FSDPGEN" "$ROOT/models" >"$WORK/mistakes" 2>"$WORK/err"
    while read -r line; do
        case $line in
        ok\ *) ok "${line#ok }" ;;
        FAIL\ *) bad "${line#FAIL }" "$WORK/err" ;;
        esac
    done <"$WORK/mistakes"
    check "all mistakes were planted" grep -q '^28 mistakes, 0 wrong' "$WORK/mistakes"
}

part programs . "$here/programs.sh"
part golden . "$here/golden.sh"
part shipped . "$here/shipped.sh"
part budgets . "$here/budgets.sh"
part ranks . "$here/ranks.sh"
part diff . "$here/diff.sh"
part cost . "$here/cost.sh"
part screen . "$here/screen.sh"
part network . "$here/network.sh"
part published . "$here/published.sh"
part image . "$here/image.sh"
part ctas . "$here/ctas.sh"
part mistakes mistakes
finish
