# SPDX-License-Identifier: Apache-2.0
# Sourced by the suites (tests/*/run.sh), after `set -u`. Gives them:
#   ROOT, BUILD      the source tree; the cmake build folder (environment: FSDPGEN_BUILD)
#   FSDPGEN          the generator under test (environment: FSDPGEN)
#   FULL, SEED       1 for every count that is promised; seed of this run's random sample
#   ISA, ISA_ARCH    the instruction set of this run, and the compiler's -march (isa.sh)
#   WORK             an empty folder of this suite's, removed at the end unless KEEP=1
#   ok NAME, bad NAME [FILE]     count one check; FILE's end is shown
#   suite_args ARGS...           the suite's own arguments: sets update, perhaps FSDPGEN
#   check NAME COMMAND...        one check: the command succeeds
#   at_least WHAT HAVE NEED      one check: a count that is promised
#   turn N OF COMMAND...         runs it with FULL=1, else where SEED % OF is N
#   finish           prints 'N passed, N failed' and exits accordingly
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${FSDPGEN_BUILD:-$ROOT/build/default}
export -n BUILD # the emitted Makefiles have a BUILD of their own
FSDPGEN=${FSDPGEN:-$BUILD/fsdpgen}
FULL=${FULL:-0}
SEED=${SEED:-1}
. "$ROOT/tests/isa.sh"
isa_use "${ISA:-native}"
export LC_ALL=C
passed=0
failed=0

# suite_args ARGS...: [FSDPGEN] [--update] of suites that can write their expectations anew.
suite_args() {
    update=0
    for arg in "$@"; do
        case $arg in
        --update) update=1 ;;
        *) FSDPGEN=$(cd "$(dirname "$arg")" && pwd)/$(basename "$arg") ;;
        esac
    done
}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/fsdpgen-$(basename "$(dirname "$0")").XXXXXX") || exit 70
export XDG_CACHE_HOME=$WORK/cache # of trainers, which a person's home is not for
[ "${KEEP:-0}" = 1 ] || trap 'rm -rf "$WORK"' EXIT

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

check() {
    local name=$1
    shift
    if "$@" >"$WORK/check.log" 2>&1; then
        ok "$name"
    else
        bad "$name" "$WORK/check.log"
    fi
}

at_least() {
    if [ "$2" -ge "$3" ]; then ok "$1: $2"; else bad "$1: $2, $3 are promised"; fi
}

turn() {
    local n=$1 of=$2
    shift 2
    if [ "$FULL" = 1 ] || [ $((SEED % of)) = "$n" ]; then "$@"; fi
}

# random N: 0..N-1 from SEED; the same sequence on every machine.
random_state=$((SEED * 2654435761 % 4294967296))
random() {
    random_state=$(((random_state * 1664525 + 1013904223) % 4294967296))
    random_value=$(((random_state >> 8) % $1))
}

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
    exit $?
}
