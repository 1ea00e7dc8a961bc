#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fp8_curves.sh [STEPS [WORK]]: one GPT-2 trained in f32, in bf16 and with dtypes.linear = "fp8"
# beside bf16 weights: the same initial weights, data and schedule. Data: this repository's C sources, as
# bytes. In: MODEL=1m (the default), 10m or 124m; TARGET=cpu (the default) or cuda. Writes a picture in
# docs/ (DRAW=0: none) and prints the rows of docs/measured.md. Runs that are complete in WORK are
# not repeated.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
fsdpgen=${FSDPGEN:-$root/build/default/fsdpgen}
steps=${1:-300}
work=${2:-$(mktemp -d)}
[[ $steps =~ ^[1-9][0-9]*$ ]] || { echo "fp8_curves.sh: STEPS is $steps, not a number" >&2; exit 2; }
case ${TARGET:-cpu} in cpu | cuda) ;; *) echo "fp8_curves.sh: no TARGET $TARGET" >&2; exit 2 ;; esac
case ${MODEL:-1m} in
1m) picture=fp8_curves label="a small GPT-2" dims="layers = 4, dim = 128, heads = 4, vocab = 256" seq=128 micro=4 batch=8 ;;
10m) picture=fp8_curves_10m label="a GPT-2 of 10 million parameters"
     dims="layers = 6, dim = 384, heads = 6, vocab = 256" seq=256 micro=32 batch=32 ;;
124m) picture=fp8_curves_124m label="GPT-2 124M"
      dims="layers = 12, dim = 768, heads = 12, vocab = 50257" seq=1024 micro=8 batch=8 ;;
*) echo "fp8_curves.sh: no MODEL $MODEL" >&2; exit 2 ;;
esac
work=$work/${MODEL:-1m}.${TARGET:-cpu}
mkdir -p "$work"
(cd "$root" && find gen runtime -name '*.c' | LC_ALL=C sort | xargs cat) >"$work/data.txt"
cat >"$work/model.lua" <<LUA
local gpt2 = require "arch.gpt2"
return trainer {
    name = "fp8_curves",
    model = gpt2 { $dims, max_positions = $seq },
    seq = $seq, micro_batch = $micro, global_batch = $batch,
    optimizer = adamw { lr = 1e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0 },
    lr = cosine { warmup = $((steps < 100 ? steps / 4 : 30)), steps = $steps, min_ratio = 0.1 },
}
LUA
for run in f32 bf16 fp8; do
    trap 'tail -n 5 "$work/$run.log" >&2' ERR
    dir=$work/$run
    log=$work/$run.jsonl
    [ "$(grep -c '"loss"' "$log" 2>/dev/null)" = "$steps" ] && continue
    sets=(--set "dtypes.param=$run")
    [ $run = fp8 ] && sets=(--set dtypes.param=bf16 --set dtypes.linear=fp8)
    rm -rf "$dir" "$log"
    "$fsdpgen" "$work/model.lua" -o "$dir" --target "${TARGET:-cpu}" "${sets[@]}" >"$work/$run.log" 2>&1
    make -s -j4 -C "$dir" >>"$work/$run.log" 2>&1
    "$dir/trainer" --data "$work/data.txt" --steps "$steps" --seed 1 --quiet --log "$log" >>"$work/$run.log" 2>&1
done
[ "${DRAW:-1}" = 0 ] || python3 "$root/tests/bench/fp8_curves.py" "$work" "$root/docs/$picture.svg" "$label"
