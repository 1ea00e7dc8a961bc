#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# How well `fsdpgen plan --rates` predicts a step on this machine's CPU: three models are calibrated
# in one configuration each, then other configurations of each are predicted with that table and
# measured. Prints a row for each, the median error and Spearman's rank correlation.
#   predict.sh [FIRST [LAST]]   only these rows
#   STEPS    of a run; the median without the first two counts (default: 7)
#   BUSY=1   measures processor seconds of a rank's thread, on a machine that others use, too: of a
#            run of STEPS steps less one of 1 step. Waits then do not count
#   SAVE     a folder for the tables of rates and the rows
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
STEPS=${STEPS:-7} SAVE=${SAVE:-$WORK}
mkdir -p "$SAVE" || exit 1
first=${1:-1} last=${2:-99}
threads=1
export MAKEFLAGS=-s
# read by both vocabularies: a byte is a token, and a small number is one, too
cat "$ROOT"/gen/*/*.c >"$WORK/data.txt"

model_a=$ROOT/models/demo.lua sets_a="mesh.shard=2"
model_b=$ROOT/models/gpt2_124m.lua
sets_b="mesh.shard=2 model.layers=2 model.vocab=256 seq=256 micro_batch=2 global_batch=16 leaves=4 dtypes.param=f32"
model_c=$ROOT/models/demo.lua
sets_c="mesh.shard=2 model.dim=512 model.heads=8 model.kv_heads=8 model.ffn=1408 model.layers=2 seq=512 micro_batch=1 global_batch=8"

# A model and what differs from its calibrated configuration.
rows() {
    local how
    for how in "" micro_batch=1 micro_batch=4 recompute=block "micro_batch=4 recompute=block" wrap=2 \
        accumulate=unsharded model.layers=2 model.layers=8 model.ffn=1408 model.dim=128 \
        "model.layers=8 recompute=block" seq=128 "seq=512 micro_batch=1" "loss.chunk_tokens=128"; do
        echo "a $how"
    done
    for how in "" micro_batch=1 micro_batch=4 recompute=block "micro_batch=4 recompute=block" wrap=2 \
        accumulate=unsharded model.layers=1 model.layers=4 "model.layers=4 recompute=block" seq=128 \
        global_batch=8 "loss.chunk_tokens=128"; do
        echo "b $how"
    done
    for how in "" micro_batch=2 recompute=block "micro_batch=2 recompute=block" wrap=2 accumulate=unsharded \
        model.layers=1 model.layers=4 "model.layers=4 recompute=block" seq=256 seq=1024 model.ffn=704 \
        model.kv_heads=2 "loss.chunk_tokens=128"; do
        echo "c $how"
    done
}

flags_of() { # MODEL CHANGES: the model's own, without what the changes set again
    local own=sets_$1 set change kept
    for set in ${!own}; do
        kept=1
        for change in $2; do [ "${set%%=*}" != "${change%%=*}" ] || kept=; done
        [ -z "$kept" ] || printf -- '--set %s ' "$set"
    done
    for change in $2; do printf -- '--set %s ' "$change"; done
}

build() { # MODEL FLAGS: $WORK/trainer, with objects of equal text from ccache where there is one
    local model=model_$1
    rm -rf "$WORK/trainer"
    # shellcheck disable=SC2086
    "$FSDPGEN" "${!model}" -o "$WORK/trainer" --link-runtime "$ROOT/runtime" $2 >"$WORK/log" 2>&1 &&
        make -C "$WORK/trainer" -j2 CC="$ROOT/tests/cc_cached" >>"$WORK/log" 2>&1
}

run() { # STEPS: leaves the log of the run, and prints its processor seconds
    rm -f "$WORK/log.jsonl"
    { TIMEFORMAT='%U %S'; time "$WORK/trainer/trainer" --data "$WORK/data.txt" --steps "$1" \
        --threads $threads --quiet --log "$WORK/log.jsonl" >>"$WORK/log" 2>&1; } 2>&1
}

measure() { # seconds of a step
    local one all
    all=$(run "$STEPS") || return 1
    if [ "${BUSY:-}" != 1 ]; then
        sed -n 's/.*"step_seconds": \([0-9.]*\).*/\1/p' "$WORK/log.jsonl" | tail -n +3 | sort -n |
            awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
        return
    fi
    one=$(run 1) || return 1
    echo "$all $one $STEPS" | awk '{ print ($1 + $2 - $3 - $4) / ($5 - 1) / 2 }' # two ranks
}

number=0
while read -r model how; do
    number=$((number + 1))
    [ $number -ge "$first" ] && [ $number -le "$last" ] || continue
    flags=$(flags_of "$model" "$how")
    rates=$SAVE/rates_$model.json
    if [ ! -s "$rates" ]; then
        build "$model" "$(flags_of "$model" "")" &&
            "$WORK/trainer/trainer" --calibrate "$rates" --threads $threads >>"$WORK/log" 2>&1 ||
            { echo "calibrate $model: $(tail -n 1 "$WORK/log")" >&2; exit 1; }
    fi
    model_file=model_$model
    # shellcheck disable=SC2086
    predicted=$("$FSDPGEN" plan "${!model_file}" $flags --rates "$rates" --json 2>/dev/null |
        sed -n 's/^ *"step_seconds": \([0-9.e-]*\),*$/\1/p')
    if ! build "$model" "$flags" || ! measured=$(measure); then
        echo "$model $how: $(grep -m 1 error "$WORK/log" || tail -n 1 "$WORK/log")" >&2
        continue
    fi
    echo "$model|${how:-calibrated here}|$predicted|$measured" | tee -a "$SAVE/rows"
done < <(rows)

python3 - "$SAVE/rows" <<'END'
import sys
rows = [line.rstrip("\n").split("|") for line in open(sys.argv[1])]
rows = [(m, how, float(p), float(x)) for m, how, p, x in rows]
def ranks(values):
    order = sorted(range(len(values)), key=lambda i: values[i])
    rank = [0.0] * len(values)
    for place, i in enumerate(order): rank[i] = place
    return rank
def correlation(a, b):
    n, ma, mb = len(a), sum(a) / len(a), sum(b) / len(b)
    up = sum((x - ma) * (y - mb) for x, y in zip(a, b))
    return up / (sum((x - ma) ** 2 for x in a) * sum((y - mb) ** 2 for y in b)) ** 0.5
print("\n| model | changes | predicted s | measured s | error |\n|---|---|---|---|---|")
for m, how, p, x in rows:
    print(f"| {m} | {how} | {p:.4f} | {x:.4f} | {100 * (p / x - 1):+.0f} % |")
for m in ["a", "b", "c", "abc"]:
    some = [r for r in rows if r[0] in m]
    if len(some) < 3: continue
    errors = sorted(abs(p / x - 1) for _, _, p, x in some)
    rho = correlation(ranks([r[2] for r in some]), ranks([r[3] for r in some]))
    print(f"{m}: {len(some)} rows, measured {min(r[3] for r in some):.3f} to {max(r[3] for r in some):.3f} s, "
          f"median error {100 * errors[len(errors) // 2]:.1f} %, largest {100 * errors[-1]:.0f} %, Spearman {rho:.3f}")
END
