# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Parts: whichever ranks share them, checkpoints have the same bytes, and each goes on
# from what the others wrote, also where a signal ended one.

# parts_trainers: one rank with four parts, four with one each, and two times two
parts_trainers() {
    local sets=(parts.tensor=4 model.heads=8 model.kv_heads=4 model.head_dim=6 model.ffn=52 model.vocab=260
        seq=18 model.tied=true 'dtypes.param="bf16"')
    make_trainer parts1 "$llama" "${sets[@]}" &&
        make_trainer parts4 "$llama" "${sets[@]}" mesh.tensor=4 &&
        make_trainer parts22 "$llama" "${sets[@]}" mesh.shard=2 mesh.tensor=2 recompute=block
}

# What the run `parts1` ended with in $WORK/parts.whole, its files in $WORK/parts.ck1.
parts_equal() { # NAME CHECKPOINTS
    check "parts: $1 ends with the bits of one rank that never stopped" \
        test "$(grep '^weights ' "$WORK/$1.out")" = "$(grep '^weights ' "$WORK/parts.whole")"
    check "parts: and writes the same files" \
        test "$(files_of "$2/step-00000008")" = "$(files_of "$WORK/parts.ck1/step-00000008")"
}

parts_of_ranks() {
    local ck=$WORK/parts.ck name last
    parts_trainers || return
    rm -rf "$ck" "$ck"1 "$ck"2
    run parts1 8 --checkpoint "$ck"1 || { bad 'parts: a run' "$WORK/parts1.err"; return; }
    cp "$WORK/parts1.out" "$WORK/parts.whole"
    run parts4 4 --checkpoint "$ck" && run parts22 8 --checkpoint "$ck" --resume ||
        { bad 'parts: four ranks, then two times two' "$WORK/parts22.err"; return; }
    parts_equal parts22 "$ck"
    timeout -s TERM 2 "$WORK/parts4/trainer" --data "$data" --steps 100000 --threads 1 --checkpoint "$ck"2 \
        >"$WORK/parts4.out" 2>"$WORK/parts4.err"
    last=$(basename "$(find "$ck"2 -name 'step-*' | sort | tail -n 1)")
    check "parts: a signal to four ranks leaves a checkpoint, $last" test -f "$ck"2/"$last"/model.safetensors
    timeout 60 "$WORK/parts4/trainer" verify "$ck"2 >"$WORK/parts4.out" 2>&1
    check 'parts: it is sound' test $? = 0
    run parts1 $((10#${last#step-} + 2)) --checkpoint "$ck"2 --resume ||
        bad 'parts: one rank goes on from it' "$WORK/parts1.err"
    : >"$WORK/parts.said"
    for name in parts1 parts4 parts22; do
        reads "parts: $name evaluates" 0 '"tokens": [1-9]' \
            $name eval --checkpoint "$ck" --data "$data" --threads 1 --json
        json_of loss_hex >>"$WORK/parts.said"
        timeout 60 "$WORK/$name/trainer" sample --checkpoint "$ck" --prompt 'The ' --tokens 12 --seed 3 \
            --threads 1 2>"$WORK/$name.err" | md5sum >>"$WORK/parts.said"
    done
    check 'parts: and say the same of text, and to a prompt' \
        test "$(sort "$WORK/parts.said" | uniq -c | awk '$1 == 3' | wc -l)" = 2
}
part parts parts_of_ranks
