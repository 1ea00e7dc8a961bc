#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [--update] [PART...]: mistakes that newcomers make, each with the command, its exit code and
# all that it prints. list.txt is for people to read; --update writes what is printed now into it.
# None may end in silence, in a message without a way on, or in the words of a library.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
. "$ROOT/tests/e2e/common.sh"
here=$ROOT/tests/mistakes
export ARCHITECTURES=$ROOT/models/arch TOKENIZER=$ROOT/tests/tokenize/data
export PATH=$WORK/bin:$PATH
mkdir -p "$WORK/bin"
ln -s "$FSDPGEN" "$WORK/bin/fsdpgen"
# what a launcher or a tuner of this shell would say to a trainer is not part of a case
unset RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT OMP_NUM_THREADS SLURM_PROCID

# Takes a case file apart: for each case a folder with model.lua, its files, `setup`, `command`,
# `head` (its lines as they are) and `expect`.
split_cases() {
    awk -v out="$2" -v base="$here/model.lua" '
    function replace(text, old, new,    at) {
        gsub(/<newline>/, "\n", new)
        at = index(text, old)
        if (!at) { print "no \"" old "\" in model.lua, case " name > "/dev/stderr"; exit 1 }
        return substr(text, 1, at - 1) new substr(text, at + length(old))
    }
    function put(file, text) { printf "%s", text > (dir "/" file); close(dir "/" file) }
    function flush() {
        if (name == "") return
        if (model != "") put("case/model.lua", model)
        put("head", head); put("expect", expect); put("command", command); put("setup", setup)
    }
    BEGIN { while ((getline line < base) > 0) good = good line "\n" }
    /^=== / {
        flush()
        name = $2; dir = out "/" name
        if (name in seen) { print "two cases " name > "/dev/stderr"; exit 1 }
        seen[name] = 1
        system("mkdir -p " dir "/case")
        print name >> (out "/list")
        model = good; head = $0 "\n"; expect = command = setup = file = ""; over = 0
        next
    }
    name == "" { next }
    /^exit: / && command != "" { over = 1 }
    over { expect = expect $0 "\n"; next }
    { head = head $0 "\n" }
    /^\$ / { command = substr($0, 3); next }
    /^change: / {
        at = index($0, " ==>")
        model = replace(model, substr($0, 9, at - 9), substr($0, at + 5)); next
    }
    /^setup: / { setup = setup substr($0, 8) "\n"; next }
    /^file: / {
        file = dir "/case/" substr($0, 7)
        if (file ~ /model\.lua$/) model = ""
        printf "" > file; close(file)
        next
    }
    /^\| ?/ { sub(/^\| ?/, ""); print >> file; close(file); next }
    /^$/ { next }
    { print "what is \"" $0 "\" in case " name "?" > "/dev/stderr"; exit 1 }
    END { flush() }' "$1"
}

# Runs one case in its folder; prints "exit: CODE" and all that came.
run_case() {
    local code
    (
        cd "$1/case" || exit 70
        bash -c "$(cat "$1/setup")" >"$1/setup.log" 2>&1
        timeout 60 bash -o pipefail -c "$(cat "$1/command")" >"$1/printed" 2>&1 </dev/null
    )
    code=$?
    echo "exit: $code"
    cat "$1/printed"
}

# What no message may be: the machine's words, or nothing to go on with.
raw='\(null\)|attempt to |bad argument|stack traceback|expected near|unexpected symbol|<eof>|Assertion|Segmentation|malloc|errno'
way_on='help: |--help|: write |did you mean|; use |--[a-z]|: name |; it has |; give it |: give |: tokenize |; name |name the |name a |nothing is to do'

suite() { # FILE
    local file=$here/$1.txt dir=$WORK/$1 name
    mkdir -p "$dir"
    split_cases "$file" "$dir" || { bad "$1 cannot be read"; return; }
    while read -r name; do
        run_case "$dir/$name" >"$dir/$name/actual"
        if cmp -s "$dir/$name/expect" "$dir/$name/actual"; then
            ok "$name"
        else
            diff -u "$dir/$name/expect" "$dir/$name/actual" | tail -n +3 >"$dir/$name/diff"
            bad "$name" "$dir/$name/diff"
        fi
        if [ ! -s "$dir/$name/printed" ] || grep -qE "$raw" "$dir/$name/printed" ||
            ! grep -qE -- "$way_on" "$dir/$name/printed"; then
            bad "$name says what to write, in plain words" "$dir/$name/printed"
        fi
    done <"$dir/list"
    at_least "mistakes in $1.txt" "$(wc -l <"$dir/list")" "$2"
    if [ "$update" = 1 ]; then
        {
            sed '/^=== /,$d' "$file"
            while read -r name; do cat "$dir/$name/head" "$dir/$name/actual"; done <"$dir/list"
        } >"$WORK/updated" && cp "$WORK/updated" "$file"
    fi
}

# The trainer of model.lua, and one of another model.
trainers() {
    generate "$WORK/mine" "$here/model.lua" && build_trainer "$WORK/mine" GEMM=builtin &&
        generate "$WORK/other" "$here/model.lua" --set model.ffn=96 --set seq=32 --set 'lr=constant{}' &&
        build_trainer "$WORK/other" GEMM=builtin || {
        cat "$WORK"/mine.log "$WORK"/other.log >"$WORK/built.log" 2>&1
        bad "the trainers are built" "$WORK/built.log"
        return
    }
    ln -s "$WORK/mine/trainer" "$WORK/bin/trainer"
    ln -s "$WORK/other/trainer" "$WORK/bin/other_trainer"
    cp "$ROOT/LICENSE" "$WORK/text.txt"
    export TEXT=$WORK/text.txt
    suite trainer 40
}

part descriptions suite descriptions 60
part commands suite commands 20
part trainer turn 1 2 trainers
finish
