# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. Evaluation and sampling: held-out loss has the bits of the training's
# on the same batch, on any number of ranks, mesh, wrap, recompute, fuse and threads;
# evaluating changes nothing of the training; sampled tokens likewise, greedy ones are those
# of the least loss.

# eval_trainer NAME SETS: generated and built
eval_trainer() {
    local dir=$WORK/eval_$1 set flags=()
    for set in $2; do flags+=(--set "$set"); done
    if generate "$dir" "$ROOT/tests/models/tiny_llama.lua" "${flags[@]}" &&
       build_trainer "$dir"; then
        return 0
    fi
    bad "evaluate: $1 does not build" "$dir.log"
    return 1
}

eval_hex() { grep -o '"eval_loss_hex": "[^"]*", "eval_tokens": [0-9]*' "$1"; }

# The loss of held-out data, whatever the choices; and of the run, whether it evaluates.
evaluate_bits() {
    local held=$WORK/eval_held.txt line name sets threads
    head -c 700 "$data" >"$held"
    while read -r name threads sets; do
        eval_trainer "$name" "$sets" || continue
        check "evaluate $name: runs" train "$WORK/eval_$name" "$data" 3 --quiet \
            --threads "$threads" --eval "$held" --eval-every 2
        eval_hex "$WORK/eval_$name.jsonl" >"$WORK/eval_$name.hex"
        check "evaluate $name: after steps 2 and 3" \
            test "$(wc -l <"$WORK/eval_$name.hex")" = 2
        check "evaluate $name: equal bits" cmp "$WORK/eval_one.hex" "$WORK/eval_$name.hex"
        cp "$WORK/eval_$name.result" "$WORK/eval_$name.with"
        train "$WORK/eval_$name" "$data" 3 --quiet --threads 1
        check "evaluate $name: the training is that without" \
            cmp "$WORK/eval_$name.result" "$WORK/eval_$name.with"
    done <<'EOF'
one 2
two 1 mesh.shard=2 wrap=2 recompute=block
four 1 mesh.shard=4 wrap=root_only accumulate=unsharded
copies 1 mesh.replicate=2 mesh.shard=2 reshard_after_forward=false
whole 3 mesh.shard=2 strategy=no_shard
state 1 mesh.shard=4 strategy=shard_optimizer wrap=2
groups 1 mesh.shard=4 reshard_after_forward=2 prefetch=2 model.tied=false
EOF
    check "evaluate: equal mathematics" same_mathematics "$WORK/eval_one" "$WORK/eval_four"
}

# eval_batch FILE SEQ SEQUENCES: so many equal sequences
eval_batch() {
    perl -e 'my $s = substr("a step of the same words, again and again: it is one batch", 0,
             $ARGV[1]); print $s x $ARGV[2], "a"' "$@" >"$1"
}

# evaluates_alike DIR CHECKPOINT FILE: `trainer eval` has the bits that --eval logged last, and its tokens
evaluates_alike() {
    "$1/trainer" eval --checkpoint "$2" --data "$3" --threads 1 --json 2>"$1.err" |
        sed -n 's/.*"loss_hex": \("[^"]*"\).*"tokens": \([0-9]*\),.*/"eval_loss_hex": \1, "eval_tokens": \2/p' \
            >"$1.evaluated"
    [ -s "$1.evaluated" ] && eval_hex "$1.jsonl" | tail -n 1 | cmp - "$1.evaluated"
}

# Step 2 computes the loss of the weights that the evaluation after step 1 has seen; where
# all sequences are equal the batches are, too.
evaluate_is_training() {
    local file=$WORK/eval_batch.txt sets loss eval k=0
    eval_batch "$file" 24 16
    mask_where "$file" "t % 24 != 5 && t % 7 != 1"
    for sets in "" "mesh.shard=4" "mesh.shard=2 documents.end_id=32" "loss.z=1e-3 loss.chunk_tokens=7" \
        "mesh.shard=2 dtypes.param=bf16 loss.label_smoothing=0.1" "fuse=false" \
        "mesh.context=2 parts.context=4 model.heads=4 model.kv_heads=4 loss.chunk_tokens=7"; do
        k=$((k + 1))
        eval_trainer "batch$k" "seq=24 global_batch=16 $sets" || continue
        rm -rf "$WORK/eval_batch.ck"
        check "evaluate ${sets:-defaults}: runs" train "$WORK/eval_batch$k" "$file" 2 --quiet \
            --threads 1 --eval "$file" --eval-every 1 --checkpoint "$WORK/eval_batch.ck"
        check "evaluate ${sets:-defaults}: trainer eval has its bits" evaluates_alike "$WORK/eval_batch$k" \
            "$WORK/eval_batch.ck" "$file"
        loss=$(sed -n '3s/.*"loss_hex": "\(0x[^"]*\)", "grad.*/\1/p' "$WORK/eval_batch$k.jsonl")
        eval=$(sed -n '2s/.*"eval_loss_hex": "\([^"]*\)".*/\1/p' "$WORK/eval_batch$k.jsonl")
        check "evaluate ${sets:-defaults}: the training's loss, $loss" test -n "$loss" -a "$loss" = "$eval"
    done
    eval_trainer masked "seq=24 global_batch=24 loss.mask=true mesh.shard=2" || return
    eval_batch "$file" 24 24
    mask_where "$file" "t % 24 != 5 && t % 24 != 11"
    rm -rf "$WORK/eval_batch.ck"
    train "$WORK/eval_masked" "$file" 2 --quiet --threads 1 --eval "$file" --eval-every 1 \
        --checkpoint "$WORK/eval_batch.ck"
    check "evaluate with masks: trainer eval has its bits" evaluates_alike "$WORK/eval_masked" \
        "$WORK/eval_batch.ck" "$file"
    loss=$(sed -n '3s/.*, "loss_hex": "\([^"]*\)".*/\1/p' "$WORK/eval_masked.jsonl")
    eval=$(sed -n '2s/.*"eval_loss_hex": "\([^"]*\)".*/\1/p' "$WORK/eval_masked.jsonl")
    check "evaluate with masks: the training's loss, $loss" test -n "$loss" -a "$loss" = "$eval"
    check "evaluate with masks: its targets" grep -q '"eval_tokens": 528,' \
        "$WORK/eval_masked.jsonl"
    cp "$file" "$file.none" && mask_where "$file.none" "0"
    for k in 0 1; do
        timeout 60 "$WORK/eval_masked/trainer" --data "$file" --steps $k --threads 1 \
            --eval "$file.none" --eval-every 1 --log "$WORK/eval_masked.jsonl" \
            >"$WORK/eval_masked.out" 2>&1
        check "evaluate without targets, $k steps: no loss" grep -q 'eval[^ ]*  *n/a' \
            "$WORK/eval_masked.out"
    done
    "$WORK/eval_masked/trainer" eval --checkpoint "$WORK/eval_batch.ck" --data "$file.none" >"$WORK/eval_masked.out" 2>&1
    check "trainer eval without targets: an error" grep -q 'eval: every target is masked' "$WORK/eval_masked.out"
    head -c 500 "$data" >"$WORK/eval_bare.txt"
    "$WORK/eval_masked/trainer" eval --checkpoint "$WORK/eval_batch.ck" --data "$WORK/eval_bare.txt" \
        >"$WORK/eval_masked.out" 2>&1
    check "trainer eval without masks: an error" test $? = 1 -a -n "$(grep 'eval_bare.txt.mask' "$WORK/eval_masked.out")"
    check "evaluate without targets: null in the log" grep -q '"eval_loss": null.*"eval_tokens": 0,' \
        "$WORK/eval_masked.jsonl"
}

# least_loss DIR CHECKPOINT CONTEXT...: the id whose loss is least after those ids, of 32,
# by one run each
least_loss() {
    local dir=$1 checkpoint=$2 v n best="" least
    shift 2
    n=$#
    for ((v = 0; v < 32; v++)); do
        perl -e 'print pack("C*", @ARGV), "\x07" x (9 - @ARGV)' "$@" "$v" >"$dir.next"
        mask_where "$dir.next" "t == $n"
        least=$("$dir/trainer" --steps 0 --threads 1 --data "$dir.data" --init "$checkpoint" \
            --eval "$dir.next" 2>&1 | sed -n 's/.*eval_loss: .*(\(.*\)).*/\1/p')
        best="$best${least:-none} $v
"
    done
    printf '%s' "$best" | sort -g | head -n 1 | cut -d ' ' -f 2
}

sample_greedy() {
    local dir=$WORK/eval_small context=(3 1 4 1 5) prompt text want id k n
    eval_trainer small "model.vocab=32 seq=8 micro_batch=1 loss.mask=true" || return
    perl -e 'my $x = 7; print join "", map { $x = ($x * 5 + $_ % 3) % 32; chr $x } 1 .. 3000' \
        >"$dir.data"
    mask_where "$dir.data" "1"
    check "sample: a checkpoint to sample from" "$dir/trainer" --data "$dir.data" --steps 30 \
        --threads 1 --quiet --checkpoint "$dir.ck"
    prompt=$(printf '\003\001\004\001\005')
    "$dir/trainer" sample --prompt "$prompt" --checkpoint "$dir.ck" --tokens 6 --temperature 0 \
        --threads 1 2>"$dir.err" | head -c 11 | od -An -v -tu1 | tr -s ' \n' ' ' >"$dir.greedy"
    for ((k = 0; k < 6; k++)); do # from the sixth token on the window slides
        n=${#context[@]}
        id=$(least_loss "$dir" "$dir.ck/step-00000030" "${context[@]:n > 8 ? n - 8 : 0}")
        context+=("$id")
    done
    want="${context[*]}"
    text=$(cat "$dir.greedy")
    text=${text# }
    check "sample: greedy tokens have the least loss: $want" test "${text% }" = "$want"
}

sample_ranks() {
    local name out ids="84 104 101 32" first="" args k
    rm -rf "$WORK/eval_ck"
    eval_trainer plain "mesh.shard=2 fuse=false"
    "$WORK/eval_two/trainer" --data "$data" --steps 4 --threads 1 --quiet \
        --checkpoint "$WORK/eval_ck" >"$WORK/eval_ck.log" 2>&1
    for args in "--temperature 0" "--seed 5" "--seed 6" "--seed 5 --top-k 3" \
        "--seed 5 --top-p 0.2" "--seed 5 --temperature 0.5"; do
        for name in one two four copies whole plain; do
            "$WORK/eval_$name/trainer" sample --prompt "$ids" --checkpoint "$WORK/eval_ck" \
                --tokens 40 --threads 1 $args >"$WORK/eval_$name.ids" 2>"$WORK/eval_$name.err"
            check "sample $args: $name gives the tokens of one rank" \
                cmp "$WORK/eval_one.ids" "$WORK/eval_$name.ids"
        done
        first="$first$(cat "$WORK/eval_one.ids")
"
    done
    check "sample: 44 ids, the prompt's first" bash -c \
        "[ \$(wc -w <'$WORK/eval_one.ids') = 44 ] && grep -q '^$ids ' '$WORK/eval_one.ids'"
    check "sample: six settings, six texts" test "$(printf '%s' "$first" | sort -u | wc -l)" = 6
    "$WORK/eval_one/trainer" sample --prompt "$ids" --init "$WORK/eval_ck/step-00000004" \
        --tokens 40 --threads 1 --top-k 1 --seed 9 >"$WORK/eval_k1.ids" 2>&1
    "$WORK/eval_one/trainer" sample --prompt "$ids" --init "$WORK/eval_ck/step-00000004" \
        --tokens 40 --threads 2 --temperature 0 >"$WORK/eval_t0.ids" 2>&1
    check "sample: the likeliest of one is greedy" cmp "$WORK/eval_k1.ids" "$WORK/eval_t0.ids"
}

# refuses EXIT PATTERN FLAGS...
refuses() {
    local exit=$1 pattern=$2
    shift 2
    "$WORK/eval_two/trainer" "$@" >"$WORK/refuses.log" 2>&1
    local got=$?
    if [ $got = "$exit" ] && grep -q -e "$pattern" "$WORK/refuses.log"; then
        ok "refused: $pattern"
    else
        bad "refused: $pattern (exit $got)" "$WORK/refuses.log"
    fi
}

evaluate_refusals() {
    local ck=$WORK/eval_ck
    head -c 12 "$data" >"$WORK/eval_short.txt"
    refuses 1 "error: --eval nowhere: no such file" --data "$data" --eval nowhere
    refuses 1 "eval_short.txt has 12 tokens; a sample is a sequence of" --data "$data" \
        --eval "$WORK/eval_short.txt"
    head -c 20 "$data" >"$WORK/eval_short.txt"
    refuses 1 "held-out data has 1 sequence of 19 tokens, but a micro-batch takes 2" \
        --data "$data" --eval "$WORK/eval_short.txt"
    refuses 2 "--eval-every needs --eval FILE" --data "$data" --eval-every 3
    refuses 1 "--eval-sequences 1: a micro-batch takes 2" --data "$data" --eval "$data" \
        --eval-sequences 1 --steps 1
    refuses 2 "--prompt TEXT is needed" sample --checkpoint "$ck"
    refuses 2 "give --checkpoint DIR or --init DIR" sample --prompt "1 2"
    refuses 2 "give --checkpoint DIR or --init DIR" sample --prompt 1 --checkpoint "$ck" --init x
    refuses 2 "--tokens: 0 is not between 1 and" sample --prompt "1 2" --checkpoint "$ck" --tokens 0
    refuses 2 "--temperature: -1 is not between 0 and" sample --prompt "1 2" --checkpoint "$ck" \
        --temperature -1
    refuses 2 "--data is for training" sample --prompt "1 2" --data "$data"
    refuses 2 "--top-k is for .trainer sample." --data "$data" --top-k 3
    refuses 1 "--prompt: it is empty" sample --prompt "" --checkpoint "$ck"
    refuses 1 "token 259 is not one of the model's 259 ids" sample --prompt "3 259" --checkpoint "$ck"
    refuses 1 "token -1 is not one of the model's" sample --prompt "-1" --checkpoint "$ck"
    refuses 1 "259 token ids and no tokenizer: give ids, as" sample --prompt "word" --checkpoint "$ck"
    refuses 1 "--prompt: 20 tokens, but the model's sequences have 19" \
        sample --prompt "$(seq 20 | tr '\n' ' ')" --checkpoint "$ck"
    local launcher=(env RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
                    MASTER_ADDR=localhost MASTER_PORT=29511)
    "${launcher[@]}" "$WORK/eval_one/trainer" sample --prompt "$(seq 20 | tr '\n' ' ')" \
        --checkpoint "$ck" >"$WORK/refuses.log" 2>&1
    check "refused under a launcher, too" [ $? = 1 -a -n \
        "$(grep -- '--prompt: 20 tokens, but' "$WORK/refuses.log")" ]
    mkdir -p "$WORK/eval_none"
    refuses 1 "eval_none: there is no checkpoint" sample --prompt 1 --checkpoint "$WORK/eval_none"
    refuses 1 "nowhere" sample --prompt 1 --checkpoint "$WORK/nowhere"
    printf x | dd of="$ck/step-00000004/model.safetensors" bs=1 seek=5000 conv=notrunc 2>/dev/null
    refuses 1 "no checkpoint is intact" sample --prompt 1 --checkpoint "$ck"
}

evaluate() {
    evaluate_bits
    evaluate_is_training
    sample_greedy
    sample_ranks
    evaluate_refusals
}
