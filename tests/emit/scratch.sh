# SPDX-License-Identifier: Apache-2.0
# scratch.sh, read by run.sh: what kernels hand to each other. math.c names members of a struct and
# knows no place; bind.c says of each place whose bytes it had; a struct has the members that
# math.h declares. Of the committed trainers, of small models with other choices, of both targets.

# places FILE: of each struct that bind.c fills, members whose bytes some earlier one had, without
# a mark that says so; then those marked although their bytes are their own.
places() {
    awk '
    function width(t) { return t == "char" ? 1 : t == "double" ? 8 : t ~ /16/ ? 2 : 4 }
    /_scratch_at\(/ { n = 0; inside = 1 }
    /^}/ { inside = 0 }
    inside && /\(base \+ / {
        name = $1; sub(/^\./, "", name)
        match($0, /\([a-z0-9_]+ \*\)/); type = substr($0, RSTART + 1, RLENGTH - 4)
        match($0, /base \+ [0-9]+/); at = substr($0, RSTART + 7, RLENGTH - 7) + 0
        bytes = width(type)
        if (match($0, /\[[0-9, ]+\]/)) {
            k = split(substr($0, RSTART + 1, RLENGTH - 2), dim, ", ")
            for (i = 1; i <= k; i++) bytes *= dim[i]
        }
        over = 0
        for (i = 0; i < n; i++) over = over || (at < to[i] && from[i] < at + bytes)
        if (over && $0 !~ /, over /) print name " has bytes of another"
        if (!over && type != "char" && $0 ~ /, over / && !workspaces) print name " is marked"
        workspaces = workspaces || type == "char"
        from[n] = at; to[n++] = at + bytes
        found++
    }
    /_scratch_at\(/ { workspaces = 0 }
    END { if (!found) print "there is none" }' "$1"
}

# as_it_says DIR WHAT
as_it_says() {
    local dir=$1 what=$2
    check "scratch: math.c of $what knows no place" \
        test -z "$(grep -nE 'scratch \+|base \+|\(char \*\)' "$dir/math.c")"
    check "scratch: bind.c of $what marks what lies over what" test -z "$(places "$dir/bind.c")"
}

for name in demo gpt2_124m llama8b; do
    as_it_says "$ROOT/out/$name" "out/$name"
done
n=0
for sets in 'wrap=1' 'recompute="cheap"' 'recompute="block"' 'fuse=false' 'wrap=by_size(1)' \
    'dtypes={param="bf16"}'; do
    for file in "$model" "$gpt"; do
        for target in cpu cuda; do
            n=$((n + 1))
            dir=$WORK/scratch$n
            if "$FSDPGEN" "$file" -o "$dir" --set "$sets" --target "$target" \
                >"$WORK/scratch.log" 2>&1; then
                as_it_says "$dir" "$(basename "$file") $target $sets"
            else
                bad "scratch: $(basename "$file") $target $sets is generated" "$WORK/scratch.log"
            fi
        done
    done
done
