#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh: how fast emitted trainers are on one GPU, what their time goes to, beside ceilings
# measured in the same run and beside PyTorch (torch_train.py, where it is). For each model (a case
# whose settings PyTorch cannot have, fp8 or parts, has the first row alone):
#   generated  cuBLASLt's algorithms are timed alone (trainer --tune-kernels, kernels.wis); then the
#              median of the steps, as they run: tokens/s, MFU of the GPU's dense bf16 peak; seconds
#              of every kernel (trainer --profile), by kind
#   cudnn      the same with attention = "cudnn", where it is and the GPU is an sm_90
#   pytorch    bf16, torch.compile, SDPA, fused AdamW, the same shapes and data; attention alone
#
#   tests/bench/gpu.sh                  GPT-2 124M, Qwen2.5-1.5B, Llama-3.2-1B, Llama-3.1-8B; the
#                                       latter two in fp8, the 1B in parts
#   tests/bench/gpu.sh CASE...          of those: gpt2_124m qwen2.5_1.5b llama3.2_1b llama8b
#                                       llama3.2_1b_fp8 llama8b_fp8 llama3.2_1b_tensor2 llama3.2_1b_context2
#   tests/bench/gpu.sh --quick          GPT-2 alone, few steps, nothing is recorded
#
# What is measured is kept at once, a row at a time (gpu_rows.sh): a call that is cut short, or ends
# after LIMIT_SECONDS (default 540), loses no whole row, and the same command goes on from there.
# Out: tables on stdout and in OUT/bench.md; once a call has all it was asked for, in RESULTS
# (tests/bench/RESULTS.md; an empty RESULTS: nowhere). In OUT: bench.rows, and bench.tar.gz, which
# has profiles and wisdom. STEPS=N (default 12, of which three are not counted), TORCH=0: without
# PyTorch, TUNE=0: with the library's first algorithms, PEAK_TFLOPS=X, KINDS: those rows alone.
# Ends with 'N passed, N failed'; without a GPU it says so and passes.
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/gpu/toolkit.sh"
. "$ROOT/tests/bench/gpu_rows.sh"
STEPS=${STEPS:-12}
TORCH=${TORCH:-1}
TUNE=${TUNE:-1}
LIMIT_SECONDS=${LIMIT_SECONDS:-540}
RESULTS=${RESULTS-$ROOT/tests/bench/RESULTS.md}
OUT=${OUT:-$ROOT/build/gpu/results}

# name, description, tokens of a sequence, sequences of a micro-batch, micro-batches of a step,
# vocabulary, PyTorch's weights, PyTorch's shapes ("-": no such row), settings. 8B with masters and f32 gradients needs
# 96 GiB of one GPU at the least; with all of its state in bf16, as PyTorch has it here, 78.
all_cases="gpt2_124m $ROOT/models/gpt2_124m.lua 1024 32 4 50257 f32 \
gpt2:layers=12,dim=768,heads=12,vocab=50257,tied=1
qwen2.5_1.5b $ROOT/models/qwen2.5_1.5b.lua 1024 16 4 151936 f32 \
llama:layers=28,dim=1536,heads=12,kv_heads=2,ffn=8960,vocab=151936,tied=1,qkv_bias=1,theta=1e6
llama3.2_1b $ROOT/models/llama3.2_1b.lua 4096 4 4 128256 f32 \
llama:layers=16,dim=2048,heads=32,kv_heads=8,ffn=8192,vocab=128256,tied=1,theta=5e5
llama8b $ROOT/models/llama8b.lua 4096 1 8 128256 bf16 \
llama:layers=32,dim=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256,theta=5e5 \
dtypes={master=\"bf16\",moments=\"bf16\",reduce=\"bf16\"}
llama3.2_1b_fp8 $ROOT/models/llama3.2_1b.lua 4096 4 4 128256 f32 - dtypes.linear=\"fp8\"
llama8b_fp8 $ROOT/models/llama8b.lua 4096 1 8 128256 bf16 - \
dtypes={linear=\"fp8\",master=\"bf16\",moments=\"bf16\",reduce=\"bf16\"}
llama3.2_1b_tensor2 $ROOT/models/llama3.2_1b.lua 4096 4 4 128256 f32 - parts.tensor=2
llama3.2_1b_context2 $ROOT/models/llama3.2_1b.lua 16384 1 4 128256 f32 - parts.context=2"

quick=0
wanted=
for arg in "$@"; do
    case $arg in
    --quick) quick=1 wanted=gpt2_124m STEPS=8 RESULTS= ;;
    -h | --help) sed -n '3,/^set -u/s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) echo "gpu.sh: unknown option $arg" >&2; exit 2 ;;
    *) echo "$all_cases" | grep -q "^$arg " ||
           { echo "gpu.sh: no model $arg" >&2; exit 2; }
       wanted="$wanted $arg" ;;
    esac
done
cases=${CASES:-$all_cases}

find_toolkit
if [ -n "$no_gpu" ]; then
    echo "skipped: $no_gpu"
    finish
fi
"$FSDPGEN" --version >/dev/null 2>&1 || FSDPGEN=$ROOT/build/gpu/bin/fsdpgen
"$FSDPGEN" --version >/dev/null 2>&1 ||
    { bad "no fsdpgen here (tests/gpu/run.sh --prepare makes one that can be carried)"; finish; }

# The vendor's dense bf16 peak, for the MFU alone; what fsdpgen calls the GPU.
case $gpu in
*H200*) peak=989.5 kind=h200 ;;
*H100*) peak=989.5 kind=h100 ;;
*A100*80GB*) peak=312 kind=a100-80gb ;;
*A100*) peak=312 kind=a100-40gb ;;
*L40S*) peak=362 kind=l40s ;;
*B200*) peak=2250 kind=b200 ;;
*4090*) peak=165.2 kind=rtx4090 ;;
*5090*) peak=209.5 kind=rtx5090 ;;
*) peak= kind=h100 ;;
esac
peak=${PEAK_TFLOPS:-$peak}
kinds=generated
[ $quick = 0 ] && [[ $arch = sm_90* ]] && [ -n "$CUDNN_HOME" ] && kinds="generated cudnn"
[ "$TORCH" = 1 ] && kinds="$kinds pytorch"
kinds=${KINDS:-$kinds}

commit=$(git -C "$ROOT" rev-parse --short=7 HEAD 2>/dev/null ||
    cut -c 1-7 "$ROOT/build/gpu/commit" 2>/dev/null)
[ $quick = 0 ] || OUT=$WORK/quick
rows_begin "commit $commit, $gpu, driver $driver, toolkit $runtime, $STEPS steps, tune $TUNE" ||
    { bad "$OUT can be written"; finish; }

# ---- one row ----------------------------------------------------------------------------

# limited SECONDS COMMAND...: no longer, nor than is left of the call. 124: the call is over.
over=0
limited() {
    local left=$((LIMIT_SECONDS - SECONDS)) code
    local most=$(($1 < left ? $1 : left))
    shift
    [ $left -gt 0 ] || { over=1; return 124; }
    timeout -k 5 $most "$@"
    code=$?
    [ $code != 124 ] && [ $code != 137 ] || [ $SECONDS -lt "$LIMIT_SECONDS" ] || over=1
    return $code
}

median() { # FILE KEY: of the steps' numbers under that key, without the first three
    sed -n 's/.*"'"$2"'": *\([0-9][0-9.e+-]*\).*/\1/p' "$1" | tail -n +4 | sort -g |
        awk '{ v[NR] = $1 } END { if (NR) printf "%.6f", v[int((NR + 1) / 2)] }'
}

# tokens VOCAB: sets data to a file of 2^22 of them
tokens() {
    data=$WORK/tokens.$1.bin
    [ -e "$data" ] || { "${CC:-cc}" -std=gnu11 -O2 -o "$WORK/tokens" "$ROOT/tests/bench/gpu_tokens.c" -lm &&
        "$WORK/tokens" "$1" $((1 << 22)) >"$data"; } >"$WORK/log" 2>&1
}

# build DIR MODEL SEQ SEQUENCES BATCHES ATTENTION SETTINGS: the cheapest recomputation whose plan fits.
# DIR.log; DIR.built names the recomputation.
build() {
    local dir=$1 file=$2 seq=$3 sequences=$4 batches=$5 attention=$6 recompute set sets
    shift 6
    for recompute in none cheap block; do
        sets=(--set seq="$seq" --set micro_batch="$sequences"
              --set global_batch=$((sequences * batches)) --set leaves=1
              --set mesh.shard=1 --set mesh.replicate=1 --set recompute=$recompute
              --set loss.chunk_tokens=$((seq * sequences < 4096 ? seq * sequences : 4096))
              --set "target=cuda{gpu=\"$kind\",memory=\"${free_mib}MiB\",arch=\"$arch\",
                     attention=\"$attention\"}")
        for set in "$@"; do sets+=(--set "$set"); done
        "$FSDPGEN" "$file" -o "$dir" --link-runtime "$ROOT/runtime" "${sets[@]}" \
            >"$dir.log" 2>&1 && break
        [ $? = 3 ] && [ $recompute != block ] && continue
        return 1
    done
    limited 1000 make -s -j4 -C "$dir" ARCHS="$arch" >>"$dir.log" 2>&1 && echo $recompute >"$dir.built"
}

# build_later NAME KIND FILE SEQ SEQUENCES BATCHES VOCAB WEIGHTS SHAPES SETTINGS...
build_later() {
    local name=$1 kind_of_row=$2 file=$3 seq=$4 sequences=$5 batches=$6
    shift 9
    while [ "$(jobs -rp | wc -l)" -ge $(($(nproc) > 8 ? $(nproc) / 4 : 2)) ]; do sleep 0.1; done
    build "$WORK/$name.$kind_of_row" "$file" "$seq" "$sequences" "$batches" "$kind_of_row" "$@" &
}

# A trainer's row: its steps, and the seconds of its kernels. 4: no time was left to build it.
ours() {
    local name=$1 attention=$2 seq=$4 sequences=$5 batches=$6 dir=$WORK/$1.$2 seconds
    [ -e "$dir.log" ] || return 4
    if [ ! -e "$dir.built" ]; then
        [ $SECONDS -lt "$LIMIT_SECONDS" ] || over=1
        cp "$dir.log" "$WORK/log"
        return 1
    fi
    if [ "$TUNE" = 1 ]; then
        limited 1000 "$dir/trainer" --tune-kernels >"$WORK/log" 2>&1 || return
        cp "$dir/kernels.wis" "$archive/$name.$attention.kernels.wis"
    fi
    limited 1000 "$dir/trainer" --data "$data" --steps "$STEPS" --quiet --log "$dir.jsonl" \
        ${peak:+--peak-tflops "$peak"} >"$dir.out" 2>"$WORK/log" || return
    limited 1000 "$dir/trainer" --data "$data" --steps 4 --quiet --profile "$dir.profile" \
        >"$WORK/log" 2>&1 || return
    cp "$dir.profile" "$archive/$name.$attention.profile.json"
    seconds=$(median "$dir.jsonl" step_seconds)
    echo "shape $batches x $sequences x $seq, $(cat "$dir.built")"
    echo "tokens_per_second $(awk -v s="$seconds" -v n=$((seq * sequences * batches)) \
        'BEGIN { printf "%.1f", n / s }')"
    echo "mfu $(median "$dir.jsonl" mfu)"
    profile_kinds "$dir.profile" "$dir/kernels.wis"
    rm -rf "$dir"
}

# PyTorch's row: of the same shapes and data. 3: there is none.
pytorch() {
    local seq=$4 sequences=$5 batches=$6 weights=$8 shapes=$9
    command -v "$python" >/dev/null || return 3
    limited $((quick == 1 ? 90 : 400)) "$python" "$ROOT/tests/bench/torch_train.py" --seq "$seq" \
        --micro-batch "$sequences" --accumulate "$batches" --weights "$weights" --model "$shapes" \
        --steps "$STEPS" --data "$data" >"$WORK/torch" 2>"$WORK/log" || return
    tr ' ' '\n' <"$WORK/torch" | paste -d ' ' - -
}

# The ceiling of what only moves bytes.
copy_row() {
    cuda_cc "$WORK/copy" "$ROOT/tests/bench/gpu_copy.c" >"$WORK/log" 2>&1 &&
        limited 300 "$WORK/copy" ${COPY_BYTES:-} >"$WORK/copied" 2>>"$WORK/log" &&
        sed -n 's/^copy: \([0-9.]*\).*/gbs \1/p' "$WORK/copied"
}

row_keep_of() { row_keep "$1" "$2" <"$WORK/row"; }

# row NAME KIND COMMAND...: unless it is there, measured and kept
row() {
    local name=$1 kind_of_row=$2 code
    shift 2
    row_is_there "$name" "$kind_of_row" && return
    [ $over = 0 ] && "$@" >"$WORK/row"
    code=$?
    if [ $over = 1 ] || [ $code = 4 ]; then
        left+=("$name, $kind_of_row")
    elif [ $code = 3 ] && [ "$kind_of_row" = pytorch ]; then
        echo "skipped: PyTorch ($(tail -n 1 "$WORK/log"))"
    elif [ $code != 0 ]; then
        bad "$name, $kind_of_row" "$WORK/log"
    else
        check "$name, $kind_of_row: is kept" row_keep_of "$name" "$kind_of_row"
    fi
}

# ---- all of them ------------------------------------------------------------------------

# each_row COMMAND: COMMAND NAME KIND FILE SEQ.. of every row that this call is asked for
each_row() {
    local name rest row_kind
    while read -r name rest; do
        [ -z "$wanted" ] || [[ " $wanted " = *" $name "* ]] || continue
        # shellcheck disable=SC2086 # fields are words
        set -- "$1" $rest
        for row_kind in $kinds; do
            [ "$8" = - ] && [ "$row_kind" != generated ] && continue
            "$1" "$name" "$row_kind" "${@:2}"
        done
    done <<<"$cases"
}

# nvcc takes longer than most rows: what is missing is built side by side, before them; in half of the
# call's time, so that a slow host has rows, too.
build_row() {
    [ "$2" = pytorch ] || row_is_there "$1" "$2" || [ $SECONDS -gt $((LIMIT_SECONDS / 2)) ] || build_later "$@"
}
left=()
row copy copy copy_row
each_row build_row
wait

measure_row() {
    tokens "$7" || { bad "$1: its tokens" "$WORK/log"; return; }
    case $2 in
    pytorch) row "$1" pytorch pytorch "$@" ;;
    *) row "$1" "$2" ours "$@" ;;
    esac
}
each_row measure_row

rows_tables
[ ! -s "$OUT/bench.md" ] || cat "$OUT/bench.md"
if [ ${#left[@]} -gt 0 ]; then
    printf 'left for the next call, the time is over: %s\n' "${left[@]}"
elif [ -n "$RESULTS" ] && [ $failed = 0 ]; then
    rows_record "$RESULTS" && echo "recorded in $RESULTS"
fi
finish
