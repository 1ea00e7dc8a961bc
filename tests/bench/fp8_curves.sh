#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fp8_curves.sh [STEPS [WORK]]: one small GPT-2 trained in f32, in bf16 and with dtypes.linear = "fp8"
# beside bf16 weights: the same initial weights, data and schedule, on the CPU. Data: this repository's C
# sources, as bytes. Writes docs/fp8_curves.svg and prints the rows of docs/measured.md. Runs that
# are complete in WORK are not repeated.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
fsdpgen=${FSDPGEN:-$root/build/default/fsdpgen}
steps=${1:-300}
work=${2:-$(mktemp -d)}
mkdir -p "$work"
git -C "$root" ls-files 'gen/*.c' 'runtime/*.c' | (cd "$root" && xargs cat) >"$work/data.txt"
cat >"$work/model.lua" <<LUA
local gpt2 = require "arch.gpt2"
return trainer {
    name = "fp8_curves",
    model = gpt2 { layers = 4, dim = 128, heads = 4, vocab = 256, max_positions = 128 },
    seq = 128, micro_batch = 4, global_batch = 8,
    optimizer = adamw { lr = 1e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0 },
    lr = cosine { warmup = 30, steps = $steps, min_ratio = 0.1 },
}
LUA
for run in f32 bf16 fp8; do
    dir=$work/$run
    log=$work/$run.jsonl
    [ "$(grep -c '"loss"' "$log" 2>/dev/null)" = "$steps" ] && continue
    sets=(--set "dtypes.param=$run")
    [ $run = fp8 ] && sets=(--set dtypes.param=bf16 --set dtypes.linear=fp8)
    rm -rf "$dir" "$log"
    "$fsdpgen" "$work/model.lua" -o "$dir" "${sets[@]}" >"$work/$run.log" 2>&1
    make -s -C "$dir" >>"$work/$run.log" 2>&1
    "$dir/trainer" --data "$work/data.txt" --steps "$steps" --seed 1 --quiet --log "$log" >>"$work/$run.log" 2>&1
done
python3 "$root/tests/bench/fp8_curves.py" "$work" "$root/docs/fp8_curves.svg"
