# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: golden dumps.

golden() { # NAME PASS ARGS...
    local name=$1 pass=$2 file=$here/golden/$1.$2.txt
    shift 2
    "$FSDPGEN" "$@" --dump="$pass" >"$WORK/dump" 2>"$WORK/err"
    if [ $? -ne 0 ]; then
        bad "dump $pass of $name" "$WORK/err"
        return
    fi
    # the hash changes with every version of an op: its tests come below
    sed -i '/^numerics [0-9a-f]*$/d' "$WORK/dump"
    [ "$update" = 1 ] && cp "$WORK/dump" "$file"
    if cmp -s "$file" "$WORK/dump"; then
        ok "dump $pass of $name"
    else
        diff -u "$file" "$WORK/dump" >"$WORK/diff"
        bad "dump $pass of $name" "$WORK/diff"
    fi
}

for pass in graph grad fuse span; do
    golden tiny_llama $pass "$models/tiny_llama.lua"
    golden tiny_gpt2 $pass "$models/tiny_gpt2.lua"
done
# shellcheck disable=SC2086
golden full_llama grad "$models/tiny_llama.lua" $full
# shellcheck disable=SC2086
golden full_llama span "$models/tiny_llama.lua" $full --set dtypes.param=bf16
golden unfused_gpt2 span "$models/tiny_gpt2.lua" --set fuse=false
golden shared span "$here/shared.lua"
