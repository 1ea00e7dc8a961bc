#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Does `fsdpgen tune` find what is fastest on this machine? For the demo and a small GPT-2 each candidate of
# a small space is built and run, in turns; then tune chooses by its own fewer runs, with its defaults.
# What it chose is judged by the runs of all: against the best of them, and against the description.
#   tests/bench/tune_optimum.sh    prints the rows of RESULTS.md; about 20 minutes on two idle cores
#   QUICK=1  a space of three and shorter runs: tries the script, measures little
#   STEPS    of a run (default: 5)
#   MINUTES  for all candidates of a model, builds included: no further round begins then (default: 8)
#   CASES    of demo and gpt2 (default: both)
# Exits with 1 where the choice is slower than the best by more than 3 % and clearly so, or clearly
# slower than the description. Clearly: in nine of ten pairs of their runs.
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
QUICK=${QUICK:-0} STEPS=${STEPS:-5} MINUTES=${MINUTES:-8} CASES=${CASES:-demo gpt2}
space="strategy=full_shard,shard_optimizer wrap=1,2,root_only recompute=none,block"
[ "$QUICK" = 0 ] || space="recompute=none,block wrap=1,root_only" STEPS=2 MINUTES=30
export MAKEFLAGS=-s

small_gpt2="model.layers=3 model.dim=384 model.heads=6 model.vocab=256 seq=128 micro_batch=2 global_batch=8
    leaves=4 mesh.shard=2 dtypes.param=f32"

# case_of NAME MODEL SETS: adds the rows of one model to $WORK/rows, what failed to $WORK/failed
case_of() {
    local name=$1 model=$2 set flags=() began=$SECONDS
    for set in $3; do flags+=(--set "$set"); done
    # shellcheck disable=SC2086
    "$FSDPGEN" tune "$model" $space "${flags[@]}" --work "$WORK/$name" --steps "$STEPS" --minutes "$MINUTES" \
        --measure 64 --json >"$WORK/$name.all" 2>"$WORK/$name.log" || { tail -n 3 "$WORK/$name.log"; return 1; }
    # shellcheck disable=SC2086
    "$FSDPGEN" tune "$model" $space "${flags[@]}" --work "$WORK/$name" --json >"$WORK/$name.tuned" \
        2>"$WORK/$name.log" || { tail -n 3 "$WORK/$name.log"; return 1; }
    python3 - "$name" "$WORK/$name.all" "$WORK/$name.tuned" "$((SECONDS - began))" <<'EOF'
import json, statistics, sys

name, everything, tuned, seconds = sys.argv[1:]
everything, tuned = json.load(open(everything)), json.load(open(tuned))
runs = {c["id"]: sorted(c["measured_seconds"]) for c in everything["ranked"]}
sets = {c["id"]: " ".join(c["sets"]) or "as described" for c in everything["ranked"]}
missing = [sets[i] for i in runs if len(runs[i]) < 3]
if missing:
    sys.exit(f"{name}: not measured: {missing}")
median = {i: statistics.median(runs[i]) for i in runs}
best, pick, own = min(median, key=median.get), tuned["best"], 0


def slower(a, b):
    """Of the pairs of their runs, in how many is a slower?"""
    return sum(x > y for x in runs[a] for y in runs[b]) / (len(runs[a]) * len(runs[b]))


def noise(i):
    """The middle three fifths of its runs lie within so much."""
    cut = len(runs[i]) // 5
    return (runs[i][-1 - cut] - runs[i][cut]) / median[i]


def against(a, b):
    return f"{median[a] / median[b]:.3f} ({100 * slower(a, b):.0f} % of pairs slower)"


near_best = median[pick] <= 1.03 * median[best] or slower(pick, best) < 0.9
not_worse = pick == own or slower(pick, own) < 0.9
spread = max(median.values()) / min(median.values())
print(f"| {name} | {len(runs)} | {spread:.2f} | {100 * statistics.median(map(noise, runs)):.1f} % | "
      f"{sets[pick]} {median[pick]:.4g} s | {sets[best]} {median[best]:.4g} s | {against(pick, best)} | "
      f"{against(pick, own)} | {sum(len(c['measured_seconds']) for c in tuned['ranked'])} | "
      f"{'yes' if near_best and not_worse else 'NO'} |")
print(f"{name}: all of it took {seconds} s", file=sys.stderr)
sys.exit(not (near_best and not_worse))
EOF
}

echo "| model | candidates | slowest / fastest | noise | chosen | best of all | chosen / best | chosen / as described | tune's runs | holds |"
echo "|---|---|---|---|---|---|---|---|---|---|"
bad=0
for name in $CASES; do
    case $name in
    demo) case_of demo "$ROOT/models/demo.lua" "mesh.shard=2" || bad=1 ;;
    gpt2) case_of gpt2 "$ROOT/models/gpt2_124m.lua" "$small_gpt2" || bad=1 ;;
    *) echo "CASES=$name: demo or gpt2" >&2; exit 2 ;;
    esac
done
exit $bad
