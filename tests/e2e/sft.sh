# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh. The recipe for fine-tuning on conversations, each of its steps, on the shipped
# description with smaller numbers: a base model with its tokenizer, chats to tokens and a mask,
# weights from the base's folder, a checkpoint that is a model again, and a sample of it.

# The sizes of tests/tokenize's tokenizer of the Llama 3 kind, whose 801 is <|end_of_text|>.
sft_sets() {
    local set
    for set in model.layers=2 model.dim=64 model.heads=4 model.kv_heads=2 model.ffn=96 \
            model.vocab=805 seq=96 global_batch=8 leaves=8 documents.end_id=801 optimizer.lr=3e-3 \
            lr.warmup=2 "$@"; do
        printf '%s\n' --set "$set"
    done
}

first_loss() { sed -n 's/^{"step": 1,.*"loss": *\([0-9.]*\).*/\1/p' "$1"; }

fine_tuning() {
    local dir=$WORK/sft files=$ROOT/tests/tokenize/data flags base losses tuned asked
    mkdir -p "$dir"
    mapfile -t flags < <(sft_sets mesh.shard=1 loss.mask=false)
    if ! "$FSDPGEN" tokenize --tokenizer "$files/llama3.json" --end '<|end_of_text|>' \
            -o "$dir/text.bin" "$files/english.txt" >"$dir/log" 2>&1 ||
       ! generate "$dir/base" "$ROOT/models/llama8b_sft.lua" "${flags[@]}" ||
       ! build_trainer "$dir/base" GEMM=builtin ||
       ! train "$dir/base" "$dir/text.bin" 20 --checkpoint "$dir/ck_base"; then
        cat "$dir"/log "$dir"/base.log >"$dir/all.log" 2>/dev/null
        bad "fine-tuning: the base model" "$dir/all.log"
        return
    fi
    base=$dir/ck_base/step-00000020
    cp "$files/llama3.json" "$base/tokenizer.json" # as a folder of Hugging Face's has it
    mapfile -t flags < <(sft_sets mesh.shard=2)
    if ! "$FSDPGEN" tokenize --tokenizer "$base" --template llama3 --end '<|end_of_text|>' \
            -o "$dir/chat.bin" "$files/chats.jsonl" >"$dir/log" 2>&1 ||
       ! generate "$dir/tuned" "$ROOT/models/llama8b_sft.lua" "${flags[@]}" ||
       ! build_trainer "$dir/tuned" GEMM=builtin ||
       ! train "$dir/tuned" "$dir/chat.bin" 20 --init "$base" --checkpoint "$dir/ck" \
           --eval "$dir/chat.bin" --eval-every 10; then
        cat "$dir"/log "$dir"/tuned.log >"$dir/all.log" 2>/dev/null
        bad "fine-tuning: does not run" "$dir/all.log"
        return
    fi
    ok "fine-tuning: the recipe runs"
    losses=$(grep -o '"eval_loss": *[0-9.]*' "$dir/tuned.jsonl" | sed 's/.*: *//' | tr '\n' ' ')
    check "fine-tuning: the held-out loss falls: $losses" \
        awk -v l="$losses" 'BEGIN { split(l, a, " "); exit !(a[2] > 0 && a[2] < a[1] - 0.1) }'
    check "fine-tuning: the assistant's tokens alone are targets" awk -F'"valid_tokens":' \
        'NF > 1 { n = $2 + 0; if (n <= 0 || n > 0.9 * 8 * 96) exit 1; seen++ }
         END { exit !(seen == 20) }' "$dir/tuned.jsonl"
    check "fine-tuning: the checkpoint has the tokenizer" \
        cmp "$base/tokenizer.json" "$dir/ck/step-00000020/tokenizer.json"
    # asked in the words of its chats, as docs/finetune.md has it
    asked=$(printf '<|start_header_id|>user<|end_header_id|>\n\nWho?<|eot_id|>%s' \
        $'<|start_header_id|>assistant<|end_header_id|>\n\n.')
    "$dir/tuned/trainer" sample --checkpoint "$dir/ck" --tokens 8 --prompt \
        "$("$FSDPGEN" tokenize --tokenizer "$base" --prompt "${asked%.}")" >"$dir/ids" 2>"$dir/log" &&
        "$FSDPGEN" tokenize --tokenizer "$base" --decode <"$dir/ids" >"$dir/answer" 2>>"$dir/log" ||
        bad "fine-tuning: it says nothing" "$dir/log"
    asked="<|begin_of_text|>${asked%.}"
    check "fine-tuning: it answers the question" [ "$(head -c ${#asked} "$dir/answer" | tr '\n' /)" = \
        "${asked//$'\n'//}" ]
    check "fine-tuning: in eight tokens" [ "$(wc -w <"$dir/ids")" = \
        $(($("$FSDPGEN" tokenize --tokenizer "$base" --prompt "${asked#*>}" | wc -w) + 8)) ]
    # It began with the base's weights: without them the first step's loss is another.
    tuned=$(first_loss "$dir/tuned.jsonl")
    train "$dir/tuned" "$dir/chat.bin" 1
    check "fine-tuning: it goes on from the base" awk -v a="$tuned" \
        -v b="$(first_loss "$dir/tuned.jsonl")" 'BEGIN { exit !(a > 0 && a < b - 0.2) }'
}
