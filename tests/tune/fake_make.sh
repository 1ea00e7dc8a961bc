#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# In place of make, for tests: the trainer that it "builds" trains nothing. Its step time is a function
# of its description, so that the fastest one is known; its weights are those of a file.
# FAKE_DIR: seed, if that is there: its number and the description determine the time; shaky: the name of a
# strategy whose runs take a tenth more where the pattern slow_runs, over and over, has a 1; wrong, if that is
# there: the name of a strategy whose weights differ; fickle: one whose weights differ from its third run on; broken: one that fails; tired: one that fails after
# three runs; slow: one that never ends;
# slow_build: one whose
# build never ends; platform: the hash of all trainers' platform; calls: a line for each run but those
# that are asked for it.
if [ -e "$FAKE_DIR/slow_build" ] && grep -q "\"$(cat "$FAKE_DIR/slow_build")\"" description.lua; then
    exec tail -f /dev/null
fi
[ ! -e "$FAKE_DIR/no_build" ] || { printf 'no such compiler\33[2J\n'; exit 2; }
cat >trainer <<'TRAINER'
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    --steps) steps=$2 ;;
    --log) log=$2 ;;
    esac
    shift
done
is() { [ -e "$FAKE_DIR/$1" ] && grep -qx "$(cat "$FAKE_DIR/$1")" choices; }
grep -o 'strategy = "[a-z_]*"\|recompute = "[a-z_]*"' description.lua | sed 's/.*"\(.*\)"/\1/' >choices
grep -v '^--' description.lua >described
case $log in *.platform) ;; *) echo "$(paste -sd' ' choices)" >>"$FAKE_DIR/calls" ;; esac
if is broken; then echo "trainer: error: out of luck" >&2; exit 1; fi
if is tired; then
    echo >>tired_runs
    [ "$(wc -l <tired_runs)" -le 3 ] || { echo "trainer: error: out of breath" >&2; exit 1; }
fi
if is slow; then sleep "1000.${FAKE_ID:-0}" & wait; fi
time=$(cat "$FAKE_DIR/times" | while read -r name t; do grep -qx "$name" choices && echo "$t"; done | tail -n 1)
if [ -e "$FAKE_DIR/seed" ]; then
    time=1.$(cat "$FAKE_DIR/seed" described | cksum | sed 's/ .*//; s/.*\(....\)$/\1/')
    echo "$PWD $time" >>"$FAKE_DIR/seen"
fi
if is shaky; then
    echo >>runs
    slow=$(awk -v run="$(wc -l <runs)" '{ print substr($0, (run - 1) % length($0) + 1, 1) }' "$FAKE_DIR/slow_runs")
    [ "$slow" = 0 ] || time=$(awk "BEGIN { print 1.1 * $time }")
fi
echo "{\"run\": {\"model\": \"fake\", \"platform\": \"$(cat "$FAKE_DIR/platform" 2>/dev/null || echo 1234567890abcdef)\"}}" >>"$log"
for step in $(seq "$steps"); do
    echo "{\"step\": $step, \"step_seconds\": ${time:-9}}" >>"$log"
done
if is fickle; then
    echo >>fickle_runs
    [ "$(wc -l <fickle_runs)" -lt 3 ] || { echo weights 4444444444444444; exit; }
fi
if is wrong; then echo weights 2222222222222222; else echo weights 1111111111111111; fi
TRAINER
chmod +x trainer
