#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh [FSDPGEN] [--update]: wrong descriptions, sandbox escapes and hostile names, each
# with the exact message, line, column, caret and help that fsdpgen must print; then the
# command line, overrides that must work, and the output folder. --update writes what is
# printed now into the case files, for a reader to judge with `git diff`.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$ROOT/tests/load

# Takes a case file apart: a folder for each case with model.lua, args, head, expect; where a
# case has `folder: NAME`, with ops/NAME/op.lua too, which is mine.lua with each `rule: OLD ==>
# NEW`.
split_cases() {
    awk -v out="$2" -v base="$here/base.lua" -v mine="$here/mine.lua" '
    function replace(text, old, new,    at) {
        gsub(/<newline>/, "\n", new)
        at = index(text, old)
        if (!at) {
            print "no \"" old "\" in base.lua or mine.lua, case " name > "/dev/stderr"
            exit 1
        }
        return substr(text, 1, at - 1) new substr(text, at + length(old))
    }
    function flush() {
        if (name == "") return
        printf "%s", model > (dir "/model.lua"); close(dir "/model.lua")
        printf "%s", args > (dir "/args"); close(dir "/args")
        printf "%s", head > (dir "/head"); close(dir "/head")
        printf "%s", expect > (dir "/expect"); close(dir "/expect")
        if (folder != "") {
            system("mkdir -p " dir "/ops/" folder)
            printf "%s", rule > (dir "/ops/" folder "/op.lua")
            close(dir "/ops/" folder "/op.lua")
        }
    }
    BEGIN {
        while ((getline line < base) > 0) good = good line "\n"
        while ((getline line < mine) > 0) good_rule = good_rule line "\n"
    }
    /^=== / {
        flush()
        name = $2; dir = out "/" name; mode = "head"
        if (name in seen) { print "two cases " name > "/dev/stderr"; exit 1 }
        seen[name] = 1
        system("mkdir -p " dir)
        print name >> (out "/list")
        model = good; args = ""; head = $0 "\n"; expect = ""; rule = good_rule; folder = ""
        next
    }
    name == "" { next }
    /^expect: / && mode != "expect" { mode = "expect"; expect = $0 "\n"; next }
    mode == "expect" { expect = expect $0 "\n"; next }
    { head = head $0 "\n" }
    mode == "lua" { model = model $0 "\n"; next }
    /^arg: / { args = args substr($0, 6) "\n"; next }
    /^change: / {
        at = index($0, " ==> ")
        model = replace(model, substr($0, 9, at - 9), substr($0, at + 5)); next
    }
    /^folder: / { folder = substr($0, 9); next }
    /^rule: / {
        at = index($0, " ==> ")
        rule = replace(rule, substr($0, 7, at - 7), substr($0, at + 5)); next
    }
    /^lua:$/ { mode = "lua"; model = ""; next }
    /^$/ { next }
    { print "what is \"" $0 "\" in case " name "?" > "/dev/stderr"; exit 1 }
    END { flush() }' "$1"
}

# Runs one case in its folder; prints "expect: CODE" and what went to stderr.
run_case() {
    local args=() line
    while IFS= read -r line; do
        args+=("$(printf '%b' "${line//%/%%}" | sed 's/%%/%/g')")
    done <"$1/args"
    [ ! -d "$1/ops" ] || args+=(--ops ops)
    (cd "$1" && timeout 60 "$FSDPGEN" check model.lua --dump=check \
        ${args[@]+"${args[@]}"} >stdout 2>stderr </dev/null)
    echo "expect: $?"
    cat "$1/stderr"
}

# suite FILE: every case of a file; with a sanitized generator and without FULL=1 every second.
every=1
if [ "$FULL$update" = 00 ] && grep -qs '^FSDPGEN_SANITIZE:.*=.' "$BUILD/CMakeCache.txt"; then
    every=2
fi
suite() {
    local file=$here/$1 dir=$WORK/${1%.txt} name
    mkdir -p "$dir"
    # what an escape would find, were it able to look
    echo "secret" >"$dir/secret.txt"
    split_cases "$file" "$dir" || { bad "$1 cannot be read"; return; }
    [ $every = 1 ] || sed -i "$((1 + SEED / 3 % 2))~2d" "$dir/list"
    while read -r name; do
        run_case "$dir/$name" >"$dir/$name/actual"
        if cmp -s "$dir/$name/expect" "$dir/$name/actual"; then
            ok "$1 $name"
        else
            diff -u "$dir/$name/expect" "$dir/$name/actual" |
                tail -n +3 >"$dir/$name/diff"
            bad "$1 $name" "$dir/$name/diff"
        fi
        # a refused description leaves nothing behind and prints nothing on stdout
        if ! grep -q '^expect: 0' "$dir/$name/expect" && [ -s "$dir/$name/stdout" ]; then
            bad "$1 $name prints on stdout" "$dir/$name/stdout"
        fi
    done <"$dir/list"
    if [ "$update" = 1 ]; then
        {
            sed '/^=== /,$d' "$file"
            while read -r name; do
                cat "$dir/$name/head" "$dir/$name/actual"
            done <"$dir/list"
        } >"$WORK/updated" && cp "$WORK/updated" "$file"
    fi
}

count() { wc -l <"$WORK/$1/list"; }

# Different things said, places, objects and values aside, with line, column and help.
distinct() {
    cat "$WORK/$1"/*/actual | awk '
        /^[^ ]*:[0-9]+:[0-9]+: error: / { said = $0; next }
        /^  help: / && said != "" { print said; said = "" }
        !/^ / { said = "" }' | sed -E 's/^[^ ]*: error: //; s/^[a-z_.]+(\[[0-9]+\])?: //
        s/"[^"]*"/S/g; s/-?[0-9][0-9.]*(e[-+]?[0-9]+)?/N/g
        s/^[a-z_.]+ is missing.*/is missing/
        s/^[^ ]+ (is not available yet)$/\1/' | sort -u | wc -l
}

part cases . "$here/cases.sh"
part import . "$here/import.sh"
part good . "$here/good.sh"
part files . "$here/files.sh"
part mark . "$here/mark.sh"
part writer turn 2 4 . "$here/writer.sh"
part libm . "$here/libm.sh"
finish
