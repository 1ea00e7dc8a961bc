#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compare_commits.sh OLD NEW [MODEL...]: what two commits of fsdpgen generate. Builds both in
# temporary worktrees and generates every shipped model (or those named, as demo) with both, for
# cpu and cuda, on its own mesh, one rank and 2 x 2; compares each file of math.* and kernels.*,
# all of them one behind the other (a function may have moved), the numerics hash, and the bytes
# of `plan --json`. Trains demo and tests/models/tiny_*.lua on 1 and 2 ranks of the CPU for 5
# steps: losses, and the hash of the weights. Prints what differs; the last line is
# 'N equal, N differ', the exit code 1 when something does.
set -u
cd "$(dirname "$0")/../.." || exit 70
root=$PWD
if [ $# -lt 2 ] || ! old=$(git rev-parse --verify -q "$1^{commit}") ||
    ! new=$(git rev-parse --verify -q "$2^{commit}"); then
    echo "usage: tests/out/compare_commits.sh OLD NEW [MODEL...], two commits" >&2
    exit 2
fi
shift 2
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
    "$work/build_$side/fsdpgen" plan "$file" --json "$@" >"$out.plan" 2>"$out.said"
    echo "exit $?" >>"$out.said" # warnings, too
    "$work/build_$side/fsdpgen" "$file" -o "$out" --link-runtime runtime "$@" >/dev/null 2>&1
    sed -n 's/^  "numerics": //p' "$out/manifest.json" >"$out.numerics" 2>/dev/null
    cat "$out"/math.* "$out"/kernels.* >"$out.all" 2>/dev/null
    cd "$root" || exit 70
}
compare_generated() { # FILE TARGET MESH
    local what="$1 $2 ${3:-own mesh}" file flags=(--target "$2")
    [ -z "$3" ] || flags+=(--set "mesh={$3}")
    generate old "$1" "${flags[@]}"
    generate new "$1" "${flags[@]}"
    same "$what: warnings and exit code" "$work/old.out.said" "$work/new.out.said"
    # refused by both, as what fits on no GPU
    [ -e "$work/old.out/manifest.json" ] || [ -e "$work/new.out/manifest.json" ] || return 0
    for file in $(cd "$work" && ls -d {old,new}.out/{math,kernels}.* 2>/dev/null |
        sed 's|.*/||' | sort -u); do
        same "$what: $file" "$work/old.out/$file" "$work/new.out/$file"
    done
    same "$what: math.* and kernels.* together" "$work/old.out.all" "$work/new.out.all"
    same "$what: numerics hash" "$work/old.out.numerics" "$work/new.out.numerics"
    same "$what: plan --json" "$work/old.out.plan" "$work/new.out.plan"
}

train() { # SIDE FILE RANKS: losses and the weights' hash
    local dir=$work/trained
    rm -rf "$dir"
    (cd "$work/$1" && "$work/build_$1/fsdpgen" "$2" -o "$dir" --set "mesh={shard=$3}") &&
        make -C "$dir" GEMM=builtin CC="$root/tests/cc_cached" &&
        "$dir/trainer" --data "$root/LICENSE" --steps 5 --threads 1 --log "$dir/log" \
            --weights-hash >"$dir/said" &&
        { grep -o '"loss_hex": *"[^"]*"' "$dir/log" && grep '^weights ' "$dir/said"; } \
            >"$work/$1.trained"
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
