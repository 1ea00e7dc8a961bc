# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Parts: whichever ranks share them, checkpoints have the same bytes, and each goes on
# from what the others wrote, also where a signal ended one.

# parts_trainers: one rank with four parts, four with one each, and two times two
parts_trainers() {
    local along=$([ $((SEED % 2)) = 0 ] && echo tensor || echo context)
    local kv_heads=$([ $along = tensor ] && echo 4 || echo 2) # of which parts of sequences have copies
    local sets=(parts.$along=4 model.heads=8 model.kv_heads=$kv_heads model.head_dim=6 model.ffn=52
        model.vocab=259 seq=18 model.tied=true 'dtypes.param="bf16"')
    make_trainer parts1 "$llama" "${sets[@]}" &&
        make_trainer parts4 "$llama" "${sets[@]}" mesh.$along=4 &&
        make_trainer parts22 "$llama" "${sets[@]}" mesh.shard=2 mesh.$along=2 recompute=block
}

parts_weights() { # NAME OUTPUT OUTPUT: of two runs
    local weights=$(grep '^weights ' "$WORK/$2")
    check "parts: $1" test -n "$weights" -a "$weights" = "$(grep '^weights ' "$WORK/$3")"
}

# Four ranks get a signal after a step; one rank goes on.
parts_stopped() { # CHECKPOINTS
    local ck=$1 job last steps i
    : >"$WORK/parts4.out" # has steps of an earlier run until this one begins
    "$WORK/parts4/trainer" --data "$data" --steps 100000 --threads 1 --checkpoint "$ck" \
        >"$WORK/parts4.out" 2>"$WORK/parts4.err" &
    job=$!
    for i in $(seq 3000); do
        grep -q '^step ' "$WORK/parts4.out" && break
        kill -0 $job 2>/dev/null || break
        sleep 0.02
    done
    kill -TERM $job
    wait $job
    check "parts: a signal to four ranks ends them with 75, saved" test $? = 75
    last=$(basename "$(find "$ck" -name 'step-*' | sort | tail -n 1)")
    [ -f "$ck/$last/model.safetensors" ] || { bad 'parts: it left no checkpoint' "$WORK/parts4.err"; return; }
    timeout 60 "$WORK/parts4/trainer" verify "$ck" >"$WORK/parts4.out" 2>&1
    check "parts: the checkpoint, $last, is intact" test $? = 0
    steps=$((10#${last#step-} + 2))
    run parts1 $steps && cp "$WORK/parts1.out" "$WORK/parts.long" && run parts1 $steps --checkpoint "$ck" --resume ||
        { bad 'parts: one rank goes on from it' "$WORK/parts1.err"; return; }
    parts_weights 'one rank that goes on ends with the bits of one that never stopped' parts1.out parts.long
}

# What the run `parts1` ended with in $WORK/parts.whole, its files in $WORK/parts.ck1.
parts_equal() { # NAME CHECKPOINTS
    parts_weights "$1 ends with the bits of one rank that never stopped" "$1.out" parts.whole
    check "parts: and writes the same files" \
        test "$(files_of "$2/step-00000008")" = "$(files_of "$WORK/parts.ck1/step-00000008")"
}

parts_of_ranks() {
    local ck=$WORK/parts.ck name
    parts_trainers || return
    rm -rf "$ck" "$ck"1 "$ck"2
    run parts1 8 --checkpoint "$ck"1 || { bad 'parts: a run' "$WORK/parts1.err"; return; }
    cp "$WORK/parts1.out" "$WORK/parts.whole"
    run parts4 4 --checkpoint "$ck" && run parts22 8 --checkpoint "$ck" --resume ||
        { bad 'parts: four ranks, then two times two' "$WORK/parts22.err"; return; }
    parts_equal parts22 "$ck"
    parts_stopped "$ck"2
    : >"$WORK/parts.said"
    for name in parts1 parts4 parts22; do
        reads "parts: $name evaluates" 0 '"tokens": [1-9]' \
            $name eval --checkpoint "$ck" --data "$data" --threads 1 --json
        json_of loss_hex >>"$WORK/parts.said"
        timeout 60 "$WORK/$name/trainer" sample --checkpoint "$ck" --prompt '84 104 101 32' --tokens 12 --seed 3 \
            --threads 1 >"$WORK/$name.out" 2>"$WORK/$name.err" || bad "parts: $name samples" "$WORK/$name.err"
        md5sum <"$WORK/$name.out" >>"$WORK/parts.said"
    done
    check 'parts: and say the same of text, and to a prompt' \
        test "$(sort "$WORK/parts.said" | uniq -c | awk '$1 == 3' | wc -l)" = 2
}
part parts turn 1 2 parts_of_ranks
