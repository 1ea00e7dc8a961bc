# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the table of tests/bench/RESULTS.md is what tests/bench/gpu_published.py prints.

results=$ROOT/tests/bench/RESULTS.md
between() { sed -n '/^<!-- gpu_published.py -->$/,/^<!-- end -->$/p' "$results" | sed '1d;$d'; }
if python3 "$ROOT/tests/bench/gpu_published.py" "$FSDPGEN" >"$WORK/published" 2>"$WORK/err"; then
    if [ $update = 1 ]; then
        sed -i -e '/^<!-- gpu_published.py -->$/,/^<!-- end -->$/{//!d}' \
            -e "/^<!-- gpu_published.py -->\$/r $WORK/published" "$results"
    fi
    between >"$WORK/kept"
    if diff -u "$WORK/kept" "$WORK/published" >"$WORK/diff"; then
        ok "published rates of GPUs and their predictions: $(grep -c '^| [0-9]' "$WORK/published") rows"
    else
        bad "published rates of GPUs: RESULTS.md is not what the script prints (--update published)" "$WORK/diff"
    fi
else
    bad "tests/bench/gpu_published.py" "$WORK/err"
fi
