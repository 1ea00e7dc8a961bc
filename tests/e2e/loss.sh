# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Masks, packed documents, z-loss and label smoothing in whole trainers:
# uneven masks over ranks are one big batch, a step without targets changes nothing, packed
# documents are documents alone, every field changes the hash and the bits.

# loss_data FILE EACH FROM TO: text, and a mask that drops a token in EACH, and all of
# FROM..TO-1: so some ranks have many targets, others few or none.
loss_data() {
    cp "$data" "$1"
    mask_where "$1" \
        "(int(t * 2654435761 % 4294967296 / 65536) + 1) % $2 != 0 && (t < $3 || t >= $4)"
}

# loss_trainer NAME SETS DATA [FLAGS...]: generated, built, three steps; MODEL: which
loss_trainer() {
    local dir=$WORK/loss_$1 set flags=() text=$3
    for set in $2; do flags+=(--set "$set"); done
    shift 3
    if generate "$dir" "$ROOT/tests/models/${MODEL:-tiny_llama}.lua" "${flags[@]}" &&
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

loss_text() { loss_data "$WORK/loss.txt" 3 3000 8000; }

loss_masks() {
    local text=$WORK/loss.txt full=$WORK/loss_full.txt none=$WORK/loss_none.txt line ranks
    local reference=$WORK/loss_reference
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
            same_mathematics "$reference" "$WORK/loss_ranks"
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
         grep -q '^step 1: no update: every target is masked' '$reference.out'"
    "$reference/trainer" --data "$none" --steps 0 --weights-hash >"$WORK/loss_begin.out" 2>&1
    check "a step without targets changes no weight" bash -c \
        "grep -q ^weights '$WORK/loss_none.out' &&
         diff <(grep ^weights '$WORK/loss_none.out') <(grep ^weights '$WORK/loss_begin.out')"
}

# Every field of the loss: another hash, other bits.
loss_hashes() {
    local set plain=$WORK/loss_plain
    for set in loss.z=1e-3 loss.label_smoothing=0.1 loss.mask=true documents.end_id=32; do
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

# packed_data PACKED ALONE: four samples of four documents of 2 to 24 tokens that fill 48;
# and the same documents one a sample, padded to 24 with tokens that are no targets.
packed_data() {
    perl -e 'my ($packed, $alone, $bits, $x) = ("", "", "", 11);
        sub draw { $x = ($x * 1103515245 + 12345) % 2147483648; return ($x >> 16) % $_[0] }
        for my $sample (1 .. 4) {
            my @length;
            do { @length = map { 2 + draw(23) } 1 .. 3; push @length, 48;
                 $length[3] -= $_ for @length[0 .. 2] } until $length[3] > 1 && $length[3] < 25;
            for my $n (@length) {
                my $text = join("", map { chr(97 + draw(26)) } 2 .. $n) . "\n";
                $packed .= $text;
                $alone .= $text . "#" x (24 - $n);
                $bits .= "0" . "1" x ($n - 1) . "0" x (24 - $n);
            }
        }
        open(my $f, ">", $ARGV[0]); print $f $packed, "."; close $f;
        open($f, ">", $ARGV[1]); print $f $alone, "."; close $f;
        open($f, ">", "$ARGV[1].mask"); print $f pack("b*", $bits . "0"); close $f' "$1" "$2"
}

# The losses and gradients of packed documents are those of the documents alone: nothing
# of one reaches another, positions begin anew, what follows an end is not predicted.
loss_packed() {
    local packed=$WORK/loss_packed.txt alone=$WORK/loss_alone.txt sets MODEL
    packed_data "$packed" "$alone"
    for sets in "tiny_llama model.kv_heads=1" "tiny_llama model.window=7 model.attention_chunk=9 model.kv_heads=1 model.attention_sinks=true" \
        "tiny_gpt2 model.max_positions=64"; do
        MODEL=${sets%% *}
        sets="${sets#* } dtypes.param=f64 micro_batch=1"
        loss_trainer packed "$sets seq=48 global_batch=4 documents.end_id=10" "$packed" &&
            loss_trainer alone "$sets seq=24 global_batch=16 loss.mask=true" "$alone" &&
            check "$MODEL: packed documents are documents alone (${sets%% dtypes*})" \
                loss_close "$WORK/loss_packed.jsonl" "$WORK/loss_alone.jsonl"
    done
    MODEL=tiny_llama
    for sets in "mesh.shard=1" "mesh.shard=4 accumulate=unsharded wrap=2"; do
        loss_trainer "${sets:11:1}" "documents.end_id=32 loss.mask=true $sets" \
            "$WORK/loss.txt" --threads 2
    done
    check "documents and masks on 1 and 4 ranks: equal bits" \
        cmp "$WORK/loss_1.result" "$WORK/loss_4.result"
    check "documents on 1 and 4 ranks: equal mathematics" \
        same_mathematics "$WORK/loss_1" "$WORK/loss_4"
}
