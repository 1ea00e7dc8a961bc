#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [FSDPGEN] [--update]: descriptions from other programs' files. Each folder of hf/
# has a config.json and what `fsdpgen import` must answer (expect.txt: exit code, stdout,
# stderr); a folder with `params` also gives a description of so many parameters. --update
# writes what is printed now, for a reader to judge with `git diff`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$ROOT/tests/import
case $FSDPGEN in /*) ;; *) FSDPGEN=$PWD/$FSDPGEN ;; esac

# answer COMMAND...: exit code, stdout and stderr as one text.
answer() {
    timeout 20 "$@" >"$WORK/stdout" 2>"$WORK/stderr" </dev/null
    echo "exit code $?"
    sed 's/^/out: /' "$WORK/stdout"
    cat "$WORK/stderr"
}

same() { # NAME EXPECTED: $WORK/actual is that file
    [ $update = 1 ] && cp "$WORK/actual" "$2"
    if diff -u "$2" "$WORK/actual" >"$WORK/diff" 2>&1; then
        ok "$1"
    else
        bad "$1" "$WORK/diff"
    fi
}

cd "$here/hf" || exit 70
one() { # NAME: of a folder
    local name=$1 params
    answer "$FSDPGEN" import "$name" >"$WORK/actual"
    cp "$WORK/stdout" "$WORK/$name.lua"
    same "import $name" "$name/expect.txt"
    if ! grep -q '^exit code 0' "$WORK/actual" && [ -s "$WORK/stdout" ]; then
        bad "import $name fails and prints a description"
    fi
    [ -f "$name/params" ] || return 0
    params=$("$FSDPGEN" plan "$WORK/$name.lua" --json 2>"$WORK/stderr" |
        sed -n 's/^ *"params": \([0-9]*\),*$/\1/p' | head -n 1)
    if [ "$params" = "$(cat "$name/params")" ]; then
        ok "$name has $params parameters"
    else
        bad "$name has ${params:-no} parameters, not $(cat "$name/params")" "$WORK/stderr"
    fi
}

# The file instead of its folder; a folder without one; no file at all.
paths() {
    answer "$FSDPGEN" import gpt2/config.json >"$WORK/actual"
    if sed -n 's/^out: //p' "$WORK/actual" | cmp -s - "$WORK/gpt2.lua"; then
        ok "the file gives what the folder gives"
    else
        bad "the file gives what the folder gives" "$WORK/actual"
    fi
    answer "$FSDPGEN" import nowhere >"$WORK/actual"
    same "no such folder" "$here/nowhere.txt"
    answer "$FSDPGEN" import >"$WORK/actual"
    same "no folder named" "$here/unnamed.txt"
}

for folder in */; do part "${folder%/}" one "${folder%/}"; done
part paths:gpt2 paths
finish
