# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. The work is really divided: tokens of a rank, bytes it gathers and
# reduces (counted by the runtime) and bytes it holds (the plan's, which are the arena's)
# against closed forms in the number of ranks.

# Sizes of the parameters of tiny_llama, unit by unit; the first field: how many such
# units.
tiny_llama_units() {
    echo "embed 1 9324"
    echo "layer 3 36 4536 1512 36 3600 1800"
    echo "head 1 36 9324"
}

llama8b_units() {
    echo "embed 1 525336576"
    echo "layer 32 4096 25165824 16777216 4096 117440512 58720256"
    echo "head 1 4096 525336576"
}

# shards RANKS <units: a rank's shard in elements: of all units; of the layers; pads of
# all units. A parameter starts on a grain of 1024 elements, shards are equal whole
# grains.
shards() {
    awk -v n="$1" '{
        used = 0
        for (i = 3; i <= NF; i++) used += int(($i + 1023) / 1024)
        shard = int((used + n - 1) / n)
        all += $2 * shard * 1024
        if ($1 == "layer") layers += $2 * shard * 1024
        pads += $2 * (shard * n - used) * 1024
    } END { printf "%.0f %.0f %.0f\n", all, layers, pads }'
}

same() { # WHAT GOT WANT
    if [ "$2" = "$3" ]; then ok "$1: $3"; else bad "$1: ${2:-nothing}, not $3"; fi
}

# divided_run RANKS CHOICE GATHERS REDUCES: how often a step's rank gathers what, as awk
# over all, layers (elements of a shard), n (ranks), m (its micro-batches).
divided_run() {
    local n=$1 choice=$2 dir=$WORK/divided all layers rest m arena
    rm -rf "$dir" "$dir".*
    # shellcheck disable=SC2086
    if ! generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set "mesh.shard=$n" $choice ||
       ! build_trainer "$dir" || ! train "$dir" "$data" 2 --stats "$dir.stats"; then
        bad "$n ranks $choice: does not run" "$dir.log"
        return
    fi
    read -r all layers rest < <(tiny_llama_units | shards "$n")
    m=$((8 / n))
    what="$n ranks $choice"
    same "$what: tokens of a rank" "$(json_number "$dir.stats" tokens)" $((2 * m * 2 * 19))
    same "$what: tokens of all ranks" "$(grep -o '"tokens": *[0-9]*' "$dir.stats" |
        awk '{ sum += $2 } END { print sum }')" $((2 * 16 * 19))
    same "$what: gathered bytes" "$(json_number "$dir.stats" gathered_bytes)" \
        "$(awk "BEGIN { all=$all; layers=$layers; n=$n; m=$m; print 2 * 4 * ($3) }")"
    same "$what: reduced bytes" "$(json_number "$dir.stats" reduced_bytes)" \
        "$(awk "BEGIN { all=$all; layers=$layers; n=$n; m=$m; print 2 * 4 * ($4) }")"
    arena=$(json_number "$dir/plan.json" arena)
    same "$what: the arena mapped is the arena planned" \
        "$(json_number "$dir.stats" arena_bytes)" "$arena"
}

# Held bytes of llama8b, whose shards need no pads on 2 and 4 ranks: parameters 2 bytes an
# element, master and moments 12, gradients and each level of partial sums 4, and what
# does not depend on the number of ranks. Pads of the head's unit on 8 ranks are gathered
# and reduced too.
divided_memory() {
    local n all layers pads levels held rest= first=
    for n in 2 4 8; do
        "$FSDPGEN" plan "$ROOT/models/llama8b.lua" --set "mesh.shard=$n" --json \
            >"$WORK/plan.json" 2>"$WORK/plan.err" || { bad "plan of llama8b" "$WORK/plan.err"; return; }
        read -r all layers pads < <(llama8b_units | shards "$n")
        levels=$(awk "BEGIN { print log(64 / $n) / log(2) }")
        same "llama8b on $n ranks: parameter bytes" \
            "$(sed -n '/bytes_per_rank/,$p' "$WORK/plan.json" >"$WORK/bytes.json"
               json_number "$WORK/bytes.json" params)" $((2 * all))
        same "llama8b on $n ranks: optimizer bytes" "$(json_number "$WORK/plan.json" optimizer)" \
            $((12 * all))
        same "llama8b on $n ranks: partial sums" "$(json_number "$WORK/plan.json" partials)" \
            $((4 * levels * all))
        held=$((all * (2 + 12 + 4 + 4 * levels)))
        rest=$(($(json_number "$WORK/plan.json" arena) - held - 6 * pads))
        [ -n "$first" ] || first=$rest
        same "llama8b on $n ranks: arena less what is divided" "$rest" "$first"
    done
}

divided() {
    local n
    divided_memory
    for n in 2 8; do
        divided_run $n "" "m * (n - 1) * (all + layers)" "m * (n - 1) * all"
    done
    divided_run 4 "--set reshard_after_forward=false" "m * (n - 1) * all" "m * (n - 1) * all"
    divided_run 4 "--set accumulate=unsharded" "m * (n - 1) * (all + layers)" "(n - 1) * all"
}
