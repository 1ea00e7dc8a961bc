#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [FSDPGEN] [--update]: the passes ops, graph, grad, fuse and span. Wrong architectures and
# wrong op rules, each with the exact message; golden dumps of two tiny models; what must hold
# between runs (same bytes with --ops, hashes that change only with what is inside them, a
# user's op that fuses and differentiates); generation time. --update writes messages and
# dumps as they are now, for a reader to judge with `git diff`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$ROOT/tests/graph
. "$here/cases.sh"

models=$ROOT/tests/models
full="--set model.qk_norm=true --set model.qkv_bias=true --set model.tied=true
      --set model.window=7 --set model.kv_heads=1"

same() { # NAME A B
    if [ -n "$2" ] && [ "$2" = "$3" ]; then ok "$1"; else bad "$1: $2, $3"; fi
}

part wrong . "$here/wrong.sh"
part golden . "$here/golden.sh"
part hashes . "$here/hashes.sh"
part documents . "$here/documents.sh"
part gradients . "$here/gradients.sh"
part parts turn 0 2 . "$here/parts.sh"
part fp8 . "$here/fp8.sh"
part fusion turn 1 2 . "$here/fusion.sh"
part config . "$here/config.sh"
part shipped . "$here/shipped.sh"
finish
