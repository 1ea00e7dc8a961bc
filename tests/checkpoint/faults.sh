# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: what goes wrong while a checkpoint is written or read. A trainer with one
# checkpoint, of step 1, computes step 2 and saves it, and keeps only that one: a call fails, a
# rank is killed, the disk is full, the machine stops. Whatever was told of must be found by the
# next run, which ends with the weights of a run that nothing happened to.

io=$BUILD/tests/checkpoint/libcheckpoint_io.so
crash=$BUILD/tests/checkpoint/checkpoint_crash
fck=$WORK/fault.ck # the folder that things happen to

# trainer_on NAME STEPS [FLAGS...]: exit code; $WORK/NAME.out and .err
trainer_on() {
    local t=$WORK/$1
    shift
    timeout 60 "$t/trainer" --data "$data" --threads 1 --quiet --weights-hash --checkpoint \
        "$fck" --resume --steps "$@" >"$t.out" 2>"$t.err"
}

# recovers NAME [AT_LEAST]: what is wrong with the next run, if anything
recovers() {
    local from
    trainer_on "$1" "$fault_steps" --keep 1 || { echo "the next run fails: $(tail -n 1 "$WORK/$1.err")"; return; }
    from=$(sed -n 's/^resumed from .*: step \([0-9]*\) of .*/\1/p' "$WORK/$1.out")
    if [ "${from:-0}" -lt "${2:-1}" ]; then
        echo "it goes on from step ${from:-0}, but ${2:-1} was told of"
    elif [ "$(grep '^weights' "$WORK/$1.out")" != "$fault_hash" ]; then
        echo "its weights are others"
    elif ls -d "$fck"/.t* >/dev/null 2>&1; then
        echo "rests stay"
    fi
}

fault_trainers() {
    local n
    for n in 1 2 4 8; do
        [ $n = 8 ] && [ "$FULL" != 1 ] && continue
        make_trainer "fault$n" "$llama" mesh.shard=$n model.layers=1 || return 1
    done
    fck=$WORK/base.ck
    rm -rf "$fck"
    trainer_on fault2 1 || { bad 'the first checkpoint' "$WORK/fault2.err"; return 1; }
    fck=$WORK/fault.ck
    fault_begin
    trainer_on fault1 2 || return 1
    fault_hash=$(grep '^weights' "$WORK/fault1.out")
}

fault_begin() { rm -rf "$fck" && cp -r "$WORK/base.ck" "$fck"; }

# ---- what a check waits for ------------------------------------------------------------------------

# job_says FILE PATTERN: a line like it is in FILE, while the run $job goes on
job_says() {
    local i runs
    for ((i = 0; i < 3000; i++)); do # at least a minute
        kill -0 "$job" 2>/dev/null
        runs=$?
        grep -q -- "$2" "$1" && return 0
        [ $runs = 0 ] || return 1
        sleep 0.02
    done
    return 1
}

# The one rank of the run $job is stopped; $rank its pid
rank_stops() {
    local i
    for ((i = 0; i < 3000; i++)); do
        rank=$(pgrep -P "$job")
        [ -n "$rank" ] && grep -q '^State:[[:space:]]*T' "/proc/$rank/status" && return 0
        kill -0 "$job" 2>/dev/null || return 1
        sleep 0.02
    done 2>/dev/null
    return 1
}

# locked FILE: another process, $!, has its lock
locked() {
    rm -f "$WORK/locked"
    (exec 8<"$1"; flock 8; : >"$WORK/locked"; exec sleep 60) &
    while [ ! -e "$WORK/locked" ] && kill -0 $!; do sleep 0.02; done
}

# ---- every call fails, moves half, or is the rank's last -----------------------------------------

one_fault() { # RANKS ACT AT
    local name=fault$1 code told=1 wrong
    fault_begin
    IO_DIR=$fck IO_ACT=$2 IO_AT=$3 LD_PRELOAD=$io trainer_on "$name" "$fault_steps" --keep 1 \
        "${fault_flags[@]}"
    code=$?
    for told in $(seq "$fault_steps" -1 1); do
        grep -q "^checkpoint: .*step-0000000$told," "$WORK/$name.out" && break
    done
    cp "$WORK/$name.err" "$WORK/first.err"
    wrong=$(recovers "$name" $told)
    if [ $code = 124 ]; then
        bad "$1 ranks, call $3 $2 ${fault_flags[*]}: hangs" "$WORK/first.err"
    elif [ $code = 0 ] && [ $told != "$fault_steps" ]; then
        bad "$1 ranks, call $3 $2: nothing is told, yet it ends well" "$WORK/first.err"
    elif [ "$2" = error ] && [ $code != 0 ] &&
        ! grep -q 'trainer: \|\[rank .\] error: ' "$WORK/first.err"; then
        bad "$1 ranks, call $3 $2: without a word" "$WORK/first.err"
    elif [ -n "$wrong" ]; then
        bad "$1 ranks, call $3 $2 ${fault_flags[*]}: $wrong" "$WORK/first.err"
    else
        ok "$1 ranks, call $3 $2 ${fault_flags[*]}"
    fi
}

# faults RANKS...: of a run with fault_flags that ends with fault_steps
fault_steps=2
fault_flags=()
faults() {
    local n act count at
    for n in "$@"; do
        fault_begin
        IO_COUNT=$WORK/count IO_DIR=$fck LD_PRELOAD=$io trainer_on fault$n "$fault_steps" --keep 1 \
            "${fault_flags[@]}"
        count=$(cat "$WORK/count")
        [ "${count:-0}" -gt 60 ] || bad "$n ranks: only ${count:-0} calls are seen"
        for act in kill error short; do
            if [ "$FULL" = 1 ]; then
                for ((at = 0; at < count; at++)); do one_fault $n $act $at; done
                continue
            fi
            random "$count"
            one_fault $n $act "$random_value"
        done
    done
}

disk_full() {
    local size reserve n=0 sizes needed
    fault_begin
    trainer_on fault2 2 --keep 1 || { bad 'step 2 is saved' "$WORK/fault2.err"; return; }
    needed=$(find "$fck/step-00000002" -type f -printf '%s\n' | awk '{ n += $1 } END { print n }')
    sizes="1 $((needed / 2))"
    [ "$FULL" = 1 ] && sizes=$(seq 1 $(((needed - 2) / 29)) $((needed - 1)))
    for size in $sizes; do
        for reserve in 1 0; do
            fault_begin
            IO_DIR=$fck IO_DISK=$size IO_RESERVE=$reserve LD_PRELOAD=$io \
                trainer_on fault2 2 --keep 1
            if [ $? = 0 ]; then
                bad "a disk of $size bytes: ends well"
            elif ! grep -q 'no checkpoint of step 2: .*the disk is full' "$WORK/fault2.err"; then
                bad "a disk of $size bytes: is not told" "$WORK/fault2.err"
            elif [ "$(ls -A "$fck")" != step-00000001 ]; then
                bad "a disk of $size bytes: something else than step 1 is left"
            else
                local wrong
                wrong=$(recovers fault2)
                if [ -n "$wrong" ]; then bad "a disk of $size bytes: $wrong"; else n=$((n + 1)); fi
            fi
        done
    done
    ok "disks that are full: $n times earlier checkpoints are whole"
    # with --keep-going a failed save is told, and the last one still counts
    fault_begin
    IO_DIR=$fck IO_DISK=1 IO_RESERVE=0 LD_PRELOAD=$io trainer_on fault2 3 --checkpoint-every 1 \
        --keep-going
    check 'going on without a checkpoint is told' grep -q \
        'warning: .*no checkpoint of step 2: .*training goes on' "$WORK/fault2.err"
    check 'the last step must be saved' grep -q 'error: no checkpoint of step 3' \
        "$WORK/fault2.err"
}

# ---- the machine stops: states of the disk --------------------------------------------------------

# crash_record TRAINER: $WORK/log, $WORK/after.ck, $states
crash_record() {
    fault_begin
    rm -f "$WORK/log"
    IO_LOG=$WORK/log IO_DIR=$fck LD_PRELOAD=$io trainer_on "$1" 2 --keep 1 || return 1
    rm -rf "$WORK/after.ck"
    mv "$fck" "$WORK/after.ck"
    states=$("$crash" "$fck" "$WORK/base.ck" "$WORK/after.ck" "$WORK/log")
}

# one_crash STATE: what is wrong, if anything; the right trainer is the one that recovers
one_crash() {
    local told
    rm -rf "$fck"
    told=$("$crash" "$fck" "$WORK/base.ck" "$WORK/after.ck" "$WORK/log" "$1" "$fck") ||
        { echo "state $1 cannot be built"; return; }
    recovers "${2:-fault1}" "$told"
}

crashes() {
    local order i wrong n=0
    crash_record fault2 || { bad 'the calls are recorded' "$WORK/fault2.err"; return; }
    for order in ordered weak; do
        export ORDER=$order
        local sample=8
        [ "$FULL" = 1 ] && sample=$states
        for ((i = 0; i < sample; i++)); do
            random "$states"
            [ "$FULL" = 1 ] && random_value=$i
            wrong=$(one_crash "$random_value")
            if [ -n "$wrong" ]; then
                bad "crash, $order state $random_value of $states: $wrong"
            else
                n=$((n + 1))
            fi
        done
    done
    unset ORDER
    ok "$n states after a crash, of $states: what was told of is there"
}

# broken_runtime TRAINER ROOM/FILE SED [FILE SED]...: $WORK/broken/trainer, of a runtime with other
# texts; each SED changes something
broken_runtime() {
    local dir=$WORK/before trainer=$1
    shift
    rm -rf "$dir" "$WORK/broken"
    mkdir "$WORK/broken"
    cp -R "$ROOT/runtime" "$dir"
    for ((; $# > 0; )); do
        cp "$dir/$1" "$WORK/unbroken" && sed -i "$2" "$dir/$1" &&
            ! cmp -s "$dir/$1" "$WORK/unbroken" || { bad "$1 has no text for $2"; return 1; }
        shift 2
    done
    build_trainer "$WORK/$trainer" -j2 GEMM=builtin CFLAGS="$flags" RUNTIME="$dir" \
        BUILD="$WORK/broken/build" TRAINER="$WORK/broken/trainer" ||
        { bad "another runtime is built" "$WORK/$trainer.log"; return 1; }
}

# mutant NAME FILE SED: a runtime that breaks the protocol leaves some state that is wrong.
mutant() {
    local i wrong
    broken_runtime fault2 "$2" "$3" || { bad "mutant $1"; return; }
    crash_record broken || { bad "mutant $1: runs" "$WORK/broken.err"; return; }
    for ((i = states - 1; i >= 0; i--)); do # late states first: there is more to lose
        wrong=$(ORDER=weak one_crash "$i" "${4:-fault1}")
        case $wrong in
        '') ;;
        *'cannot be built') bad "mutant $1: $wrong"; return ;;
        *) ok "mutant $1 is caught: state $i: $wrong"; return ;;
        esac
    done
    bad "mutant $1: none of $states states is wrong"
}

mutants() {
    mutant 'no fsync of what ranks write' checkpoint/rt_save.c \
        's/rt_file_finish(s->fd\[i\], path, c->error)/close(s->fd[i])/'
    mutant 'no fsync of folders' job/rt_file.c \
        '/^bool rt_file_sync_folder/,/^}/s/const int fd/if (path) return true; const int fd/'
    mutant 'rename first' checkpoint/rt_save.c \
        's/return write_manifest(c, folder, step) && rt_file_sync_folder(inner/return rename(folder, final) == 0 \&\& rt_file_sync_folder(c->dir, c->error) \&\& (fflush(stdout), true) \&\& rename(final, folder) == 0 \&\& write_manifest(c, folder, step) \&\& rt_file_sync_folder(inner/'
    mutant 'a marker without fsync' checkpoint/rt_save.c \
        '/^static bool write_manifest/,/^}/s/const bool ok = create_file(c, folder, &f);/char p[700]; snprintf(p, 700, "%s\/MANIFEST", folder); int fd = open(p, O_RDWR|O_CREAT, 0666); const bool ok = fd >= 0 \&\& rt_file_write(fd, p, f.head, f.bytes, 0, c->error); close(fd);/'
    mutant 'old ones first' checkpoint/rt_save.c \
        's/^    rt_manifest_hash_own(rt, folder, others,.*/    if (rt->rank == 0) { char p[512]; rt_file_step_path(p, c->dir, "", step - 1); rt_file_remove_tree(p, c->error); }\n&/'
}

# Checkpoints of before files were hashed in lanes are read.
versions() {
    broken_runtime fault2 checkpoint/rt_manifest.c 's/"fsdpgen checkpoint 1/"fsdpgen checkpoint 0/
        s/"fsdpgen checkpoint 2/"fsdpgen checkpoint 1/; s/^enum { VERSION = 2 };/enum { VERSION = 1 };/' ||
        return
    rm -rf "$fck"
    trainer_on broken 1 || { bad 'a runtime of before runs' "$WORK/broken.err"; return; }
    check 'it writes what was written before' \
        grep -qx 'fsdpgen checkpoint 1' "$fck/step-00000001/MANIFEST"
    check 'a checkpoint of before is read' test -z "$(recovers fault1 1)"
    rm -rf "$fck"
    trainer_on broken 1
    damage "$fck/step-00000001/model.safetensors" flip 5000
    trainer_on fault2 2
    check 'a damaged one is not' grep -q 'step-00000001 is skipped: ' "$WORK/fault2.err"
}

# Files of large models have many chunks, a rank's slices many stages and windows: here, by small
# ones, so have those of a small model.
pieces() {
    local f at wrong=0
    broken_runtime fault2 checkpoint/rt_checkpoint.h 's/RT_CHUNK_BYTES = 4194304/RT_CHUNK_BYTES = 4096/' \
        checkpoint/rt_checkpoint.h 's/RT_STAGE_ELEMS = 1 << 17/RT_STAGE_ELEMS = 1 << 9/' \
        checkpoint/rt_chunks.c 's/PIECE_BYTES = 256 << 10/PIECE_BYTES = 1024/' || return
    cp "$WORK/broken/trainer" "$WORK/verifier" # of verify.sh
    rm -rf "$fck"
    trainer_on broken 1 || { bad 'small chunks: runs' "$WORK/broken.err"; return; }
    check 'small chunks: the same files' test -z \
        "$(diff -rq "$fck/step-00000001" "$WORK/base.ck/step-00000001" | grep -v 'MANIFEST\|CHUNKS')"
    check 'small chunks: a run goes on' test -z "$(recovers broken 1)"
    for f in model optimizer/moment2; do
        for at in 0 35 4095 4096 60000 $(($(stat -c %s "$fck/step-00000002/$f.safetensors") - 1)); do
            rm -rf "$WORK/two.ck" && cp -r "$fck" "$WORK/two.ck"
            damage "$fck/step-00000002/$f.safetensors" flip "$at"
            trainer_on broken 2
            grep -q "step-00000002 is skipped: $f.safetensors is not what was written" \
                "$WORK/broken.err" || wrong=$((wrong + 1))
            rm -rf "$fck" && mv "$WORK/two.ck" "$fck"
        done
    done
    check 'small chunks: a bit in any of them counts' test $wrong = 0
    # windows that end within an element; several files; another mesh than the writer's
    local few=(dtypes.param=f16 'checkpoint.file_size="64KiB"')
    make_trainer few1 "$gpt2" mesh.shard=1 "${few[@]}" || return
    make_trainer few2 "$gpt2" mesh.shard=2 wrap=root_only "${few[@]}" || return
    broken_runtime few2 checkpoint/rt_load.c 's/^    const int64_t window = .*/    const int64_t window = 10007;/' ||
        return
    rm -rf "$fck"
    trainer_on few1 1 || bad 'several files: runs' "$WORK/few1.err"
    trainer_on broken 2
    check 'small windows: a run goes on' grep -q '^resumed from .*: step 1 of 2' "$WORK/broken.out"
    rm -rf "$fck"
    trainer_on few1 2
    check 'and ends with the weights of any other' test \
        "$(grep '^weights' "$WORK/broken.out")" = "$(grep '^weights' "$WORK/few1.out")"
}

# A thread that writes beside training fails, and is slow to say so: the step's thread, which ends
# the process, hears it out.
tells() {
    broken_runtime fault1 job/rt_wait.c 's/^        rt_say("%s", text); .*/        sleep(1);\n&/' ||
        return
    fault_begin
    IO_DIR=$fck IO_DISK=1 LD_PRELOAD=$io trainer_on broken 300 --checkpoint-every 1
    check 'a save beside training fails and is heard' test $? = 1 -a \
        "$(grep -c 'no checkpoint of step' "$WORK/broken.err")" = 1
}

# ---- damage ----------------------------------------------------------------------------------------

# damage FILE KIND AT: a bit is flipped, or the file ends there
damage() {
    local byte
    if [ "$2" = cut ]; then
        truncate -s "$3" "$1"
    else
        byte=$(od -An -tu1 -j "$3" -N 1 "$1")
        # shellcheck disable=SC2059
        printf "$(printf '\\%03o' $((byte ^ (1 << ($3 % 8)))))" |
            dd of="$1" bs=1 seek="$3" conv=notrunc status=none
    fi
}

damages() {
    local files=() count=8 i f size kind n=0
    [ "$FULL" = 1 ] && count=10000
    fault_begin
    trainer_on fault4 2 || { bad 'two checkpoints' "$WORK/fault4.err"; return; }
    rm -rf "$WORK/two.ck" && cp -r "$fck" "$WORK/two.ck"
    mapfile -t files < <(cd "$WORK/two.ck/step-00000002" && find . -type f | sort)
    for ((i = 0; i < count; i++)); do
        f=${files[i % ${#files[@]}]}
        rm -rf "$fck" && cp -r "$WORK/two.ck" "$fck"
        size=$(stat -c %s "$fck/step-00000002/$f")
        random 2
        kind=flip
        [ "$random_value" = 1 ] && kind=cut
        random "$size"
        damage "$fck/step-00000002/$f" $kind "$random_value"
        trainer_on fault2 2
        if [ $? != 0 ] || [ "$(grep '^weights' "$WORK/fault2.out")" != "$fault_hash" ]; then
            bad "$f, $kind at $random_value: the run is not what it was" "$WORK/fault2.err"
        elif ! grep -q 'step-00000002 is skipped: ' "$WORK/fault2.err" ||
            ! grep -q 'resumed from .*step-00000001: step 1 of 2' "$WORK/fault2.out"; then
            bad "$f, $kind at $random_value: is not refused" "$WORK/fault2.err"
        else
            n=$((n + 1))
        fi
    done
    ok "$n flips and cuts: refused, and the one before is taken"
    check 'what was damaged is kept aside' test -d "$fck/step-00000002.damaged1"
    for i in 1 2; do damage "$fck/step-0000000$i/model.safetensors" flip 5000; done
    trainer_on fault2 2
    check 'none is intact: no run starts over them' test $? = 1
    check 'and it says so' grep -q 'no checkpoint in .* is intact (2 tried)' \
        "$WORK/fault2.err"
    # a run that begins before a damaged step, and keeps one, keeps one that is intact
    fault_begin
    trainer_on fault2 3
    damage "$fck/step-00000003/model.safetensors" flip 5000
    trainer_on fault2 2 --keep 1
    check 'what is damaged does not push out what is intact' test -d "$fck/step-00000002"
}

# ---- kills and signals -----------------------------------------------------------------------------

# long_run NAME STEPS: in the background; $job
long_run() {
    : >"$WORK/long.out" # has steps of an earlier run until this one begins
    env --default-signal=INT "$WORK/$1/trainer" --data "$data" --threads 1 --weights-hash \
        --checkpoint "$fck" --checkpoint-every 1 --keep 2 --resume --steps "$2" \
        --log "$WORK/long.jsonl" >"$WORK/long.out" 2>"$WORK/long.err" &
    job=$!
}

# It has computed a step.
long_stepped() { job_says "$WORK/long.out" '^step '; }

kills() {
    local count=5 i n victims seen
    [ "$FULL" = 1 ] && count=200
    whole() { # STEPS
        rm -f "$WORK/whole.jsonl"
        "$WORK/fault1/trainer" --data "$data" --threads 1 --quiet --weights-hash --steps "$1" \
            --log "$WORK/whole.jsonl" >"$WORK/whole.out" 2>"$WORK/whole.err"
    }
    fault_begin
    whole 1
    cp "$WORK/whole.jsonl" "$WORK/long.jsonl"
    for ((i = 0; i < count; i++)); do
        random 3
        long_run fault$((1 << random_value)) 100000
        random 700
        sleep "0.$(printf '%03d' $((100 + random_value)))"
        victims=("$job" $(pgrep -P "$job"))
        random ${#victims[@]}
        kill -9 "${victims[random_value]}" 2>/dev/null
        wait "$job" 2>/dev/null
    done
    seen=$(ls "$fck" | sort | tail -n 1)
    long_run fault2 $((10#${seen#step-} + 3))
    wait "$job" || bad "after $count kills the run goes on" "$WORK/long.err"
    n=$(grep -c '^{"step": ' "$WORK/long.jsonl")
    whole "$n"
    hex() { grep -o '"loss_hex": *"[^"]*"\|"grad_norm_hex": *"[^"]*"' "$1"; }
    check "$count kills: $n losses of a run that was never killed" \
        cmp <(hex "$WORK/long.jsonl") <(hex "$WORK/whole.jsonl")
}

signals() {
    local code
    fault_begin
    rm -f "$WORK/long.jsonl"
    long_run fault2 5000
    long_stepped
    kill -TERM "$job"
    wait "$job"
    code=$?
    check "SIGTERM: exit code 75 ($code)" test $code = 75
    check 'and it says what to do' grep -q \
        'stopped after step [0-9]*, which is saved; run it again with --resume' "$WORK/long.err"
    check 'no hash of weights that are not the last' test -z "$(grep '^weights' "$WORK/long.out")"
    long_run fault4 5000
    long_stepped
    kill -INT "$(pgrep -P "$job" | tail -n 1)"
    wait "$job"
    code=$?
    check "SIGINT to one rank: exit code 75 ($code)" test $code = 75
    check 'it went on from where it was stopped' grep -q '^resumed from ' "$WORK/long.out"
}

first_checkpoint() { fault_trainers || fault_hash=; }
every_call() {
    if [ "$FULL" = 1 ]; then faults 1 2 4 8; else faults 2 4; fi
}
part first_checkpoint first_checkpoint
part every_call:first_checkpoint every_call
part disk_full:first_checkpoint disk_full
part crashes:first_checkpoint crashes
part mutants:first_checkpoint turn 1 2 mutants
part versions:first_checkpoint versions
part pieces:first_checkpoint turn 1 2 pieces
part tells:first_checkpoint tells
part damages:first_checkpoint damages
part kills:first_checkpoint kills
part signals:first_checkpoint signals
