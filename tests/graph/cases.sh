# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: files of cases, each with its exit code and exact message.

# Takes a case file apart: for each case NAME/text (its lines), NAME/expect, NAME/args.
split_cases() {
    awk -v out="$2" '
    function flush() {
        if (name == "") return
        printf "%s", text > (dir "/text"); close(dir "/text")
        printf "%s", args > (dir "/args"); close(dir "/args")
        printf "%s", expect > (dir "/expect"); close(dir "/expect")
    }
    /^=== / {
        flush()
        name = $2; dir = out "/" name; mode = "text"
        if (name in seen) { print "two cases " name > "/dev/stderr"; exit 1 }
        seen[name] = 1
        system("mkdir -p " dir)
        print name >> (out "/list")
        text = ""; args = ""; expect = ""
        next
    }
    name == "" { next }
    /^expect: / { mode = "expect" }
    mode == "expect" { expect = expect $0 "\n"; next }
    /^arg: / { args = args substr($0, 6) "\n"; next }
    { text = text $0 "\n" }
    END { flush() }' "$1"
}

# Prints "expect: CODE" and what went to stderr.
run_in() {
    local dir=$1 args=()
    shift
    mapfile -t args <"$dir/args"
    (cd "$dir" && timeout 60 "$FSDPGEN" model.lua --dump=span "$@" ${args[@]+"${args[@]}"} \
        >stdout 2>stderr </dev/null)
    echo "expect: $?"
    sed -E 's/[0-9]+ million instructions/N million instructions/' "$dir/stderr"
}

# suite FILE: every case; prepare_FILE builds its folder.
suite() {
    local file=$here/$1.txt dir=$WORK/$1 name
    mkdir -p "$dir"
    split_cases "$file" "$dir" || { bad "$1 cannot be read"; return; }
    while read -r name; do
        "prepare_$1" "$dir/$name" >"$dir/$name/actual"
        if cmp -s "$dir/$name/expect" "$dir/$name/actual"; then
            ok "$1 $name"
        else
            diff -u "$dir/$name/expect" "$dir/$name/actual" | tail -n +3 >"$dir/$name/diff"
            bad "$1 $name" "$dir/$name/diff"
        fi
    done <"$dir/list"
    if [ "$update" = 1 ]; then
        {
            sed '/^=== /,$d' "$file"
            while read -r name; do
                echo "=== $name"
                sed 's/^/arg: /' "$dir/$name/args"
                cat "$dir/$name/text" "$dir/$name/actual"
            done <"$dir/list"
        } >"$WORK/updated" && cp "$WORK/updated" "$file"
    fi
}
