#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# run.sh FSDPGEN: the emitted folder. Same bytes wherever and whenever it is generated; the
# mathematics files are one for all choices outside the numerics hash; the folder is looked after
# (drift, hand edits, stale and foreign files); mistakes in templates name their place; no name
# in a model escapes from where it is written. Ends with 'N passed, N failed'.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib.sh"

model=$ROOT/tests/models/tiny_llama.lua
gpt=$ROOT/tests/models/tiny_gpt2.lua
# with a compiler's name before it: an emitted file has no warning
strict="-std=gnu11 -Wall -Wextra -Werror -O1 -ffp-contract=off -fopenmp -fsyntax-only"

gen() { # gen DIR [ARGS...]: generates $model into DIR
    local dir=$1
    shift
    "$FSDPGEN" "$model" -o "$dir" "$@" >"$WORK/gen.log" 2>&1
}

part bytes . "$here/bytes.sh"
part folder:bytes . "$here/folder.sh"
part builds:bytes . "$here/builds.sh"
part mathematics:bytes turn 0 4 . "$here/mathematics.sh"
part largest . "$here/largest.sh"
part order . "$here/order.sh"
part layer . "$here/layer.sh"
part kept:bytes . "$here/kept.sh"
part mistakes . "$here/mistakes.sh"
part hostile . "$here/hostile.sh"
part many . "$here/many.sh"
part platform . "$here/platform.sh"
part scratch . "$here/scratch.sh"
part mixtures turn 1 2 . "$here/mixtures.sh"
part names:builds turn 2 4 . "$here/names.sh"
part cuda:builds turn 1 2 . "$here/cuda.sh"
finish
