#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpt2_speed.sh: how fast an emitted trainer of GPT-2 124M is, beside its ceiling and beside PyTorch
# in the same run. In: the built fsdpgen and a library under the products; PyTorch if it is there.
# Out: a table on stdout, one line for each of f32 and bf16 at 1 x 1024 and 4 x 64 tokens: tokens/s
# of a step, the ceiling (gemm_ceiling.c: the library alone on the model's products as whole
# matrices, attention's causal flops at that rate), their ratio; tokens/s of PyTorch on the same
# model (torch_train.py), and ours over its.
#
#   tests/bench/gpt2_speed.sh [STEPS]      default 7 steps, the first two are not counted
#   CASES="f32 1 1024" THREADS=2 tests/bench/gpt2_speed.sh     one case; threads (default: cores)
#   ROUNDS=3        turns of ceiling, trainer and PyTorch; the medians over them are compared, so
#                   that a machine that others use too slows all alike
#   ISA=avx2        another instruction set of tests/isa.sh, PyTorch's too
#   PYTHON=python3  with PyTorch; compiled by torch.compile where that works here, else eager
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
STEPS=${1:-7}
ROUNDS=${ROUNDS:-3}
THREADS=${THREADS:-$(nproc)}
CASES=${CASES:-"f32 1 1024
bf16 1 1024
f32 4 64
bf16 4 64"}
python=${PYTHON:-python3}
export OMP_NUM_THREADS=$THREADS
flags="-std=gnu11 -O3 -march=$ISA_ARCH -ffp-contract=off -fopenmp"
gemm=$ISA_GEMM
[ "$gemm" != auto ] || gemm=onednn
case $gemm in
onednn) flags="$flags -DRT_GEMM_ONEDNN" libraries=-ldnnl ;;
cblas) flags="$flags -DRT_GEMM_CBLAS" libraries=-lopenblas ;;
builtin) libraries= ;;
esac
case $ISA in *v3 | *avx2) export ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ;; esac

# shellcheck disable=SC2086 # words
if ! cc $flags -I"$ROOT/runtime" "$ROOT"/runtime/cpu/rt_gemm*.c "$ROOT/tests/bench/gemm_ceiling.c" \
    -o "$WORK/ceiling" $libraries 2>"$WORK/log"; then
    echo "gpt2_speed: gemm_ceiling does not build (Debian: apt-get install libdnnl-dev)" >&2
    tail -n 5 "$WORK/log" >&2
    exit 4
fi
# Any text will do: GPT-2's vocabulary holds the bytes.
cat "$ROOT"/gen/*/*.c >"$WORK/data.txt"

fail() {
    echo "gpt2_speed: $1" >&2
    tail -n 15 "$WORK/log" >&2
    exit 1
}

ceiling() { # DTYPE SEQUENCES TOKENS: tokens/s
    "$WORK/ceiling" "$@" >"$WORK/log" 2>&1 || return 1
    sed -n 's/^ceiling .*: \([0-9.]*\) tokens\/s.*/\1/p' "$WORK/log"
}

# torch DTYPE SEQUENCES TOKENS [MODEL]: tokens/s of a step
gpt2=layers=12,dim=768,heads=12,vocab=50257,tied=1
torch() {
    # shellcheck disable=SC2086 # none or one word
    "$python" "$ROOT/tests/bench/torch_train.py" --device cpu --products "$1" --micro-batch "$2" \
        --seq "$3" --accumulate 1 --steps $((STEPS + 1)) --data "$WORK/data.txt" $eager \
        --model "gpt2:${4:-$gpt2}" >"$WORK/torch" 2>"$WORK/log" &&
        sed -n 's/^tokens_per_second \([0-9.]*\) .*/\1/p' "$WORK/torch"
}

# torch_find: sets torch to what trains a small model, or leaves it empty.
torch_find() {
    local how
    torch=
    for how in compiled eager; do
        eager=$([ $how = compiled ] || echo --eager)
        if STEPS=3 torch f32 1 16 layers=1,dim=64,heads=1,vocab=256,tied=1 >/dev/null; then
            torch="$(sed 's/.* torch \(.*\) isa \(.*\)/PyTorch \1 (\2)/' "$WORK/torch"), $how"
            return
        fi
    done
}

median_tokens() { # FILE TOKENS: of step_seconds, without the first two steps
    sed -n 's/.*"step_seconds": *\([0-9.e+-]*\).*/\1/p' "$1" | tail -n +3 | sort -g |
        awk -v t="$2" '{ v[NR] = $1 } END { if (NR) printf "%.1f", t / v[int((NR + 1) / 2)] }'
}

median() { # FILE
    sort -g "$1" | awk '{ v[NR] = $1 } END { if (NR) print v[int((NR + 1) / 2)] }'
}

measure() { # DTYPE SEQUENCES SEQ: a line of the table
    local dtype=$1 sequences=$2 seq=$3 dir=$WORK/$1.$2.$3 round
    rm -rf "$dir" "$WORK"/*.rates
    "$FSDPGEN" "$ROOT/models/gpt2_124m.lua" -o "$dir" --set "dtypes.param=\"$dtype\"" \
        --set micro_batch="$sequences" --set global_batch="$sequences" --set seq="$seq" \
        --set leaves=1 --set mesh.shard=1 >"$WORK/log" 2>&1 &&
        make -C "$dir" ARCH="$ISA_ARCH" GEMM=$gemm >>"$WORK/log" 2>&1 ||
        fail "the trainer does not build"
    for ((round = 0; round < ROUNDS; round++)); do
        ceiling "$dtype" "$sequences" "$seq" >>"$WORK/ceiling.rates" || fail "no ceiling"
        rm -f "$dir.jsonl"
        "$dir/trainer" --data "$WORK/data.txt" --steps "$STEPS" --threads "$THREADS" \
            --log "$dir.jsonl" --quiet >"$WORK/log" 2>&1 || fail "the trainer does not run"
        median_tokens "$dir.jsonl" $((sequences * seq)) >>"$WORK/ours.rates"
        echo >>"$WORK/ours.rates"
        [ -z "$torch" ] || torch "$dtype" "$sequences" "$seq" >>"$WORK/torch.rates" ||
            fail "PyTorch does not run"
    done
    awk -v d="$dtype" -v s="${sequences}x$seq" -v r="$(median "$WORK/ours.rates")" \
        -v c="$(median "$WORK/ceiling.rates")" \
        -v t="$([ -z "$torch" ] || median "$WORK/torch.rates")" 'BEGIN {
            printf "%-6s %-8s %10.1f %10.1f %6.3f", d, s, r, c, r / c
            if (t) printf " %10.1f %8.3f", t, r / t
            print "" }'
    rm -rf "$dir"
}

torch_find
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $THREADS threads, -march=$ISA_ARCH," \
    "$("$WORK/ceiling" f32 1 1 | sed -n '1s/, .*//p'); ${torch:-no PyTorch}"
printf '%-6s %-8s %10s %10s %6s' dtype tokens 'tokens/s' ceiling ratio
[ -z "$torch" ] || printf ' %10s %8s' PyTorch 'of it'
echo
echo "$CASES" | while read -r dtype sequences seq; do
    measure "$dtype" "$sequences" "$seq" || exit 1
done
