# SPDX-License-Identifier: Apache-2.0
# terminal.sh, read by run.sh: what a person sees of a run. In a pipe; on a terminal of 80 and of
# 120 columns, which tmux emulates; while it is resized, stopped, interrupted, or stands still.

screens=0
tm() { tmux -L "fsdpgen-$$-$screens" -f /dev/null "$@"; }
screen_text() { tm capture-pane -p -S - -t x 2>/dev/null | sed 's/ *$//' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'; }

# on_screen COLUMNS COMMAND...: a shell on such a terminal, where the command has been typed
on_screen() {
    local columns=$1
    shift
    tm kill-server 2>/dev/null
    screens=$((screens + 1)) # the last server may be on its way out
    tm new-session -d -s x -x "$columns" -y 24 \
        "env -u NO_COLOR PS1='$ ' bash --noprofile --norc -i" || return 1
    tm send-keys -t x "$*" Enter
}

# seen PATTERN [SECONDS]: the screen comes to have such a line
seen() {
    local i
    for ((i = 0; i < ${2:-20} * 10; i++)); do
        screen_text | grep -qE -- "$1" && return 0
        sleep 0.1
    done
    screen_text >&2
    return 1
}

live_line() { screen_text | grep -E "$live" | tail -n 1; }
counts_from() { # LINE: the line is another one by now
    live_line >"$WORK/now"
    [ -s "$WORK/now" ] && [ "$(cat "$WORK/now")" != "$1" ]
}
one_bar_within() { # COLUMNS: the only line with a bar, the last of the screen, is no longer
    screen_text >"$WORK/screen"
    grep -E '\[#*\.+\]' "$WORK/screen" >"$WORK/bars" &&
        [ "$(tail -n 1 "$WORK/screen")" = "$(cat "$WORK/bars")" ] && no_longer_than "$1" <"$WORK/bars"
}
narrows() { # from 120 columns to 50. A line on its way, of 120, comes to be three, so there are three tries.
    local try
    for try in 1 2 3; do
        sleep 0.5 # tmux tells a program of two sizes a quarter of a second apart
        tm resize-window -t x -x 50
        comes one_bar_within 49 && return
        cat "$WORK/screen"
        tm resize-window -t x -x 120 && tm send-keys -R -t x && tm clear-history -t x && seen "$live.*MiB$"
    done
    return 1
}

# What differs from run to run and machine to machine: numbers, folders.
scrubbed() {
    sed -E -e "s#$WORK/[a-z]*#DIR#g; s#$ROOT#ROOT#g; s/weights [0-9a-f]{16}/weights HASH/" -e 's/\[[#.]+\]/[#..]/' -e 's/[0-9]+m[0-9]+s|[0-9]+s/N/g' \
        -e 's/[0-9][0-9.,]*(e[-+][0-9]+)?/N/g' -e 's/N[kMG]? tok/N tok/; s/N [KMG]iB/N MiB/g' \
        -e 's/  +/ /g; s/^(step) +/\1 /'
}

golden() { # NAME: stdin is the kept text
    if [ "$update" = 1 ]; then cat >"$ROOT/tests/runtime/golden/$1"; fi
    [ "$update" = 1 ] || diff "$ROOT/tests/runtime/golden/$1" -
}
no_longer_than() { ! awk -v most="$1" 'length($0) > most { print; long = 1 } END { exit !long }'; }

in_a_pipe() {
    local out=$WORK/pipe.out
    rm -rf "$WORK/shown"
    "$t" --data "$data" --steps 4 --threads 1 --checkpoint "$WORK/shown" --eval "$data" --eval-every 2 \
        --weights-hash 2>"$WORK/pipe.err" | cat >"$out"
    check "pipe: its text" golden pipe.txt < <(scrubbed <"$out")
    check "pipe: no line is longer than 80, but commands and folders" \
        no_longer_than 80 < <(grep -v "$WORK" "$out")
    check "pipe: nothing moves a cursor" bash -c "! grep -q $'[\\033\\r]' '$out'"
    check "pipe: the hash is last" bash -c "tail -n 1 '$out' | grep -q '^weights [0-9a-f]*$'"
    check "pipe: nothing is wrong" test ! -s "$WORK/pipe.err"
    "$t" --data "$data" --steps 9 --threads 1 --log-every 4 2>&1 | grep '^step' >"$out"
    check "--log-every 4" test "$(tr -s ' ' <"$out" | cut -d' ' -f2 | xargs)" = '1/9 4/9 8/9 9/9'
    "$t" --data "$data" --steps 2 --threads 1 --color always >"$out" 2>&1
    check "--color always" grep -q $'loss\|\033\\[1mloss' "$out"
    check "and no line is redrawn" bash -c "! grep -q $'\\r\|\\033\\[J' '$out'"
    "$t" --data "$data" --steps 2 --threads 1 --verbose >"$out" 2>&1
    check "--verbose has hashes, digests and memory" test "$(grep -cE \
        '^(numerics [0-9a-f]{16} platform |data [0-9a-f]{16} |memory of )' "$out")" = 4
    fails "--color of a word" 2 '--color is auto, always or never, not `red`' --data "$data" --color red
}

# What is to be typed next works as it stands there, whatever the folder's name.
typed_next() {
    local odd="$WORK/it's \$HOME "$'\033[31m\351' line
    rm -rf "$odd"
    mkdir -p "$odd" && cp "$WORK/one/trainer" "$odd/trainer" && cp "$data" "$odd/text"
    (cd "$odd" && ./trainer --data text=0.7 --data ./text=0.3 --eval text --steps 2 --threads 1 --checkpoint ./ck) >"$WORK/next" 2>&1
    "$odd/trainer" --data "$odd/text" --eval "$odd/text" --steps 2 --threads 1 --checkpoint "$odd/ck2" >"$WORK/next2" 2>&1
    for line in 'train on' sample evaluate; do
        check "next: $line" bash -c \
            "cd $(printf %q "$odd") && eval \"\$(sed -n 's/^$line: *//p' '$WORK/next')\""
        check "next: $line, of a name that no shell would write" \
            bash -c "eval \"\$(sed -n 's/^$line: *//p' '$WORK/next2')\""
    done
    check "next: no byte of a name moves a cursor" bash -c \
        "! grep -a '^train on\|^sample\|^evaluate' '$WORK/next2' | grep -aq $'\\033'"
    check "trained on" test -d "$odd/ck/step-00000004" -a -d "$odd/ck2/step-00000004"
    "$WORK/one/trainer" --data "$data" --steps 12 --threads 1 --checkpoint "$odd/ck" --resume --accept-data >"$WORK/next" 2>&1
    check "next: without --eval, data to be named" grep -q '^evaluate: .* --data HELD_OUT$' "$WORK/next"
    check "next: not past the end of the schedule, of 20 steps" grep -q '^train on: .* --steps 20$' "$WORK/next"
    "$WORK/one/trainer" --data "$data" --steps 2 --threads 1 --checkpoint "$odd/ck" --resume >"$WORK/next" 2>&1
    check "next: more than was done, not than was asked for" grep -q '^train on: .* --steps 20$' "$WORK/next"
    "$WORK/one/trainer" --data "$data" --steps 20 --threads 1 --checkpoint "$odd/ck" --resume >"$WORK/next" 2>&1
    check "next: says that the schedule ends" grep -q "^train on:  the learning rate's schedule ends" "$WORK/next"
    "$WORK/one/trainer" --data "$data" --steps 20 --threads 1 --checkpoint "$odd/ck" --resume >"$WORK/next" 2>&1
    check "a run that is finished says so once" test "$(grep 'nothing' "$WORK/next")" = \
        'nothing is to do: step 20 is done, and the run ends at step 20; a larger --steps goes on'
}

# tmux shows what a terminal would.
on_a_terminal() {
    local columns
    command -v tmux >/dev/null 2>&1 || { echo "skipped: the terminal (no tmux)"; return; }
    for columns in 80 120; do
        rm -rf "$WORK/shown"
        on_screen $columns "clear; $t --data $data --steps 6 --threads 1 --checkpoint $WORK/shown" \
            "--eval $data; echo over"
        check "$columns columns: it ends" seen '^over$'
        screen_text | tr -d '\n' | grep -q . || bad "$columns columns: nothing is seen"
        tm capture-pane -pJ -S - -t x | sed -n '/parameters/,/^over/p' | sed 's/ *$//' |
            scrubbed >"$WORK/seen"
        check "$columns columns: its text" golden "terminal_$columns.txt" <"$WORK/seen"
    done
    redrawn
    job_control
    colors
    tm kill-server
}

live='^step +[0-9]+/900000 +\[#*\.*\] +loss .* ETA '
start_live() { # COLUMNS [FLAGS...]
    local columns=$1
    shift
    rm -rf "$WORK/shown"
    on_screen "$columns" "clear; $t --data $data --steps 900000 --threads 1 $*; echo over \$?"
    seen "$live"
}

redrawn() {
    cp "$data" "$WORK/going.txt"
    check "a line is redrawn" start_live 80 --data "$WORK/going.txt"
    check "it counts" comes counts_from "$(live_line)"
    check "and fits" no_longer_than 79 < <(screen_text | grep ETA)
    tm resize-window -t x -x 120
    check "wider: it has more" seen "$live.*MiB$"
    check "narrower: one line of it, which fits" narrows
    tm resize-window -t x -x 80
    rm "$WORK/going.txt"
    check "a warning has lines of its own" seen '^trainer: warning: .*going.txt'
    check "and the line comes again" seen "$live"
    check "once, though the ranks are four" test "$(screen_text | grep -c '^trainer: warning')" = 1
    tm send-keys -t x C-s
    sleep 0.5
    tm send-keys -t x C-c
    sleep 0.5
    tm send-keys -t x C-q
    check "ctrl-S holds up no end" seen '^over 130'
}

job_control() {
    start_live 80 --checkpoint "$WORK/shown"
    tm send-keys -t x C-z
    check "ctrl-Z stops it" seen 'Stopped'
    tm send-keys -t x 'echo mine' Enter
    check "the terminal is the shell's" seen '^mine$'
    tm send-keys -t x fg Enter
    check "fg: the line comes again" seen "$live"
    tm send-keys -t x C-z
    seen '\[1\]\+ +Stopped.*' && sleep 0.3
    tm send-keys -t x 'bg; sleep 1; echo ba""ck' Enter
    seen '^back$'
    check "bg: nothing is drawn over the shell's line" test -z \
        "$(screen_text | sed -n '/^back$/,$p' | grep -E '\[#*\.+\]')"
    tm send-keys -t x 'clear; fg; echo over $?' Enter
    seen "$live"
    tm send-keys -t x C-c
    check "ctrl-C: how to go on" seen '^to go on: '
    check "and code 75" seen '^over 75$'
    check "no rest of the line" test -z "$(screen_text | sed -n '/^stopped: step/,$p' | grep -E '\[#*\.+\]')"
}

# raw NAME=VALUE... -- FLAGS...: the bytes that go to a terminal
raw() {
    local sets=()
    while [ "$1" != -- ]; do sets+=("$1"); shift; done
    shift
    env "${sets[@]}" script -qec "$t --data $data --steps 300 --threads 1 $*" /dev/null </dev/null 2>&1
}

colors() {
    command -v script >/dev/null 2>&1 || { echo "skipped: colours (no script)"; return; }
    raw -u NO_COLOR TERM=xterm -- >"$WORK/raw"
    check "a terminal has colours" grep -q $'\033\\[1mloss' "$WORK/raw"
    check "and a line that is redrawn" grep -q $'\r\033\\[J' "$WORK/raw"
    raw NO_COLOR=1 TERM=xterm -- >"$WORK/raw"
    check "NO_COLOR: none" bash -c "! grep -q $'\\033\\[[0-9;]*m' '$WORK/raw'"
    check "NO_COLOR: but the line" grep -q $'\r\033\\[J' "$WORK/raw"
    raw -u NO_COLOR TERM=xterm -- --color never >"$WORK/raw"
    check "--color never: none" bash -c "! grep -q $'\\033\\[[0-9;]*m' '$WORK/raw'"
    raw -u NO_COLOR TERM=dumb -- >"$WORK/raw"
    check "TERM=dumb: nothing but text" bash -c "! grep -q $'\\033' '$WORK/raw'"
    raw -u NO_COLOR TERM=xterm -- --quiet >"$WORK/raw"
    check "--quiet: no line of a step" bash -c "! grep -q '^step\|\\033\\[J' '$WORK/raw'"
}
