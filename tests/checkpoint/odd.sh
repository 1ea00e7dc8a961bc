# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after faults.sh: folders and filesystems as they are found: a model's other
# files, errors that are no damage, damage among old checkpoints, filesystems that lack a call.

# ---- files of the model that training does not need ------------------------------------------------

carried_files() {
    local ck=$WORK/carried.ck hf=$WORK/carried.hf f n=0
    rm -rf "$ck" "$hf"
    cp -r "$WORK/llama0.ck/step-00000002" "$hf"
    rm -rf "$hf/optimizer" "$hf"/train_state.json "$hf"/MANIFEST "$hf/numerics.txt"
    head -c 3000000 /dev/urandom >"$hf/tokenizer.json"
    printf '{"eos_token": "</s>"}' >"$hf/tokenizer_config.json"
    printf '{"eos_token_id": 2}' >"$hf/generation_config.json"
    : >"$hf/special_tokens_map.json" # empty is a file, too
    printf 'x' >"$hf/README.md"
    cp -r "$hf" "$WORK/carried.source"
    check '--init with a tokenizer' run llama1 1 --checkpoint "$ck" --init "$hf"
    rm -rf "$hf" # from here on only the checkpoint has them
    check 'goes on without its source' run llama2 3 --checkpoint "$ck" --resume \
        --checkpoint-every 1 --keep 1
    for f in tokenizer.json tokenizer_config.json generation_config.json special_tokens_map.json; do
        check "$f is carried along" cmp "$WORK/carried.source/$f" "$ck/step-00000003/$f"
        check "and is in MANIFEST" grep -q "^file $f " "$ck/step-00000003/MANIFEST"
        n=$((n + 1))
    done
    check 'nothing else is' test ! -e "$ck/step-00000003/README.md"
    rm -rf "$WORK/carried1.ck"
    run llama0 1 --checkpoint "$WORK/carried1.ck" --init "$WORK/carried.source"
    run llama3 3 --checkpoint "$WORK/carried1.ck" --resume
    check 'the bytes know nothing of ranks' cmp "$ck/step-00000003/MANIFEST" \
        "$WORK/carried1.ck/step-00000003/MANIFEST"
    damage "$ck/step-00000003/tokenizer.json" flip 2000000
    says 'a damaged one is damage' 1 'skipped: tokenizer.json is not what was written' llama0 4 \
        --checkpoint "$ck" --resume
}

# ---- errors of the machine, not of a checkpoint -------------------------------------------------------

# Whatever call of a start fails for want of descriptors, memory or rights: the run ends with
# that word, and takes no older checkpoint for the newest.
errors_here() {
    local count at i n=0 sample=6 code errors=(12 13 24) # ENOMEM EACCES EMFILE
    fault_begin
    trainer_on fault2 2 || { bad 'two checkpoints' "$WORK/fault2.err"; return; }
    rm -rf "$WORK/two.ck" && cp -r "$fck" "$WORK/two.ck"
    IO_COUNT=$WORK/count IO_DIR=$fck LD_PRELOAD=$io trainer_on fault2 2
    count=$(cat "$WORK/count")
    [ "$FULL" = 1 ] && sample=$count
    for ((i = 0; i < sample; i++)); do
        random "$count"
        at=$random_value
        [ "$FULL" = 1 ] && at=$i
        rm -rf "$fck" && cp -r "$WORK/two.ck" "$fck"
        random 3
        IO_ERRNO=${errors[random_value]} IO_DIR=$fck IO_ACT=error IO_AT=$at LD_PRELOAD=$io \
            trainer_on fault2 2
        code=$?
        if grep -q 'is skipped' "$WORK/fault2.err"; then
            bad "call $at of a start fails: the newest checkpoint is skipped" "$WORK/fault2.err"
        elif [ $code = 0 ] && ! grep -q '^resumed from .*: step 2 of' "$WORK/fault2.out"; then
            bad "call $at of a start fails: it does not begin with the newest checkpoint" "$WORK/fault2.out"
        elif [ $code != 0 ] && ! grep -q '^\[rank .\] error: ' "$WORK/fault2.err"; then
            bad "call $at of a start fails: code $code, without a word" "$WORK/fault2.err"
        else
            n=$((n + 1))
        fi
    done
    ok "$n of $count calls of a start fail: no checkpoint is blamed"
}

# Old checkpoints that are damaged, where only their hashes tell, count for nothing.
damaged_old_ones() {
    fault_begin # step 1
    trainer_on fault2 3 --checkpoint-every 1
    damage "$fck/step-00000002/optimizer/moment1.safetensors" flip 9000
    trainer_on fault2 4 --keep 3
    check 'a damaged one is none of the newest three' test "$(ls "$fck" | tr '\n' ' ')" = \
        'step-00000001 step-00000002 step-00000003 step-00000004 '
    check 'and it is told' grep -q 'step-00000002 is damaged and does not count for --keep' \
        "$WORK/fault2.err"
    trainer_on fault2 9 --keep 4 --stop-after 0.1
    check 'a run that ends does not take time for old ones' test $? = 75
    check 'those that are complete count' test "$(ls "$fck" | tr '\n' ' ')" = \
        'step-00000002 step-00000003 step-00000004 step-00000005 '
    check 'unread' test "$(grep -c 'is damaged and does not count' "$WORK/fault2.err")" = 0
}

# A signal that interrupts a call is no failure of it, but of calls that make or remove names.
interrupted() {
    local count at i n=0 sample=6 code
    fault_begin
    IO_COUNT=$WORK/count IO_DIR=$fck LD_PRELOAD=$io trainer_on fault2 2
    count=$(cat "$WORK/count")
    [ "$FULL" = 1 ] && sample=$count
    for ((i = 0; i < sample; i++)); do
        random "$count"
        at=$random_value
        [ "$FULL" = 1 ] && at=$i
        fault_begin
        IO_ERRNO=4 IO_DIR=$fck IO_ACT=error IO_AT=$at LD_PRELOAD=$io trainer_on fault2 2
        code=$?
        if [ $code = 0 ] && [ "$(grep '^weights' "$WORK/fault2.out")" = "$fault_hash" ]; then
            n=$((n + 1))
        elif ! grep -qE '(mkdir|rename|remove) .*: Interrupted system call' "$WORK/fault2.err"; then
            bad "call $at is interrupted: code $code" "$WORK/fault2.err"
        fi
    done
    check "$n of $count calls are interrupted, and nothing happens" test $n -ge $((sample / 2))
}

# ---- who writes what ------------------------------------------------------------------------------------

# Small files are rank 0's: texts of other ranks, longer ones too, are not what is hashed.
texts_of_others() {
    local ck=$WORK/texts.ck
    rm -rf "$ck"
    broken_runtime half1 checkpoint/rt_state.c \
        's/t->name, t->generator,/t->name, rt->rank == 0 ? t->generator : "longer than its text is",/' &&
        run broken 1 --checkpoint "$ck" || { bad 'other texts: runs' "$WORK/broken.err"; return; }
    check 'a checkpoint of ranks with other texts is intact' run half1 2 --checkpoint "$ck" --resume
    check 'and taken' grep -q '^resumed from .*step-00000001' "$WORK/half1.out"
}

# What a stranger's checkpoint says of its numerics goes to a terminal.
escapes() {
    local ck=$WORK/escapes.ck
    rm -rf "$ck"
    broken_runtime llama1 checkpoint/rt_save.c \
        's/"numerics.txt", strdup(t->numerics)/"numerics.txt", strdup("dtypes.param = \\"f8\\"\\n\\033[31mred = 1\\n")/' &&
        run broken 1 --checkpoint "$ck" || { bad 'escapes: runs' "$WORK/broken.err"; return; }
    run split0 2 --checkpoint "$ck" --resume
    check 'lines of another numerics.txt are shown' grep -q 'checkpoint: *dtypes.param = "f8"' \
        "$WORK/split0.err"
    check 'but none that a terminal obeys' test -z "$(tr -d '[:print:]\n' <"$WORK/split0.err")"
}

# ---- a run that goes on otherwise --------------------------------------------------------------------------

# A pipe has no lines to go on from; it is written as in a run's first start.
pipes() {
    local ck=$WORK/pipes.ck pipe=$WORK/pipe step
    rm -rf "$ck" "$pipe"
    mkfifo "$pipe"
    for step in 1 2; do
        timeout 60 cat "$pipe" >"$WORK/pipe.jsonl" &
        timeout 60 "$WORK/llama1/trainer" --data "$data" --threads 1 --quiet --checkpoint "$ck" \
            --resume --steps $step --log "$pipe" >"$WORK/pipe.out" 2>"$WORK/pipe.err"
        check "--log to a pipe, step $step" test $? = 0
        wait $!
        check "and its line comes" grep -q "^{\"step\": $step," "$WORK/pipe.jsonl"
    done
}

# ---- folders that are none ---------------------------------------------------------------------------------

wrong_folders() {
    local ck=$WORK/wrong.ck name flag
    rm -rf "$ck"
    run llama1 2 --checkpoint "$ck"
    says 'a checkpoint is not a folder of them' 1 'step-00000002 is a checkpoint itself: name the folder' \
        llama1 4 --checkpoint "$ck/step-00000002" --resume
    check 'nothing was written there' test -z "$(find "$ck/step-00000002" -name 'step-*' -mindepth 1)"
    timeout 60 "$WORK/llama1/trainer" sample --prompt 5 --checkpoint "$ck/step-00000002" \
        >"$WORK/sample.out" 2>&1
    check 'but it is for sample' grep -q 'initial weights: .*/step-00000002, ' "$WORK/sample.out"
    timeout 60 "$WORK/llama1/trainer" sample --help >"$WORK/sample.out"
    check "sample's help is of sample" grep -q -- '--checkpoint DIR  *weights of the newest' \
        "$WORK/sample.out"
    for name in fault1 fault2; do # told before anything is computed
        for flag in --weights-hash --one-writer; do
            fault_begin
            IO_DIR=$fck IO_READONLY=1 LD_PRELOAD=$io trainer_on $name 2 $flag
            check "$name $flag: a read-only folder ends it" test $? = 1
            check "$name $flag: at the start" grep -q \
                'error: --checkpoint: no checkpoint could be written: open .*: Read-only' \
                "$WORK/$name.err"
        done
    done
    fault_begin
    IO_DIR=$fck IO_READONLY=1 LD_PRELOAD=$io trainer_on fault2 1
    check 'a run that is finished writes nothing' test $? = 0 -a -n \
        "$(grep '^weights ' "$WORK/fault2.out")"
    fault_begin
    IO_DIR=$fck IO_READONLY=1 LD_PRELOAD=$io trainer_on fault2 2 --keep-going
    check 'not with --keep-going' grep -q 'error: no checkpoint of step 2: ' "$WORK/fault2.err"
    rm -rf "$fck"
    IO_DIR=$fck IO_DISK=1 LD_PRELOAD=$io trainer_on fault1 1
    check 'where there is no checkpoint none is called intact' grep -q \
        'no checkpoint of step 1: .*; there is no earlier one' "$WORK/fault1.err"
}

# ---- weights that are none ---------------------------------------------------------------------------------

wrong_weights() {
    local ck=$WORK/wrong.ck in=$WORK/wrong.in want
    rm -rf "$ck" "$in"
    run llama1 2 --checkpoint "$ck"
    want=$(grep '^weights ' "$WORK/llama1.out")
    mkdir "$in"
    cp "$ck/step-00000002/model.safetensors" "$in/"
    printf '{"weight_map": {"a": "model-00001-of-00002.safetensors"}}' >"$in/model.safetensors.index.json"
    check 'an index beside a whole file is an old one' test "$(hash_of llama1 "$in")" = "$want"
    printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 123\n' \
        >"$in/model.safetensors"
    check 'a pointer of Git LFS' test -z "$(hash_of llama1 "$in")"
    check 'is told as that' grep -q 'is a pointer of Git LFS, not the file: git lfs pull' "$WORK/init.err"
    cp "$llama" "$WORK/model.lua"
    says 'a log is not written over another file' 1 'model.lua: the file is there and does not begin' \
        llama1 1 --log "$WORK/model.lua"
    says 'nor when a run goes on' 1 'model.lua: the file is there and does not begin' \
        llama1 3 --log "$WORK/model.lua" --checkpoint "$ck" --resume
    check 'which stays' cmp "$llama" "$WORK/model.lua"
    printf '{"st' >"$WORK/cut.jsonl" # all that a full disk took
    check 'but over one that was cut short' timeout 60 "$WORK/llama1/trainer" --data "$data" \
        --threads 1 --quiet --steps 1 --log "$WORK/cut.jsonl"
}

# ---- filesystems ------------------------------------------------------------------------------------------

odd_filesystems() {
    local errors='9 95' e # EBADF, as NFS has it; EOPNOTSUPP
    fault_begin
    IO_DIR=$fck IO_FSYNC=22 LD_PRELOAD=$io trainer_on fault2 2
    check 'folders without fsync (EINVAL)' test $? = 0
    fault_begin
    IO_DIR=$fck IO_FSYNC=5 LD_PRELOAD=$io trainer_on fault2 2
    check 'EIO of a folder is an error' test $? = 1
    for e in $errors; do
        fault_begin
        IO_DIR=$fck IO_FLOCK=$e LD_PRELOAD=$io trainer_on fault2 2
        check "a folder that cannot be locked ($e)" test $? = 0
    done
    check 'is told' grep -q 'cannot be locked (Operation not supported)' "$WORK/fault2.err"
    fault_begin
    : >"$fck/.lock"
    locked "$fck/.lock"
    IO_DIR=$fck IO_FLOCK=9 LD_PRELOAD=$io trainer_on fault2 2
    check 'where folders have no locks a file has' grep -q 'another run writes its checkpoints' \
        "$WORK/fault2.err"
    kill $!
}

# A run that trains may remove a checkpoint that a reader has just listed.
pruned_meanwhile() {
    local best
    rm -rf "$fck"
    trainer_on fault2 4 --checkpoint-every 1 --eval "$data" --eval-every 1
    check 'checkpoints that are evaluated' test $? = 0
    rm -rf "$fck"/step-0000000[12]
    mkdir "$fck/later" && cp -r "$fck" "$WORK/pruned.ck"
    for best in '' --best; do
        rm -rf "$fck" && cp -r "$WORK/pruned.ck" "$fck" && mv "$fck/step-00000004" "$fck/later"
        # shellcheck disable=SC2086
        IO_DIR=$fck IO_GONE=$fck/step-00000003 IO_COMES=$fck/later/step-00000004 LD_PRELOAD=$io \
            timeout 60 "$WORK/fault2/trainer" sample --checkpoint "$fck" --prompt '1 2' --tokens 2 $best \
            --threads 1 >"$WORK/fault2.out" 2>"$WORK/fault2.err" || cat "$WORK/fault2.err"
        check "a checkpoint that is pruned is looked for again $best" grep -q \
            "step-00000004, the .* one of $fck" "$WORK/fault2.err"
        check 'without a warning' test "$(grep -c skipped "$WORK/fault2.err")" = 0
    done
    rm -rf "$fck" && cp -r "$WORK/pruned.ck" "$fck" && mv "$fck/step-00000004" "$fck/later"
    IO_GONE_LATE=1 IO_DIR=$fck IO_GONE=$fck/step-00000003 IO_COMES=$fck/later/step-00000004 LD_PRELOAD=$io \
        timeout 60 "$WORK/fault2/trainer" sample --checkpoint "$fck" --prompt '1 2' --tokens 2 --threads 1 \
        >"$WORK/fault2.out" 2>"$WORK/fault2.err"
    check 'one that is pruned after it was verified: code 0' test $? = 0
    check 'the weights are of the one that came' grep -q "^initial weights: $fck/step-00000004" "$WORK/fault2.err"
    rm -rf "$fck" && cp -r "$WORK/pruned.ck" "$fck" && mv "$fck/step-00000004" "$fck/later"
    IO_GONE_LATE=1 IO_DIR=$fck IO_GONE=$fck/step-00000003 IO_COMES=$fck/later/step-00000004 LD_PRELOAD=$io \
        timeout 60 "$WORK/fault2/trainer" --init "$fck" --data "$data" --steps 1 --threads 1 \
        >"$WORK/fault2.out" 2>"$WORK/fault2.err"
    check 'one of --init: code 1' test $? = 1
    check 'with a word' grep -q "[-]-init: $fck/step-00000003 was removed since it was verified" "$WORK/fault2.err"
    rm -rf "$fck" && cp -r "$WORK/pruned.ck" "$fck" && mkdir "$fck/none"
    IO_DIR=$fck IO_GONE=$fck/step-00000003 IO_COMES=$fck/none LD_PRELOAD=$io \
        "$WORK/fault2/trainer" ls "$fck" >"$WORK/fault2.out" 2>"$WORK/fault2.err"
    check 'nor does ls list it' test "$(grep -c '^step-' "$WORK/fault2.out")" = 1
}

# A run that was killed with its machine holds its lock until the server of the files gives it up.
locks() {
    local job holder
    fault_begin
    : >"$WORK/fault2.err" # has what an earlier run said until this one begins
    locked "$fck"
    holder=$!
    trainer_on fault2 2 --deadline 6e8 & # 20 times as much, for disks, has more than 63 bits
    job=$!
    job_says "$WORK/fault2.err" 'note: .*: process [0-9]* of this machine has the lock; waiting'
    check 'a run that waits for a lock says so' test $? = 0
    kill "$holder"
    wait "$job"
    check 'a lock that is freed is waited for' test $? = 0
    fault_begin
    IO_DIR=$fck IO_FLOCK=11 LD_PRELOAD=$io trainer_on fault2 2 &
    job=$!
    timeout 30 bash -c "until grep -q 'another machine .* has the lock; waiting for it, at most 120 seconds' \
        '$WORK/fault2.err'; do sleep 0.1; done"
    check 'one of another machine, too' test $? = 0
    sleep 6
    check 'for longer' kill -0 "$job"
    pkill -TERM -P "$job"
    wait "$job"
    check 'a signal ends the wait' test $? = 75
    check 'which is told' grep -q 'a signal came while .* had the lock of .*: run it again with --resume' \
        "$WORK/fault2.err"
    fault_begin
    IO_DIR=$fck IO_FLOCK=9 LD_PRELOAD=$io trainer_on fault2 2
    check 'a file that is locked names its holder' grep -q "^$(uname -n) [0-9]*$" "$fck/.lock"
}

# paused COMMAND...: runs it while a run's rank is stopped, after the first of its saves in $fck at steps
# 60, 120 and 180, before the second begins; $WORK/paused.err of that run, its exit code in paused_code.
paused() {
    local job rank
    fault_begin
    IO_DIR=$fck IO_PAUSE=1 LD_PRELOAD=$io "$WORK/fault1/trainer" --data "$data" --threads 1 --quiet \
        --checkpoint "$fck" --resume --steps 180 --checkpoint-every 60 --keep 2 --deadline 600 \
        >"$WORK/paused.out" 2>"$WORK/paused.err" &
    job=$!
    rank_stops || bad 'a run stops after its first save' "$WORK/paused.err"
    "$@"
    kill -CONT "$rank"
    wait "$job"
    paused_code=$?
}

# A folder that moves takes its lock along: another run may have one of that name by now.
replaced() {
    mv "$fck" "$WORK/moved.ck"
    cp -r "$WORK/base.ck" "$fck" && trainer_on fault1 180 --checkpoint-every 60
    check 'a run in a new folder of that name' test $? = 0
    files_of "$fck" >"$WORK/replaced.files"
}
moved() {
    rm -rf "$WORK/moved.ck"
    paused replaced
    check 'a run whose folder was moved: code 1' test $paused_code = 1
    check 'with a word' grep -q "error: no checkpoint of step .*: $fck is no longer the folder that this run has locked" \
        "$WORK/paused.err"
    check 'another one of that name stays as it was' diff "$WORK/replaced.files" <(files_of "$fck")
    check 'its own, too' "$WORK/fault1/trainer" verify "$WORK/moved.ck"
    paused mv "$fck" "$WORK/gone.ck"
    check 'a run whose folder is gone: code 1' test $paused_code = 1
    check 'with the same word' grep -q 'is no longer the folder that this run has locked' "$WORK/paused.err"
    paused cp -r "$WORK/base.ck/step-00000001" "$fck/step-00000120"
    check 'a step that someone puts there: code 1' test $paused_code = 1
    check 'with a word' grep -q 'no checkpoint of step 120: .*/step-00000120 is there, and this run did not write it' \
        "$WORK/paused.err"
    check 'it stays as it was' diff -r "$WORK/base.ck/step-00000001" "$fck/step-00000120"
}

# ---- config.json --------------------------------------------------------------------------------------------

# config_of LUA: what the architecture's config returns
config_of() {
    rm -rf "$WORK/arch" && mkdir -p "$WORK/arch/arch"
    cp "$llama" "$WORK/arch/model.lua"
    sed "s/^local function config(m, t)/local function config(m, t)\n    if m then return $1 end/" \
        "$ROOT/models/arch/llama.lua" >"$WORK/arch/arch/llama.lua"
    "$FSDPGEN" check "$WORK/arch/model.lua" "${@:2}" >"$WORK/config.out" 2>&1
}

configs() {
    local lua
    for lua in '{}' '{ "a" }' '3'; do
        config_of "$lua"
        check "config = $lua is refused" test $? = 1
        check "with a word" grep -q 'what config returned is not a config.json' "$WORK/config.out"
    done
    check 'config = nil is not a file' config_of nil
    check 'config = a list of pairs' config_of \
        '{ { "architectures", { "X" } }, { "model_type", "x" }, { "y", {} } }' --set 'checkpoint={config="unchecked"}'
}

part carried_files:families carried_files
part errors_here:families,first_checkpoint errors_here
part damaged_old_ones:families,first_checkpoint damaged_old_ones
part interrupted:families,first_checkpoint interrupted
part texts_of_others:families texts_of_others
part escapes:families escapes
part pipes:families pipes
part wrong_folders:families,first_checkpoint wrong_folders
part wrong_weights:families wrong_weights
part odd_filesystems:families,first_checkpoint odd_filesystems
part pruned_meanwhile:families,first_checkpoint pruned_meanwhile
part locks:families,first_checkpoint locks
part moved:first_checkpoint moved
part configs:families configs
