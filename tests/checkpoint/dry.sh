# SPDX-License-Identifier: Apache-2.0
# Sourced by onward.sh: --dry-run. Everything is as a run would find it, all problems come at once, and
# nothing is written.

# dry NAME CODE PATTERN TRAINER [FLAGS...]
dry() {
    local name=$1 code=$2 pattern=$3 trainer=$4
    shift 4
    reads "dry run: $name" "$code" "$pattern" "$trainer" --dry-run --data "$data" --threads 1 --steps 6 "$@"
}
row() { grep -qE "^  $1 +$2 +$3" "$WORK/reads.out"; } # WHAT LEVEL PATTERN

dry_runs() {
    local ck=$WORK/dry.ck held=$WORK/onward.held rank pids=() codes=
    rm -rf "$ck" "$WORK"/dry.{jsonl,stats}
    dry 'a run that can start' 0 'the run can start' llama1 --checkpoint "$ck" --checkpoint-every 2 --keep 2 \
        --eval "$held" --log "$WORK/dry.jsonl" --stats "$WORK/dry.stats"
    check 'dry run: its data' row data ok '1 file, [0-9]+ tokens: [0-9]+ sequences of 19'
    check 'dry run: its schedule' row schedule ok '6 steps of 16 sequences read 0\.[0-9]+ epochs'
    check 'dry run: its disk' row disk ok 'a checkpoint takes [0-9.]+ [KMG]iB, 3 more at a time'
    check 'dry run: its launch' row launch '(ok|note)' '2 ranks met, with equal builds, flags and data'
    check 'dry run: files to write' row output ok '2 files may be written'
    check 'dry run: nothing is written' test ! -e "$ck" -a ! -e "$WORK/dry.jsonl" -a ! -e "$WORK/dry.stats"
    check 'dry run: no step' test -z "$(grep '^step' "$WORK/reads.out")"
    run llama1 2 --checkpoint "$ck" && run llama1 4 --checkpoint "$ck" --resume
    files_of "$ck" >"$WORK/dry.before"
    dry 'goes on from the newest' 0 'step 4 of 6, every hash agrees' llama1 --checkpoint "$ck" --resume --keep 2
    check 'dry run: room for one more' row disk ok '.* [KMG]iB, 1 more at a time'
    dry 'a finished run' 0 'nothing is to do: step 4 is done' llama1 --checkpoint "$ck" --resume --steps 4
    dry 'other mathematics' 1 'resume +PROBLEM .*is of other mathematics' split0 --checkpoint "$ck" --resume
    check 'dry run: what differs is named' grep -q 'checkpoint: *dtypes.param = "f32"' "$WORK/reads.err"
    head -c 3000 "$data" >"$WORK/dry.other"
    reads 'dry run: other data' 1 'PROBLEM .*the data differ' llama1 --dry-run --data "$WORK/dry.other" --threads 1 \
        --checkpoint "$ck" --resume --steps 60
    check 'dry run: data that repeat are told' row schedule note '.*: the data repeat'
    exec 8<"$ck" && flock -n 8
    dry 'a folder in use' 1 'another run writes its checkpoints there: process [0-9]+ of this machine' llama1 \
        --checkpoint "$ck" --resume
    exec 8<&-
    flock -no "$ck" sleep 2 &
    sleep 0.2
    dry 'a lock that is freed is waited for, as at a start' 0 'step 4 of 6, every hash agrees' llama1 \
        --checkpoint "$ck" --resume
    wait $!
    export IO_DIR=$ck IO_FLOCK=9 LD_PRELOAD=$io # the folder cannot be locked, but a file in it
    dry 'a folder that no run has locked' 0 'every hash agrees' llama1 --checkpoint "$ck" --resume
    check 'dry run: which stays without a lock' test ! -e "$ck/.lock"
    echo 'elsewhere 7' >"$ck/.lock"
    exec 8<"$ck/.lock" && LD_PRELOAD='' flock -n 8
    dry 'a lock on a file in it' 1 'another run writes its checkpoints there: process [0-9]+ of this machine' llama1 \
        --checkpoint "$ck" --resume
    exec 8<&-
    export -n IO_DIR IO_FLOCK LD_PRELOAD
    unset IO_DIR IO_FLOCK LD_PRELOAD
    rm "$ck/.lock"
    damage "$ck/step-00000004/model.safetensors" flip 20000
    dry 'a damaged one is skipped' 0 'step 4 is skipped: model.safetensors: not what was written' llama1 \
        --checkpoint "$ck" --resume
    check 'dry run: for the one before' row resume ok '.*: step 2 of 6, every hash agrees'
    dry '--init of a run' 0 'initial weights +ok .*step-00000002, the newest intact one' llama1 --init "$ck"
    dry "--init of a step that is damaged" 1 'initial weights +PROBLEM .*step-00000004: model.safetensors: not what' \
        llama1 --init "$ck/step-00000004"
    dry "--init of a step" 0 'initial weights +ok .*step-00000002, intact' llama1 --init "$ck/step-00000002"
    damage "$ck/step-00000004/model.safetensors" flip 20000
    files_of "$ck" >"$WORK/dry.after"
    check 'dry run: the folder stays as it is' cmp "$WORK/dry.before" "$WORK/dry.after"
}

# dry_problems: all at once
dry_problems() {
    local ck=$WORK/dry.ck rank pids=() codes=
    reads 'dry run: all problems at once' 1 '^6 problems$' llama1 --dry-run --data nowhere --eval nothing --steps 6 \
        --threads 1 --checkpoint "$ck" --log "$WORK/none/log" --stats "$ck" --init "$WORK/none"
    for rank in 'data' 'held-out data' 'resume' 'initial weights'; do
        check "dry run: $rank among them" row "$rank" PROBLEM .
    done
    check 'dry run: both files among them' test "$(grep -c '^  output  *PROBLEM' "$WORK/reads.out")" = 2
    check 'dry run: the launch is tried all the same' row launch '(ok|note)' '2 ranks met'
    export IO_DIR=$WORK LD_PRELOAD=$io
    IO_MEMORY=100000 dry 'memory' 1 'memory +PROBLEM .* take .* [KM]iB, but [0-9.]+ KiB are free' llama1
    check 'dry run: without memory no rank starts' row launch note 'not tried'
    IO_DISK=100000 dry 'the disk' 1 'disk +PROBLEM .*; [0-9.]+ KiB are free' llama1 --checkpoint "$WORK/dry.new"
    IO_DISK=100000 dry 'the disk, with old ones removed' 1 'disk +PROBLEM .*free some, or lower --keep' \
        llama1 --checkpoint "$WORK/dry.new" --checkpoint-every 1 --keep 2
    export -n IO_DIR LD_PRELOAD
    unset IO_DIR LD_PRELOAD
    dry 'no checkpoint, but one is needed' 1 'resume=must, but there is no such folder' llama1 --checkpoint "$WORK/none" \
        --resume=must
    dry 'a checkpoint itself' 1 'it is a checkpoint itself' llama1 --checkpoint "$ck/step-00000002"
    # a launcher's: the first rank's process prints the table
    for rank in 1 0; do
        env RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=29531 \
            TORCHELASTIC_RUN_ID="dry-$$" timeout 60 "$WORK/llama1/trainer" --dry-run --data "$data" --threads 1 \
            --steps $((6 + rank)) >"$WORK/dry.out.$rank" 2>"$WORK/dry.err.$rank" &
        pids[rank]=$!
    done
    for rank in 0 1; do
        wait "${pids[rank]}"
        codes="$codes $?"
    done
    check "dry run: under torchrun ranks that disagree are found ($codes)" grep -q 'launch  *PROBLEM' "$WORK/dry.out.0"
    check 'dry run: and told by the rank' grep -q 'steps is not what rank 0 was given' "$WORK/dry.err.1"
    check 'dry run: one table' test ! -s "$WORK/dry.out.1"
}
part dry_runs:evaluated dry_runs
part dry_problems:dry_runs dry_problems
