# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Masks, z-loss and label smoothing in whole trainers: uneven masks over
# ranks are one big batch, a step without targets changes nothing, every field changes the
# hash and the bits.

# loss_data FILE EACH FROM TO: text, and a mask that drops a token in EACH, and all of
# FROM..TO-1: so some ranks have many targets, others few or none.
loss_data() {
    cp "$data" "$1"
    perl -e 'my ($n, $each, $from, $to) = @ARGV; my ($x, $bits) = (7, "");
        for my $i (0 .. $n - 1) {
            $x = ($x * 1103515245 + 12345) % 2147483648;
            $bits .= ($x >> 16) % $each == 0 || ($i >= $from && $i < $to) ? "0" : "1";
        }
        print pack("b*", $bits)' "$(stat -c %s "$data")" "$2" "$3" "$4" >"$1.mask"
}

# loss_trainer NAME SETS DATA [FLAGS...]: generated, built, three steps
loss_trainer() {
    local dir=$WORK/loss_$1 set flags=() text=$3
    for set in $2; do flags+=(--set "$set"); done
    shift 3
    if generate "$dir" "$ROOT/tests/models/tiny_llama.lua" "${flags[@]}" &&
       build_trainer "$dir" && loss_train "$dir" "$text" "$@"; then
        return 0
    fi
    bad "loss: ${dir##*loss_} does not run" "$dir.log"
    return 1
}

loss_train() {
    rm -f "$1.jsonl"
    "$1/trainer" --data "$2" --steps 3 --log "$1.jsonl" --weights-hash "${@:3}" \
        >"$1.out" 2>>"$1.log" || return 1
    grep -o '"loss_hex": [^,]*\|"grad_norm_hex": [^,]*\|"valid_tokens": [0-9]*' \
        "$1.jsonl" >"$1.result"
    grep '^weights ' "$1.out" >>"$1.result"
}

# Losses and norms of two runs, which add in other orders, agree to 1e-12.
loss_close() {
    awk -v RS='[,{}\n]' -F': ' '$1 ~ /"(loss|grad_norm|valid_tokens)"/ {
            if (NR == FNR) a[++n] = $2; else b[++m] = $2 }
        END { if (n != m || n < 9) exit 1
            for (i = 1; i <= n; i++) { d = a[i] - b[i]; if (d < 0) d = -d
                if (d > 1e-12 * a[i]) { print a[i], b[i]; exit 1 } } }' "$1" "$2"
}

loss_masks() {
    local text=$WORK/loss.txt full=$WORK/loss_full.txt none=$WORK/loss_none.txt line ranks
    local reference=$WORK/loss_reference
    loss_data "$text" 3 3000 8000
    loss_data "$full" 1000000007 0 0
    loss_data "$none" 1 0 0
    loss_trainer reference "loss.mask=true" "$text" --threads 2 || return
    for line in "2 full_shard sharded" "4 full_shard unsharded" "4 no_shard sharded"; do
        set -- $line
        loss_trainer ranks "loss.mask=true mesh.shard=$1 strategy=$2 accumulate=$3" \
            "$text" --threads 1 || continue
        check "masks on $1 ranks, $2, $3: equal bits" \
            cmp "$reference.result" "$WORK/loss_ranks.result"
        check "masks on $1 ranks: equal mathematics" \
            cmp "$reference/math.c" "$WORK/loss_ranks/math.c"
    done
    check "uneven masks: few targets in some steps" bash -c \
        "[ \$(grep -o '\"valid_tokens\": .*' '$reference.result' | sort -u | wc -l) = 3 ]"
    # f64: sixteen leaves on four ranks, and one micro-batch of sixteen sequences
    loss_trainer one "loss.mask=true dtypes.param=f64 micro_batch=16" "$text"
    loss_trainer many "loss.mask=true dtypes.param=f64 micro_batch=1 mesh.shard=4" "$text"
    check "uneven masks over ranks are one big batch" \
        loss_close "$WORK/loss_one.jsonl" "$WORK/loss_many.jsonl"
    # the mask of all tokens, and of none
    loss_train "$reference" "$full"
    loss_trainer plain "" "$data"
    check "a mask of ones gives the bits of no mask" bash -c \
        "diff <(grep -v valid '$reference.result') '$WORK/loss_plain.result'"
    loss_train "$reference" "$none"
    cp "$reference.out" "$WORK/loss_none.out"
    check "a step without targets: unknown loss, norm 0" bash -c \
        "[ \$(grep -c '\"loss_hex\": null' '$reference.result') = 3 ] &&
         [ \$(grep -c '\"grad_norm_hex\": \"0x0p+0\"' '$reference.result') = 3 ] &&
         grep -q 'loss:      n/a .*no update' '$reference.out'"
    "$reference/trainer" --data "$none" --steps 1 --weights-hash >"$WORK/loss_one.out" 2>&1
    check "a step without targets changes no weight" bash -c \
        "diff <(grep ^weights '$WORK/loss_none.out') <(grep ^weights '$WORK/loss_one.out')"
}

# Every field of the loss: another hash, other bits.
loss_hashes() {
    local set plain=$WORK/loss_plain
    for set in loss.z=1e-3 loss.label_smoothing=0.1 loss.mask=true; do
        loss_trainer field "$set" "$WORK/loss.txt" || continue
        if [ "$("$plain/trainer" --numerics-hash | head -n 1)" != \
             "$("$WORK/loss_field/trainer" --numerics-hash | head -n 1)" ] &&
           [ "$(grep ^weights "$plain.result")" != \
             "$(grep ^weights "$WORK/loss_field.result")" ]; then
            ok "$set: another hash, other weights"
        else
            bad "$set: another hash, other weights"
        fi
    done
}
