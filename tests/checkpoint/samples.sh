# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after faults.sh: every sample is trained on exactly once an epoch, in the order of
# a run that nothing happened to, whatever is killed and whatever number of ranks goes on. What counts
# is what lies in the token buffers of a step (samples.c), of all steps that a later run builds on.

sck=$WORK/samples.ck

samples_begin() {
    local n object=$WORK/samples.o
    cc -O1 -Wall -Wextra -Werror -I"$ROOT/runtime" -c "$ROOT/tests/checkpoint/samples.c" -o "$object"
    for n in 1 2 4; do
        rm -rf "$WORK/samples$n" && cp -r "$WORK/fault$n" "$WORK/samples$n" &&
            rm -rf "$WORK/samples$n/trainer" &&
            build_trainer "$WORK/samples$n" GEMM=builtin CFLAGS="$flags" \
                LDFLAGS="-Wl,--wrap=rt_load_micro_batch $object" || {
            bad 'a trainer that writes down its samples is built' "$WORK/samples$n.log"
            return 1
        }
    done
    # 300 samples of 19 tokens, each begins with its number in digits of base 250
    perl -e 'my @t = map { ($_ % 250, int($_ / 250), (7) x 17) } 0 .. 299; push @t, 7;
        print pack("l<3", 20240520, 1, scalar @t), "\0" x (1024 - 12), pack("S<*", @t)' \
        >"$WORK/samples.bin"
}

# samples_run RUN RANKS STEPS: in the background, $job
samples_run() {
    RUN=$1 SAMPLES=$WORK/samples.log "$WORK/samples$2/trainer" --data "$WORK/samples.bin" --threads 1 \
        --quiet --checkpoint "$sck" --checkpoint-every 7 --keep 2 --resume --weights-hash \
        --steps "$3" >"$WORK/samples.out.$1" 2>"$WORK/samples.err.$1" &
    job=$!
}

# What the last run builds on: of each run the steps up to where the next one began. One that was killed
# before it had a step to begin with has none of its own: it began where the next one did.
samples_kept() { # RUNS
    local i at next=
    for ((i = $1; i >= 0; i--)); do
        at=$(sed -n 's/^resumed from .*: step \([0-9]*\) of .*/\1/p; s/^no checkpoint in .* yet: .*/0/p' \
            "$WORK/samples.out.$i" | tail -n 1)
        next=${at:-$next}
        echo "$i $next"
    done | sort -n >"$WORK/samples.begins"
    awk 'NR == FNR { begin[$1] = $2 + 0; runs = $1; next }
        $2 > begin[$1] && ($1 == runs || $2 <= begin[$1 + 1]) { print $3, $4 }' \
        "$WORK/samples.begins" "$WORK/samples.log" | sort -n
}

samples_exactly_once() { # KILLS
    local kills=$1 i n victims steps code
    rm -rf "$sck" "$WORK"/samples.{log,out.*,err.*}
    : >"$WORK/samples.log"
    for ((i = 0; i < kills; i++)); do
        random 3
        n=$((1 << random_value))
        samples_run $i $n 1000000
        random 600
        sleep "0.$(printf '%03d' $((150 + random_value)))"
        victims=("$job" $(pgrep -P "$job"))
        random ${#victims[@]}
        kill -9 "${victims[random_value]}" 2>/dev/null
        wait "$job" 2>/dev/null
    done
    steps=$(ls "$sck" | sort | tail -n 1)
    steps=$((10#0${steps#step-} + 5))
    steps=$((steps < 19 ? 19 : steps)) # one whole epoch
    samples_run "$kills" 2 $steps
    wait "$job" || { bad "after $kills kills the run ends" "$WORK/samples.err.$kills"; return; }
    samples_kept "$kills" >"$WORK/samples.kept"
    n=$(wc -l <"$WORK/samples.log")
    check "$kills kills: samples of $((n / 16)) steps were read for $steps" test "$n" -ge $((steps * 16))
    check "each global index once" cmp <(cut -d' ' -f1 "$WORK/samples.kept") <(seq 0 $((steps * 16 - 1)))
    awk '{ e = int($1 / 300); if (seen[e " " $2]++ || $2 < 0 || $2 > 299) bad = 1; n[e]++ }
        END { for (e in n) whole += n[e] == 300; print whole " whole epochs"; exit bad || whole < 1 }' \
        "$WORK/samples.kept" >"$WORK/samples.epochs"
    code=$?
    check "each sample once an epoch ($(cat "$WORK/samples.epochs"))" test $code = 0
    # the order of a run that nothing happened to
    mv "$WORK/samples.log" "$WORK/samples.log.kills"
    rm -rf "$sck"
    samples_run whole 1 $steps
    wait "$job"
    check "in the order of a run that was never killed" cmp "$WORK/samples.kept" \
        <(cut -d' ' -f3,4 "$WORK/samples.log" | sort -n)
    check "whose weights it has" cmp <(grep '^weights' "$WORK/samples.out.$kills") \
        <(grep '^weights' "$WORK/samples.out.whole")
}

samples() {
    samples_begin || return
    if [ "$FULL" = 1 ]; then samples_exactly_once 40; else samples_exactly_once 4; fi
}
part samples:first_checkpoint samples
