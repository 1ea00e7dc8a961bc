#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes every folder of out/ again, after a change of the generator, a template or a
# model. Arguments go to fsdpgen (--force overwrites hand edits). FSDPGEN_BUILD: the
# cmake build folder.
set -eu
cd "$(dirname "$0")/../.."
FSDPGEN=${FSDPGEN:-${FSDPGEN_BUILD:-build/default}/fsdpgen}
if [ ! -x "$FSDPGEN" ]; then
    echo "regenerate.sh: $FSDPGEN is not built (cmake --preset default && cmake --build" \
        "--preset default)" >&2
    exit 2
fi
. tests/out/models.sh
for name in $OUT_MODELS; do
    out_generate "$name" "out/$name" "$@"
done
