#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything and runs the tests. The last line is 'N passed, N failed'.
#
#   ./test.sh                the CI tier: about 25 minutes on 2 cores
#   ./test.sh --full         every count that is promised (hours); writes tests/RESULTS.md. When it
#                            is stopped, the next one goes on with the rows that are missing; a
#                            row holds while nothing changes that its suite reads
#   ./test.sh --deps         only installs what is missing
#   ./test.sh [--full] SUITE...   these folders of tests/ only, or `ctest` (no sanitizers);
#                            with --full their rows of tests/RESULTS.md are written anew
#   ./test.sh SUITE:PART,...      these parts of a suite, by name or glob, whatever SEED's sample;
#                            tests/SUITE/run.sh --list names them
#
# SEED=N chooses the random sample (default: from the commit), and with it the instruction set of
# compiler and libraries; ISA=NAME one of tests/isa.sh. --full takes native, then the CI tier's
# counts with every other. Three suites run at a time (many tests wait); LANES=1: one. Logs: build/test-logs/; lines
# `time PART` there say where the time goes.
set -u -o pipefail
cd "$(dirname "$0")" || exit 70
. tests/deps.sh
. tests/isa.sh
. tests/results.sh

usage() { sed -n '3,18s/^# \{0,1\}//p' "$0"; }

deps_only=0
export FULL=0
suites=()
for arg in "$@"; do
    case "$arg" in
    --deps) deps_only=1 ;;
    --full) FULL=1 ;;
    -h | --help) usage; exit 0 ;;
    -*) echo "test.sh: unknown option $arg" >&2; usage >&2; exit 2 ;;
    *)
        suite=${arg%%:*}
        if [ "$arg" != ctest ] && [ ! -x "tests/$suite/run.sh" ]; then
            echo "test.sh: no suite tests/$suite/run.sh" >&2
            exit 2
        fi
        if [ "$suite" != "$arg" ] && [ $FULL = 1 ]; then
            echo "test.sh: --full counts whole suites, not $arg" >&2
            exit 2
        fi
        suites+=("$arg") ;;
    esac
done
deps_install build run test $([ $FULL = 0 ] || echo full)
[ $deps_only = 1 ] && exit 0

# A new sample at each commit, the same one when a commit is tested again.
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo none)
export SEED=${SEED:-$((10#$(printf '%s' "$commit" | cksum | cut -d' ' -f1 | tail -c 7) % 1000000))}
if [ -z "${ISA:-}" ]; then
    mapfile -t isas < <(isa_names)
    ISA=native
    # another number of SEED than that of lib.sh's turn, so that each turn meets each set
    [ "$FULL" = 1 ] || ISA=${isas[$((SEED * 16807 % 2147483647 / 64 % ${#isas[@]}))]}
fi
isa_use "$ISA"
export FSDPGEN_BUILD=$PWD/build/default FSDPGEN=$PWD/build/default/fsdpgen
logs=$PWD/build/test-logs
mkdir -p "$logs"
total_passed=0
total_failed=0
rows=()

# count NAME LOG STATUS SECONDS CPU: reads the suite's last 'N passed, N failed'; a suite that ends
# without one, or fails without counting a failure, is one failure.
count() {
    local name=$1 log=$2 status=$3 seconds=$4 cpu=$5 line passed failed
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1)
    passed=${line%% *}
    failed=$(echo "$line" | sed -n 's/.*, \([0-9]*\) failed.*/\1/p')
    if [ -z "$line" ] || { [ "$status" -ne 0 ] && [ "$failed" = 0 ]; } ||
       { [ "$passed$failed" = 00 ] && ! grep -q '^skipped' "$log"; }; then
        failed=$((${failed:-0} + 1))
        echo "  $name: ended with status $status and no counted failure; its log ends:"
        tail -n 15 "$log" | sed 's/^/    | /'
    fi
    total_passed=$((total_passed + ${passed:-0}))
    total_failed=$((total_failed + ${failed:-0}))
    rows+=("$name|${passed:-0}|${failed:-0}|$seconds|$commit|$SEED|$machine")
    printf '%-28s %6d passed %4d failed %5d s %5d of processors\n' "$name" "${passed:-0}" \
        "${failed:-0}" "$seconds" "$cpu"
}

# below PID: the processes below it, a line for each.
below() {
    local pid
    for pid in $(pgrep -P "$1"); do
        echo "$pid"
        below "$pid"
    done
}

# end_late PID LOG: a suite that takes hours would end the whole run without a word. It is killed, and what it
# waited for is its failure.
limit_s=$((FULL == 1 ? 14400 : 2700))
end_late() {
    local pids never
    exec {never}<> <(:)
    read -r -t $limit_s -u "$never" # as sleep, but no process that would stay behind
    mapfile -t pids < <(below "$1")
    {
        echo "FAIL after $limit_s s it still runs:"
        ps -o pid,ppid,stat,etime,time,wchan:24,args -p "${pids[*]}" | cut -c 1-300 | sed 's/^/     | /'
    } >>"$2"
    for pid in "${pids[@]}"; do [ "$pid" = "$BASHPID" ] || kill -KILL "$pid" 2>/dev/null; done
}

# run NAME COMMAND...: starts one suite; LANES of them run at a time. A suite's failures are
# shown when it ends. They share what tests/cc_cached compiles. What an earlier --full
# has counted is left out.
declare -A running=() # process id: name
lanes=${LANES:-$(($(nproc) < 2 ? 1 : 3))}
export CC_CACHE=$PWD/build/test-objects TIMES=1
rm -rf "$CC_CACHE"
run() {
    local name=$1 log=$logs/${1//[^a-z0-9_]/_}.log
    shift
    ! is_counted "$name" || return 0
    while [ ${#running[@]} -ge "$lanes" ]; do run_end; done
    (
        start=$SECONDS
        self=$BASHPID # of this process, not of the next line's
        end_late "$self" "$log" &
        "$@" >"$log" 2>&1
        status=$?
        kill $! 2>/dev/null
        times >"$log.times" # of the suite's processes
        echo "$status $((SECONDS - start)) $(awk -F '[ms ]+' \
            '{ t += 60 * ($1 + $3) + $2 + $4 } END { printf "%d", t }' "$log.times")" >"$log.status"
    ) &
    running[$!]=$name
}

run_end() { # waits for one of those that run
    local pid name log status seconds cpu
    wait -n -p pid "${!running[@]}"
    name=${running[$pid]}
    unset "running[$pid]"
    log=$logs/${name//[^a-z0-9_]/_}.log
    read -r status seconds cpu <"$log.status"
    grep -E '^(FAIL|     \||error|skipped|Figure|figure)' "$log" | head -n 60
    count "$name" "$log" "$status" "$seconds" "$cpu"
    if [ "$FULL" = 1 ]; then write_results; fi # a run that is stopped keeps what it has
}

# run_suite NAME SUITE: with --full, a long one in pieces, each of every n-th of its parts, and each with a row of
# its own ("fuzz:3/12"), so that a count that is stopped loses less.
run_suite() {
    local name=$1 script=tests/$2/run.sh n=1 parts=() piece i k
    [ "$FULL" = 0 ] || case $2 in
    fuzz) n=12 ;;
    e2e | matrix | plan | pytorch) n=6 ;;
    checkpoint | cudasim | runtime) n=3 ;; # each piece has their trainers to build
    esac
    [ $n = 1 ] || mapfile -t parts < <("$script" --list)
    if [ ${#parts[@]} = 0 ]; then # also where its parts are not known: it will say why
        run "$name" "$script"
        return
    fi
    for ((i = 0; i < n; i++)); do
        piece=()
        for ((k = i; k < ${#parts[@]}; k += n)); do piece+=("${parts[k]}"); done
        [ ${#piece[@]} = 0 ] || run "$name:$((i + 1))/$n" "$script" "${piece[@]}"
    done
}

run_all_end() {
    while [ ${#running[@]} -gt 0 ]; do run_end; done
}

# run_ctest FOLDER [OPTION...]: ctest's own closing line in the words the others use.
run_ctest() {
    local out failed total
    out=$(ctest --test-dir "$@" --output-on-failure 2>&1)
    echo "$out"
    total=$(echo "$out" | sed -n 's/.*tests failed out of \([0-9]*\).*/\1/p')
    failed=$(echo "$out" | sed -n 's/.*tests passed, \([0-9]*\) tests failed.*/\1/p')
    echo "$((${total:-0} - ${failed:-0})) passed, ${failed:-0} failed"
}

build() {
    cmake --preset "$1" -DRUNTIME_ARCH="$ISA_ARCH" -DGEMM="$ISA_GEMM" \
        >"$logs/build-$1.log" 2>&1 &&
        cmake --build --preset "$1" -j "$(nproc)" >>"$logs/build-$1.log" 2>&1 && return 0
    tail -n 30 "$logs/build-$1.log"
    echo "FAIL building the preset $1"
    echo "$total_passed passed, $((total_failed + 1)) failed"
    exit 1
}

echo "fsdpgen tests: commit $commit, seed $SEED, ISA=$ISA, $(nproc) cores"
[ "$FULL" = 0 ] || read_results "${suites[@]}"
build test
if [ ${#suites[@]} -gt 0 ]; then
    for suite in "${suites[@]}"; do
        if [ "$suite" = ctest ]; then
            run ctest run_ctest build/default
        elif [ "$suite" = "${suite%%:*}" ]; then
            run_suite "$suite" "$suite"
        else
            parts=${suite#"${suite%%:*}"}
            # shellcheck disable=SC2046 # words
            run "$suite" "tests/${suite%%:*}/run.sh" $(set -f; echo "${parts#:}" | tr , ' ')
        fi
    done
else
    run ctest run_ctest build/default
    for script in tests/*/run.sh; do
        suite=$(basename "$(dirname "$script")")
        [ "$suite" = gpu ] && continue
        run_suite "$suite" "$suite"
    done
    # the generator again under AddressSanitizer and UndefinedBehaviorSanitizer, which is built
    # while the last suites run
    build asan
    export ASAN_OPTIONS=detect_leaks=0:abort_on_error=0 UBSAN_OPTIONS=print_stacktrace=1
    run "asan ctest" run_ctest build/asan -E 'ops_(bits|faults|golden)' # of kernels, not the generator
    # the longest first; in CI in turn, and not all parts: the same sources, and CI has to end
    for suite in plan load graph fuzz; do
        parts=()
        case $FULL$suite$((SEED % 3)) in
        0plan[12] | 0load[02] | 0graph[01]) continue ;;
        0plan*) parts=(programs golden mistakes image) ;;
        0load*) parts=(cases import good files) ;;
        esac
        export FSDPGEN_BUILD=$PWD/build/asan FSDPGEN=$PWD/build/asan/fsdpgen
        if [ ${#parts[@]} = 0 ]; then
            run_suite "asan $suite" "$suite"
        else
            run "asan $suite" "tests/$suite/run.sh" "${parts[@]}"
        fi
    done
    export FSDPGEN_BUILD=$PWD/build/default FSDPGEN=$PWD/build/default/fsdpgen
fi
run_all_end

# The suites that run arithmetic, once more with every other instruction set, each with the next
# seed: rows "SUITE ISA". The others compare texts and files of the generator, have results that depend on
# no instruction set, or start with what compilers and libraries of others say (cuda, gpu, hf). Where only the library of
# products is another, those whose trainers multiply by it: the rest take the built-in one.
elsewhere() {
    local isa suite builds list
    for isa in $(isa_names | sed 1d) native; do
        unset ONEDNN_MAX_CPU_ISA OPENBLAS_CORETYPE
        isa_use "$isa"
        [ "$isa" != native ] || break
        export SEED=$((SEED + 1))
        builds=1
        list="ctest e2e matrix pytorch"
        [ "$ISA_ARCH" = native ] || list+=" runtime threads checkpoint cudasim fuzz"
        for suite in $list; do
            [ ${#suites[@]} -eq 0 ] || [[ " ${suites[*]} " = *" $suite "* ]] || continue
            ! is_counted "$suite $isa" || continue
            [ $builds = 0 ] || build test
            builds=0
            if [ $suite = ctest ]; then
                FULL=0 run "ctest $isa" run_ctest build/default \
                    -R '^(ops_(math|kernels|bits)|runtime_)'
            else
                FULL=0 run "$suite $isa" "tests/$suite/run.sh"
            fi
        done
        run_all_end
    done
    build test # and all is as it was
}
[ "$FULL" = 0 ] || [ "$ISA" != native ] || elsewhere
command -v nvcc >/dev/null 2>&1 || [ -x "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc" ] ||
    echo "skipped: what compiles CUDA (no CUDA toolkit here)"

[ $total_failed -eq 0 ] || echo "to repeat: SEED=$SEED ISA=$ISA ./test.sh SUITE"
echo "$total_passed passed, $total_failed failed"
[ $total_failed -eq 0 ]
