# SPDX-License-Identifier: Apache-2.0
# Sourced by the suites (tests/*/run.sh), after `set -u`. Gives them:
#   ROOT, BUILD      the source tree; the cmake build folder (environment: FSDPGEN_BUILD)
#   FSDPGEN          the generator under test (environment: FSDPGEN)
#   FULL, SEED       1 for every count that is promised; seed of this run's random sample
#   ISA, ISA_ARCH    the instruction set of this run, and the compiler's -march (isa.sh)
#   WORK             an empty folder of this suite's, removed at the end unless KEEP=1
#   ok NAME, bad NAME [FILE]     count one check; FILE's end is shown
#   part NAME[:NEEDS,...] COMMAND...   a part of the suite, which others need to have run; finish
#                    runs all of them, or those named: run.sh NAME... (and --list, --update).
#                    Parts are declared before anything is looked for that a machine may lack,
#                    so that --list and a wrong name are answered everywhere
#   check NAME COMMAND...        one check: the command succeeds
#   comes COMMAND...             waits, a minute or more, until the command succeeds
#   at_least WHAT HAVE NEED      one check: a count that is promised
#   turn N OF COMMAND...         runs it with FULL=1 or parts named, else in one of OF runs: where a number
#                                made of SEED, unlike SEED's own residues, has the residue N
#   known_parts      --list and wrong names are answered now, not at the end
#   cannot_run WHY   in place of finish: nothing of this suite runs here
#   conclude         in place of finish: no part runs, and the checks until now count
#   run_parts        for a suite that goes on after its parts, before finish
#   finish           runs the parts, prints 'N passed, N failed' and exits accordingly
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${FSDPGEN_BUILD:-$ROOT/build/default}
export -n BUILD # the emitted Makefiles have a BUILD of their own
FSDPGEN=${FSDPGEN:-$BUILD/fsdpgen}
FULL=${FULL:-0}
SEED=${SEED:-1}
. "$ROOT/tests/isa.sh"
isa_use "${ISA:-native}"
export LC_ALL=C
if grep -qs '^FSDPGEN_TESTS:BOOL=OFF' "$BUILD/CMakeCache.txt"; then
    echo "$0: $BUILD has no C tests, or old ones: cmake --preset test && cmake --build" \
        "--preset test" >&2
fi
passed=0
failed=0

# A suite's arguments: names of its parts, globs among them. own_args=1: it reads them itself.
update=0
list_parts=0
part_names=()
read_arguments() {
    local arg
    for arg; do
        case $arg in
        --update) update=1 ;;
        --list) list_parts=1 ;;
        -*) echo "$0: unknown option $arg: --list, --update, or names of parts" >&2; exit 2 ;;
        *) part_names+=("$arg") ;;
        esac
    done
}
[ "${own_args:-0}" = 1 ] || read_arguments "$@"
WORK=$(mktemp -d "${TMPDIR:-/tmp}/fsdpgen-$(basename "$(dirname "$0")").XXXXXX") || exit 70
export XDG_CACHE_HOME=$WORK/cache # of trainers, which a person's home is not for

# remove_at_end FOLDER...: removes them at the end. A signal that meets bash between a fork and what the
# child is to do has the child run this trap too: only the suite itself may. (There bash takes a test
# for one that failed: `[ ] ||` would remove them.)
remove_at_end() {
    case $BASHPID in $$) rm -rf "$@" ;; esac
}
[ "${KEEP:-0}" = 1 ] || trap 'remove_at_end "$WORK"' EXIT

ok() {
    passed=$((passed + 1))
    [ "${VERBOSE:-0}" = 1 ] && echo "ok   $1"
    return 0
}

bad() {
    failed=$((failed + 1))
    echo "FAIL $1"
    [ $# -gt 1 ] && [ -e "$2" ] && tail -n 15 "$2" | sed 's/^/     | /'
    return 0
}

# A command that is not there, be it a function's name spelt wrong, is a check that did not run.
command_not_found_handle() {
    echo "$1" >>"$WORK/not.found"
    echo "$1: command not found" >&2
    return 127
}

check() {
    local name=$1
    shift
    if "$@" >"$WORK/check.log" 2>&1; then
        ok "$name"
    else
        bad "$name" "$WORK/check.log"
    fi
}

# Have both folders the same bytes of mathematics and kernels?
same_mathematics() { # FOLDER FOLDER
    local file
    for file in math.c math.h kernels.c kernels.h; do cmp "$1/$file" "$2/$file" || return 1; done
    [ ! -e "$1/kernels.cu" ] || cmp "$1/kernels.cu" "$2/kernels.cu"
}

comes() {
    local i
    for ((i = 0; i < 600; i++)); do
        "$@" && return
        sleep 0.1
    done
    return 1
}

at_least() {
    if [ "$2" -ge "$3" ]; then ok "$1: $2"; else bad "$1: $2, $3 are promised"; fi
}

turn() {
    local n=$1 of=$2
    shift 2
    if [ "$FULL" = 1 ] || [ ${#part_names[@]} -gt 0 ] || [ $((SEED * 48271 % 2147483647 / 64 % of)) = "$n" ]; then "$@"; fi
}

declare -A part_needs=() part_command=() part_done=()
part_order=()
part() {
    local name=${1%%:*} needs=${1#*:}
    [ "$needs" != "$1" ] || needs=
    shift
    part_order+=("$name")
    part_needs[$name]=${needs//,/ }
    part_command[$name]=$(printf '%q ' "$@")
}

# cpu_used: cpu_ms, what this shell and its ended children have used of processors.
cpu_used() {
    times >"$WORK/times"
    cpu_ms=$(awk -F '[ms ]+' '{ t += 60 * ($1 + $3) + $2 + $4 } END { printf "%d", 1000 * t }' \
        "$WORK/times")
}

# NAME: and before it what it needs. TIMES=1 prints its seconds and those of processors: what a
# machine does beside changes the first, not the second.
run_part() {
    local need part_start part_cpu # parts have names of their own
    [ -z "${part_done[$1]:-}" ] || return 0
    part_done[$1]=1
    for need in ${part_needs[$1]}; do run_part "$need"; done
    if [ "${TIMES:-0}" = 0 ]; then
        eval "${part_command[$1]}"
        return
    fi
    part_start=$SECONDS
    cpu_used
    part_cpu=$cpu_ms
    eval "${part_command[$1]}"
    cpu_used
    echo "time $1: $((SECONDS - part_start)) s, $(((cpu_ms - part_cpu) / 1000)) s of processors"
}

known_parts() { # ends here where --list asks for the names, or one is wrong
    local name pattern hits
    if [ $list_parts = 1 ]; then
        [ ${#part_order[@]} = 0 ] || printf '%s\n' "${part_order[@]}"
        exit 0
    fi
    for pattern in "${part_names[@]}"; do
        hits=0
        # shellcheck disable=SC2254 # a pattern
        for name in "${part_order[@]}"; do
            case $name in $pattern) hits=1 ;; esac
        done
        [ $hits = 1 ] && continue
        echo "$0: no part $pattern; there are: ${part_order[*]}" >&2
        exit 2
    done
}

run_parts() {
    local name pattern
    known_parts
    # shellcheck disable=SC2254
    for name in "${part_order[@]}"; do
        [ ${#part_names[@]} -gt 0 ] || run_part "$name"
        for pattern in "${part_names[@]}"; do
            case $name in $pattern) run_part "$name" ;; esac
        done
    done
}

# random N: 0..N-1 from SEED; the same sequence on every machine.
random_state=$((SEED * 2654435761 % 4294967296))
random() {
    random_state=$(((random_state * 1664525 + 1013904223) % 4294967296))
    random_value=$(((random_state >> 8) % $1))
}

finish() {
    run_parts
    conclude
}

cannot_run() {
    known_parts
    echo "skipped: $1"
    conclude
}

conclude() {
    [ -d "$WORK" ] || bad "$WORK is there to the end"
    [ ! -s "$WORK/not.found" ] || bad "commands are not found" "$WORK/not.found"
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit $?
}
readonly -f ok bad check part finish remove_at_end
