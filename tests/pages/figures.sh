#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# figures.sh DIR: writes DIR/pipeline.svg and DIR/streams.svg from real plans, by fsdpgen's dumps.
# docs/ has what it writes; tests/pages/run.sh compares. In: FSDPGEN (default: build/default/fsdpgen).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/pages
fsdpgen=${FSDPGEN:-$root/build/default/fsdpgen}
[ $# = 1 ] && [ -d "$1" ] || { echo "usage: figures.sh DIR" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

dump() { # PASS [ARGUMENT...]
    local pass=$1
    shift
    "$fsdpgen" "$@" --dump="$pass" >"$work/$pass"
}

count() { # PATTERN PASS
    grep -cE "$1" "$work/$2"
}

of_last() { # PATTERN PASS: in the micro-step that ends the accumulation
    awk -v pattern="$1" '/^[a-z]+:$/ { last = $0 == "last:" } last && $0 ~ pattern { n++ }
                         END { print n }' "$work/$2"
}

for pass in check graph config grad fuse span checkpoint shard unroll schedule place simulate emit; do
    dump "$pass" "$root/models/demo.lua"
done
arena=$(awk '/^(symmetric|local) space/ { bytes += $3 } END { printf "%.1f MiB", bytes / 1048576 }' \
    "$work/place")
step=$(awk '/^step/ { printf "%.2f s", $2 / 1e12 }' "$work/simulate")
awk -v title="From a description to a trainer: the passes of fsdpgen, with figures of models/demo.lua" \
    -v from="demo.lua" -v to="out/demo/" -f "$here/pipeline.awk" >"$1/pipeline.svg" <<TABLE
check|a resolved model|$(count ' = ' check) resolved fields
graph|one per kind of block|$(count '^    [a-z].* = ' graph) ops
config|config.json, checked|$(count '^  "' config) keys
grad|forward and backward|$(count '^    [a-z].* = ' grad) ops
fuse|patterns become one op|$(count '^    [a-z].* = ' fuse) ops
span|the functions of math.c|$(count '^  [a-z_]*\(' span) functions
checkpoint|tensors in files|$(count '^ *[0-9]+ +[0-9]+ ' checkpoint) tensors
shard|units, segments, shards|$(count '^unit ' shard) units on 2 ranks
unroll|a micro-step as one list|$(of_last '^ *[0-9]+ ' unroll) instructions
schedule|streams and waits|$(of_last 'waits for' schedule) waits
place|an offset per buffer|$arena, to the byte
simulate|predicted time|$step a step
emit|identical everywhere|$(count '^file [^/]*$' emit) files
TABLE

model=("$root/models/llama8b.lua" --target cuda)
dump schedule "${model[@]}"
dump simulate "${model[@]}"
awk -v title="Llama 3.1 8B on 8 H100: parts of one micro-step's forward and backward, as planned" \
    -v first="gather of embed for its forward" -v first_end="layers.3 forward" \
    -v second="layers.27 backward" -v second_end="layers.25 backward" \
    -f "$here/streams.awk" "$work/schedule" "$work/simulate" >"$1/streams.svg"
