# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the socket by which the ranks of a machine meet, while strangers crowd it or have
# taken its name, and with secrets. Strangers change nothing: the job starts.

# listening PID: the name of that process's socket; other jobs have theirs
listening() {
    find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null | awk '
        NR == FNR { gsub(/[^0-9]/, ""); mine[$0]; next }
        $7 in mine && $8 ~ /^@trainer-/ { print substr($8, 2); exit }' - /proc/net/unix
}

# job_name: of the socket; a job of the same identity has listened there
job_name() {
    local as i name=
    started_by torchrun 0 4
    "${as[@]}" "$WORK/toy4" --data "$data" --deadline 20 >/dev/null 2>&1 &
    for ((i = 0; i < 200; i++)); do
        name=$(listening $!)
        [ -z "$name" ] || break
        sleep 0.05
    done
    echo "$name"
    kill $!
    wait $! 2>/dev/null
}

# strangers USER WHAT: in the background, as that user: take the name (full: and accept no
# more connections), or hold connections that are idle or send garbage; $pid
strangers() {
    : >"$WORK/strangers.out"
    perl -MSocket -e '
        my ($user, $what, $name) = @ARGV;
        $SIG{PIPE} = "IGNORE";
        if ($user != $>) { $< = $user; $> = $user; $> == $user or die "user: $!" }
        my $to = pack_sockaddr_un("\0$name");
        $| = 1;
        if ($what eq "take") {
            socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
            bind($s, $to) && listen($s, 5) or die $!;
            print "ready\n";
            sleep 1000;
        }
        if ($what eq "full") {
            socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
            bind($s, $to) && listen($s, 0) or die $!;
            my @kept;
            do {
                socket(my $one, AF_UNIX, SOCK_SEQPACKET | 04000, 0) or die $!; # O_NONBLOCK
                push @kept, $one;
            } while connect($kept[-1], $to);
            print "ready\n";
            sleep 1000;
        }
        my @s;
        while (1) {
            my $came = 0;
            for my $i (0 .. 99) {
                my $byte;
                undef $s[$i] if $s[$i] && defined recv($s[$i], $byte, 1, MSG_DONTWAIT);
                next if $s[$i];
                socket(my $s, AF_UNIX, SOCK_SEQPACKET, 0) or die $!;
                connect($s, $to) or next;
                send($s, "x" x 50, 0) if $what eq "garbage";
                $s[$i] = $s;
                $came++;
            }
            print "ready\n" if $came;
            select(undef, undef, undef, 0.02);
        }' "$1" "$2" "$name" >"$WORK/strangers.out" 2>&1 &
    pid=$!
}

# ended_with WHAT CODES [PATTERN]: how the ranks ended, and a line of theirs
ended_with() {
    if [ "$codes" != "$2" ] || ! grep -qE -- "${3:-}" <(echo; cat "$WORK/join.err"); then
        bad "$1: codes$codes" "$WORK/join.err"
    elif [[ $codes == " 0 0 0 0" && "$(tail -n 1 "$WORK/join.0.out")" != "$(tail -n 1 "$WORK/toy4.out")" ]]; then
        bad "$1: other bits" "$WORK/join.0.out"
    else
        ok "$1"
    fi
}

toy_door() {
    local as name pid what rank
    name=$(job_name)
    for what in idle garbage; do # they are there before the other ranks are
        started_by torchrun 0 4
        "${as[@]}" "$WORK/toy4" --data "$data" --weights-hash --deadline 10 \
            >"$WORK/join.0.out" 2>"$WORK/join.0.err" &
        local first=$!
        strangers "$(id -u)" $what
        check "they came: connections that are $what" timeout 10 bash -c "until grep -q ready '$WORK/strangers.out'; do
            sleep 0.05; done"
        watchers=("$first")
        for rank in 1 2 3; do
            started_by torchrun $rank 4
            "${as[@]}" "$WORK/toy4" --data "$data" --weights-hash --deadline 10 \
                >"$WORK/join.$rank.out" 2>"$WORK/join.$rank.err" &
            watchers[rank]=$!
        done
        join_codes
        kill "$pid"
        wait "$pid" 2>/dev/null
        ended_with "a crowd of connections that are $what" " 0 0 0 0"
    done
    if [ "$(id -u)" = 0 ]; then
        for what in take full idle; do
            strangers 65534 $what
            [ $what = idle ] || check "another user: has the name" timeout 10 bash -c \
                "until grep -q ready '$WORK/strangers.out'; do sleep 0.05; done"
            join_start torchrun 4 toy4 --weights-hash --deadline 10
            join_codes
            kill "$pid"
            wait "$pid" 2>/dev/null
            ended_with "another user: $what" " 0 0 0 0"
        done
    else
        echo "skipped: another user has the socket's name (only root can be another user)"
    fi
    watchers=()
    for rank in 0 2 2 1 3; do # the second one that says it is rank 2 goes to the end of the list
        started_by torchrun $rank 4
        what=$([ ${watchers[$rank]+there} ] && echo 4 || echo $rank)
        "${as[@]}" "$WORK/toy4" --data "$data" --weights-hash --deadline 20 \
            >"$WORK/join.$what.out" 2>"$WORK/join.$what.err" &
        watchers[what]=$!
        [ $what = 4 ] && timeout 10 bash -c "until grep -qs twice '$WORK'/join.[24].err; do
            sleep 0.05; done"
    done
    join_codes
    check "a rank that comes twice: one of them is refused, the job goes on" \
        grep -qE "^ 0 0 (0 0 1|1 0 0)$" <<<"$codes"
    check "and its error says so" grep -q 'rank 0 says: rank 2 of 4 came to rank 0 of 4 twice' "$WORK/join.err"
    rm "$WORK/join.4.out" "$WORK/join.4.err"
    toy_secrets
}

toy_secrets() {
    local FSDPGEN_SECRET="sixteen letters and some"
    export FSDPGEN_SECRET
    join_start torchrun 4 toy4 --weights-hash
    join_codes
    ended_with "the ranks have a secret" " 0 0 0 0"
    printf 'sixteen letters and some\n' >"$WORK/job.secret"
    chmod 600 "$WORK/job.secret"
    join_start torchrun 4 toy4 --weights-hash --secret "$WORK/job.secret"
    join_codes
    ended_with "they have it in a file" " 0 0 0 0"
    watchers=()
    for rank in 0 1; do
        started_by torchrun $rank 2
        FSDPGEN_SECRET="$FSDPGEN_SECRET$rank" "${as[@]}" "$WORK/toy2" --data "$data" --deadline 4 \
            >"$WORK/join.$rank.out" 2>"$WORK/join.$rank.err" &
        watchers[rank]=$!
    done
    join_codes
    ended_with "they have different ones" " 1 1" "to this machine: it has another secret of the job"
    check "rank 0 says so, too" grep -q "rank 1 did not; [0-9]* connections\? did not know the job's" \
        "$WORK/join.0.err"
    chmod 644 "$WORK/job.secret"
    started_by torchrun 0 4
    toy_fails "a secret that others may read" 2 "others may use it .its mode is 644.: chmod 600 it" \
        "${as[@]}" "$WORK/toy4" --data "$data" --secret "$WORK/job.secret"
    toy_fails "an empty secret" 2 "FSDPGEN_SECRET has 0 bytes, and a secret has 16 to 4096" \
        env FSDPGEN_SECRET= "${as[@]}" "$WORK/toy4" --data "$data"
    check "one process that starts all ranks needs none" env FSDPGEN_SECRET= "$WORK/toy4" --data "$data"
}
