#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# gpu.sh: how fast emitted trainers are on one GPU, what their time goes to, beside ceilings
# measured in the same run and beside PyTorch (torch_train.py, where it is). For each model:
#   products   cuBLASLt's algorithms are timed alone (trainer --tune-kernels, kernels.wis)
#   step       median of the steps, as they run: tokens/s, MFU of the GPU's dense bf16 peak
#   phases     seconds of every kernel (trainer --profile), by kind
#   cuDNN      the same with attention = "cudnn", where it is and the GPU is an sm_90
#   PyTorch    bf16, torch.compile, SDPA, fused AdamW, the same shapes and data; attention alone
#
#   tests/bench/gpu.sh                  GPT-2 124M, Qwen2.5-1.5B, Llama-3.2-1B, Llama-3.1-8B
#   tests/bench/gpu.sh MODEL...         of those: gpt2_124m qwen2.5_1.5b llama3.2_1b llama8b
#   tests/bench/gpu.sh --quick          GPT-2 alone, few steps, nothing is recorded
#
# Out: tables on stdout, and in RESULTS (tests/bench/RESULTS.md; an empty RESULTS: nowhere) and
# OUT/bench.md; OUT/profile_MODEL.ATTENTION.json. STEPS=N (default 12; three more are not counted),
# TORCH=0: without PyTorch, TUNE=0: with the library's first algorithms, PEAK_TFLOPS=X. Ends with
# 'N passed, N failed'; without a GPU it says so and passes.
set -u
own_args=1
. "$(dirname "$0")/../lib.sh"
. "$ROOT/tests/gpu/toolkit.sh"
STEPS=${STEPS:-12}
TORCH=${TORCH:-1}
TUNE=${TUNE:-1}
RESULTS=${RESULTS-$ROOT/tests/bench/RESULTS.md}
OUT=${OUT:-$ROOT/build/gpu/results}

# name, description, tokens of a sequence, sequences of a micro-batch, micro-batches of a step,
# PyTorch's weights, PyTorch's shapes, settings
all_cases="gpt2_124m $ROOT/models/gpt2_124m.lua 1024 32 4 f32 \
gpt2:layers=12,dim=768,heads=12,vocab=50257,tied=1
qwen2.5_1.5b $ROOT/models/qwen2.5_1.5b.lua 1024 16 4 f32 \
llama:layers=28,dim=1536,heads=12,kv_heads=2,ffn=8960,vocab=151936,tied=1,qkv_bias=1,theta=1e6
llama3.2_1b $ROOT/models/llama3.2_1b.lua 4096 4 4 f32 \
llama:layers=16,dim=2048,heads=32,kv_heads=8,ffn=8192,vocab=128256,tied=1,theta=5e5
llama8b $ROOT/models/llama8b.lua 4096 1 16 bf16 \
llama:layers=32,dim=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256,theta=5e5 \
dtypes={master=\"split\",moments=\"bf16\"}"

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
attentions=generated
[ $quick = 0 ] && [[ $arch = sm_90* ]] && [ -n "$CUDNN_HOME" ] && attentions="generated cudnn"

cat "$ROOT"/gen/*/*.c >"$WORK/data.txt" # any text will do: every vocabulary holds the bytes
mkdir -p "$OUT"
cuda_cc "$WORK/copy" "$ROOT/tests/bench/gpu_copy.c" >"$WORK/log" 2>&1 &&
    copy_gbs=$("$WORK/copy" ${COPY_BYTES:-} 2>>"$WORK/log" | awk '{ print $2 }')
if [ -z "${copy_gbs:-}" ]; then
    bad "the copy's ceiling" "$WORK/log"
    finish
fi

# ---- one model --------------------------------------------------------------------------

median() { # FILE KEY: of the steps' numbers under that key, without the first three
    sed -n 's/.*"'"$2"'": *\([0-9][0-9.e+-]*\).*/\1/p' "$1" | tail -n +4 | sort -g |
        awk '{ v[NR] = $1 } END { if (NR) printf "%.6f", v[int((NR + 1) / 2)] }'
}

# build DIR MODEL SEQ SEQUENCES BATCHES SETTINGS: the cheapest recomputation whose plan fits
build() {
    local dir=$1 file=$2 seq=$3 sequences=$4 batches=$5 recompute set sets
    shift 5
    for recompute in none cheap block; do
        sets=(--set seq="$seq" --set micro_batch="$sequences"
              --set global_batch=$((sequences * batches)) --set leaves=1
              --set mesh.shard=1 --set mesh.replicate=1 --set recompute=$recompute
              --set loss.chunk_tokens=$((seq * sequences < 4096 ? seq * sequences : 4096))
              --set "target=cuda{gpu=\"$kind\",memory=\"${free_mib}MiB\",arch=\"$arch\",
                     attention=\"$attention\"}")
        for set in "$@"; do sets+=(--set "$set"); done
        "$FSDPGEN" "$file" -o "$dir" --link-runtime "$ROOT/runtime" "${sets[@]}" \
            >"$WORK/log" 2>&1 && break
        [ $? = 3 ] && [ $recompute != block ] && continue
        return 1
    done
    recomputed=$recompute
    make -s -j"$(nproc)" -C "$dir" ARCHS="$arch" >>"$WORK/log" 2>&1
}

# kinds PROFILE WISDOM: "kind seconds share ceiling-seconds" of a step; of products the fastest
# algorithm alone, of the rest nothing ("-").
kinds() {
    awk -v wisdom="$2" '
        function field(key) {
            if (!match($0, "\"" key "\": *[-0-9.e+]+")) return 0
            return substr($0, RSTART + length(key) + 4, RLENGTH - length(key) - 4) + 0
        }
        function kind_of(name) {
            if (name ~ /^(NT|NN|TN) /) return "products"
            if (name ~ /^attention/) return "attention"
            if (name ~ /cross_entropy/) return "loss"
            if (name ~ /norm/) return "norms"
            if (name ~ /^(adamw|lion|sgd)/) return "optimizer"
            if (name ~ /^rt_/) return "sums"
            return "others"
        }
        BEGIN {
            while ((getline line < wisdom) > 0) # "NT .. to bf16 = WORDS # algorithm ..: X us,"
                if (match(line, /: [0-9.]+ us,/)) {
                    us = substr(line, RSTART + 2, RLENGTH - 6)
                    sub(/ = .*/, "", line)
                    best[line] = us * 1e-6
                }
        }
        /"step_seconds"/ { step = field("step_seconds") }
        /"name"/ {
            split($0, part, "\"")
            if (part[4] == "rt_place_kernel") next # beside the others
            k = kind_of(part[4])
            seconds[k] += field("seconds")
            all += field("seconds")
            if (k == "products" && part[4] in best) ceiling[k] += field("calls") * best[part[4]]
            else if (k == "products") missing[k]++
        }
        END {
            seconds["between kernels"] = step > all ? step - all : 0
            n = split("products,attention,loss,norms,optimizer,sums,others,between kernels",
                order, ",")
            for (i = 1; i <= n; i++) {
                k = order[i]
                alone = (k in ceiling) && !missing[k] ? sprintf("%.6f", ceiling[k]) : "-"
                if (k in seconds)
                    printf "%s|%.6f|%.3f|%s\n", k, seconds[k], seconds[k] / step, alone
            }
        }' "$1"
}

# torch SEQ SEQUENCES BATCHES WEIGHTS SHAPES: sets torch_tokens, torch_attention, or "-"
torch() {
    torch_tokens=- torch_attention=-
    [ "$TORCH" = 1 ] && command -v "$python" >/dev/null || return
    timeout $((quick == 1 ? 90 : 300)) "$python" "$ROOT/tests/bench/torch_train.py" --seq "$1" \
        --micro-batch "$2" --accumulate "$3" --weights "$4" --model "$5" --steps "$STEPS" \
        --data "$WORK/data.txt" >"$WORK/torch" 2>"$WORK/torch.log"
    case $? in
    0) torch_tokens=$(sed -n 's/^tokens_per_second \([0-9.]*\).*/\1/p' "$WORK/torch")
       torch_attention=$(sed -n 's/.*attention_seconds \([0-9.]*\).*/\1/p' "$WORK/torch") ;;
    3) TORCH=0; echo "skipped: PyTorch ($(tail -n 1 "$WORK/torch.log"))" ;;
    *) echo "PyTorch fails:"; tail -n 3 "$WORK/torch.log" | sed 's/^/     | /' ;;
    esac
}

# One row of the table, and the phases' table, of a model, with attention by $attention.
measure() {
    local name=$1 file=$2 seq=$3 sequences=$4 batches=$5 weights=$6 shapes=$7
    local dir=$WORK/$1.$attention tokens=$(($3 * $4 * $5)) seconds
    shift 7
    [ $attention = cudnn ] && name="$name, cuDNN"
    build "$dir" "$file" "$seq" "$sequences" "$batches" "$@" ||
        { bad "$name: builds" "$WORK/log"; return; }
    [ "$TUNE" != 1 ] || "$dir/trainer" --tune-kernels >"$WORK/log" 2>&1 ||
        bad "$name: --tune-kernels" "$WORK/log"
    if ! "$dir/trainer" --data "$WORK/data.txt" --steps "$STEPS" --quiet --log "$dir.jsonl" \
        ${peak:+--peak-tflops "$peak"} >"$dir.out" 2>"$WORK/log"; then
        bad "$name: trains" "$WORK/log"
        return
    fi
    if ! "$dir/trainer" --data "$WORK/data.txt" --steps 4 --quiet --profile "$dir.profile" \
        >"$WORK/log" 2>&1; then
        bad "$name: --profile" "$WORK/log"
        return
    fi
    ok "$name"
    seconds=$(median "$dir.jsonl" step_seconds)
    kinds "$dir.profile" "$dir/kernels.wis" >"$dir.kinds"
    cp "$dir.profile" "$OUT/profile_$(basename "$dir").json"
    [ $attention = cudnn ] || torch "$seq" "$sequences" "$batches" "$weights" "$shapes"
    {
        awk -v name="$name" -v s="$seconds" -v t="$tokens" -v torch="$torch_tokens" \
            -v shape="$batches x $sequences x $seq, $recomputed" \
            -v mfu="$(median "$dir.jsonl" mfu)" \
            'BEGIN {
                printf "| %s | %s | %.1f | %s | %s | %s |\n", name, shape, t / s,
                    mfu == "" ? "-" : sprintf("%.3f", mfu), torch,
                    torch == "-" ? "-" : sprintf("%.2f", t / s / torch)
            }'
    } >>"$WORK/rows"
    sed "s/^/$name|/" "$dir.kinds" | awk -F'|' -v attention="$torch_attention" '{
        ceiling = $2 == "attention" ? attention : $5
        printf "| %s | %s | %.2f | %.3f | %s |\n", $1, $2, $3 * 1e3, $4,
            ceiling == "-" ? "-" : sprintf("%.2f", ceiling * 1e3)
    }' >>"$WORK/phases"
    rm -rf "$dir"
}

: >"$WORK/rows"
: >"$WORK/phases"
while read -r name rest; do
    [ -z "$wanted" ] || [[ " $wanted " = *" $name "* ]] || continue
    for attention in $attentions; do
        # shellcheck disable=SC2086 # fields are words
        measure "$name" $rest
    done
done <<<"$cases"

commit=$(git -C "$ROOT" rev-parse --short=7 HEAD 2>/dev/null ||
    cut -c 1-7 "$ROOT/build/gpu/commit" 2>/dev/null)
torch_version=$("$python" -c 'import torch; print(torch.__version__)' 2>/dev/null || echo none)
{
    cat <<END
## One GPU: $gpu

$(date -u +%F), commit $commit: \`tests/bench/gpu.sh\`, driver $driver, toolkit $runtime; a copy
within the GPU moves $copy_gbs GB/s. Medians of $STEPS steps without the first three. PyTorch
($torch_version): bf16, compiled, SDPA, fused AdamW.

| model | micro-batches x sequences x tokens, recompute | tokens/s | MFU | PyTorch | of PyTorch |
|---|---|---|---|---|---|
$(cat "$WORK/rows")

Milliseconds of a step, call by call; alone: cuBLASLt's fastest algorithms on the same products,
SDPA on the same attention.

| model | | ms | share | alone |
|---|---|---|---|---|
$(cat "$WORK/phases")
END
} >"$OUT/bench.md"
cat "$OUT/bench.md"
if [ -n "$RESULTS" ] && [ -s "$WORK/rows" ]; then
    { echo; cat "$OUT/bench.md"; } >>"$RESULTS"
    echo "appended to $RESULTS"
fi
finish
