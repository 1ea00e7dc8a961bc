# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after accept.sh. Going on: a run's folder as initial weights, `trainer eval`, ids
# that end a sample, the best step and patience, --dry-run, and a lineage that a script replays.

# reads NAME CODE PATTERN TRAINER ARGUMENTS...: a command of a trainer; its lines are in $WORK/reads.out
# and .err
reads() {
    local name=$1 code=$2 pattern=$3 trainer=$4 got
    shift 4
    timeout 60 "$WORK/$trainer/trainer" "$@" >"$WORK/reads.out" 2>"$WORK/reads.err"
    got=$?
    if [ $got = "$code" ] && cat "$WORK/reads.out" "$WORK/reads.err" | grep -qE -e "$pattern"; then
        ok "$name"
    else
        cat "$WORK/reads.out" "$WORK/reads.err" >"$WORK/reads.all"
        bad "$name: code $got, not $code, or no line like '$pattern'" "$WORK/reads.all"
    fi
}
json_of() { grep -o "\"$1\": \"*[^,\"}]*" "$WORK/reads.out" | head -n 1 | sed 's/.*: "*//'; }
eval_of() { sed -n "s/^{\"step\": $2,.*\"eval_loss_hex\": \"\([^\"]*\)\".*/\1/p" "$WORK/$1.jsonl"; }

# ---- which weights a folder means, and how good they are ----------------------------------------------

evaluated() {
    local ck=$WORK/onward.ck held=$WORK/onward.held name want
    head -c 900 "$data" >"$held"
    rm -rf "$ck"
    run llama1 4 --checkpoint "$ck" --checkpoint-every 2 --eval "$held" --eval-every 2 ||
        { bad 'eval: a run that evaluates' "$WORK/llama1.err"; return; }
    for name in llama0 llama1 llama2 llama3; do # one, two and four ranks, and a hybrid mesh
        reads "eval: $name" 0 '"tokens": [1-9]' $name eval --checkpoint "$ck" --data "$held" --threads 1 --json
        check "eval: $name: the bits of --eval in training" test "$(json_of loss_hex)" = "$(eval_of llama1 4)"
    done
    check 'eval: the object says of which step' test "$(json_of step)" = 4
    check 'eval: stdout is the object alone' test "$(wc -l <"$WORK/reads.out")" = 1
    reads 'eval: says which step was taken' 0 "checkpoint: $ck/step-00000004, the newest intact one of $ck" \
        llama0 eval --checkpoint "$ck" --data "$held" --threads 1
    check 'eval: and prints loss, perplexity, tokens' grep -qE \
        "^$ck/step-00000004: loss [0-9.]+ \(0x1.*\), perplexity [0-9.]+, 874 tokens of 46 sequences$" "$WORK/reads.out"
    reads "eval: a step's folder" 0 '"step": 2' llama2 eval --checkpoint "$ck/step-00000002" \
        --data "$held" --threads 1 --json
    check "eval: a step's folder: its bits" test "$(json_of loss_hex)" = "$(eval_of llama1 2)"
    reads 'eval: --init takes both' 0 '"step": 2' llama0 eval --init "$ck/step-00000002" --data "$held" \
        --threads 1 --json
    check 'eval: with the same bits' test "$(json_of loss_hex)" = "$(eval_of llama1 2)"
    reads 'eval: of some sequences' 0 'of 4 sequences' llama0 eval --checkpoint "$ck" --data "$held" \
        --eval-sequences 5 --threads 1
    check 'eval: what fills no micro-batch is told' grep -q '1 more do not fill a micro-batch' "$WORK/reads.err"
    # training begins with a run's newest step
    want=$(hash_of llama0 "$ck/step-00000004")
    check "--init takes a run's folder" test -n "$want" -a "$(hash_of llama2 "$ck")" = "$want"
    says "--init says which step it took" 0 "[-]-init: $ck/step-00000004, the newest intact one" llama1 0 --init "$ck"
    damage "$ck/step-00000004/model.safetensors" flip 20000
    reads 'eval: a damaged step is skipped' 0 'step-00000004 is skipped' llama1 eval --checkpoint "$ck" \
        --data "$held" --threads 1
    check 'eval: for the one before' grep -q "^$ck/step-00000002: loss" "$WORK/reads.out"
    check '--init passes it over, too' test "$(hash_of llama2 "$ck")" = "$(hash_of llama0 "$ck/step-00000002")"
    reads "eval: a step's folder that is damaged" 1 'it is not intact; .trainer verify. says' llama0 eval \
        --checkpoint "$ck/step-00000004" --data "$held"
    reads "--init: a step's folder that is damaged" 1 \
        'init .*: it is not intact; .trainer verify. says .* copy it without MANIFEST' llama2 eval \
        --init "$ck/step-00000004" --data "$held"
    says '--init: nor does a run begin with it' 1 'init .*: it is not intact' llama1 1 --init "$ck/step-00000004"
    rm -rf "$WORK/onward.hf" && cp -r "$ck/step-00000004" "$WORK/onward.hf" && rm "$WORK/onward.hf/MANIFEST"
    reads '--init: a copy without MANIFEST is a model' 0 'onward.hf: loss' llama0 eval --init "$WORK/onward.hf" \
        --data "$held"
}
part evaluated:families,accepted evaluated

evaluated_wrong() {
    local ck=$WORK/onward.ck held=$WORK/onward.held
    rm -rf "$WORK/empty" && mkdir "$WORK/empty"
    reads 'eval: no checkpoint' 1 'empty: there is no checkpoint' llama1 eval --checkpoint "$WORK/empty" --data "$held"
    reads 'eval: no such folder' 1 'nowhere' llama1 eval --checkpoint "$WORK/nowhere" --data "$held"
    reads '--init: neither a model nor a run' 1 'neither model.safetensors nor .*, nor checkpoints' llama1 eval \
        --init "$WORK/empty" --data "$held"
    reads 'eval: another model' 1 'checkpoint: .*: tensor .* is missing' half0 eval --checkpoint "$ck" --data "$held"
    reads 'eval: more layers' 1 'checkpoint: .*: tensor .*layers.3.* is missing' deep eval --checkpoint "$ck" \
        --data "$held"
    reads 'eval: no data' 2 'eval: --data FILE is needed' llama1 eval --checkpoint "$ck"
    reads 'eval: data that are not there' 1 'error: --data nowhere: no such file' llama1 eval --checkpoint "$ck" \
        --data nowhere
    reads 'eval: data with weights' 1 'every sequence counts once' llama1 eval --checkpoint "$ck" --data "$held=2"
    reads 'eval: no weights' 2 'eval: give --checkpoint DIR or --init DIR' llama1 eval --data "$held"
    reads 'eval: weights twice' 2 'eval: give --checkpoint DIR or --init DIR' llama1 eval --data "$held" \
        --checkpoint "$ck" --init "$ck"
    reads 'eval: too few sequences' 1 'eval-sequences 1: a micro-batch takes 2' llama1 eval --checkpoint "$ck" \
        --data "$held" --eval-sequences 1
    reads 'eval: a flag of training' 2 '--steps is for training, not for .trainer eval' llama1 eval --steps 3
    reads "eval's help is of eval" 0 'loss of held-out data' llama1 eval --help
    reads '--best without evaluations' 1 '--best: .*: no evaluation is recorded' llama1 eval --data "$held" \
        --checkpoint "$WORK/llama0.ck" --best
    reads '--best of one step' 1 "--best: .* is one step's folder" llama1 eval --data "$held" --best \
        --checkpoint "$ck/step-00000002"
    reads '--best with --init' 2 'best needs --checkpoint DIR' llama1 eval --data "$held" --best --init "$ck"
}
part evaluated_wrong:evaluated evaluated_wrong

# ---- ids that end a sample ----------------------------------------------------------------------------

stopped() {
    local ck=$WORK/onward.ck/step-00000002 hf=$WORK/onward.hf ids stop
    rm -rf "$hf" && mkdir "$hf" && cp "$ck"/{model.safetensors,config.json} "$hf/"
    # stops NAME [FLAGS...]: the ids that it prints
    stops() {
        reads "stop: $1" 0 . llama1 sample --prompt "7 8 9" --tokens 12 --seed 3 --threads 1 --init "$hf" "${@:2}"
    }
    stops 'none, where the config names none'
    ids=$(cat "$WORK/reads.out")
    check 'stop: 15 ids' test "$(wc -w <<<"$ids")" = 15
    stop=$(cut -d ' ' -f 8 <<<"$ids")
    ids=$(for id in $ids; do [ "$id" = "$stop" ] && break; printf '%s ' "$id"; done)
    ids=${ids% }
    stops '--stop' --stop "258,$stop"
    check 'stop: the id is not printed, nor what would follow' test "$(cat "$WORK/reads.out")" = "$ids"
    check 'stop: it is told' grep -q "stopped by id $stop, after" "$WORK/reads.err"
    sed -i "s/\"eos_token_id\": [^,}]*/\"eos_token_id\": $stop/" "$hf/config.json"
    check 'stop: a config that names one' grep -q "\"eos_token_id\": $stop" "$hf/config.json"
    stops "config.json's"
    check "stop: config.json's ends it" test "$(cat "$WORK/reads.out")" = "$ids"
    stops 'none' --stop none
    check 'stop: --stop none ends nothing' test "$(wc -w <"$WORK/reads.out")" = 15
    stops 'another one' --stop 258
    check "stop: --stop takes the place of the config's" test "$(wc -w <"$WORK/reads.out")" = 15
    printf '{"eos_token_id": [257, 258]}' >"$hf/generation_config.json"
    stops "generation_config.json's"
    check 'stop: a list in generation_config.json counts before config.json' test "$(wc -w <"$WORK/reads.out")" = 15
    printf '{"eos_token_id": [%s, 258, 99999]}' "$stop" >"$hf/generation_config.json"
    stops 'a list' && check 'stop: a list ends it' test "$(cat "$WORK/reads.out")" = "$ids"
    check "stop: an id that the model has not" grep -q "eos_token_id 99999 is not one of the model's 259" "$WORK/reads.err"
    printf '{"eos_token_id": "two"}' >"$hf/generation_config.json"
    stops 'no id' && check 'stop: what is not an id is reported' grep -q 'eos_token_id is ignored' "$WORK/reads.err"
    reads '--stop: no list' 1 "stop: .2;3. is not a list of ids" llama1 sample --prompt 1 --init "$hf" --stop '2;3'
    reads '--stop: no such id' 1 "stop: token 259 is not one of the model's 259" llama1 sample --prompt 1 --init "$hf" \
        --stop 259
    reads '--stop is for sample' 2 'stop is for .trainer sample' llama1 --data "$data" --stop 2
}
part stopped:evaluated stopped

# ---- the best step ------------------------------------------------------------------------------------

# bests NAME STEPS [FLAGS...]: NAME trains in $bck on a few sentences, which soon helps other ones no more
bests() {
    run "$1" "$2" --checkpoint "$bck" --eval "$WORK/best.held" --eval-every 1 "${@:3}"
}
best_state_of() { sed -n "s/^ *\"$1\": *\"*\([^\",]*\)\"*,*$/\1/p" "$bck/step-$(printf %08d "$2")/train_state.json"; }

best() {
    local last at kept low
    rm -rf "$bck"
    bests fast1 40 --patience 3 --keep 2 --keep-best --checkpoint-every 1 || { bad 'best: the run ends' "$WORK/fast1.err"; return; }
    check 'patience: says why it ends' grep -qE -e \
        '--patience 3: no loss .* was below the [0-9.]+ of step [0-9]+ in 3 evaluations: the run ends with step' "$WORK/fast1.err"
    last=$(sed -n 's/^{"step": \([0-9]*\),.*/\1/p' "$WORK/fast1.jsonl" | tail -n 1)
    low=$(sed -n 's/^{"step": \([0-9]*\),.*"eval_loss": \([^,]*\).*/\2 \1/p' "$WORK/fast1.jsonl" | sort -g | head -n 1)
    at=${low#* }
    check "patience: 3 steps after the best, $at" test "$last" = $((at + 3)) -a "$last" -lt 40
    kept=$(ls "$bck" | tr '\n' ' ')
    check "best: kept beside the newest two: $kept" test "$kept" = \
        "$(printf 'step-%08d step-%08d step-%08d ' "$at" $((last - 1)) "$last")"
    cp "$WORK/fast1.result" "$WORK/best.whole"
    reads 'best: ls marks it' 0 "^step-$(printf %08d "$at") .*whole, the best: loss" fast1 ls "$bck"
    check 'best: and it alone' test "$(grep -c 'the best' "$WORK/reads.out")" = 1
    reads 'best: ls --json' 0 "step-$(printf %08d "$at").*\"best\": true, \"eval_loss\": ${low% *}" fast1 ls "$bck" --json
    reads 'best: eval --best' 0 "\"step\": $at," fast2 eval --checkpoint "$bck" --best --data "$WORK/best.held" \
        --threads 1 --json
    check 'best: its loss' test "$(json_of loss_hex)" = "$(eval_of fast1 "$at")"
    reads 'best: sample --best' 0 "checkpoint: $bck/step-$(printf %08d "$at"), the best one of" fast1 sample --prompt 5 \
        --tokens 1 --checkpoint "$bck" --best
    bests fast2 40 --patience 3 --keep 2 --keep-best --resume || bad 'patience: resumed' "$WORK/fast2.err"
    check 'patience: a run that has ended stays so' grep -q 'the run has ended; a larger --patience' "$WORK/fast2.err"
    check 'patience: and has its weights' test "$(grep ^weights "$WORK/fast2.out")" = "$(grep ^weights "$WORK/best.whole")"
    # goes on where more patience is asked for, or where it is not
    bests fast2 $((last + 1)) --patience 30 --resume --keep 2 --keep-best
    check 'patience: a larger one goes on' test "$(best_state_of best_waited $((last + 1)))" = 4
    check 'best: still the same' test "$(best_state_of best_step $((last + 1)))" = "$at"
    # other held-out data: nothing to compare with
    run fast1 $((last + 2)) --checkpoint "$bck" --resume --eval "$ROOT/LICENSE" --eval-sequences 4 --eval-every 1
    check 'best: other data are not compared' grep -q 'the held-out data are others than when step' "$WORK/fast1.err"
    check 'best: it begins anew' test "$(best_state_of best_step $((last + 2)))" = $((last + 2))
    rm -rf "$bck/step-$(printf %08d $((last + 2)))" "$bck/step-$(printf %08d "$at")"
    reads 'best: one that is gone' 1 "step $at has the lowest loss, but .* is not there" fast1 eval --checkpoint "$bck" \
        --best --data "$WORK/best.held"
}

# The best step's save fails, and the run goes on: the best one of those on disk is kept.
best_lost() {
    local at=${best_state#*best_step\": } flags=(--patience 3 --keep 2 --keep-best --checkpoint-every 1 --wait-for-saves)
    at=${at%%,*}
    rm -rf "$bck"
    IO_COUNT=$WORK/count IO_DIR=$bck LD_PRELOAD=$io bests fast1 $((at - 1)) "${flags[@]}"
    rm -rf "$bck"
    IO_DIR=$bck IO_AT=$(($(cat "$WORK/count") + 20)) IO_ACT=error LD_PRELOAD=$io bests fast1 40 "${flags[@]}" --keep-going
    check "best: step $at is not saved" grep -q "no checkpoint of step $at: .*training goes on" "$WORK/fast1.err"
    check 'best: and no longer the best' grep -q "note: step $at had the lowest loss and was not saved" "$WORK/fast1.err"
    reads 'best: the best on disk is kept' 0 'the best one of' fast1 sample --prompt 5 --tokens 1 --checkpoint "$bck" --best
}

# A resume adds --keep-best, and the best step so far was never saved: the search restarts.
best_later() {
    local at=${best_state#*best_step\": }
    at=${at%%,*}
    rm -rf "$bck"
    bests fast1 $((at + 1))
    bests fast2 $((at + 3)) --resume --keep-best || bad 'best: --keep-best comes later' "$WORK/fast2.err"
    check "best: kept only later, without step $at" grep -q "note: step $at had the lowest loss and was not saved" \
        "$WORK/fast2.err"
    reads 'best: the best since then is kept' 0 'the best one of' fast1 sample --prompt 5 --tokens 1 \
        --checkpoint "$bck" --best
}

# Killed at random calls and gone on with on other ranks, it ends with the same step, state and bits.
best_kills() {
    local i code n from calls
    rm -rf "$bck" "$WORK/best.jsonl"
    for ((i = 0; i < 60; i++)); do
        random 600
        calls=$((60 + random_value))
        n=$((1 + i % 2))
        IO_DIR=$bck IO_AT=$calls IO_ACT=kill LD_PRELOAD=$io bests fast$n 40 --patience 3 --keep 2 --keep-best --resume \
            --checkpoint-every 1
        code=$?
        [ $code != 0 ] || break
    done
    check "best: after $i kills it ends" test $code = 0 -a $i -gt 0
    check 'best: with the bits of a run that was never killed' test "$(grep ^weights "$WORK/fast$n.out")" = \
        "$(grep ^weights "$WORK/best.whole")"
    from=$(ls "$bck" | grep '^step' | tail -n 1)
    check 'best: the state, too' test "$(sed -n '/best_/p' "$bck/$from/train_state.json")" = "$best_state"
}

bested() {
    make_trainer fast1 "$llama" optimizer.lr=0.01 lr.warmup=0 &&
        make_trainer fast2 "$llama" optimizer.lr=0.01 lr.warmup=0 mesh.shard=2 || return
    local data=$WORK/best.data
    bck=$WORK/best.ck
    head -c 700 "$ROOT/LICENSE" >"$data"
    tail -c 900 "$ROOT/LICENSE" >"$WORK/best.held"
    best || return
    best_state=
    rm -rf "$bck"
    bests fast1 40 --patience 3 --keep 2 --keep-best # saves the best steps and the last
    best_state=$(sed -n '/best_/p' "$bck/$(ls "$bck" | grep '^step' | tail -n 1)/train_state.json")
    check 'best: every new best is saved' test -n "$best_state" -a -d \
        "$bck/step-$(printf %08d "$(sed -n 's/.*best_step": \([0-9]*\).*/\1/p' <<<"$best_state")")"
    best_kills
    best_lost
    best_later
    says '--keep-best needs --eval' 2 'keep-best needs --eval FILE' fast1 3 --checkpoint "$bck" --keep-best
    says '--keep-best needs a folder' 2 'keep-best needs --checkpoint DIR' fast1 3 --keep-best --eval "$data"
    says '--patience needs evaluations' 2 'patience needs --eval FILE and --eval-every' fast1 3 --patience 2 --eval "$data"
}
part bested:families bested

# ---- a lineage, replayed ------------------------------------------------------------------------------

replayed() {
    local step=$WORK/replay.run/step-00000006
    ack=$WORK/replay.run
    rm -rf "$ack" "$WORK/replayed"
    run llama1 2 --checkpoint "$ack" && extends slow 4 && extends wide 6 || return
    # replay NAME CODE PATTERN TRAINERS...
    replay() {
        local name=$1 code=$2 pattern=$3 got
        shift 3
        rm -rf "$WORK/replayed"
        timeout 120 "$ROOT/tests/checkpoint/replay.sh" "$step" "$WORK/replayed" "${@/%//trainer}" -- --data "$data" \
            --threads 1 >"$WORK/replay.log" 2>&1
        got=$?
        check "replay: $name ($got)" test $got = "$code" -a -n "$(grep "$pattern" "$WORK/replay.log")"
    }
    replay 'extended by schedule, then by batch, from step 0 on other ranks: equal bits' 0 \
        'step 6 has equal bits' "$WORK/llama2" "$WORK/slow" "$WORK/wide2"
    check 'replay: the hash of its weights' test "$(grep ^weights "$WORK/replay.log")" = "$(grep ^weights "$WORK/wide.out")"
    replay 'a trainer is missing' 1 'no trainer of the numerics hash' "$WORK/llama2" "$WORK/wide2"
    sed -i 's/\(file optimizer\/moment1.safetensors [0-9]* \)./\1g/' "$step/MANIFEST"
    replay 'other bits are found' 1 'files of tensors differ' "$WORK/llama0" "$WORK/slow" "$WORK/wide2"
}
part replayed:accepted replayed
. "$(dirname "${BASH_SOURCE[0]}")/dry.sh"
