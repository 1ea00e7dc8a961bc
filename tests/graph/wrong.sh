# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: wrong architectures and wrong rules, each with its message.

prepare_arch() {
    cp "$here/model.lua" "$1/model.lua"
    { sed '/^-- BODY/,$d' "$here/arch.lua"; cat "$1/text"
      sed '1,/^-- BODY/d' "$here/arch.lua"; } >"$1/family.lua"
    run_in "$1"
}

prepare_ops() {
    cp "$here/model.lua" "$1/model.lua"
    { sed '/^-- BODY/,$d' "$here/arch.lua"; cat "$here/body.lua"
      sed '1,/^-- BODY/d' "$here/arch.lua"; } >"$1/family.lua"
    mkdir -p "$1/ops/mine"
    # an op may come in two files: "op: NAME" starts another one
    awk -v dir="$1/ops" -v f="$1/ops/mine/op.lua" '
    /^op: / { f = dir "/" $2 "/op.lua"; system("mkdir -p " dir "/" $2); next }
    { print > f }' "$1/text"
    run_in "$1" --ops ops
}

suite arch
suite ops
