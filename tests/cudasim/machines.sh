# SPDX-License-Identifier: Apache-2.0
# machines.sh, read by run.sh: ranks on several machines. All run here, and a launcher's variables
# say otherwise: those of one machine share a page, and meet the others by TCP. They must train to
# the bits of one machine's ranks, save and go on; what may go wrong with machines must end the job
# everywhere, with a line that says so.

# on PLACE DIR FLAGS...: the ranks of one machine, in the background: PLACE is MACHINE:RANK,RANK...
# Of them $told says the launcher's variables; pids in `pids`, output in DIR.rankN.
on() {
    local machine=${1%%:*} ranks dir=$2 rank local=0
    IFS=, read -ra ranks <<<"${1#*:}"
    shift 2
    mkdir -p "$WORK/machine$machine" # what is not shared
    for rank in "${ranks[@]}"; do
        env -C "$WORK/machine$machine" "${told[@]}" RANK="$rank" LOCAL_RANK=$local \
            LOCAL_WORLD_SIZE=${#ranks[@]} GROUP_RANK="$machine" "$dir/trainer" --data "$data" \
            --threads 1 "$@" >"$dir.rank$rank" 2>&1 &
        pids+=($!)
        local=$((local + 1))
    done
}

# ended: waits for all; their exit codes, in the order of their starts
ended() {
    local pid code codes=
    for pid in "${pids[@]}"; do
        wait "$pid" 2>/dev/null
        code=$?
        codes="$codes $code"
    done
    pids=()
    echo "$codes" >"$WORK/codes"
}

# job DIR PLACES... -- FLAGS...: all machines; their output in DIR.log
job() {
    local dir=$1 places=() place
    shift
    while [ "$1" != -- ]; do places+=("$1"); shift; done
    shift
    rm -f "$dir".rank*
    port=$((port + 1))
    told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=job)
    for place in "${places[@]}"; do on "$place" "$dir" "$@"; done
    ended
    cat "$dir".rank* >"$dir.log"
}

# says WHAT CODES LINE: how the last job ended, and the one line it says so with
says() {
    if ! grep -qxE -- "$2" "$WORK/codes"; then
        { echo "exit codes:$(cat "$WORK/codes")"; cat "$dir.log"; } >"$WORK/said"
        bad "several machines: $1" "$WORK/said"
    elif [ "$(grep -cE -- "$3" "$dir.log")" -ge 1 ]; then
        ok "several machines: $1"
    else
        bad "several machines: $1: another message" "$dir.log"
    fi
}

bits_of() {
    grep -o '"step": *[0-9]*\|"loss_hex": *"[^"]*"\|"grad_norm_hex": *"[^"]*"' "$1.jsonl"
    grep -h '^weights ' "$1".rank*
}

# sample WORDS...: all with FULL=1, else one of them, by SEED
sample() {
    if [ "$FULL" = 1 ]; then printf '%s\n' "$@"; else shift $((SEED % $#)) && echo "$1"; fi
}

# the same bits as on one machine, however the ranks lie
machines_train() {
    local places
    while read -r places; do
        # shellcheck disable=SC2086 # a word a machine
        job "$dir" $places -- --steps $STEPS --log "$dir.jsonl" --weights-hash
        bits_of "$dir" >"$dir.result"
        check "machines and their ranks $places: the bits of one machine" \
            cmp "$dir.result" "$WORK/alone.result"
        check "where machines are not the plan's nodes a line says so" \
            grep -q "warning: [12] ranks\? .* on a machine, and the plan counts on 4" "$dir.log"
    done < <(sample "0:0,1 1:2,3" "0:0 1:1,2,3" "0:0,1 1:3 2:2")
}

# Three that come one after the other, further apart than a machine may be silent later.
machines_late() {
    port=$((port + 1))
    told=(WORLD_SIZE=4 MASTER_ADDR=localhost MASTER_PORT=$port)
    rm -f "$dir".rank*
    on 1:2 "$dir" --steps $STEPS --weights-hash --deadline 16
    on 0:0,1 "$dir" --steps $STEPS --weights-hash --deadline 16 --log "$dir.jsonl"
    sleep 10
    on 2:3 "$dir" --steps $STEPS --weights-hash --deadline 16
    ended
    bits_of "$dir" >"$dir.result"
    cat "$dir".rank* >"$dir.log"
    says "one comes late" " 0 0 0 0" "^weights"
    check "several machines: one comes late: the bits of one machine" \
        cmp "$dir.result" "$WORK/alone.result"
}

# Slurm's words, and a place of its own to meet
machines_slurm() {
    local rank
    rm -f "$dir".rank*
    for rank in 0 1 2 3; do
        env SLURM_PROCID=$rank SLURM_STEP_NUM_TASKS=4 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 \
            SLURM_STEP_TASKS_PER_NODE='1(x2),2' SLURM_NODEID=$((rank < 2 ? rank : 2)) \
            SLURM_LOCALID=$((rank == 3)) "$dir/trainer" --data "$data" --threads 1 --quiet \
            --meet "localhost:$((port + 500))" --steps $STEPS --log "$dir.jsonl" --weights-hash \
            >"$dir.rank$rank" 2>&1 &
        pids+=($!)
    done
    ended
    bits_of "$dir" >"$dir.result"
    check "three machines under srun: the bits of one" cmp "$dir.result" "$WORK/alone.result"
}

# A signal to any of them: all stop after one step, saved; they go on from it to the bits of a run
# that was never stopped, on one machine.
machines_save() {
    local ck=$WORK/machines.ck
    rm -rf "$ck" "$dir".rank* "$dir.jsonl"
    port=$((port + 1))
    told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port)
    on 0:0,1 "$dir" --steps 100000 --checkpoint "$ck" --checkpoint-every 1 --keep 2
    on 1:2,3 "$dir" --steps 100000 --checkpoint "$ck" --checkpoint-every 1 --keep 2
    timeout 600 bash -c "until grep -qs '^step *2/' '$dir.rank0'; do sleep 0.05; done"
    kill -TERM "${pids[3]}"
    ended
    cat "$dir".rank* >"$dir.log"
    says "a signal to one of them: all end, saved" " 75 75 75 75" \
        "signal 15 \(Terminated\): stopped after step [0-9]+, which is saved"
    local at
    at=$(sed -n 's/.*stopped after step \([0-9]*\),.*/\1/p' "$dir.log" | head -n 1)
    job "$dir" 0:0,1,2 1:3 -- --steps $((at + 1)) --checkpoint "$ck" --resume --weights-hash
    grep -h '^weights' "$dir.log" >"$dir.weights"
    "$dir/trainer" --data "$data" --threads 1 --steps $((at + 1)) --weights-hash --quiet 2>&1 |
        grep '^weights' >"$WORK/whole.weights"
    check "on other machines they go on to the bits of a run never stopped" \
        cmp "$dir.weights" "$WORK/whole.weights"
    rm -rf "$ck"
    check "large_pages.c compiles" cc -O1 -shared -fPIC "$ROOT/tests/runtime/large_pages.c" -o "$WORK/large_pages.so"
    LD_PRELOAD=$WORK/large_pages.so job "$dir" 0:0,1 1:2,3 -- --steps 2 --checkpoint "$ck" --guard --quiet
    says "pages of 64 KiB" " 0 0 0 0" ""
    rm -rf "$ck"
    job "$dir" 0:0,1 1:2,3 -- --steps 2 --checkpoint "$ck" --one-writer
    says "one writer a file is refused" " 1 1 1 1" "none can write a file for the others"
}

# Folders of one name that each machine has for itself.
machines_apart() {
    local own=("$WORK/machine0" "$WORK/machine1")
    rm -rf "${own[@]}"/*
    job "$dir" 0:0,1 1:2,3 -- --steps 2 --checkpoint own.ck
    says "a folder of checkpoints that is not shared" " 1 1 1 1" \
        "rank [23]\] error: --checkpoint: what rank 0 writes in own.ck is not there for rank [23]"
    "$dir/trainer" --data "$data" --threads 1 --steps 1 --quiet --checkpoint "${own[0]}/model" >"$dir.log" 2>&1 &&
        "$dir/trainer" --data "$data" --threads 1 --steps 1 --quiet --seed 7 --checkpoint "${own[1]}/model" \
            >"$dir.log" 2>&1 || bad "several machines: models of their own" "$dir.log"
    job "$dir" 0:0,1 1:2,3 -- --steps 1 --init model/step-00000001
    says "a model that differs between machines" " 1 1 1 1" \
        "--init: model/step-00000001 is another checkpoint for rank [23] than for rank 0"
    rm -rf "${own[1]}/model" && cp -r "${own[0]}/model" "${own[1]}"
    job "$dir" 0:0,1 1:2,3 -- --steps 1 --init model/step-00000001
    says "copies of one model" " 0 0 0 0" ""
    rm -rf "${own[@]}"/*
}

# A machine that goes, or goes silent, in the middle of a run.
machines_lost() {
    local signal line pid
    for signal in $(sample KILL STOP); do
        port=$((port + 1))
        told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port)
        rm -f "$dir".rank*
        on 0:0,1 "$dir" --steps 100000 --deadline 12
        on 1:2,3 "$dir" --steps 100000 --deadline 12
        timeout 600 bash -c "until grep -qs '^step *2/' '$dir.rank0'; do sleep 0.05; done"
        kill -$signal "${pids[@]:2}" # the watchers, with whom their ranks go, or those alone
        if [ $signal = KILL ]; then
            line='the machine of rank 2 is lost: (it closed the connection|Connection reset)'
        else
            line='the machine of rank 2 is lost: it has said nothing for 6 s'
            for pid in "${pids[@]:0:2}"; do timeout 60 tail --pid="$pid" -f /dev/null; done
            kill -KILL "${pids[@]:2}"
        fi
        ended
        cat "$dir".rank0 "$dir".rank1 >"$dir.log"
        says "one of them gets SIG$signal" " 1 1 137 137" "$line"
        check "several machines: that is the only line" [ "$(grep -c 'error:' "$dir.log")" = 1 ]
    done
}

machines_refused() {
    local first
    job "$dir" 0:0,1 -- --steps 2 --deadline 6
    says "one does not come" " 1 1" "2 of 4 ranks came to 127.0.0.1:$port; the machine of rank 2"
    job "$dir" 1:2,3 -- --steps 2 --deadline 6
    says "rank 0's does not come" " 1 1" "rank 0's machine does not answer at 127.0.0.1:$port"
    job "$dir" 0:0,1 1:2,3 -- --steps 2 --loopback
    says "they cannot share GPUs" " 2 2 2 2" "put 2 of 4 ranks on this machine; --loopback needs"
    job "$dir" 0:0,1 1:2,3 -- --steps 2 --meet nowhere
    says "no place to meet" " 1 1 1 1" "meet: .nowhere. is not HOST:PORT"
    job "$dir" 0:0,1 -- --steps 2 --meet fd00::1:29500
    says "an address without brackets" " 1 1" "an IPv6 address is written \\[ADDRESS\\]:PORT"
    job "$dir" 0:0,1 -- --steps 2 --meet 203.0.113.7:29500
    says "an address of no machine here" " 1 1" "cannot listen at 203.0.113.7:29500, .*: Cannot assign"
    job "$dir" 0:0,1 1:1,3 -- --steps 2 --deadline 30
    says "two have the same rank" " 1 1 1 1" "two machines say that they have rank 1"
    check "several machines: and the other one is told" \
        grep -q "rank 0's machine says: two machines say" "$dir.rank3"
    told=(WORLD_SIZE=4)
    on 0:0,1 "$dir" --steps 2 --deadline 2
    ended
    cat "$dir".rank* >"$dir.log"
    says "nothing says where" " 1 1" "nothing says where these meet: pass --meet HOST:PORT"

    # a stranger first, who sends what is no greeting: nobody minds
    port=$((port + 1))
    told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port)
    rm -f "$dir".rank*
    on 0:0,1 "$dir" --steps $STEPS --log "$dir.jsonl" --weights-hash
    timeout 600 bash -c "until { exec 3<>/dev/tcp/127.0.0.1/$port; } 2>/dev/null; do
        sleep 0.05; done; head -c 4000 '$data' >&3"
    on 1:2,3 "$dir" --steps $STEPS --weights-hash
    ended
    bits_of "$dir" >"$dir.result"
    check "several machines: a stranger at the door" cmp "$dir.result" "$WORK/alone.result"

    # another trainer on one of them
    port=$((port + 1))
    told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port)
    rm -f "$dir".rank*
    on 0:0,1 "$dir" --steps 2 --deadline 30
    on 1:2,3 "$WORK/other" --steps 2 --deadline 30
    ended
    cat "$dir".rank* "$WORK/other".rank* >"$dir.log"
    says "one runs another trainer" " 1 1 1 1" "the machine of rank 2 runs another trainer"
    check "several machines: and the other one is told" \
        grep -q "rank 0's machine says: the machine of rank 2 runs another" "$WORK/other.rank2"

    # another job at the same place, which ends only later
    port=$((port + 1))
    told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=first)
    on 0:0,1 "$dir" --steps 2 --deadline 120
    listens $port
    first=("${pids[@]}") pids=()
    told[3]=TORCHELASTIC_RUN_ID=second
    on 1:2,3 "$dir" --steps 2 --deadline 10
    ended
    cat "$dir".rank2 "$dir".rank3 >"$dir.log"
    says "another job has the place" " 1 1" "another job meets there; --meet names another"
    check "several machines: and the first one waits on" kill -KILL "${first[@]}"
    wait "${first[@]}" 2>/dev/null
}

# Each machine has a copy of the data; one has a byte that is another, in its middle.
machines_data() {
    local first=$data data=$WORK/machines_data/$(basename "$data") byte
    mkdir -p "$WORK/machines_data"
    for byte in '' '#'; do
        perl -pe 'BEGIN { undef $/; $b = shift } substr($_, 5700, 1) = $b if $b' "$byte" "$first" >"$data"
        port=$((port + 1))
        told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port)
        rm -f "$dir".rank*
        data=$first on 0:0,1 "$dir" --steps $STEPS --log "$dir.jsonl" --weights-hash
        on 1:2,3 "$dir" --steps $STEPS --weights-hash
        ended
        bits_of "$dir" >"$dir.result"
        cat "$dir".rank* >"$dir.log"
        if [ -z "$byte" ]; then
            check "several machines: each has its copy of the data" \
                cmp "$dir.result" "$WORK/alone.result"
        else
            says "one has other data" " 1 1 1 1" \
                "rank [23]\] error: --data: $data differs from rank 0's copy"
        fi
    done
}

# ---- who else comes to the door ----------------------------------------------------------------

# stranger NAME WHAT ARGS...: in the background, its words in $WORK/NAME.stranger; `strangers` has
# its pid. Returns when it is at work.
stranger() {
    local said=$WORK/$1.stranger
    shift
    "$WORK/stranger" "$@" >"$said" 2>&1 &
    strangers+=($!)
    timeout 600 bash -c "until grep -q ready '$said'; do sleep 0.05; done"
}

# listens PORT: waits until a process does
listens() {
    timeout 600 bash -c "until { exec 3<>/dev/tcp/127.0.0.1/$1; } 2>/dev/null; do sleep 0.05; done"
}

# Crowds of strangers, some that lie and some that repeat what others said, and machines of the job,
# one of which starts before rank 0's: the job starts all the same. The first of two jobs is recorded
# for the second; its second machine has a list of places to try.
machines_strangers() {
    local strangers=() pid crowd=64 name
    [ "$FULL" = 1 ] && crowd=1000
    "${REAL_CC:-cc}" -O1 -std=gnu11 "$ROOT/tests/cudasim/stranger.c" -o "$WORK/stranger" ||
        { bad "several machines: strangers are not built"; return; }
    port=$((port + 3))
    told=(WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$port TORCHELASTIC_RUN_ID=heard)
    rm -f "$dir".rank* "$dir.jsonl"
    "$WORK/stranger" relay $((port - 2)) $port "$WORK/overheard" >"$WORK/relay.stranger" 2>&1 &
    strangers+=($!)
    on 0:0,1 "$dir" --steps $STEPS --log "$dir.jsonl" --weights-hash
    on 1:2,3 "$dir" --steps $STEPS --weights-hash \
        --meet "127.0.0.1:$((port - 1)),[::1]:$((port - 1)),localhost:$((port - 2))"
    ended
    bits_of "$dir" >"$dir.result"
    check "several machines: by a list of addresses, over a relay" cmp "$dir.result" \
        "$WORK/alone.result"
    kill "${strangers[@]}" 2>/dev/null
    wait "${strangers[@]}" 2>/dev/null
    strangers=()

    # again, with the same words; who answers machine 1 first sends back what it says
    rm -f "$dir".rank* "$dir.jsonl"
    stranger echo echo $port
    on 1:2 "$dir" --steps $STEPS --weights-hash --deadline 120
    sleep $((FULL ? 5 : 2))
    kill -0 "${pids[0]}" 2>/dev/null
    check "several machines: its own words, sent back, prove nothing" [ $? = 0 ]
    kill "${strangers[@]}"
    wait "${strangers[@]}" 2>/dev/null
    strangers=()
    on 0:0,1 "$dir" --steps $STEPS --log "$dir.jsonl" --weights-hash --deadline 120
    listens $port
    for name in idle slow garbage; do stranger $name $name $port $crowd; done
    ln -sfn "$dir" "$WORK/wrong" # the same trainer, with logs of its own
    FSDPGEN_SECRET="another secret, of as many letters" \
        on 2:3 "$WORK/wrong" --steps $STEPS --deadline 5
    pid=${pids[-1]}
    unset 'pids[-1]'
    timeout 600 "$WORK/stranger" replay $port "$WORK/overheard" >"$WORK/replay.stranger" 2>&1
    check "several machines: what was overheard opens nothing: a nonce comes, and the end" \
        grep -qx '40 bytes came back' "$WORK/replay.stranger"
    env -u FSDPGEN_SECRET "${told[@]}" RANK=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_RANK=2 \
        "$dir/trainer" --data "$data" >"$WORK/none.rank3" 2>&1
    check "several machines: without a secret one line says what to do" grep -qF \
        '(umask 077; head -c 32 /dev/urandom | base64 >~/job.secret), once; copy' "$WORK/none.rank3"
    wait "$pid"
    check "several machines: another secret is refused" grep -qE \
        "does not answer at 127.0.0.1:$port: .*(: is the secret of the job another one there|silent)" \
        "$WORK/wrong.rank3"
    on 3:2 "$WORK/wrong" --steps $STEPS --deadline 120
    pid=${pids[-1]}
    unset 'pids[-1]'
    wait "$pid"
    check "several machines: a rank that is here already is refused" \
        grep -q "rank 0's machine says: two machines say that they have rank 2" "$WORK/wrong.rank2"
    on 2:3 "$dir" --steps $STEPS --weights-hash --deadline 120
    ended
    bits_of "$dir" >"$dir.result"
    cat "$dir".rank* >"$dir.log"
    says "strangers at the door, $crowd of each kind" " 0 0 0 0" "^weights"
    check "several machines: strangers at the door: the bits of one machine" \
        cmp "$dir.result" "$WORK/alone.result"
    check "several machines: a connection without the secret is reported" \
        grep -q 'warning: a connection to where the machines meet does not know' "$dir.rank0"
    kill "${strangers[@]}" 2>/dev/null
    wait "${strangers[@]}" 2>/dev/null
}

# Files that cannot hold a secret.
machines_secret() {
    local file=$WORK/job.secret
    printf 'sixteen letters and more\n' >"$file"
    chmod 640 "$file"
    job "$dir" 0:0,1 1:2,3 -- --steps 2 --secret "$file"
    says "others may read the secret's file" " 2 2 2 2" "its mode is 640\): chmod 600 it"
    chmod 600 "$file"
    job "$dir" 0:0,1 1:2,3 -- --steps 2 --secret "$file"
    says "a secret in a file" " 0 0 0 0" "step"
    mkfifo "$file.pipe"
    job "$dir" 0:0,1 -- --steps 2 --secret "$file.pipe"
    says "a pipe for a secret's file" " 2 2" "this is not a regular file"
    printf short >"$file"
    job "$dir" 0:0,1 -- --steps 2 --secret "$file"
    says "a short secret" " 2 2" "has 5 bytes, and a secret has 16 to 4096; to make one: head -c"
    check "several machines: no secret is printed" \
        bash -c "! grep -rqs -e 'sixteen letters' -e '$FSDPGEN_SECRET' '$WORK' --include='*.rank*' \
            --include='*.log'"
}

# Where a machine's own name is its loopback's address, other machines would not reach it; it is
# refused rather than replaced by all addresses.
machines_loopback() {
    local name
    name=$(hostname)
    case $(getent ahosts "$name" | awk '{ print $1 }' | sort -u | tr '\n' ' ') in
    "127."*" 127."*" " | "127."*[0-9]" " | "::1 ") ;;
    *) echo "skipped: this machine's name is not the loopback's"; return ;;
    esac
    port=$((port + 1))
    told=(WORLD_SIZE=4 MASTER_ADDR="$name" MASTER_PORT=$port)
    rm -f "$dir".rank*
    on 0:0,1 "$dir" --steps 2 --deadline 4
    ended
    cat "$dir".rank* >"$dir.log"
    says "the loopback's name" " 1 1" "pass --meet ADDRESS:$port with one that they reach"
}

# machines_of RUNTIME: a job of two with that runtime; its bits in DIR.result, codes
machines_of() {
    dir=$WORK/machines_fault
    if ! trainer "$dir" tiny_llama cuda --set mesh.shard=4 ||
        ! CUDASIM_UNCHECKED=1 build_trainer "$dir" CUDA_HOME="$home" RUNTIME="$1"; then
        bad "several machines: a fault is not planted" "$dir.log"
        return 1
    fi
    job "$dir" 0:0,1 1:2,3 -- --steps $STEPS --log "$dir.jsonl" --weights-hash --deadline 5
    bits_of "$dir" >"$dir.result"
}

# What would go unseen if data were lost on the way: planted, and told.
machines_faults() {
    local runtime=$WORK/runtime_machines file=cuda/ranks/rt_machines.c
    rm -rf "$runtime"
    cp -R "$ROOT/runtime" "$runtime"
    machines_of "$runtime" || return
    check "several machines: a copy of the runtime: the bits of one machine" \
        cmp "$dir.result" "$WORK/alone.result"

    # what a rank says does not come: NCCL's first word, here
    sed -i 's/            say(l, CONTROL, rank/            if (rank < 0) say(l, CONTROL, rank/' \
        "$runtime/$file"
    cmp -s "$runtime/$file" "$ROOT/runtime/$file" && bad "several machines: no fault is planted"
    machines_of "$runtime" && says "what ranks say is lost: told" " [1-9].*" "error:"

    # its end does not: sums over ranks are others, and nothing fails
    sed 's/ memcpy(control_of(h->rank), what, h->bytes);/ memcpy(control_of(h->rank), what, h->bytes - 8);/' \
        "$ROOT/runtime/$file" >"$runtime/$file"
    cmp -s "$runtime/$file" "$ROOT/runtime/$file" && bad "several machines: no fault is planted"
    machines_of "$runtime" && says "the end of it is lost: the job ends" " 0 0 0 0" "^weights"
    check "several machines: the end of it is lost: other bits" \
        bash -c "! cmp -s '$dir.result' '$WORK/alone.result'"
}

machines() {
    local dir=$WORK/machines pids=() told=() port=$((20000 + $$ % 9000))
    export FSDPGEN_SECRET="the secret of $$, $SEED"
    trainer "$dir" tiny_llama cuda --set mesh.shard=4 && CUDASIM_UNCHECKED=1 build_cuda "$dir" &&
        trainer "$WORK/other" tiny_llama cuda --set mesh.shard=4 --set optimizer.lr=1e-5 &&
        CUDASIM_UNCHECKED=1 build_cuda "$WORK/other" || {
        bad "several machines: no trainer" "$dir.log"
        return
    }
    train "$dir" "$data" $STEPS --quiet --threads 1 || bad "several machines: alone" "$dir.log"
    cp "$dir.result" "$WORK/alone.result"
    machines_train
    turn 1 2 machines_late
    turn 1 2 machines_slurm
    machines_save
    turn 2 4 machines_apart
    turn 1 2 machines_lost
    turn 0 2 machines_refused
    turn 0 2 machines_data
    turn 1 2 machines_strangers
    machines_secret
    machines_loopback
    if [ "$FULL" = 1 ] || [ $((SEED % 3)) = 0 ]; then machines_faults; fi
}
