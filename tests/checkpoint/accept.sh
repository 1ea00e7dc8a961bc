# SPDX-License-Identifier: Apache-2.0
# accept.sh, read by run.sh: --accept-numerics. A run goes on with another schedule, batch, sequence
# length, optimizer or dtype: step and weights stay, the rest as far as it means the same; a run that
# was extended twice, replayed on other ranks, ends with equal bits.

# member_of KEY STEP: what train_state.json of $ack says
member_of() { sed -n "s/^ *\"$1\": *\(.*[^,]\),*$/\1/p" "$ack/step-$(printf %08d "$2")/train_state.json"; }

# extends NAME STEPS [FLAGS...]: NAME goes on in $ack
extends() {
    local name=$1
    run "$name" "$2" --checkpoint "$ack" --resume --accept-numerics "${@:3}" ||
        { bad "accept: $name goes on" "$WORK/$name.err"; return 1; }
}
notes() { grep -c "note: --accept-numerics: $1" "$WORK/$2.err"; }
loss_of() { grep -A1 "^\"step\": *$2\$" "$WORK/$1.result" | grep loss_hex; }

accept_trainers() {
    make_trainer slow "$llama" optimizer.lr=0.001 lr.steps=40 &&
        make_trainer wide "$llama" global_batch=32 optimizer.lr=0.001 lr.steps=40 &&
        make_trainer wide2 "$llama" global_batch=32 optimizer.lr=0.001 lr.steps=40 mesh.shard=2 &&
        make_trainer short "$llama" seq=16 && make_trainer lion "$llama" 'optimizer=lion{lr=1e-4}' &&
        make_trainer betas "$llama" 'optimizer.betas={0.8,0.9}' && make_trainer deep "$llama" model.layers=4 &&
        make_trainer smooth "$llama" loss.label_smoothing=0.1
}

# Sources with other shares: samples come in another order.
accept_mixture() {
    local data=$WORK/mix.a=0.7
    cp "$ROOT/LICENSE" "$WORK/mix.a" && cp "$ROOT/LICENSE" "$WORK/mix.b"
    rm -rf "$ack" "$ack.mixed"
    run llama1 2 --checkpoint "$ack" --data "$WORK/mix.b=0.3" && cp -r "$ack" "$ack.mixed"
    extends slow 3 --data "$WORK/mix.b=0.3" && check 'accept: the order of a mixture stays' \
        test "$(notes 'the data order restarts' slow)" = 0
    rm -rf "$ack" && mv "$ack.mixed" "$ack"
    data=$WORK/mix.a=0.6
    extends slow 3 --data "$WORK/mix.b=0.4" && check 'accept: of another mixture it begins anew' \
        test "$(notes 'the data order restarts' slow)" = 1
}

accepted() {
    local ck=$WORK/accept.first
    ack=$WORK/accept.ck
    accept_trainers || return
    rm -rf "$ck"
    run llama1 2 --checkpoint "$ck"

    rm -rf "$ack" && cp -r "$ck" "$ack"
    says 'accept: without asking it is refused' 1 'with its weights and step: --accept-numerics' \
        slow 4 --checkpoint "$ack" --resume
    check 'accept: what differs is named' grep -q 'this trainer: *optimizer.lr = 0.001' "$WORK/slow.err"
    check 'accept: and nothing else' test "$(grep -c 'checkpoint: ' "$WORK/slow.err")" = \
        "$(grep -c 'this trainer: ' "$WORK/slow.err")"
    says 'accept: --accept-numerics alone' 2 'accept-numerics needs --resume' slow 4 --accept-numerics

    # another learning rate: everything but the mathematics stays
    extends slow 4 --keep 9 --checkpoint-every 1 || return
    check 'accept: nothing begins anew' test "$(notes '.*begin' slow)" = 0
    check 'accept: the order of data stays' test "$(member_of order_step 4)" = 0
    check 'accept: the lineage has both hashes' test "$(member_of lineage 4 | grep -o 'from_step": [0-9]*' |
        tr -dc '0-9\n' | tr '\n' ' ')" = '0 2 '
    # extended once more, by batch: data begin anew
    extends wide 6 --keep 9 --checkpoint-every 1 || return
    check 'accept: another batch begins the data anew' test "$(notes 'the data order restarts' wide)" = 1
    check 'accept: and says since when' test "$(member_of order_step 6) $(member_of order_samples 6)" = \
        "4 $(member_of samples 4)"
    check 'accept: samples are those of both batches' test "$(member_of samples 6)" = \
        $(($(member_of samples 4) + 2 * 32))
    check 'accept: three hashes' test "$(member_of lineage 6 | grep -o '"hash"' | wc -l)" = 3
    cp "$WORK/wide.result" "$WORK/wide.first"
    # the same weights at the beginning of a run see the same samples: the first loss has its bits
    run wide 1 --init "$ack/step-00000004" && loss_of wide 1 >"$WORK/loss.init"
    cp "$WORK/wide.first" "$WORK/wide.result"
    loss_of wide 5 >"$WORK/loss.extended"
    check 'accept: sample 0 comes first' cmp "$WORK/loss.init" "$WORK/loss.extended"

    # replayed, with a stop and other ranks on the way
    rm -rf "$ack" && cp -r "$ck" "$ack"
    extends slow 4 && extends wide2 5
    run wide2 6 --checkpoint "$ack" --resume || bad 'accept: resumed without asking again' "$WORK/wide2.err"
    tail -n 1 "$WORK/wide2.result" >"$WORK/weights.replayed"
    tail -n 1 "$WORK/wide.first" >"$WORK/weights.first"
    check 'accept: a run that was extended twice, replayed, has its bits' \
        cmp "$WORK/weights.replayed" "$WORK/weights.first"
    check 'accept: ls counts its tokens' bash -c "'$WORK/wide/trainer' ls '$ack' | grep step-00000006 | grep -qw \
        '$(member_of tokens 6)'"

    rm -rf "$ack" && cp -r "$ck" "$ack"
    extends short 3 && check 'accept: another length begins the data anew' \
        test "$(notes 'the data order restarts' short) $(notes 'moments' short)" = '1 0'
    for at in first again; do # the order began after step 2; a step reads 16 of the data's sequences
        "$WORK/short/trainer" --data "$data" --threads 1 --epochs 0.05 --checkpoint "$ack" --resume \
            $([ $at = again ] || echo --accept-numerics) >"$WORK/short.out" 2>&1
        check "accept: --epochs counts from where the order began, $at" grep -q "^data: $(awk "BEGIN {
            n = $(sed -n 's/^data: \([0-9,]*\) sample.*/\1/p' "$WORK/short.out" | tr -d ,)
            printf \".*; %d steps of 16\", 2 + int(0.05 * n / 16)}")" "$WORK/short.out"
    done
    rm -rf "$ack" && cp -r "$ck" "$ack"
    extends lion 3 && check 'accept: another optimizer begins its moments at zero' \
        test "$(notes 'the data' lion) $(notes 'moments begin at zero' lion)" = '0 1'
    check 'accept: and its powers' test "$(member_of beta1_power 3)" != "$(member_of beta1_power 2)"
    rm -rf "$ack" && cp -r "$ck" "$ack"
    extends betas 3 && check 'accept: with other betas, powers are the product of all' \
        test "$(member_of beta1_power 3)" = '"0x1.4bc6a7ef9db24p-1"' # 0.9 * 0.9 * 0.8
    rm -rf "$ack" && cp -r "$ck" "$ack"
    extends split0 3 && check 'accept: another dtype takes the weights as --init does' \
        test "$(notes 'masters are made of the weights' split0)" = 1
    rm -rf "$ack" && cp -r "$ck" "$ack"
    says 'accept: another model is refused' 1 'layers.3' deep 3 --checkpoint "$ack" --resume --accept-numerics
    # what a damaged one left of its moments is gone
    rm -rf "$ack" && cp -r "$ck" "$ack"
    extends lion 4 && damage "$ack/step-00000004/optimizer/moment1.safetensors" flip 9000
    extends lion 6 && tail -n 1 "$WORK/lion.result" >"$WORK/weights.skipped"
    rm -rf "$ack" && cp -r "$ck" "$ack"
    extends lion 6 && tail -n 1 "$WORK/lion.result" >"$WORK/weights.whole"
    check 'accept: moments that begin at zero are zero after a damaged checkpoint' \
        cmp "$WORK/weights.skipped" "$WORK/weights.whole"
    accept_mixture
    # another loss is not compared with the best one
    rm -rf "$ack" && run llama1 2 --checkpoint "$ack" --eval "$data" --eval-every 1
    extends smooth 3 --eval "$data" --eval-every 1 && check 'accept: another loss begins the search for the best' \
        test "$(notes 'the loss is another' smooth) $(member_of best_step 3)" = '1 3'
    # damaged: the one before is taken
    rm -rf "$ack" && cp -r "$ck" "$ack"
    run llama1 4 --checkpoint "$ack" --resume
    damage "$ack/step-00000004/model.safetensors" flip 20000
    extends slow 5 && check 'accept: a damaged one is skipped' grep -q 'step 2 of 5' "$WORK/slow.out"
}
part accepted:families accepted
