# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: NaN and Inf in activations, gradients, sums and the loss of an emitted trainer, on
# any rank and in any micro-step: the step changes no weight and no moment on any rank, is logged and
# counted, and the run ends with the bits that it ends with wherever else that step was spoilt.

# planted_trainer NAME SET...: $WORK/planted_NAME, with plant.c
planted_trainer() {
    local name=$1 dir=$WORK/planted_$1 model=$ROOT/tests/models/tiny_llama.lua
    shift
    generate "$dir" "$model" "${@/#/--set=}" &&
        cc -O1 -Wall -Wextra -Werror -I"$ROOT/runtime" -I"$dir" -c "$ROOT/tests/e2e/plant.c" \
            -o "$dir.o" 2>>"$dir.log" &&
        build_trainer "$dir" -j2 \
            LDLIBS="-Wl,--wrap=rt_at,--wrap=rt_norm_add,--wrap=rt_merge_segment,--wrap=rt_reduce_scatter_start $dir.o" || {
        bad "planted_$name is built" "$dir.log"
        return 1
    }
}

# planted NAME SITE KIND RANK MICRO: in step 2 of 3
planted() {
    local dir=$WORK/planted_$1 label="$3 in $2, rank $4, micro-step $5 of $1" a b code
    rm -rf "$dir.ck" "$dir.jsonl"
    PLANT=$2:$3:$4:2:$5 timeout 60 "$dir/trainer" --data "$data" --steps 3 --threads 1 \
        --checkpoint "$dir.ck" --checkpoint-every 1 --log "$dir.jsonl" --weights-hash \
        >"$dir.out" 2>"$dir.err"
    code=$?
    a=$(cd "$dir.ck/step-00000001" && md5sum model.safetensors optimizer/*)
    b=$(cd "$dir.ck/step-00000002" && md5sum model.safetensors optimizer/*)
    result_of "$dir"
    [ -e "$WORK/planted.result" ] || grep -v '_hex' "$dir.result" >"$WORK/planted.result"
    if [ $code != 0 ] || ! grep -q "^planted: $2" "$dir.err"; then
        bad "$label: code $code" "$dir.err"
    elif [ "$(grep -o '"skipped": [0-9]*' "$dir.jsonl" | tr -dc '0-9\n' | tr '\n' ' ')" != '0 1 1 ' ] ||
        ! grep -q '^step 2: update skipped: .* not finite; 1 so far' "$dir.out"; then
        bad "$label: is not logged" "$dir.jsonl"
    elif [ "$a" != "$b" ]; then
        bad "$label: weights or moments have changed"
    elif ! grep -v '_hex' "$dir.result" | cmp -s - "$WORK/planted.result"; then
        bad "$label: the run ends with other weights" "$dir.result"
    else
        planted_good=$((planted_good + 1))
    fi
}

# spoilt NAME RANKS: in FULL every site, kind and rank; else a few
spoilt() {
    local name=$1 ranks=$2 sites site kind rank i
    mapfile -t sites < <(PLANT=list "$WORK/planted_$1/trainer" --data "$data" --steps 1 --threads 1 \
        2>/dev/null | grep -v '[: ]')
    [ ${#sites[@]} -ge 28 ] || bad "planted_$name names ${#sites[@]} sites"
    planted_good=0
    if [ "$FULL" = 1 ]; then
        for site in "${sites[@]}"; do
            for kind in nan inf; do
                for ((rank = 0; rank < ranks; rank++)); do
                    random $((8 / ranks))
                    planted "$name" "$site" $kind $rank "$random_value"
                done
            done
        done
    else
        for i in 1 2; do
            random ${#sites[@]}
            site=${sites[random_value]}
            random "$ranks"
            rank=$random_value
            random $((8 / ranks))
            planted "$name" "$site" $([ $i = 1 ] && echo nan || echo inf) "$rank" "$random_value"
        done
    fi
    ok "$name: $planted_good numbers that are not finite: their step changes nothing"
    echo "figure: $name: $planted_good of ${#sites[@]} sites x kinds x $ranks ranks"
}

planted_numbers() {
    local name
    local -A mesh=([one]=mesh.shard=1 [two]=mesh.shard=2 [four]=mesh.shard=4
        [two_unsharded]='mesh.shard=2 accumulate=unsharded'
        [four_unsharded]='mesh.shard=4 accumulate=unsharded'
        [hybrid]='mesh.replicate=2 mesh.shard=2 strategy=hybrid_shard'
        [copies]='mesh.shard=2 strategy=no_shard')
    local -A ranks=([one]=1 [two]=2 [four]=4 [two_unsharded]=2 [four_unsharded]=4 [hybrid]=4 [copies]=2)
    local names=(one two four two_unsharded four_unsharded hybrid copies)
    random ${#names[@]}
    [ "$FULL" = 1 ] || names=(two "${names[random_value]}")
    rm -f "$WORK/planted.result"
    for name in "${names[@]}"; do
        # shellcheck disable=SC2086
        planted_trainer "$name" ${mesh[$name]} && spoilt "$name" "${ranks[$name]}"
    done
}
