# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh, after faults.sh: the data of a run. Whatever changes in them is found, before a
# run goes on and while it runs; what is the same by content is the same. Trainers of one numerics
# hash on 1, 2 and 4 ranks: llama0, llama1, llama2.

dd=$WORK/changing
now=$dd/now.txt

# flip FILE AT: another bit, the same size
flip() { damage "$1" flip "$2"; }

# on DATA COMMAND...: with this for --data
on() {
    local data=$1
    shift
    "$@"
}

# other NAME TRAINER PATTERN FLAGS...: a run does not go on from $dd/ck, and says why
other() {
    local name=$1 trainer=$2 pattern=$3
    shift 3
    on "$now" says "$name" 1 "error: --resume: the data differ from those of .*: $pattern.*; restore them" \
        "$trainer" 3 --checkpoint "$dd/ck" --resume "$@"
}

begin_data() { # FLAGS...: $dd/ck with step 2, of now.txt
    rm -rf "$dd" && mkdir "$dd" && cp "$data" "$now"
    on "$now" run llama0 2 --checkpoint "$dd/ck" "$@" || bad 'a run with data' "$WORK/llama0.err"
    cp -r "$dd/ck" "$dd/ck.whole"
}
again() { rm -rf "$dd/ck" && cp -r "$dd/ck.whole" "$dd/ck"; }

# ---- before a run goes on ----------------------------------------------------------------------

between() {
    local at hash
    begin_data --eval "$data"
    hash=$(sed -n 's/^data \([0-9a-f]*\) (1 file.*/\1/p' "$WORK/llama0.out")
    check 'the digest of the data is printed' test ${#hash} = 16
    for at in 0 5700 $(($(stat -c %s "$now") - 1)); do
        cp "$data" "$now"
        flip "$now" "$at"
        other "byte $at is another" llama1 'the content of .*now.txt has changed .its size has not'
    done
    touch -r "$data" "$now" # the time of modification tells nothing
    other 'with its old time' llama1 'the content of .*now.txt has changed'
    other 'nor does the cache' llama1 'the content of .*now.txt has changed' --check-data
    on "$now" says 'other data are taken when they are meant' 0 \
        'warning: the data differ from those of .*: the content of .*now.txt has changed' \
        llama1 3 --checkpoint "$dd/ck" --resume --accept-data
    on "$now" says 'and are the run'"'"'s from then on' 0 'resumed from .*step 3 of 4' \
        llama2 4 --checkpoint "$dd/ck" --resume
    again
    mkdir "$dd/elsewhere" && cp "$data" "$dd/elsewhere/renamed.txt"
    cp "$WORK/llama0.jsonl" "$WORK/llama2.jsonl"
    on "$dd/elsewhere/renamed.txt" says 'a copy with another name, on other ranks' 0 \
        "^data $hash " llama2 5 --checkpoint "$dd/ck" --resume
    check 'goes on and warns of nothing' test ! -s "$WORK/llama2.err"
    check 'and ends with the weights of a run that never stopped' cmp "$WORK/llama2.result" "$WORK/llama.whole"
    again
    printf 'x' >>"$now"
    other 'more data' llama1 '.*now.txt has [0-9]* bytes, and now.txt had [0-9]*'
    cp "$data" "$now"
    other 'a file more' llama1 'there are 2 files, and there were 1' --data "$data"
    says '--accept-data alone' 2 'accept-data needs --resume' llama1 3 --checkpoint "$dd/ck" \
        --accept-data
    # the held-out data change no weight
    flip "$now" 5700
    on "$data" says 'other held-out data are reported' 0 \
        'warning: the held-out data differ from those of .*the content of .*now.txt has changed' \
        llama1 3 --checkpoint "$dd/ck" --resume --eval "$now"
    again
    on "$data" run llama1 3 --checkpoint "$dd/ck" --resume --eval "$data"
    check 'the same are not' test -z "$(grep held-out "$WORK/llama1.err")"
    # two files
    rm -rf "$dd/ck"
    cp "$data" "$dd/a.txt" && cp "$data" "$dd/b.txt" && flip "$dd/b.txt" 5700
    on "$dd/[ab].txt" run llama1 2 --checkpoint "$dd/ck" || bad 'two files' "$WORK/llama1.err"
    mv "$dd/a.txt" "$dd/c.txt"
    on "$dd/[bc].txt" says 'files in another order' 1 \
        'the files come in another order: .*b.txt has the place of a.txt' \
        llama1 3 --checkpoint "$dd/ck" --resume
    mv "$dd/b.txt" "$dd/d.txt"
    on "$dd/[cd].txt" says 'in the old order' 0 'resumed from' llama1 3 --checkpoint "$dd/ck" --resume
    # one file, read in another way
    rm -rf "$dd/ck"
    cp "$data" "$dd/f.bin"
    on "text:$dd/f.bin" run llama1 2 --checkpoint "$dd/ck" || bad 'bytes of f.bin' "$WORK/llama1.err"
    on "nanogpt:$dd/f.bin" says 'the same content as other tokens' 1 \
        'f.bin is read as [0-9]* tokens of 2 bytes, and f.bin was as [0-9]* of 1; restore' \
        llama1 3 --checkpoint "$dd/ck" --resume
}

# A checkpoint of a version that kept no digests.
before_digests() {
    broken_runtime llama1 checkpoint/rt_state.c 's/train state 2/train state 1/; /rt_record_write(rt, text.f);/d' ||
        return
    rm -rf "$dd/ck" && cp "$data" "$now"
    on "$now" run broken 2 --checkpoint "$dd/ck" || bad 'an earlier version runs' "$WORK/broken.err"
    cp -r "$dd/ck" "$dd/ck.before"
    on "$now" says 'a checkpoint without digests' 0 \
        'note: .* has no digests of its data .an earlier version wrote it.' \
        llama1 3 --checkpoint "$dd/ck" --resume
    rm -rf "$dd/ck" && mv "$dd/ck.before" "$dd/ck"
    flip "$now" 3
    other 'its sizes and ends are compared' llama1 'the beginnings or ends of files differ'
    # nor did its first save, where that did not wait for them
    broken_runtime llama1 data/rt_record.c 's/^            if (r.known\[k\])$/            if (false)/' || return
    rm -rf "$dd/ck" && cp "$data" "$now"
    on "$now" run broken 2 --checkpoint "$dd/ck" || bad 'a save without a digest' "$WORK/broken.err"
    on "$now" says 'a checkpoint without the digest of a file' 0 'note: .* has no digests of its data' \
        llama1 3 --checkpoint "$dd/ck" --resume
}

# ---- under a run ---------------------------------------------------------------------------------

# running TRAINER FLAGS...: a long run on now.txt in the background; $job
running() {
    local t=$1
    shift
    cp "$data" "$now"
    rm -rf "$dd/ck"
    : >"$WORK/running.out"
    "$WORK/$t/trainer" --data "$now" --threads 1 --steps 100000 "$@" >"$WORK/running.out" \
        2>"$WORK/running.err" &
    job=$!
    steps_later 5
}

# steps_later N: so many steps, or the end of the run, have come
steps_later() {
    local until i
    until=$(($(grep -c '^step ' "$WORK/running.out") + $1))
    for ((i = 0; i < 400; i++)); do
        [ "$(grep -c '^step ' "$WORK/running.out")" -ge $until ] && return
        kill -0 $job 2>/dev/null || return
        sleep 0.05
    done
}

# ends NAME PATTERN: the run ends by itself with this error
ends() {
    local i code
    for ((i = 0; i < 400; i++)); do
        kill -0 $job 2>/dev/null || break
        sleep 0.05
    done
    kill -KILL $job 2>/dev/null
    wait $job 2>/dev/null
    code=$?
    if [ $code != 1 ]; then
        bad "$1: code $code, not 1" "$WORK/running.err"
    elif ! grep -qE "error: $2" "$WORK/running.err"; then
        bad "$1: no error like '$2'" "$WORK/running.err"
    else
        ok "$1"
    fi
}

under() {
    running llama1
    flip "$now" 5700
    ends 'data that change are found when an epoch ends' '--data: .*now.txt changed during the run \(last'
    running llama1 --checkpoint "$dd/ck" --checkpoint-every 40 --keep 2
    touch "$now"
    steps_later 80
    mv "$now" "$dd/away" && cp "$data" "$now"
    steps_later 80
    check 'a touch and another file of that name do not end it' kill -0 $job
    check 'the other file is reported' test "$(grep -c 'now.txt was removed or replaced' \
        "$WORK/running.err")" = 1
    flip "$dd/away" 100 # its content is the run's, its name is not known any more
    mv "$dd/away" "$now"
    ends 'the file under its name, changed' '--data: .*now.txt changed during the run'
    cp "$data" "$now"
    on "$now" run llama2 1 --checkpoint "$dd/ck" --resume ||
        bad 'checkpoints of before are whole' "$WORK/llama2.err"
    running llama1 --eval "$now" --eval-every 1000000 --checkpoint "$dd/ck" --checkpoint-every 50
    truncate -s 100 "$now"
    ends 'data that shrink are named' '.*now.txt was truncated during the run'
    cp "$data" "$dd/eval.txt"
    running llama1 --eval "$dd/eval.txt" --eval-every 20
    flip "$dd/eval.txt" 5700
    ends 'held-out data that change' '--eval: .*eval.txt changed during the run'
}

# ---- much data: beside training ---------------------------------------------------------------

digest_in_state() { sed -n "s/.*\"name\": \"$1\".*\"digest\": \"\([0-9a-f]*\)\".*/\1/p" "$2"/step-*/train_state.json; }

# much_begins FLAGS...: a run whose data are hashed for 20 s; $job
much_begins() {
    rm -rf "$dd/ck" "$XDG_CACHE_HOME/fsdpgen" # where the run before may have left the digest
    : >"$WORK/running.out"
    began=$(date +%s%3N)
    SLOW=5000000 "$WORK/broken/trainer" --data "$big" --threads 1 --steps 1000000 --checkpoint "$dd/ck" \
        "$@" >"$WORK/running.out" 2>"$WORK/running.err" &
    job=$!
}

much_ends() { # WHAT: it ends the run, which does not wait for the rest
    local code
    wait $job
    code=$?
    check "$1 waits for nothing ($code, $(($(date +%s%3N) - began)) ms)" test $code = 75
    check "$1: what is not known is not recorded" test -z "$(digest_in_state big.txt "$dd/ck")" -a \
        "$(grep -c '"bytes": 16777216, "unverified": "' "$dd"/ck/step-*/train_state.json)" = 1
}

# doubted NAME: whether the newest checkpoint's data were these cannot be checked, and a run that goes on says so
doubted() {
    on "$big" says "$1" 0 'warning: .*/step-[0-9]* was saved before --data .*big.txt was hashed, and that file was changed' \
        broken $((10#$(ls "$dd/ck" | tail -n 1 | tail -c 9) + 1)) --checkpoint "$dd/ck" --resume
}

# Runs that end before all is hashed, one after the other: each records what the first had, and that
# this is not verified, until one compares it.
much_short() {
    local n
    rm -rf "$dd/ck" "$XDG_CACHE_HOME/fsdpgen"
    cp -r "$dd/ck.want" "$dd/ck"
    flip "$big" 9000000
    for n in 1 2; do
        SLOW=5000000 "$WORK/broken/trainer" --data "$big" --threads 1 --steps 1000000 --checkpoint "$dd/ck" \
            --resume --stop-after 3s >"$WORK/running.out" 2>"$WORK/running.err"
        check "a short run after a change of the data ends ($n)" test $? = 75
        check "it records what the run before did ($n)" test "$(digest_in_state big.txt "$dd/ck" | sort -u)" = "$want"
        check "and that this is not verified ($n)" test "$(grep -l '"unverified": "' "$dd"/ck/step-*/train_state.json |
            wc -l)" = $n
    done
    cp -r "$dd/ck" "$dd/ck.short"
    flip "$big" 9000000 # as it was: its digest is right, but those steps had other bytes
    rm -rf "$XDG_CACHE_HOME/fsdpgen"
    doubted 'the first content is restored'
    check 'later checkpoints are verified' test -z "$(grep unverified "$(ls -d "$dd"/ck/step-* | tail -n 1)/train_state.json")"
    flip "$big" 9000000
    rm -rf "$XDG_CACHE_HOME/fsdpgen" "$dd/ck" && mv "$dd/ck.short" "$dd/ck"
    on "$big" run broken 100000 --checkpoint "$dd/ck" --resume
    check 'a longer run finds out' grep -q 'the data are hashed now, and they differ from those of step' \
        "$WORK/broken.err"
    flip "$big" 9000000
}

# Of two files a small one is hashed when the run ends: that it is another is not saved.
much_known() {
    rm -rf "$dd/ck" "$XDG_CACHE_HOME/fsdpgen"
    cp "$data" "$dd/big-0.txt"
    on "$dd/big*.txt" run broken 1 --checkpoint "$dd/ck" || bad 'two files, one of them large' "$WORK/broken.err"
    flip "$dd/big-0.txt" 5700
    rm -rf "$XDG_CACHE_HOME/fsdpgen"
    SLOW=5000000 "$WORK/broken/trainer" --data "$dd/big*.txt" --threads 1 --steps 1000000 --checkpoint "$dd/ck" \
        --resume --check-data --stop-after 8s >"$WORK/running.out" 2>"$WORK/running.err"
    check 'a run that ends early compares what it has hashed' test $? = 1 -a "$(ls "$dd/ck")" = step-00000001
    check 'and says so' grep -q 'the data are hashed now, and they differ from those of step 1: .*big-0.txt has changed' \
        "$WORK/running.err"
    rm "$dd/big-0.txt"
}

# Held-out data that are found to be others when a run has gone on for a while.
much_held_out() {
    local held=$dd/held.txt ck=$dd/ck.held
    head -c 8000000 "$big" >"$held"
    rm -rf "$ck" "$XDG_CACHE_HOME/fsdpgen"
    on "$big" run broken 2 --checkpoint "$ck" --eval "$held" --eval-every 1 --eval-sequences 2 --keep-best ||
        bad 'held-out data' "$WORK/broken.err"
    flip "$held" 7000000
    rm -rf "$XDG_CACHE_HOME/fsdpgen"
    SLOW=100000 on "$big" run broken 400 --checkpoint "$ck" --eval "$held" --eval-every 1 --eval-sequences 2 \
        --keep-best --resume
    check 'other held-out data: the search for the best step restarts when they are known' \
        grep -q 'the search for the best step restarts' "$WORK/broken.err"
}

# Nothing is hashed at once, and each chunk takes its time, in 16 MiB that are made of the licence.
much() {
    local big=$dd/big.txt want began
    perl -e 'local $/; $_ = <STDIN>; print substr($_ x 1500, 0, 16 << 20)' <"$data" >"$big"
    broken_runtime llama1 data/rt_digest.h 's/^#define RT_AT_ONCE_BYTES .*/#define RT_AT_ONCE_BYTES 0/' \
        data/rt_digest.c 's/^    const int64_t from = chunk \* RT_DIGEST/    usleep(getenv("SLOW") != NULL \&\& m->bytes > 1 << 20 ? (useconds_t)atoi(getenv("SLOW")) : 0);\n&/' || return
    rm -rf "$dd"/ck*
    on "$big" run llama2 1 --checkpoint "$dd/ck.want" || bad 'much data' "$WORK/llama2.err"
    want=$(digest_in_state big.txt "$dd/ck.want")
    SLOW=300000 on "$big" run broken 40 --checkpoint "$dd/ck" --checkpoint-every 1 --keep 2
    check 'a save waits until all is hashed' test "$(digest_in_state big.txt "$dd/ck" | sort -u)" = "$want"
    check 'steps go on meanwhile' test "$(line_of '^step *2/' broken)" -lt \
        "$(line_of '^checkpoint: .*step-00000001,' broken)"
    check 'they hear of it' grep -q '^all data are hashed, after' "$WORK/broken.out"
    much_begins --stop-after 4s
    much_ends --stop-after
    much_begins --check-data --stop-after 4s
    much_ends '--stop-after, while all are hashed before the first step'
    much_begins
    steps_later 2
    kill -TERM $job
    much_ends 'a signal'
    cp -r "$dd/ck" "$dd/ck.first"
    on "$big" run broken $((10#$(ls "$dd/ck" | tail -c 9) + 2)) --checkpoint "$dd/ck" --resume ||
        bad 'a run goes on from there' "$WORK/broken.err"
    check 'without a warning: it is the same file' test -z "$(grep -E 'warning|note' "$WORK/broken.err")"
    rm -rf "$dd/ck" && mv "$dd/ck.first" "$dd/ck"
    flip "$big" 9000000
    doubted 'a file that changed before it was ever hashed'
    flip "$big" 9000000
    much_short
    much_known
    SLOW=5000000 timeout 60 "$WORK/broken/trainer" --data "$big" --threads 1 --steps 3 --deadline 2 \
        >"$WORK/running.out" 2>"$WORK/running.err"
    check 'a run that is complete does not wait for hashes' test $? = 0
    much_held_out
    flip "$big" 9000000
    on "$big" run broken 100000 --checkpoint "$dd/ck.want" --resume
    check 'a run that went on finds out later' grep -q \
        'error: --resume: the data are hashed now, and they differ from those of step 1: the content of .*big.txt' \
        "$WORK/broken.err"
    check 'and writes no checkpoint' test "$(ls "$dd/ck.want")" = step-00000001
}

# ---- the cache -------------------------------------------------------------------------------------

# found NAME HASH [FLAGS...]: what a run says its data are
found() {
    local name=$1 want=$2
    shift 2
    on "$dd/cached.txt" run llama1 1 "$@" || bad "$name: runs" "$WORK/llama1.err"
    check "$name" test "$(sed -n 's/^data \([0-9a-f]*\) .*/\1/p' "$WORK/llama1.out")" = "$want"
}

# A page that another process holds changes twice, before it is written to the disk: the file's
# times are those of the first change, unless a trainer between them had it written.
held_pages() { # FILE CACHE
    local first
    rm -f "$2"
    coproc HELD { "$BUILD/tests/checkpoint/checkpoint_held" "$1"; }
    read -r <&"${HELD[0]}"
    sleep 2.1
    on "$1" run llama1 1
    first=$(sed -n 's/^data \([0-9a-f]*\) .*/\1/p' "$WORK/llama1.out")
    echo >&"${HELD[1]}" && read -r <&"${HELD[0]}"
    on "$1" run llama1 1
    check 'a page that changes again under a trainer: the data have another hash' \
        test "$first" != "$(sed -n 's/^data \([0-9a-f]*\) .*/\1/p' "$WORK/llama1.out")"
    kill "$HELD_PID" && wait "$HELD_PID" 2>/dev/null
}

cache() {
    mkdir -p "$dd"
    local known=$BUILD/tests/checkpoint/checkpoint_known lines=$XDG_CACHE_HOME/fsdpgen/digests
    local file=$dd/cached.txt true_hash lie began try
    for ((try = 0; try < 5; try++)); do
        rm -f "$lines" "$file"
        began=$SECONDS
        truncate -s 65M "$file" # nothing but zeros, and no place on the disk
        on "$file" run llama1 1
        [ -s "$lines" ] && [ $((SECONDS - began)) -gt 1 ] || break # after two seconds it may be kept
    done
    true_hash=$(sed -n 's/^data \([0-9a-f]*\) .*/\1/p' "$WORK/llama1.out")
    if [ $try = 5 ]; then
        echo "skipped: data that were changed just now (a run takes two seconds here)"
    else
        check 'what was changed just now is not kept' test ! -s "$lines"
    fi
    "$known" "$file" 0123456789abcdef
    on "$file" run llama1 1
    lie=$(sed -n 's/^data \([0-9a-f]*\) .*/\1/p' "$WORK/llama1.out")
    check 'a line of the cache is believed' test "$lie" != "$true_hash"
    found 'but not with --check-data' "$true_hash" --check-data
    check 'which says so' grep -q 'cached.txt has other bytes than when an earlier run hashed it' \
        "$WORK/llama1.err"
    touch -d '1 hour ago' "$file"
    found 'nor when the file was touched' "$true_hash"
    "$known" "$file" 0123456789abcdef
    flip "$file" 30000000 && flip "$file" 30000000 # as it was
    touch -d '1 hour ago' "$file"
    found 'nor when it was changed and has its old time' "$true_hash"
    rm -f "$lines"
    "$known" "$file" 0123456789abcdef
    cp "$lines" "$WORK/lines"
    flip "$lines" 60
    found 'nor a line that is damaged' "$true_hash"
    check 'which is reported' grep -q 'fsdpgen/digests: 1 damaged line removed' \
        "$WORK/llama1.err"
    found 'once' "$true_hash"
    check 'it is gone' test -z "$(grep damaged "$WORK/llama1.err")"
    head -c 100 "$WORK/lines" >"$lines" # cut off; the next one is whole
    "$known" "$file" 0123456789abcdef
    found 'a line behind one that was cut off' "$lie"
    chmod 0666 "$lines"
    found 'a cache that others write is not read' "$true_hash"
    check 'and is reported' grep -q "fsdpgen/digests belongs to another user, or others may write it, or it" "$WORK/llama1.err"
    rm -f "$lines" && cp "$WORK/lines" "$WORK/elsewhere" && ln -s "$WORK/elsewhere" "$lines"
    found 'nor is a link' "$true_hash"
    rm -f "$lines"
    if [ "$(stat -f -c %T "$dd")" = tmpfs ]; then
        echo "skipped: a kept digest (tmpfs: files there change and keep their times)"
    else
        sleep 2.1 # of the file's last change
        found 'a file that was left alone' "$true_hash"
        check 'has its line' test "$(grep -c '^digest1 ' "$lines")" = 1
    fi
    if [ "$(id -u)" = 0 ]; then
        chown 1 "$lines" && "$known" "$file" 0123456789abcdef
        found "another user's cache is neither read nor written" "$true_hash"
        chown 0 "$lines"
    fi
    check 'no home, no cache' env -u HOME XDG_CACHE_HOME= "$WORK/llama1/trainer" --data "$file" \
        --steps 1 --quiet
    [ "$(stat -f -c %T "$dd")" = tmpfs ] || held_pages "$file" "$lines"
}

part between:families between
part before_digests:families,between before_digests
part under:families,between under
part much:families,between much
part cache:families cache
