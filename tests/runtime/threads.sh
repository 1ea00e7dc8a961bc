# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: how the threads of a rank wait, the cores that they are on, limits of OpenMP.

# cores_here: that a rank may use. A container's quota is less than nproc, which need not know it.
cores_here() {
    grep -rqs --include=cpu.max --include=cpu.cfs_quota_us '^[0-9]' /sys/fs/cgroup || { nproc; return; }
    env -u OMP_PROC_BIND -u OMP_PLACES "$WORK/one/trainer" --data "$data" --steps 1 2>&1 |
        sed -n 's/.*1 rank x \([0-9]*\) threads\?,.*/\1/p'
}

# waits_as LINE [NAME=VALUE...]: how the threads of a rank wait, in the environment that it has
waits_as() {
    local line=$1 job environment
    shift
    env -u GOMP_SPINCOUNT -u OMP_WAIT_POLICY "$@" "$WORK/one/trainer" --data "$data" --steps 1000000 \
        --threads 2 --log "$WORK/waits.jsonl" --force >/dev/null 2>&1 &
    job=$!
    timeout 30 sh -c "until [ -s '$WORK/waits.jsonl' ]; do sleep 0.05; done"
    environment=$(tr '\0' '\n' <"/proc/$(pgrep -P $job | head -n 1)/environ" |
        grep -E '^(GOMP_SPINCOUNT|OMP_WAIT_POLICY)=' | xargs)
    kill -KILL $job
    wait $job 2>/dev/null
    rm -f "$WORK/waits.jsonl"
    [ "$environment" = "$line" ]
}

# Threads that wait for their team sleep soon, so that other programs have the core; a user who says
# otherwise is obeyed (tests/bench/busy.sh measures it).
waits_of_threads() {
    local own=GOMP_SPINCOUNT=1000
    [ "$(cores_here)" -ge 2 ] || own=OMP_WAIT_POLICY=passive # more threads than cores
    check "threads that wait sleep soon" waits_as $own
    check "OMP_WAIT_POLICY stays" waits_as OMP_WAIT_POLICY=active OMP_WAIT_POLICY=active
    check "GOMP_SPINCOUNT stays" waits_as GOMP_SPINCOUNT=77 GOMP_SPINCOUNT=77
}

# cpus_as LAUNCHER [NAME=VALUE...]: the CPUs of the ranks of $t, in that environment; the launcher
# starts each of them, or `alone` the trainer.
cpus_as() {
    local launcher=$1 rank ranks=(0) pid jobs=() as=(env)
    shift
    [ "$launcher" = alone ] || ranks=(0 1 2 3)
    rm -f "$WORK/cpus.jsonl"
    for rank in "${ranks[@]}"; do
        [ "$launcher" = alone ] || started_by "$launcher" "$rank" 4
        "${as[@]}" "$@" "$t" --data "$data" --steps 1000000 --log "$WORK/cpus.jsonl" >/dev/null 2>&1 &
        jobs+=($!)
    done
    timeout 30 sh -c "until [ -s '$WORK/cpus.jsonl' ]; do sleep 0.05; done"
    for pid in "${jobs[@]}"; do
        pgrep -P "$pid" | sed 's|.*|/proc/&/status|' | xargs grep -h '^Cpus_allowed:'
    done | sort
    kill -KILL "${jobs[@]}"
    wait "${jobs[@]}" 2>/dev/null
}

# OpenMP that is asked to bind threads binds the first thread of each process to the first core,
# before main.
bound_threads() {
    local launcher what
    for launcher in alone torchrun srun; do
        cpus_as $launcher >"$WORK/cpus"
        check "$launcher: CPUs of four ranks" test "$(wc -l <"$WORK/cpus")" = 4
        for what in OMP_PROC_BIND=true OMP_PLACES=cores; do
            check "$launcher: the same with $what" diff "$WORK/cpus" <(cpus_as $launcher $what)
        done
    done
    OMP_PROC_BIND=true timeout -k 30 60 "$WORK/one/trainer" --data "$data" --steps 1 >"$WORK/bound.out" 2>&1
    check "a rank that OpenMP binds has a thread for each core" grep -qE \
        "1 rank x $(cores_here) threads?," "$WORK/bound.out"
}

# limited THREADS [NAME=VALUE...]: $WORK/limited.out, .err of the trainer, in that environment
limited() {
    local threads=$1
    shift
    env "$@" timeout -k 30 60 "$WORK/limited/trainer" --data "$data" --steps 2 \
        --weights-hash --threads "$threads" >"$WORK/limited.out" 2>"$WORK/limited.err"
}

# Where OpenMP starts fewer threads than asked for, they are told, and change no bit: of products
# that oneDNN would split.
limited_threads() {
    local what want
    generate "$WORK/limited" "$tiny" --set seq=64 && build_trainer "$WORK/limited" ||
        bad "building the trainer of longer samples" "$WORK/limited.log"
    limited 1
    want=$(tail -n 1 "$WORK/limited.out")
    for what in OMP_THREAD_LIMIT=1 OMP_MAX_ACTIVE_LEVELS=0; do
        limited 3 $what
        check "$what: the same weights" test "${want%% *} $(tail -n 1 "$WORK/limited.out")" = \
            "weights $want"
        check "$what: one thread is told" grep -q "1 rank x 1 thread," "$WORK/limited.out"
        check "$what: and why" grep -q "^trainer: note: each rank has 1 thread, not 3: ${what%=*} " \
            "$WORK/limited.err"
        limited 1 $what
        check "$what: no note where one is asked for" test ! -s "$WORK/limited.err"
    done
}
