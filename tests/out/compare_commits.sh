#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare_commits.sh OLD NEW [--set FIELD=VALUE]... [MODEL...]: what two commits of fsdpgen generate.
# Builds both in temporary worktrees and generates every shipped model (or those named, as demo) with
# both, for cpu and cuda, on its own mesh, one rank and 2 x 2; compares each function of math.* and
# kernels.*, in whatever file it stands, without comments and the braces of single statements, the
# numerics hash, and the bytes of `plan --json` without that hash. --set pins a field whose default
# has changed. Trains demo and tests/models/tiny_*.lua on 1 and 2 ranks of the CPU for 5 steps: losses,
# and the weights in the last checkpoint. Prints what differs; the last line is 'N equal, N differ',
# the exit code 1 when something does.
set -u
cd "$(dirname "$0")/../.." || exit 70
root=$PWD
if [ $# -lt 2 ] || ! old=$(git rev-parse --verify -q "$1^{commit}") ||
    ! new=$(git rev-parse --verify -q "$2^{commit}"); then
    echo "usage: tests/out/compare_commits.sh OLD NEW [--set FIELD=VALUE]... [MODEL...]" >&2
    exit 2
fi
shift 2
sets=()
while [ "${1:-}" = --set ] && [ $# -ge 2 ]; do
    sets+=(--set "$2")
    shift 2
done
work=$(mktemp -d "${TMPDIR:-/tmp}/fsdpgen-commits.XXXXXX") || exit 70
leave() {
    for side in old new; do
        git -C "$root" worktree remove --force "$work/$side" 2>/dev/null
    done
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM
export LC_ALL=C XDG_CACHE_HOME=$work/cache CC_CACHE=$work/objects
export -n BUILD RUNTIME 2>/dev/null # the emitted Makefiles have variables of these names
mkdir "$CC_CACHE"

for side in old new; do # the runtime's own library and the tests are not needed
    if ! { git worktree add -q --detach "$work/$side" "${!side}" &&
        cmake -S "$work/$side" -B "$work/build_$side" -DCMAKE_BUILD_TYPE=Release \
            -DFSDPGEN_TESTS=OFF -DFSDPGEN_RUNTIME=OFF &&
        cmake --build "$work/build_$side" -j "$(nproc)" --target fsdpgen; } \
        >"$work/log" 2>&1; then
        tail -n 20 "$work/log" >&2
        echo "compare_commits.sh: ${!side} does not build" >&2
        exit 2
    fi
done

equal=0
differ=0
same() { # WHAT FILE-OLD FILE-NEW: what both lack, or have without a byte, is no equal thing
    if [ -s "$2" ] && cmp -s "$2" "$3"; then
        equal=$((equal + 1))
    else
        differ=$((differ + 1))
        echo "differ: $1"
    fi
}

# generate SIDE FILE ARGS...: into $work/SIDE.out, with what is compared beside it.
generate() {
    local side=$1 file=$2 out=$work/$1.out
    shift 2
    rm -rf "$out" "$out".*
    cd "$work/$side" || exit 70
    "$work/build_$side/fsdpgen" plan "$file" --json "$@" >"$out.json" 2>"$out.said"
    echo "exit $?" >>"$out.said" # warnings, too
    sed '/"numerics_hash"/d' "$out.json" >"$out.plan"
    "$work/build_$side/fsdpgen" "$file" -o "$out" --link-runtime runtime "$@" >/dev/null 2>&1
    sed -n 's/^  "numerics": //p' "$out/manifest.json" >"$out.numerics" 2>/dev/null
    functions "$out"/math.c* "$out"/kernels.c* >"$out.functions"
    cd "$root" || exit 70
}

# functions FILE...: a line for each, its name first, in order of names; without comments, line ends
# and the words that say who sees it.
functions() {
    local file files=()
    for file; do [ ! -e "$file" ] || files+=("$file"); done
    [ ${#files[@]} = 0 ] || awk -f "$root/runtime/arithmetic.awk" "${files[@]}" | grep -v '^ *#' |
        tr '\n' ' ' | awk '
        # In a body, for headers keep their semicolons apart from those that end statements.
        function unbraced(body) {
            while (match(body, /for \([^;@{}]*;[^;@{}]*;/)) {
                part = substr(body, RSTART, RLENGTH)
                gsub(/;/, "@", part)
                body = substr(body, 1, RSTART - 1) part substr(body, RSTART + RLENGTH)
            }
            while (match(body, /(\)|else) *\{ *[^;{}]*; *\}/)) {
                part = substr(body, RSTART, RLENGTH)
                gsub(/[{}]/, "", part)
                body = substr(body, 1, RSTART - 1) part substr(body, RSTART + RLENGTH)
            }
            gsub(/ +/, " ", body)
            return body
        }
        BEGIN { RS = "}" }
        {
            text = text $0 "}"
            depth += gsub(/\{/, "{") - 1
            if (depth > 0) next
            head = text
            sub(/\{.*/, "", head)
            gsub(/^ +|static |inline |RT_KERNEL|__global__/, "", text)
            if (head ~ /\) *$/ && match(head, /[a-z_0-9]+ ?\(/)) {
                name = substr(head, RSTART, RLENGTH - 1)
                sub(/ $/, "", name)
                at = index(text, "{") # a name that comes again: a kernel, and who launches it
                print name (seen[name]++ ? "*" : "") " " substr(text, 1, at) \
                    unbraced(substr(text, at + 1, length(text) - at - 1)) "}"
            }
            text = ""
            depth = 0
        }' | LC_ALL=C sort
}
# Functions of both sides: equal ones are counted, others named; those of one side are named, too.
same_functions() { # WHAT
    join -j 1 -a 1 -a 2 -e - -o 0,1.2,2.2 <(hashed "$work/old.out.functions") \
        <(hashed "$work/new.out.functions") >"$work/joined"
    local here gone
    here=$(awk '$2 != "-" && $3 != "-" && $2 != $3 { printf " %s", $1 }' "$work/joined")
    gone=$(awk '$2 == "-" || $3 == "-" { printf " %s", $1 }' "$work/joined")
    equal=$((equal + $(awk '$2 == $3' "$work/joined" | wc -l)))
    [ -z "$here" ] || { differ=$((differ + $(wc -w <<<"$here"))); echo "differ: $1:$here"; }
    [ -z "$gone" ] || { differ=$((differ + $(wc -w <<<"$gone"))); echo "in one of them: $1:$gone"; }
}
hashed() {
    local name text
    while read -r name text; do echo "$name $(cksum <<<"$text" | tr ' ' -)"; done <"$1"
}
compare_generated() { # FILE TARGET MESH
    local what="$1 $2 ${3:-own mesh}" flags=(--target "$2" "${sets[@]}")
    [ -z "$3" ] || flags+=(--set "mesh={$3}")
    generate old "$1" "${flags[@]}"
    generate new "$1" "${flags[@]}"
    same "$what: warnings and exit code" "$work/old.out.said" "$work/new.out.said"
    # refused by both, as what fits on no GPU
    [ -e "$work/old.out/manifest.json" ] || [ -e "$work/new.out/manifest.json" ] || return 0
    same_functions "$what"
    same "$what: numerics hash" "$work/old.out.numerics" "$work/new.out.numerics"
    same "$what: plan --json" "$work/old.out.plan" "$work/new.out.plan"
}

train() { # SIDE FILE RANKS: losses and weights
    local dir=$work/trained
    rm -rf "$dir" "$dir.ck"
    (cd "$work/$1" && "$work/build_$1/fsdpgen" "$2" -o "$dir" --set "mesh={shard=$3}") &&
        make -C "$dir" GEMM=builtin CC="$root/tests/cc_cached" &&
        "$dir/trainer" --data "$root/LICENSE" --steps 5 --threads 1 --log "$dir/log" \
            --checkpoint "$dir.ck" >/dev/null &&
        { grep -o '"loss_hex": *"[^"]*"' "$dir/log" &&
            cat "$dir.ck"/step-*/model*.safetensors | md5sum; } >"$work/$1.trained"
}
compare_trained() { # FILE RANKS
    local side
    for side in old new; do
        rm -f "$work/$side.trained"
        train $side "$1" "$2" >"$work/log" 2>&1 && [ "$(wc -l <"$work/$side.trained")" = 6 ] ||
            { tail -n 5 "$work/log"; echo "$1 on $2 of ${!side} does not train" \
                | tee "$work/$side.trained"; }
    done
    same "$1 on $2 rank(s): 5 losses and the weights" "$work/old.trained" "$work/new.trained"
}

wanted() { # FILE ARGS...: is it named, or are none?
    local name=${1##*/} model
    shift
    [ $# -gt 0 ] || return 0
    for model; do [ "$model.lua" != "$name" ] || return 0; done
    return 1
}
for file in $(cd "$work" && ls {old,new}/models/*.lua | sed 's|^[a-z]*/||' | sort -u); do
    case $file in */fsdpgen.lua) continue ;; esac # annotations for editors
    wanted "$file" "$@" || continue
    for target in cpu cuda; do
        for mesh in "" "shard=1" "replicate=2,shard=2"; do
            compare_generated "$file" $target "$mesh"
        done
    done
done
for file in models/demo.lua $(cd "$work" && ls {old,new}/tests/models/tiny_*.lua |
    sed 's|^[a-z]*/||' | sort -u); do
    wanted "$file" "$@" || continue
    for ranks in 1 2; do compare_trained "$file" $ranks; done
done
echo "$equal equal, $differ differ"
[ $differ = 0 ]
