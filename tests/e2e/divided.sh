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

# crossing SHARDS COPIES <units: elements that rank 0 reads when copies add up its part: a
# slice of each other copy's, then the slices that the others have summed.
crossing() {
    awk -v s="$1" -v p="$2" '{
        used = 0
        for (i = 3; i <= NF; i++) used += int(($i + 1023) / 1024)
        part = int((used + s - 1) / s)
        slice = int((part + p - 1) / p)
        all += $2 * ((p - 1) * slice + part - slice) * 1024
    } END { printf "%.0f\n", all }'
}

# Copies, ranks of a copy; how a rank's gathers and reductions within the copy count; does
# each step sum over copies; the choices. As awk over all, layers (elements of a part), s
# (ranks of a copy), m (micro-batches of a rank), g (ranks that share the weights between
# forward and backward).
divided_table() {
    cat <<'TABLE'
1|2|m * (s - 1) * (all + layers)|m * (s - 1) * all|
1|8|m * (s - 1) * (all + layers)|m * (s - 1) * all|
1|4|m * (s - 1) * all|m * (s - 1) * all|reshard_after_forward=false
1|4|m * (s - 1) * all|m * (s - 1) * all|strategy="shard_grad_op"
1|8|m * (s - 1) * all|(s - 1) * all|strategy="shard_grad_op" accumulate=unsharded
1|4|m * (s - 1) * (all + layers)|(s - 1) * all|accumulate=unsharded
1|4|m * ((s - 1) * all + (g - 1) * s / g * layers)|m * (s - 1) * all|reshard_after_forward=2
1|8|m * ((s - 1) * all + (g - 1) * s / g * layers)|m * (s - 1) * all|reshard_after_forward=4
2|1|0|0|
4|1|0|0|
8|1|0|0|strategy="no_shard"
1|2|(s - 1) * all|(s - 1) * all|strategy="shard_optimizer"
1|4|(s - 1) * all|m * (s - 1) * all|strategy="shard_optimizer" accumulate=sharded
2|4|(s - 1) * all|(s - 1) * all|strategy="shard_optimizer"
2|2|m * (s - 1) * (all + layers)|m * (s - 1) * all|
2|2|m * (s - 1) * (all + layers)|(s - 1) * all|accumulate=unsharded
2|4|m * (s - 1) * (all + layers)|m * (s - 1) * all|strategy="hybrid_shard"
4|2|m * (s - 1) * all|m * (s - 1) * all|reshard_after_forward=false
2|4|m * ((s - 1) * all + (g - 1) * s / g * layers)|m * (s - 1) * all|reshard_after_forward=2
TABLE
}

divided_run() {
    local p=$1 s=$2 dir=$WORK/divided all layers rest m g=1 arena set flags=() what key want
    for set in $5; do
        flags+=(--set "$set")
        case $set in reshard_after_forward=[0-9]*) g=${set#*=} ;; esac
    done
    rm -rf "$dir" "$dir".*
    what="$p x $s ranks $5"
    if ! generate "$dir" "$ROOT/tests/models/tiny_llama.lua" \
        --set "mesh={replicate=$p,shard=$s}" "${flags[@]}" ||
       ! build_trainer "$dir" || ! train "$dir" "$data" 2 --stats "$dir.stats"; then
        bad "$what: does not run" "$dir.log"
        return
    fi
    read -r all layers rest < <(tiny_llama_units | shards "$s")
    m=$((8 / (p * s)))
    same "$what: tokens of a rank" "$(json_number "$dir.stats" tokens)" $((2 * m * 2 * 19))
    same "$what: tokens of all ranks" "$(grep -o '"tokens": *[0-9]*' "$dir.stats" |
        awk '{ sum += $2 } END { print sum }')" $((2 * 16 * 19))
    set -- "$3" "$4" "$(tiny_llama_units | crossing "$s" "$p")"
    for key in gathered reduced replicate; do
        want=$(awk "BEGIN { all=$all; layers=$layers; s=$s; m=$m; g=$g; print 4 * ($1) }")
        same "$what: $key bytes" "$(json_number "$dir.stats" ${key}_bytes)" $((2 * want))
        sed -n '/step_bytes_per_rank/,$p' "$dir/plan.json" >"$dir.moved"
        same "$what: $key bytes in the plan" "$(json_number "$dir.moved" $key)" "$want"
        shift
    done
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

# The same where every rank holds all weights and gradients, and state alone is divided:
# parameters 2 bytes, gradients between micro-steps and each level of partial sums 4, all
# of n shards; the summed gradient 4, master and moments 12, of one.
divided_state() {
    local n all rest levels held first=
    for n in 2 4 8; do
        "$FSDPGEN" plan "$ROOT/models/llama8b.lua" --set "mesh.shard=$n" \
            --set strategy=shard_optimizer --json >"$WORK/plan.json" 2>"$WORK/plan.err" ||
            { bad "plan of llama8b, shard_optimizer" "$WORK/plan.err"; return; }
        read -r all rest < <(llama8b_units | shards "$n")
        levels=$(awk "BEGIN { print log(64 / $n) / log(2) }")
        sed -n '/bytes_per_rank/,$p' "$WORK/plan.json" >"$WORK/bytes.json"
        same "llama8b's state on $n ranks: parameter bytes" \
            "$(json_number "$WORK/bytes.json" params)" $((2 * n * all))
        same "llama8b's state on $n ranks: gathered bytes" \
            "$(json_number "$WORK/bytes.json" gather)" 0
        same "llama8b's state on $n ranks: optimizer bytes" \
            "$(json_number "$WORK/plan.json" optimizer)" $((12 * all))
        held=$((all * (2 * n + 4 * n + 4 * n * levels + 4 + 12)))
        rest=$(($(json_number "$WORK/plan.json" arena) - held))
        [ -n "$first" ] || first=$rest
        same "llama8b's state on $n ranks: arena less what is held" "$rest" "$first"
    done
}

# Matrices that an optimizer treats whole, 34344 elements of tiny_llama, by their owners. Where
# each rank holds everything nothing has to be sent there, and all but the owner fetch the
# results; where they hold parts, who fetches what depends on the deal: as the plan says.
divided_matrices() {
    local dir=$WORK/matrices set what
    for set in 'strategy="no_shard"' 'strategy="full_shard"' 'strategy="shard_optimizer"'; do
        what="matrices, 4 ranks, $set"
        rm -rf "$dir" "$dir".*
        if ! generate "$dir" "$ROOT/tests/models/tiny_llama.lua" --set mesh.shard=4 \
            --set "$set" --set "optimizer=muon{}" ||
           ! build_trainer "$dir" || ! train "$dir" "$data" 2 --stats "$dir.stats"; then
            bad "$what: does not run" "$dir.log"
            continue
        fi
        sed -n '/step_bytes_per_rank/,$p' "$dir/plan.json" >"$dir.moved"
        same "$what: bytes of rank 0 in two steps" \
            "$(json_number "$dir.stats" matrix_bytes)" \
            $((2 * $(json_number "$dir.moved" matrices)))
        [ "${set#*no_}" = "$set" ] ||
            same "$what: bytes of all ranks in two steps" \
                "$(grep -o '"matrix_bytes": *[0-9]*' "$dir.stats" |
                    awk '{ sum += $2 } END { print sum }')" $((2 * 3 * 34344 * 4))
        same "$what: the arena mapped is the arena planned" \
            "$(json_number "$dir.stats" arena_bytes)" "$(json_number "$dir/plan.json" arena)"
    done
}

divided() {
    local p s gathers reduces sets number=0
    divided_memory
    divided_state
    turn 0 2 divided_matrices
    while IFS='|' read -r p s gathers reduces sets; do
        number=$((number + 1))
        turn $((number % 3)) 3 divided_run "$p" "$s" "$gathers" "$reduces" "$sets"
    done < <(divided_table)
}
