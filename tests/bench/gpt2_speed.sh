#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_speed.sh: how fast an emitted trainer of GPT-2 124M is, beside its ceiling measured in the
# same run. In: nothing but the built fsdpgen and oneDNN. Out: a table on stdout, one line for
# each of f32 and bf16 at 1 x 1024 and 4 x 64 tokens: tokens/s of a step (median), the ceiling
# (gemm_ceiling.c: the library alone on the model's products as whole matrices, attention's
# causal flops at that rate) and their ratio.
#
#   tests/bench/gpt2_speed.sh [STEPS]      default 7 steps, the first two are not counted
#   CASES="f32 1 1024" THREADS=2 tests/bench/gpt2_speed.sh     one case; threads (default: cores)
#
# The ceiling is measured before and after each trainer, and the mean counts: a machine that
# others use too slows both.
set -u
. "$(dirname "$0")/../lib.sh"
STEPS=${1:-7}
THREADS=${THREADS:-$(nproc)}
CASES=${CASES:-"f32 1 1024
bf16 1 1024
f32 4 64
bf16 4 64"}
export OMP_NUM_THREADS=$THREADS
flags="-std=gnu11 -O3 -march=native -ffp-contract=off -fopenmp -DRT_GEMM_ONEDNN"

if ! cc $flags -I"$ROOT/runtime" "$ROOT"/runtime/rt_gemm*.c "$ROOT/tests/bench/gemm_ceiling.c" \
    -o "$WORK/ceiling" -ldnnl 2>"$WORK/log"; then
    echo "gpt2_speed: gemm_ceiling does not build (Debian: apt-get install libdnnl-dev)" >&2
    tail -n 5 "$WORK/log" >&2
    exit 4
fi
# Any text will do: GPT-2's vocabulary holds the bytes.
cat "$ROOT"/gen/*.c >"$WORK/data.txt"

ceiling() { # DTYPE SEQUENCES TOKENS: tokens/s
    "$WORK/ceiling" "$@" | sed -n 's/^ceiling .*: \([0-9.]*\) tokens\/s.*/\1/p'
}

median_tokens() { # FILE TOKENS: of step_seconds, without the first two steps
    sed -n 's/.*"step_seconds": *\([0-9.e+-]*\).*/\1/p' "$1" | tail -n +3 | sort -g |
        awk -v t="$2" '{ v[NR] = $1 } END { if (NR) printf "%.1f", t / v[int((NR + 1) / 2)] }'
}

echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $THREADS threads"
printf '%-6s %-8s %10s %10s %6s\n' dtype tokens 'tokens/s' ceiling ratio
echo "$CASES" | while read -r dtype sequences seq; do
    dir=$WORK/$dtype.$sequences.$seq
    tokens=$((sequences * seq))
    if ! "$FSDPGEN" "$ROOT/models/gpt2_124m.lua" -o "$dir" --set "dtypes.param=\"$dtype\"" \
        --set micro_batch="$sequences" --set global_batch="$sequences" --set seq="$seq" \
        --set leaves=1 --set mesh.shard=1 >"$WORK/log" 2>&1 ||
        ! make -C "$dir" GEMM=onednn >>"$WORK/log" 2>&1; then
        tail -n 15 "$WORK/log" >&2
        exit 1
    fi
    before=$(ceiling "$dtype" "$sequences" "$seq")
    if ! "$dir/trainer" --data "$WORK/data.txt" --steps "$STEPS" --threads "$THREADS" \
        --log "$dir.jsonl" --quiet >>"$WORK/log" 2>&1; then
        tail -n 15 "$WORK/log" >&2
        exit 1
    fi
    rate=$(median_tokens "$dir.jsonl" "$tokens")
    after=$(ceiling "$dtype" "$sequences" "$seq")
    awk -v d="$dtype" -v s="${sequences}x$seq" -v r="$rate" -v a="$before" -v b="$after" \
        'BEGIN { c = (a + b) / 2; printf "%-6s %-8s %10.1f %10.1f %6.3f\n", d, s, r, c, r / c }'
    rm -rf "$dir"
done
