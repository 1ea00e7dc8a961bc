# SPDX-License-Identifier: Apache-2.0
# Sourced by suites that generate, build and run trainers.
export CC_CACHE=${CC_CACHE:-$WORK/objects}

# The command before a program with ThreadSanitizer: its older versions end by themselves where a kernel
# spreads addresses widely (vm.mmap_rnd_bits). Some containers forbid it.
in_place=(env)
! env setarch -R true 2>/dev/null || in_place=(setarch -R)

# generate DIR MODEL [FLAGS...]: emits a trainer that links the tree's runtime.
generate() {
    local dir=$1 model=$2
    shift 2
    "$FSDPGEN" "$model" -o "$dir" --link-runtime "$ROOT/runtime" "$@" >"$dir.log" 2>&1
}

# build_trainer DIR [VARIABLE=value...]: for the instruction set of this run. Trainers share objects:
# - The compiler finds the runtime by a link, DIR/.runtime, so paths are the same in all folders. A
#   copy of the runtime in which one file is another compiles that one.
# - The first trainer built with these variables leaves its runtime's objects to those that follow,
#   whose make finds them up to date.
# - quick_builds=1, of a suite that compares trainers with each other: without FULL they are compiled
#   with -O1, in half the time. Optimisation changes no bit, which tests/ops/bits.sh shows.
build_trainer() {
    local dir=$1 build=$1/build runtime was kept= word
    local variables=(CC="$ROOT/tests/cc_cached" "${ISA_MAKE[@]}" "${@:2}")
    [ "${quick_builds:-0}$FULL" != 10 ] || variables=(CFLAGS="-O1 -march=$ISA_ARCH" "${variables[@]}")
    runtime=$(sed -n 's/^RUNTIME ?= //p' "$dir/Makefile")
    for word in "${@:2}"; do
        case $word in
        RUNTIME=*) runtime=${word#*=} ;;
        BUILD=*) build= ;; # not for others
        esac
    done
    was=$(readlink "$dir/.runtime")
    if [ "$was" != "$runtime" ]; then
        [ -z "$was" ] || rm -f "$dir"/*/flags # make compiles it anew
        ln -sfn "$runtime" "$dir/.runtime"
    fi
    if [ -n "$build" ] && [ "$runtime" = "$ROOT/runtime" ]; then
        kept=$CC_CACHE/runtime-$(echo "${REAL_CC:-}" "${variables[@]}" | cksum | tr -dc 0-9)
        [ ! -d "$kept" ] || [ -e "$build" ] || cp -a "$kept" "$build"
    fi
    make -C "$dir" "${variables[@]}" RUNTIME=.runtime >>"$dir.log" 2>&1 || return
    if [ -n "$kept" ] && [ ! -d "$kept" ]; then
        mkdir -p "$kept.$$" && cp -a "$build/flags" "$build/runtime" "$kept.$$/" &&
            { mv -T "$kept.$$" "$kept" 2>/dev/null || rm -rf "$kept.$$"; }
    fi
    return 0
}

# result_of DIR: DIR.result, of DIR.jsonl and DIR.out
result_of() {
    {
        grep -o '"step": *[0-9]*\|"loss_hex": *"[^"]*"\|"grad_norm_hex": *"[^"]*"' "$1.jsonl"
        grep '^weights ' "$1.out"
    } >"$1.result"
}

# train DIR DATA STEPS [FLAGS...]: writes DIR.jsonl and DIR.result, which holds what must
# be equal for equal numerics: losses and gradient norms to the bit, and the weights'
# hash. TRAIN_SECONDS limits it.
train() {
    local dir=$1 data=$2 steps=$3
    shift 3
    rm -f "$dir.jsonl" "$dir.result"
    ${TRAIN_SECONDS:+timeout -k 5 "$TRAIN_SECONDS"} "$dir/trainer" --data "$data" \
        --steps "$steps" --log "$dir.jsonl" --weights-hash "$@" \
        >"$dir.out" 2>>"$dir.log" || return 1
    result_of "$dir"
    [ "$(grep -c loss_hex "$dir.result")" = "$steps" ] && grep -q '^weights ' "$dir.result"
}

# gradients_equal FILE FILE [TOLERANCE]: --debug-gradients: norms and projections of all parameters, to rounding in f64
gradients_equal() {
    python3 -c 'import json, sys
a, b = (json.load(open(f))["parameters"] for f in sys.argv[1:3])
assert a, "no parameters"
def near(x, y, size): return abs(x - y) <= float(sys.argv[3]) * size
for p, q in zip(a, b, strict=True):
    numbers = list(zip([p["norm"]] + p["projections"], [q["norm"]] + q["projections"]))
    if p["name"] != q["name"] or not all(near(x, y, p["norm"]) for x, y in numbers):
        sys.exit("%s: %s, but in parts %s" % (p["name"], p["norm"], q["norm"]))' "$1" "$2" "${3:-1e-9}"
}

# near FILE FILE TOLERANCE [LOSS]: losses and norms, step by step
near() {
    awk -v bound="$3" -v which="${4:-loss}" '
        function number(key) {
            if (!match($0, "\"" key "\": *[-0-9.e+]+")) { print "no " key; exit bad = 1 }
            return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0
        }
        !/^{"step"/ { next } # what runs
        NR == FNR { loss[++n] = number(which); norm[n] = number("grad_norm"); next }
        {
            m++
            a = number(which) - loss[m]
            b = number("grad_norm") - norm[m]
            if (a * a > (bound * loss[m]) ^ 2 || b * b > (10 * bound * norm[m]) ^ 2) {
                print "step " m ": " number(which) " and " loss[m] ", norms " \
                    number("grad_norm") " and " norm[m]
                bad = 1
            }
        }
        END { exit bad || m != n || n == 0 }' "$1" "$2"
}

json_number() { # FILE KEY: the first number under that key
    tr -d '\n' <"$1" | grep -o "\"$2\": *[-0-9.e+]*" | head -n 1 | sed 's/.*: *//'
}

# masked_text FILE [RULE]: a copy of the licence, and FILE.mask: a bit a token, low bit first, 1:
# the token is a target. RULE, of token t, in awk's words, says which are none: without it,
# stretches and single tokens. tests/pytorch/figures.py knows the same rules.
masked_text() {
    cp "$ROOT/LICENSE" "$1"
    mask_where "$1" "!(${2:-int(t / 23) % 4 == 1 || t % 7 == 3})"
}

# mask_where FILE CONDITION: FILE.mask, a bit a token t, low bit first, set where the condition
# (awk's) holds.
mask_where() {
    # shellcheck disable=SC2059 # the format is the bytes
    printf "$(awk -v n="$(wc -c <"$1")" 'BEGIN {
        for (i = 0; i < n; i += 8) {
            byte = 0
            for (j = 0; j < 8; j++) {
                t = i + j
                if (t < n && ('"$2"')) byte += 2 ^ j
            }
            printf "\\%03o", byte
        } }')" >"$1.mask"
}
