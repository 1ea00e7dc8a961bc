# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the runtime alone, under a trainer written by hand (toy_trainer.c), its
# protocol under ThreadSanitizer. No generator is needed.
toy_flags="-std=gnu11 -Wall -Wextra -Werror -Wno-psabi -Wno-unknown-pragmas -ffp-contract=off
           -fno-math-errno -DRT_GEMM_BUILTIN -I$ROOT/runtime"

# toy_build NAME FLAGS...: $WORK/NAME, with its own objects where flags ask for a sanitizer.
toy_library() { # DIRECTORY FLAGS...
    local dir=$1 source
    shift
    mkdir -p "$dir"
    for source in "$ROOT"/runtime/{.,job,data,state,checkpoint,cpu}/*.c; do
        # shellcheck disable=SC2086
        cc $toy_flags "$@" -c "$source" -o "$dir/$(basename "$source" .c).o" || return 1
    done
}
toy_link() { # NAME DIRECTORY FLAGS...
    local name=$1 dir=$2
    shift 2
    # shellcheck disable=SC2086
    cc $toy_flags "$@" "$ROOT/tests/runtime/toy_trainer.c" "$dir"/*.o -o "$WORK/$name" -lm
}

# toy_result NAME FLAGS...: what must be equal for equal numerics, to NAME.result
toy_result() {
    local name=$1
    shift
    rm -f "$WORK/$name.jsonl" "$WORK/$name.result"
    "$WORK/$name" --data "$data" --log "$WORK/$name.jsonl" --weights-hash "$@" \
        >"$WORK/$name.out" 2>"$WORK/$name.err" || return 1
    { grep -o '_hex": "[^"]*' "$WORK/$name.jsonl"; tail -n 1 "$WORK/$name.out"; } \
        >"$WORK/$name.result"
    [ "$(wc -l <"$WORK/$name.result")" -eq 11 ]
}

toy_bits() {
    local dtype how flags ranks unsharded
    for dtype in 0 1 2; do
        rm -f "$WORK/toy.reference"
        for how in 1:1 1:2 2:2 1:4 2:4 4:4 1:8 2:8 4:8 8:8; do
            for unsharded in 0 1; do
                ranks=${how#*:}
                flags="-DDTYPE=$dtype -DCOPIES=${how%:*} -DWORLD=$ranks -DUNSHARDED=$unsharded"
                [ $((dtype == unsharded && ranks > 1)) = 1 ] && flags="$flags -DCOMM_THREAD=1"
                # shellcheck disable=SC2086
                if ! toy_link toy "$WORK/toy.lib" -O2 -fopenmp $flags || ! toy_result toy; then
                    bad "toy $flags: does not run" "$WORK/toy.err"
                    continue
                fi
                [ -e "$WORK/toy.reference" ] || cp "$WORK/toy.result" "$WORK/toy.reference"
                check "toy $flags: equal bits" cmp "$WORK/toy.reference" "$WORK/toy.result"
            done
        done
    done
}

# Gradients and losses that are not finite, at steps 2 and 3 of 5 on one rank: all ranks skip the
# updates, whoever they are; the run ends with the third in a row and not before.
toy_skips() {
    local dtype kind ranks flags reference=$WORK/skips.reference
    for dtype in 0 1 2; do
        for kind in nan inf nanloss; do
            rm -f "$reference"
            for ranks in 1 2 4; do
                flags="-DMAX_SKIPPED=2 -DDTYPE=$dtype -DWORLD=$ranks"
                # shellcheck disable=SC2086
                toy_link skips "$WORK/toy.lib" -O2 -fopenmp $flags || rm -f "$WORK/skips"
                TOY_FAULT=$kind:$((ranks - 1)):2-3 toy_result skips
                [ -e "$reference" ] || cp "$WORK/skips.result" "$reference"
                check "$kind $flags: equal bits" cmp "$reference" "$WORK/skips.result"
                if [ "$(grep -o '"skipped": [0-9]*' "$WORK/skips.jsonl" | tr -dc '0-9\n' |
                    tr '\n' ' ')" = "0 1 2 2 2 " ] &&
                   [ "$(grep -c '_hex": null' "$WORK/skips.jsonl")" -eq 2 ] &&
                   [ "$(grep -c 'update skipped: .* [12] so far' "$WORK/skips.out")" -eq 2 ]; then
                    ok "$kind $flags: logged"
                else
                    bad "$kind $flags: log" "$WORK/skips.jsonl"
                fi
            done
        done
    done
    toy_fails "one skip too many" 5 "step 4: .* those after step 1. .*: 3, max_skipped is 2" \
        env TOY_FAULT=nan:3:2-9 "$WORK/skips" --data "$data"
}

# toy_fails NAME CODE PATTERN COMMAND...
toy_fails() {
    local name=$1 want=$2 pattern=$3 begin code took program
    shift 3
    for program; do [[ $program = "$WORK"/* ]] && break; done
    begin=$(milliseconds)
    timeout -k 30 60 "$@" >"$WORK/fails.out" 2>"$WORK/fails.err"
    code=$?
    took=$(($(milliseconds) - begin))
    if [ $code -ne "$want" ]; then
        bad "$name: code $code, expected $want" "$WORK/fails.err"
    elif ! grep -qE -- "$pattern" "$WORK/fails.err"; then
        bad "$name: no line like '$pattern'" "$WORK/fails.err"
    elif [ "$(grep -c . "$WORK/fails.err")" -ne 1 ]; then
        bad "$name: one message was expected" "$WORK/fails.err"
    elif [ $took -gt $noticed_ms ]; then
        bad "$name: took $took ms"
    elif pgrep -f "^$program( |\$)" >/dev/null; then
        bad "$name: ranks were left behind"
    else
        ok "$name ($took ms)"
    fi
}

# toy_faults NAME PLACE RANK...: faults planted in the middle of a step of these ranks.
toy_faults() {
    local toy=$WORK/$1 rank at="at $2 of step 2"
    shift 2
    for rank in "$@"; do
        planted() { # KIND CODE PATTERN FLAGS...
            local kind=$1 code=$2 pattern=$3
            shift 3
            toy_fails "$(basename "$toy"): $kind on rank $rank" "$code" "$pattern" \
                env TOY_FAULT="$kind:$rank:2" "$toy" --data "$data" --steps 2000 "$@"
        }
        planted abort 134 "rank $rank was killed by signal 6 .* $at"
        planted exit 7 "rank $rank ended with code 7 $at"
        planted leave 1 "rank $rank ended with code 0 $at"
        planted stop 1 "rank $rank has stood still for 1.0 s $at" --deadline 1
        planted sleep 1 "rank $rank has stood still for 1.0 s $at" --deadline 1
        planted term 143 "ended by signal 15 .* of step"
        planted over 139 "rank $rank was killed by signal 11 .* $at" --guard
        planted under 139 "rank $rank was killed by signal 11 .* $at" --guard
        planted near 1 "rank $rank\] error: bytes around the arena were overwritten" --guard \
            --steps 3
        [ "${toy##*/}" = trainer ] && continue # tests/e2e/planted.sh does that
        planted nan 5 "step 2: the gradient norm is not finite; .* still those after step 1"
        planted inf 5 "step 2: the gradient norm is not finite"
        planted nanloss 5 "step 2: the loss is not finite"
    done
    toy_fails "a closed stdout ends no run" 0 "warning: stdout cannot be written: Bad file" \
        bash -c "'$toy' --data '$data' --steps 200 >&-"
    [ -w /dev/full ] && toy_fails "the log's disk is full" 1 "--log /dev/full: No space" \
        "$toy" --data "$data" --log /dev/full
}

# toy_ranks PID: sets children to the 4 ranks of a launcher, which has begun them all
toy_ranks() {
    local i
    for ((i = 0; i < 3000; i++)); do # at most a minute
        mapfile -t children < <(ranks_of "$1" 2>/dev/null)
        [ ${#children[@]} -eq 4 ] && return
        sleep 0.02
    done
}

# toy_kills NAME SIGNAL COUNT FLAGS...: at a random moment a random rank gets the signal; the job must
# notice that and end, with one message that names the rank, and leave no process behind.
toy_kills() {
    local name=$1 signal=$2 count=$3 i pid begin took code rank children good=0 most=$noticed_ms
    shift 3
    [ "$signal" != 19 ] || most=45000 # a rank that opens the data may stand still for 20 times --deadline
    for ((i = 0; i < count; i++)); do
        "$WORK/$name" --data "$data" --steps 1000000 --quiet "$@" >/dev/null \
            2>"$WORK/kill.err" &
        pid=$!
        toy_ranks "$pid"
        random 300
        sleep "0.$(printf %03d $((random_value + 20)))"
        random 4
        rank=$random_value
        begin=$(milliseconds)
        kill -"$signal" "${children[$rank]:-$pid}"
        wait "$pid" 2>/dev/null
        code=$?
        took=$(($(milliseconds) - begin))
        if [ ${#children[@]} -ne 4 ] || [ $((signal == 9 ? 137 : 1)) -ne $code ] ||
           [ $took -gt "$most" ] ||
           [ "$(grep -cE "rank $rank (was killed by signal 9|has stood still)" \
               "$WORK/kill.err")" -ne 1 ] || pgrep -f "^$WORK/$name " >/dev/null; then
            bad "$name: signal $signal to rank $rank: code $code after $took ms" "$WORK/kill.err"
        else
            good=$((good + 1))
        fi
    done
    [ $good -eq "$count" ] && ok "$name: signal $signal to a random rank, $count times"
}

# A rank that fails says why, also where a busy machine lets it go on only long after the others are
# to end, or where it comes late to its failure.
toy_tells() {
    toy_late "a rank that is slow to tell" job/rt_wait.c 's/^        rt_say("%s", text); .*/        sleep(2);\n&/'
    toy_late "a rank that comes late to its failure" checkpoint/rt_due.c \
        's/^    rt_fail(rt, RT_EXIT_GATE,/    for (const double from = rt_clock(); rt_clock() < from + 6;) {\n    }\n&/'
}

toy_late() { # WHAT FILE SED: the toy with this file edited so fails as it should
    local dir=$WORK/tells.lib name
    name=$(basename "$2" .c)
    rm -rf "$dir" && mkdir -p "$dir" && cp "$WORK/toy.lib"/*.o "$dir/"
    sed "$3" "$ROOT/runtime/$2" >"$dir/$name.c"
    # shellcheck disable=SC2086
    if cmp -s "$dir/$name.c" "$ROOT/runtime/$2" ||
        ! cc $toy_flags -O2 -fopenmp -I"$ROOT/runtime" -c "$dir/$name.c" -o "$dir/$name.o" ||
        ! toy_link tells "$dir" -O2 -fopenmp -DWORLD=4; then
        bad "$1: is not built"
        return
    fi
    toy_fails "$1" 5 "step 2: the gradient norm is not finite" \
        env TOY_FAULT=nan:2:2 "$WORK/tells" --data "$data" --steps 1000
}

# An exit handler of a library that hangs does not keep a job whose ranks are done.
toy_lingers() {
    local so=$WORK/lingers.so
    cc -O1 -Wall -Wextra -Werror -shared -fPIC "$ROOT/tests/runtime/lingers.c" -o "$so" ||
        { bad "lingers.c does not compile"; return; }
    LD_PRELOAD=$so timeout -k 30 90 "$WORK/toy4" --data "$data" --weights-hash --deadline 5 \
        >"$WORK/lingers.out" 2>"$WORK/lingers.err"
    check "ranks that are done but stay: code 0" test $? = 0
    check "the result is there" diff <(tail -n 1 "$WORK/lingers.out") <(tail -n 1 "$WORK/toy4.out")
    check "each is named" test "$(grep -cE 'warning: rank [0-3] is done, but its process did not end within 5.0 s' \
        "$WORK/lingers.err")" = 4
}

# Stopped and continued as a whole (Ctrl-Z, fg), a job goes on.
toy_suspended() {
    local pid code children
    TOY_FAULT=none "$WORK/toy4" --data "$data" --steps 1000000 --deadline 3 --quiet \
        >"$WORK/stop.out" 2>"$WORK/stop.err" &
    pid=$!
    toy_ranks "$pid"
    sleep 0.5
    kill -STOP "$pid" "${children[@]}"
    sleep 5
    kill -CONT "${children[@]}" "$pid"
    sleep 4
    if ! kill -TERM "$pid" 2>/dev/null; then
        bad "a job that was suspended goes on" "$WORK/stop.err"
        return
    fi
    wait "$pid"
    code=$?
    if [ $code -eq 143 ]; then
        ok "a job that was suspended goes on"
    else
        bad "a job that was suspended: code $code" "$WORK/stop.err"
    fi
}

# A crash that a limit may have caused names it; a stack that is too small is refused.
toy_limits() {
    toy_fails 'a crash under a limit' 134 'signal 6 .*; does it need more than `ulimit -d 100000000[^`]*` allows\?$' \
        env TOY_FAULT=abort:1:2 prlimit --data=102400000000: "$WORK/toy4" --data "$data" --steps 2000
    toy_fails 'a small stack' 1 '`ulimit -s` allows a stack of 128 KiB, and ranks need at least 256' \
        prlimit --stack=131072: "$WORK/toy4" --data "$data" --steps 2
}

# What the caller has the job ignore, it ignores: nohup and a terminal that closes.
toy_nohup() {
    local pid rank code children
    nohup "$WORK/toy4" --data "$data" --steps 1000000 --quiet >"$WORK/nohup.out" 2>&1 &
    pid=$!
    toy_ranks "$pid"
    sleep 0.5
    kill -HUP "$pid" "${children[@]}"
    kill -INT "$pid" # ignored too: a background job of a script
    sleep 0.5
    rank=$(pgrep -P "$pid" | head -n 1)
    kill -TERM "${rank:-$pid}" # one rank is asked, all end
    wait "$pid" 2>/dev/null
    code=$?
    if [ $code -eq 143 ] && [ -n "$rank" ]; then
        ok "nohup, then SIGTERM to one rank"
    else
        bad "nohup, then SIGTERM to one rank: code $code" "$WORK/nohup.out"
    fi
}

# ---- launchers -------------------------------------------------------------------------------

# started_by LAUNCHER RANK RANKS: as=(...), the command before one rank of that launcher's
started_by() {
    local rank=$2 ranks=$3
    case $1 in
    torchrun) as=(env RANK="$rank" WORLD_SIZE="$ranks" LOCAL_RANK="$rank"
        LOCAL_WORLD_SIZE="$ranks" MASTER_ADDR=localhost MASTER_PORT=29500 OMP_NUM_THREADS=1
        TORCHELASTIC_RUN_ID="toy-$$" TORCHELASTIC_ERROR_FILE="$WORK/error.$rank.json") ;;
    mpirun) as=(env OMPI_COMM_WORLD_RANK="$rank" OMPI_COMM_WORLD_SIZE="$ranks"
        OMPI_COMM_WORLD_LOCAL_SIZE="$ranks" PMIX_NAMESPACE="toy-$$") ;;
    srun) as=(env SLURM_PROCID="$rank" SLURM_STEP_NUM_TASKS="$ranks" SLURM_JOB_ID=$$
        SLURM_STEP_ID=0 SLURM_STEP_TASKS_PER_NODE="$ranks") ;;
    mpiexec) as=(env PMI_RANK="$rank" PMI_SIZE="$ranks") ;;
    esac
}

# join_start LAUNCHER RANKS NAME FLAGS...: all ranks in the background; watchers: their pids
join_start() {
    local launcher=$1 ranks=$2 name=$3 rank
    shift 3
    watchers=()
    rm -f "$WORK"/error.*.json # torchrun makes a folder for each start
    for ((rank = ranks - 1; rank >= 0; rank--)); do
        started_by "$launcher" "$rank" "$ranks"
        "${as[@]}" "$WORK/$name" --data "$data" "$@" \
            >"$WORK/join.$rank.out" 2>"$WORK/join.$rank.err" &
        watchers[rank]=$!
    done
}

join_codes() { # waits for all; codes: theirs
    local rank
    codes=
    for rank in "${!watchers[@]}"; do
        wait "${watchers[$rank]}" 2>/dev/null
        codes="$codes $?"
    done
    cat "$WORK"/join.*.err >"$WORK/join.err"
}

toy_joined() {
    local launcher rank what i begin victim as
    for launcher in torchrun mpirun srun mpiexec; do
        join_start $launcher 4 toy4 --weights-hash
        join_codes
        if [ "$codes" = " 0 0 0 0" ] &&
           [ "$(tail -n 1 "$WORK/join.0.out")" = "$(tail -n 1 "$WORK/toy4.out")" ]; then
            ok "$launcher starts the ranks"
        else
            bad "$launcher starts the ranks: codes$codes" "$WORK/join.err"
        fi
    done
    for rank in 0 2; do # a rank, then the process that watches it with its rank
        for what in rank watcher; do
            join_start torchrun 4 toy4 --steps 300000 --quiet
            for i in $(seq 3000); do
                [ "$(pgrep -f "^$WORK/toy4 " | wc -l)" -eq 8 ] && break
                sleep 0.02
            done
            sleep 0.3
            victim=${watchers[$rank]}
            [ $what = rank ] && victim=$(pgrep -P "$victim")
            begin=$(milliseconds)
            kill -KILL "$victim"
            join_codes
            if [ $(($(milliseconds) - begin)) -gt $noticed_ms ] ||
               pgrep -f "^$WORK/toy4 " >/dev/null; then
                bad "torchrun: kill -9 of $what $rank: the others stay" "$WORK/join.err"
            elif [ "$(grep -cE "rank $rank (was killed by signal 9|is gone)" \
                "$WORK/join.err")" -ne 1 ]; then
                bad "torchrun: kill -9 of $what $rank: codes$codes" "$WORK/join.err"
            else
                ok "torchrun: kill -9 of $what $rank ends the job"
            fi
        done
    done
    check "torchrun gets the error" grep -q '"message": "rank 2' "$WORK"/error.*.json
}

toy_join_refused() {
    local as wrong
    started_by torchrun 0 2
    toy_fails "too few ranks" 2 "torchrun started 2 ranks, but this trainer was generated for 4" \
        "${as[@]}" "$WORK/toy4" --data "$data"
    started_by torchrun 4 4
    toy_fails "a rank too many" 2 "says that this is rank 4, of 4: they count from 0" \
        "${as[@]}" "$WORK/toy4" --data "$data"
    for wrong in RANK=99999999 RANK=1x WORLD_SIZE=-2 WORLD_SIZE=0; do
        started_by torchrun 0 4
        toy_fails "$wrong" 2 "error: $wrong in the environment is not a number of" \
            "${as[@]}" "$wrong" "$WORK/toy4" --data "$data"
    done
    toy_fails "ranks on another machine" 2 "put 2 of 4 ranks on this machine" \
        env RANK=0 WORLD_SIZE=4 LOCAL_WORLD_SIZE=2 "$WORK/toy4" --data "$data"
    started_by torchrun 0 4
    toy_fails "a rank that never comes" 1 "1 of 4 ranks came; rank 1 did not" \
        "${as[@]}" "$WORK/toy4" --data "$data" --deadline 1
    started_by torchrun 2 4
    toy_fails "rank 0 never comes" 1 "rank 0 did not come to this machine" \
        "${as[@]}" "$WORK/toy4" --data "$data" --deadline 1
    check "a batch script without srun" env SLURM_PROCID=0 SLURM_NTASKS=4 \
        "$WORK/toy4" --data "$data"
    started_by torchrun 0 1
    check "--local under a launcher" "${as[@]}" "$WORK/toy4" --data "$data" --local
    started_by torchrun 0 2
    "${as[@]}" "$WORK/toy2" --data "$data" >"$WORK/join.0.out" 2>"$WORK/join.0.err" &
    watchers=($!)
    started_by torchrun 1 2
    "${as[@]}" "$WORK/toy2other" --data "$data" >"$WORK/join.1.out" 2>"$WORK/join.1.err" &
    watchers[1]=$!
    join_codes
    if [ "$codes" = " 1 1" ] && grep -q "rank 1 runs another trainer" "$WORK/join.err"; then
        ok "ranks of different trainers"
    else
        bad "ranks of different trainers: codes$codes" "$WORK/join.err"
    fi
}

# The file that torchrun names for an error takes one; what it did not make is left alone.
toy_error_file() {
    local as launcher file=$WORK/error.0.json kept=$WORK/error.kept fail=("$WORK/toy2" --data "$data")
    for launcher in mpirun torchrun; do # 4 ranks of 2: refused before it meets the others
        started_by $launcher 0 4
        cp "$data" "$kept"
        check "$launcher: an error" bash -c '! "$@"' - "${as[@]}" TORCHELASTIC_ERROR_FILE="$kept" "${fail[@]}"
        check "$launcher: is not written over data" cmp "$data" "$kept"
        rm -f "$file"
        check "$launcher: a new file" bash -c '! "$@"' - "${as[@]}" TORCHELASTIC_ERROR_FILE="$file" "${fail[@]}"
        check "$launcher: takes it under torchrun only" test "$(grep -c "^{.message.: .*$launcher started 4 ranks" \
            "$file" 2>/dev/null)" = "$([ $launcher = torchrun ] && echo 1)"
    done
    rm -f "$file" && mkfifo "$file"
    toy_fails "nor does a pipe hold the end up" 2 "torchrun started 4 ranks" timeout 5 "${as[@]}" "${fail[@]}"
    rm "$file" && ln -s "$WORK/error.linked" "$file"
    check "a link is not followed" bash -c '! "$@" && test ! -e "$0"' "$WORK/error.linked" "${as[@]}" "${fail[@]}"
    rm "$file" && : >"$file"
    check "an empty file takes the error" bash -c '! "$@" && grep -q "message.: .*torchrun started 4 ranks" "$0"' \
        "$file" "${as[@]}" "${fail[@]}"
    rm "$file"
}

# disagree NAME CODES PATTERN FLAGS_OF_RANK_0 FLAGS_OF_RANK_1: two ranks, each started alone
disagree() {
    local name=$1 expected=$2 pattern=$3 rank as flags
    watchers=()
    for rank in 0 1; do
        started_by torchrun $rank 2
        read -ra flags <<<"$4"
        "${as[@]}" "$WORK/toy2" "${flags[@]}" >"$WORK/join.$rank.out" 2>"$WORK/join.$rank.err" &
        watchers[rank]=$!
        shift
    done
    join_codes
    if [ "$codes" = "$expected" ] && grep -qE -- "$pattern" <(echo; cat "$WORK/join.err"); then
        ok "$name"
    else
        bad "$name: codes$codes, or no line like '$pattern'" "$WORK/join.err"
    fi
}

# What every rank finds, or is asked for, by itself must be what the others are.
toy_disagreements() {
    local same=$WORK/same.txt other=$WORK/other.txt short=$WORK/short.txt
    cp "$data" "$same"
    { head -c -1 "$data"; printf X; } >"$other"
    head -c 5000 "$data" >"$short"
    disagree 'the same data under another name' ' 0 0' '' "--data $data" "--data $same"
    disagree 'other data of the same size' ' 1 1' \
        '^\[rank 1\] error: --data: its files are not those of rank 0' "--data $data" "--data $other"
    perl -pe 'BEGIN { undef $/ } substr($_, 5700, 1) = "#"' <"$data" >"$other"
    disagree 'another byte in the middle' ' 1 1' \
        '^\[rank 1\] error: --data: .*other.txt differs from rank 0.s copy, though it has the same size' \
        "--data $data" "--data $other"
    disagree 'less data' ' 1 1' 'rank 0: [0-9]* sequences here, [0-9]* there' "--data $data" \
        "--data $short"
    disagree 'one file more' ' 1 1' '--data: its files are not' "--data $same" \
        "--data $WORK/same*.txt --data $short"
    disagree 'other steps' ' 2 2' \
        '^\[rank 1\] error: --steps is not what rank 0 was given: start all' \
        "--data $data --steps 3" "--data $data --steps 4"
    disagree 'another seed' ' 2 2' '--seed is not' "--data $data --seed 3" "--data $data"
    disagree 'a flag of one rank' ' 2 2' '--weights-hash is not' "--data $data" \
        "--data $data --weights-hash"
}

# ---- the rest --------------------------------------------------------------------------------

toy_openmp() {
    local variable
    for variable in OMP_PROC_BIND=true OMP_NUM_THREADS=8 "OMP_PLACES=cores" OMP_DYNAMIC=true; do
        if env "$variable" "$WORK/toy4" --data "$data" --weights-hash >"$WORK/omp.out" 2>&1 &&
           [ "$(tail -n 1 "$WORK/omp.out")" = "$(tail -n 1 "$WORK/toy4.out")" ]; then
            ok "$variable"
        else
            bad "$variable" "$WORK/omp.out"
        fi
    done
}

toy_allocations() {
    local steps counts=
    cc -O1 -shared -fPIC "$ROOT/tests/e2e/alloc_hook.c" -o "$WORK/alloc_hook.so" || return 1
    for steps in 3 40; do
        rm -f "$WORK/allocations"
        ALLOC_HOOK_FILE=$WORK/allocations LD_PRELOAD=$WORK/alloc_hook.so "$WORK/toy4" \
            --data "$data" --steps $steps --log "$WORK/alloc.jsonl" >/dev/null 2>&1 || return 1
        counts="$counts $(od -An -tu8 -w32 "$WORK/allocations" | awk '{ print $1 }')"
    done
    echo "allocations of our own in 3 and in 40 steps:$counts"
    # shellcheck disable=SC2086
    set -- $counts
    [ "$1" -gt 10 ] && [ "$1" = "$2" ]
}

# More memory than any machine has: said before, and refused when it is mapped.
toy_memory() {
    [ "$(cat /proc/sys/vm/overcommit_memory)" != 1 ] ||
        { echo "skipped: an arena that no machine has (vm.overcommit_memory is 1)"; return; }
    if ! toy_link toy_huge "$WORK/toy.lib" -O2 -fopenmp -DWORLD=2 \
        '-DEXTRA_BYTES=(INT64_C(1)<<45)'; then
        bad "building a trainer too big for this machine"
        return
    fi
    "$WORK/toy_huge" --data "$data" >"$WORK/huge.out" 2>"$WORK/huge.err"
    if [ $? -eq 1 ] && grep -q "warning: the arenas of 2 ranks take .* are available" \
        "$WORK/huge.err" && grep -q "private memory for this rank's arena: Cannot" \
        "$WORK/huge.err" && [ "$(wc -l <"$WORK/huge.err")" -eq 2 ]; then
        ok "an arena that no machine has"
    else
        bad "an arena that no machine has" "$WORK/huge.err"
    fi
}

toy_threads() {
    local flags="-O1 -g -fsanitize=thread" sources
    sources="$ROOT/tests/runtime/comm_test.c $ROOT/runtime/cpu/rt_comm.c $ROOT/runtime/cpu/rt_pull.c $ROOT/runtime/state/rt_collective.c
             $ROOT/runtime/cpu/rt_sum.c $ROOT/runtime/job/rt_wait.c $ROOT/runtime/job/rt_say.c
             $ROOT/runtime/job/rt_json.c $ROOT/runtime/job/rt_launcher.c"
    # shellcheck disable=SC2086
    if ! cc $toy_flags $flags $sources -o "$WORK/comm_test" -lpthread ||
       ! cc $toy_flags $flags -DCOMM_THREAD=1 $sources -o "$WORK/comm_thread" -lpthread ||
       ! cc $toy_flags $flags -DNODE=2 $sources -o "$WORK/comm_nodes" -lpthread ||
       ! cc $toy_flags $flags -DEARLY $sources -o "$WORK/comm_early" -lpthread; then
        bad "building with ThreadSanitizer"
        return
    fi
    check "the protocol under ThreadSanitizer" "${in_place[@]}" "$WORK/comm_test"
    check "the same with communication threads" "${in_place[@]}" "$WORK/comm_thread"
    check "the same with sums in two hops" "${in_place[@]}" "$WORK/comm_nodes"
    if "${in_place[@]}" "$WORK/comm_early" >"$WORK/early.log" 2>&1; then
        bad "a buffer rewritten too early is not noticed"
    else
        ok "a buffer rewritten too early is noticed"
    fi
}

toy() { # the trainer written by hand, which the parts below need
    if ! toy_library "$WORK/toy.lib" -O2 -fopenmp ||
       ! toy_link toy4 "$WORK/toy.lib" -O2 -fopenmp -DWORLD=4 ||
       ! toy_link toy4comm "$WORK/toy.lib" -O2 -fopenmp -DWORLD=4 -DCOMM_THREAD=1 ||
       ! toy_link toy2 "$WORK/toy.lib" -O2 -fopenmp -DWORLD=2 ||
       ! toy_link toy2other "$WORK/toy.lib" -O2 -fopenmp -DWORLD=2 -DNUMERICS=99 ||
       ! toy_result toy4; then
        bad "building the trainer written by hand" "$WORK/toy4.err"
    fi
}
toy_all_faults() {
    toy_faults toy4 'table backward' 0 3
    toy_faults toy4comm 'table backward' 3
}
toy_all_kills() {
    if [ "$FULL" = 1 ]; then
        toy_kills toy4 9 200
        toy_kills toy4 19 50 --deadline 1
        toy_kills toy4comm 9 100
        toy_kills toy4comm 19 20 --deadline 1
    else
        toy_kills toy4 9 20
        toy_kills toy4 19 3 --deadline 1
        toy_kills toy4comm 9 5
        toy_kills toy4comm 19 2 --deadline 1
    fi
}
toy_parts() {
    part toy toy
    part toy_bits:toy turn 1 2 toy_bits
    part toy_skips:toy toy_skips
    part toy_faults:toy toy_all_faults
    part toy_kills:toy toy_all_kills
    local name
    for name in tells limits lingers suspended nohup joined join_refused error_file door disagreements openmp; do
        part toy_$name:toy toy_$name
    done
    part toy_allocations:toy check "a step allocates nothing" toy_allocations
    part toy_memory:toy toy_memory
    part toy_threads:toy turn 0 2 toy_threads
}
