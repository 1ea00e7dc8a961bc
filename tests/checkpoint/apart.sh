# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after faults.sh: saves while training goes on, and files with one writer each.

# ---- the same bytes, the same bits --------------------------------------------------------------------

# A slow disk, so that a save runs while the weights change: what it writes is what they were, and
# what the run ends with is what it ends with anyway.
same_bytes() {
    local name s first
    for name in llama2 split0 half1 llama3; do
        rm -rf "$WORK"/apart[123].ck
        IO_DIR=$WORK/apart IO_SLOW=30 LD_PRELOAD=$io run "$name" 4 --checkpoint "$WORK/apart1.ck" \
            --checkpoint-every 1 || bad "$name saves beside training" "$WORK/$name.err"
        cp "$WORK/$name.result" "$WORK/apart1.result"
        run "$name" 4 --checkpoint "$WORK/apart2.ck" --checkpoint-every 1 --wait-for-saves ||
            bad "$name waits for saves" "$WORK/$name.err"
        check "$name: saves beside training change no bit" \
            cmp "$WORK/apart1.result" "$WORK/$name.result"
        IO_DIR=$WORK/apart IO_SLOW=10 LD_PRELOAD=$io run "$name" 4 --checkpoint "$WORK/apart3.ck" \
            --checkpoint-every 1 --one-writer || bad "$name: one writer" "$WORK/$name.err"
        check "$name: nor does one writer a file" \
            cmp "$WORK/apart1.result" "$WORK/$name.result"
        for s in 1 2 3; do
            files_of "$WORK/apart$s.ck" >"$WORK/apart$s.files"
        done
        check "$name: all 4 checkpoints have the bytes of those that are waited for" \
            cmp "$WORK/apart1.files" "$WORK/apart2.files"
        check "$name: with one writer a file, too" cmp "$WORK/apart3.files" "$WORK/apart2.files"
        check "$name: there are 4" test "$(ls "$WORK/apart1.ck" | wc -l)" = 4
    done
}

# ---- beside training -------------------------------------------------------------------------------------

line_of() { grep -n "$1" "$WORK/$2.out" | head -n 1 | cut -d: -f1; }

beside() {
    local ck=$WORK/beside.ck code
    rm -rf "$ck"
    IO_DIR=$ck IO_SLOW=200 LD_PRELOAD=$io run llama2 14 --checkpoint "$ck" --checkpoint-every 12
    check 'training goes on while a save runs' test "$(line_of '^step *13/' llama2)" -lt \
        "$(line_of '^checkpoint: .*step-00000012,' llama2)"
    rm -rf "$ck"
    IO_DIR=$ck IO_SLOW=60 LD_PRELOAD=$io run llama2 14 --checkpoint "$ck" --checkpoint-every 12 \
        --wait-for-saves
    check 'and waits with --wait-for-saves' test "$(line_of '^step *13/' llama2)" -gt \
        "$(line_of '^checkpoint: .*step-00000012,' llama2)"
    rm -rf "$ck"
    : >"$WORK/beside.out" # the job's shell may be slower than the first look
    IO_DIR=$ck IO_SLOW=60 LD_PRELOAD=$io "$WORK/llama2/trainer" --data "$data" --threads 1 \
        --steps 5000 --checkpoint "$ck" --checkpoint-every 3 >"$WORK/beside.out" \
        2>"$WORK/beside.err" &
    job=$!
    until grep -q '^step *4/' "$WORK/beside.out" || ! kill -0 $job 2>/dev/null; do sleep 0.05; done
    kill -TERM $job
    wait $job
    code=$?
    check "SIGTERM while a save runs: both are there ($code)" test $code = 75 -a \
        "$(ls "$ck" | wc -l)" -ge 2
    # the plan's number is the one that is needed: the trainer refuses any other
    sed 's/\.snapshot_bytes = INT64_C(/&1/' "$WORK/llama2/trainer.c" >"$WORK/trainer.c"
    cp "$WORK/llama2/trainer.c" "$WORK/trainer.c.whole"
    cp "$WORK/trainer.c" "$WORK/llama2/trainer.c"
    build_trainer "$WORK/llama2" GEMM=builtin CFLAGS="$flags"
    rm -rf "$ck"
    run llama2 2 --checkpoint "$ck" --checkpoint-every 1
    check 'another number of bytes is a bug' grep -q \
        'at most 1[0-9]* bytes by the plan, and [0-9]* here' "$WORK/llama2.err"
    cp "$WORK/trainer.c.whole" "$WORK/llama2/trainer.c"
    build_trainer "$WORK/llama2" GEMM=builtin CFLAGS="$flags"
}

# Updates that blow up: one more is skipped than may be, while the save of the step before runs. The
# run ends when that is whole, and it can be gone on from.
gate_beside() {
    local ck=$WORK/gate.ck last
    make_trainer gate "$llama" $two max_skipped=2 'lr=constant{}' 'optimizer=lion{lr=1000}' || return
    run gate 50
    last=$(sed -n 's/.*error: step \([0-9]*\): .* in a row: 3, max_skipped is 2.*/\1/p' "$WORK/gate.err")
    check 'weights that blow up end a run' test "${last:-0}" -gt 3
    rm -rf "$ck"
    IO_DIR=$ck IO_SLOW=200 LD_PRELOAD=$io run gate 50 --checkpoint "$ck" --checkpoint-every $((last - 1))
    check 'with the code of a gate' test $? = 5
    check 'while a save runs' test "$(line_of "^step *$last/" gate)" -lt \
        "$(line_of '^checkpoint: ' gate)"
    check 'which is finished' test "$(ls -A "$ck")" = "$(printf 'step-%08d' $((last - 1)))"
    run gate $((last - 1)) --checkpoint "$ck" --resume
    check 'and loads' grep -q "^resumed from $ck/step-" "$WORK/gate.out"
}

# The copies need memory beside what the arenas have not taken yet. Of a run that begins that is
# all of them; of one that is resumed, the states that it has read are there already, and count once.
memory_beside() {
    local ck=$WORK/memory.ck ranks=4 local_bytes copies bytes
    local_bytes=$(sed -n 's/.*\.local_bytes = \(INT64_C(\)\?\([0-9]*\).*/\2/p' "$WORK/llama2/trainer.c")
    copies=$(sed -n 's/.*\.snapshot_bytes = INT64_C(\([0-9]*\).*/\1/p' "$WORK/llama2/trainer.c")
    bytes=$((ranks * (local_bytes + copies / 2)))
    rm -rf "$ck"
    IO_DIR=$ck IO_MEMORY=$bytes LD_PRELOAD=$io run llama2 2 \
        --checkpoint "$ck" --checkpoint-every 1
    check 'memory for copies lacks when all of the arena is still to come' grep -q \
        'takes copies of .* MiB of memory are available: training waits' "$WORK/llama2.err"
    IO_DIR=$ck IO_MEMORY=$bytes LD_PRELOAD=$io run llama2 4 \
        --checkpoint "$ck" --checkpoint-every 1 --resume
    check 'a resumed run has part of it' grep -q '^resumed from' "$WORK/llama2.out"
    check 'and does not count that twice' test -z "$(grep 'takes copies' "$WORK/llama2.err")"
}

# Calls of a save by a thread fail, or are the last of a rank; so with one writer a file.
faults_beside() {
    local ranks=(2 4)
    [ "$FULL" = 1 ] && ranks=(1 2 4 8)
    fault_begin
    trainer_on fault1 3
    fault_hash=$(grep '^weights' "$WORK/fault1.out")
    fault_steps=3
    for fault_flags in --checkpoint-every=1 --one-writer; do
        fault_flags=("$fault_flags")
        [ "${fault_flags[0]}" = --one-writer ] && fault_flags+=(--checkpoint-every=1)
        faults "${ranks[@]}"
    done
    fault_begin
    IO_DIR=$fck IO_DISK=1 IO_RESERVE=0 LD_PRELOAD=$io trainer_on fault2 9 --checkpoint-every 1
    check 'a thread that cannot save ends the run' grep -q 'error: no checkpoint of step 2: .*full' \
        "$WORK/fault2.err"
    fault_steps=2
    fault_flags=()
    fault_begin
    trainer_on fault1 2
    fault_hash=$(grep '^weights' "$WORK/fault1.out")
}

# ---- filesystems that write back whole pages ----------------------------------------------------------------

whole_pages() {
    local ck=$WORK/pages.ck
    rm -rf "$ck"
    run llama2 2 --checkpoint "$ck"
    files_of "$ck" >"$WORK/whole.files"
    rm -rf "$ck"
    IO_DIR=$ck IO_PAGES=1 LD_PRELOAD=$io run llama2 2 --checkpoint "$ck"
    check 'lost bytes are found before the first save' grep -q \
        'bytes are lost when several ranks write into one file' "$WORK/llama2.err"
    files_of "$ck" >"$WORK/pages.files"
    check 'then no byte is lost' cmp "$WORK/pages.files" "$WORK/whole.files"
    rm -rf "$ck"
    IO_DIR=$ck IO_PAGES=2 IO_SLOW=50 LD_PRELOAD=$io run llama2 2 --checkpoint "$ck"
    files_of "$ck" >"$WORK/pages.files"
    check 'such a filesystem does lose them' test -n "$(diff "$WORK/pages.files" "$WORK/whole.files")"
    rm -rf "$ck"
    IO_DIR=$ck IO_PAGES=2 IO_SLOW=50 LD_PRELOAD=$io run llama2 2 --checkpoint "$ck" --one-writer
    files_of "$ck" >"$WORK/pages.files"
    check '--one-writer does not' cmp "$WORK/pages.files" "$WORK/whole.files"
    rm -rf "$ck"
    run llama3 2 --checkpoint "$ck"
    check 'an intact folder is not suspected' test -z "$(grep 'bytes are lost' "$WORK/llama3.err")"
    check 'nothing of the trial stays' test "$(ls -A "$ck")" = step-00000002
}

# ---- any number of ranks --------------------------------------------------------------------------------------

# any_trainer NAME: $WORK/NAME.any, NAME's trainer with the ranks, axes and dtypes of relayout.c.
any_trainer() {
    local name=$1 dir=$WORK/$1.any
    rm -rf "$dir"
    cp -r "$WORK/$name" "$dir"
    rm -rf "$dir/build" "$dir/trainer"
    cc -O1 -Wall -Wextra -Werror -I"$ROOT/runtime" -c "$ROOT/tests/checkpoint/relayout.c" \
        -o "$WORK/relayout.o"
    build_trainer "$dir" -j2 GEMM=builtin CFLAGS="$flags" \
        LDFLAGS="-Wl,--wrap=rt_main $WORK/relayout.o" || {
        bad "$name on any number of ranks is built" "$dir.log"
        return 1
    }
}

# pass_on NAME STEP RANKS[/AXES]...: so many ranks, one after the other, load the newest checkpoint
# of $WORK/passed.ck, which is STEP's, and save it as the next step.
pass_on() {
    local name=$1 step=$2 ck=$WORK/passed.ck dir=$WORK/$1.any n
    shift 2
    (cd "$ck/step-$(printf %08d "$step")" && md5sum ./*.safetensors optimizer/*) >"$WORK/passed.want"
    for n in "$@"; do
        step=$((step + 1))
        export RANKS=${n%/*} AXES=1
        [ "$n" = "$RANKS" ] || AXES=${n#*/}
        timeout 60 "$dir/trainer" --data "$data" --threads 1 --quiet --checkpoint "$ck" --resume \
            --steps $step >"$dir.out" 2>"$dir.err" || {
            bad "$name: $n ranks load and save" "$dir.err"
            break
        }
        (cd "$ck/step-$(printf %08d $step)" && md5sum -c "$WORK/passed.want") >"$WORK/passed.log" 2>&1
        check "$name: what $n ranks load and save again is the same" test $? = 0
    done
    unset RANKS AXES
}

# passes_on NAME RANKS[/AXES]...: of what NAME's trainer wrote.
passes_on() {
    local name=$1
    shift
    rm -rf "$WORK/passed.ck"
    cp -r "$WORK/$name.ck" "$WORK/passed.ck"
    any_trainer "$name" && pass_on "$name" 2 "$@"
}

any_ranks() {
    passes_on llama0 4 16 8 1 4/2 16/4 2/2 1
    passes_on split0 8 4 8/4
    passes_on half0 4 8 8/2
}

# Vectors of f32 beside matrices of bf16, from the first step on: weights of both go into one file,
# and what is f32 has no master.
mixed_dtypes() {
    local ck=$WORK/passed.ck dir=$WORK/split0.any head
    any_trainer split0 || return
    rm -rf "$ck"
    export WIDE=1 RANKS=4
    timeout 60 "$dir/trainer" --data "$data" --threads 1 --quiet --checkpoint "$ck" \
        --init "$WORK/split0.ck/step-00000002" --steps 1 >"$dir.out" 2>"$dir.err" ||
        bad 'two dtypes: begins with the weights of one' "$dir.err"
    head=$(head -c 20000 "$ck/step-00000001/"model*.safetensors | tr -d '\0' | grep -ao '"dtype":"[A-Z0-9]*"' |
        sort | uniq -c | awk '{ printf "%s ", $2 }')
    check "two dtypes: both are in the files of weights: $head" \
        test "$head" = '"dtype":"BF16" "dtype":"F32" '
    grep -aq 'norm.weight' "$ck/step-00000001/optimizer/"moment1*.safetensors &&
        ! grep -aq 'norm.weight' "$ck/step-00000001/optimizer/"master*.safetensors
    check 'two dtypes: f32 has moments and no master' test $? = 0
    pass_on split0 1 8 1 4/2 8/4 2
    unset WIDE RANKS
    timeout 60 "$WORK/split0/trainer" verify "$ck" >"$dir.out" 2>&1
    check 'two dtypes: verify finds every step intact' test $? = 0
}

part same_bytes:families same_bytes
part beside:families beside
part gate_beside:families gate_beside
part memory_beside:families memory_beside
part any_ranks:families any_ranks
part mixed_dtypes:families mixed_dtypes
part faults_beside:first_checkpoint faults_beside
part whole_pages:families whole_pages
