#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds fsdpgen, generates the trainer of models/demo.lua, trains it on English text with two
# ranks for about two minutes on two cores, and lets it speak.
#
#   ./demo.sh               with Debian's jargon-text (public domain), fetched by apt-get download
#   ./demo.sh --text FILE   with any text
#   ./demo.sh --steps N     fewer or more steps than the description's schedule
#   ./demo.sh --deps        only installs what is missing
set -u -o pipefail
cd "$(dirname "$0")" || exit 70
. tests/deps.sh

usage() { sed -n '3,9s/^# \{0,1\}//p' "$0"; }
die() { echo "demo.sh: $1" >&2; exit "${2:-1}"; }

text=
steps=200
while [ $# -gt 0 ]; do
    case "$1" in
    --deps) deps_install build run; exit 0 ;;
    --text) [ $# -ge 2 ] || die "--text needs a file" 2; text=$2; shift ;;
    --steps) [ $# -ge 2 ] || die "--steps needs a number" 2; steps=$2; shift ;;
    -h | --help) usage; exit 0 ;;
    *) echo "demo.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done
case "$steps" in '' | *[!0-9]* | 0) die "--steps needs a whole number over 0" 2 ;; esac
[ -z "$text" ] || [ -r "$text" ] || die "cannot read $text"

# The text, out of Debian's package by unpacking it: slim images drop documentation on install.
fetch_text() {
    local folder=build/text
    text=$folder/jargon.txt
    [ -s "$text" ] && return 0
    mkdir -p "$folder" || exit 1
    command -v apt-get >/dev/null 2>&1 ||
        die "no apt-get to fetch jargon-text with; name a text: ./demo.sh --text FILE" 4
    echo "Fetching the text: Debian's jargon-text (the Jargon File, public domain, 1.6 MB)"
    (
        cd "$folder" || exit 1
        apt-get download -q jargon-text >fetch.log 2>&1 && exit 0
        if [ "$(id -u)" -eq 0 ]; then # slim images come without package lists
            apt-get update -q >>fetch.log 2>&1
        elif command -v sudo >/dev/null 2>&1; then
            sudo apt-get update -q >>fetch.log 2>&1
        fi
        apt-get download -q jargon-text >>fetch.log 2>&1
    ) && dpkg-deb -x "$folder"/jargon-text_*.deb "$folder/package" &&
        gzip -dc "$folder/package/usr/share/doc/jargon-text/jargon.txt.gz" >"$text" ||
        { rm -f "$text"; tail -n 5 "$folder/fetch.log" >&2
          die "could not fetch it; name a text: ./demo.sh --text FILE" 4; }
}

deps_install build run
[ -n "$text" ] || fetch_text
case "$text" in /*) ;; *) text=$PWD/$text ;; esac

log=build/demo.build.log
mkdir -p build
echo "Building fsdpgen (log: $log)"
{ cmake -S . -B build/default -DCMAKE_BUILD_TYPE=Release &&
  cmake --build build/default --target fsdpgen -j "$(nproc)"; } >$log 2>&1 ||
    { tail -n 20 $log >&2; die "fsdpgen did not build" 70; }

echo "Generating:  fsdpgen models/demo.lua -o build/demo"
build/default/fsdpgen models/demo.lua -o build/demo || exit $?
echo "Compiling:   make -C build/demo"
make -C build/demo >>$log 2>&1 || { tail -n 20 $log >&2; die "the trainer did not compile" 1; }

echo "Training:    build/demo/trainer --data $text --steps $steps --log build/demo.jsonl" \
    "--checkpoint build/demo.checkpoint"
echo
rm -rf build/demo.jsonl build/demo.checkpoint
build/demo/trainer --data "$text" --steps "$steps" --log build/demo.jsonl \
    --checkpoint build/demo.checkpoint
status=$?
[ $status -eq 0 ] || die "the trainer ended with status $status" $status

# One number of one line of the log; of the plan.
logged() { grep '^{"step"' build/demo.jsonl | sed -n "$1s/.*\"$2\": *\([-0-9.e+]*\).*/\1/p"; }
planned() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p" build/demo/plan.json; }
last=$(grep -c '^{"step"' build/demo.jsonl)
echo
at=$((last < 30 ? last : 30))
printf 'Loss:    %.3f at step 1' "$(logged 1 loss)"
[ $at = "$last" ] || printf ', %.3f at step %d' "$(logged $at loss)" $at
[ "$last" = 1 ] || printf ', %.3f at step %d' "$(logged '$' loss)" "$last"
echo
awk -v arena="$(planned arena)" -v library="$(planned library)" \
    -v measured="$(logged '$' memory_bytes)" 'BEGIN { MiB = 1048576
    printf "Memory:  planned %.1f MiB of arena for a rank, and at most %.0f MiB outside it\n",
           arena / MiB, library / MiB
    printf "         measured %.1f MiB in all, %.1f MiB outside the arena\n", measured / MiB,
           (measured - arena) / MiB }'
echo "Source:  build/demo/step.c is the step as it runs, build/demo/math.c its mathematics,"
echo "         build/demo/plan.txt the plan; build/demo/README.md says how to read them"
echo
echo "It speaks:   build/demo/trainer sample --prompt 'The hacker ' --checkpoint build/demo.checkpoint --temperature 0.7"
echo
build/demo/trainer sample --prompt 'The hacker ' --checkpoint build/demo.checkpoint --temperature 0.7 \
    2>build/demo.sample.log || { cat build/demo.sample.log >&2; die "the model did not speak" 1; }
