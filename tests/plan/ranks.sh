# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: memory falls with the number of ranks.

# f32 parameters are their own masters, so the optimizer holds two moments of each element.
for n in 1 2 4 8; do
    "$FSDPGEN" plan "$here/../models/tiny_llama.lua" --set "mesh={shard=$n}" --json \
        >"$WORK/plan.json" 2>/dev/null
    state=$(number optimizer)
    shard=$(sed -n 's/.*"shard_elems": *\([0-9]*\).*/\1/p' "$WORK/plan.json" |
        awk '{ s += $1 } END { print s }')
    check "optimizer state on $n ranks is 8 bytes an element of the shards" \
        [ "$state" = $((shard * 8)) ]
done

# Weights of products in fp8 are gathered as a byte an element: the demo's four layers, in each of the 4 micro-batches
# of a rank for the forward and for the backward.
gathers_in_fp8() {
    local layer=737280 f32 fp8
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set mesh.shard=2 --json >"$WORK/plan.json" 2>"$WORK/err"
    f32=$(number gathered)
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set mesh.shard=2 --set dtypes.linear=fp8 --json >"$WORK/plan.json" 2>"$WORK/err"
    fp8=$(number gathered)
    check "weights gathered in fp8 move a quarter of f32's bytes" test $((f32 - fp8)) = $((4 * 2 * 4 * 3 * layer / 2))
}
gathers_in_fp8

# What meets receive, of the demo in P parts on T ranks, which compute m = P / T of them. A value of all
# tokens is A bytes, and U = A (P - m) / P of it lies in parts of other ranks. A gather receives U; a
# sum to tokens m U, a summand from each of their parts for each part here. A layer has 2 and 2, in its
# backward 4 and 2, of which 2 gathers repeat what is not kept; the embedding a sum and a gather; the
# head 2 and 1. Gradients of norms are summed whole; of the loss 3 numbers a token meet.
meets() { # PARTS RANKS
    local p=$1 t=$2 layers=4 tokens=512 dim=256 rounds=8 m u want
    m=$((p / t)) u=$((tokens * dim * 4 * (p - p / t) / p))
    want=$(((6 * layers + 3) * u + (4 * layers + 2) * m * u + (p - m) * ((2 * layers + 1) * dim * 4 + tokens * 12)))
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set "parts.tensor=$p" --set "mesh={tensor=$t}" --json \
        >"$WORK/plan.json" 2>"$WORK/err"
    check "meets of $p parts on $t ranks: $((rounds * want)) bytes in a step" test "$(number met)" = $((rounds * want))
}
meets 4 4
meets 4 2
meets 2 2
# In bf16, summands are of bf16, or of f32; what embeddings sum is exact, and stays bf16.
meets_in_bf16() { # DTYPE BYTES
    local p=4 t=2 layers=4 tokens=512 dim=256 rounds=8 m=2 u want
    u=$((tokens * dim * 2 * (p - m) / p))
    want=$(((6 * layers + 3) * u + ((4 * layers + 1) * $2 / 2 + 1) * m * u + (p - m) * ((2 * layers + 1) * dim * 4 + tokens * 12)))
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set 'dtypes.param="bf16"' --set "parts={tensor=$p,dtype=\"$1\"}" \
        --set "mesh={tensor=$t}" --json >"$WORK/plan.json" 2>"$WORK/err"
    check "meets in bf16, summands in $1: $((rounds * want)) bytes in a step" test "$(number met)" = $((rounds * want))
    cuda=$("$FSDPGEN" plan "$ROOT/models/demo.lua" --set 'dtypes.param="bf16"' --set "parts={tensor=$p,dtype=\"$1\"}" \
        --set "mesh={tensor=$t}" --target cuda --json 2>"$WORK/err" | sed -n 's/.*"met": *\([0-9]*\).*/\1/p' | head -n 1)
    check "and on cuda" test "$cuda" = $((rounds * want))
}
meets_in_bf16 param 2
meets_in_bf16 f32 4
"$FSDPGEN" plan "$ROOT/models/demo.lua" --set parts.tensor=4 --set "mesh={shard=2,tensor=2}" --all >"$WORK/plan.txt" 2>"$WORK/err"
check "meets: a step receives four times what a micro-step does" \
    grep -q '^  a step receives: weights .*, 63.12 MiB of parts along tensor$' "$WORK/plan.txt"
"$FSDPGEN" plan "$ROOT/models/demo.lua" --set parts.tensor=4 --json >"$WORK/plan.json" 2>"$WORK/err"
check "meets of parts that one rank has: nothing is said" test -z "$(number met)"

# And in T x C parts on t x c ranks, m = T / t and n = C / c. Along tensor the tokens are those of a part along
# context, for each of which here parts meet; gradients of norms are summed over tokens before, so they meet once.
# Along context the boxes of weights are gathered, in the forward, in the backward again (the table three times),
# and their gradients are summed; the two sequences of a micro-batch are the two parts of tokens, so nothing turns.
meets_of_both() { # T C t c
    local T=$1 C=$2 m=$(($1 / $3)) n=$(($2 / $4)) layers=4 tokens=512 dim=256 rounds=8 u layer=737280 table=65536 want norms
    norms=$(((2 * layers + 1) * dim * 4)) u=$((tokens / C * dim * 4 * (T - m) / T))
    want=$((n * ((6 * layers + 3 + (4 * layers + 2) * m) * u + (T - m) * tokens / C * 12) + (T - m) * norms))
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set "parts={tensor=$T,context=$C}" --set "mesh={tensor=$3,context=$4}" --json \
        >"$WORK/plan.json" 2>"$WORK/err"
    check "meets along tensor of $T x $C parts on $3 x $4 ranks" test "$(number met_tensor)" = $((rounds * want))
    want=$((m * ((2 * layers * layer + 3 * table + n * (layers * layer + 2 * table)) * 4 / T * (C - n) / C + (C - n) * norms)))
    check "and along context" test "$(number met_context)" = $((rounds * (want + (C - n) * 8)))
    check "and both" test "$(number met)" = $(($(number met_tensor) + $(number met_context)))
}
meets_of_both 2 2 2 2
meets_of_both 4 2 2 2
meets_of_both 4 2 4 2

# In parts of tokens alone the head's table is gathered once, for the backward: forward and backward of the loss are
# one kernel.
# More parts than the two sequences turn: q, k and v (512 numbers a token) and attention's output (256), in the forward
# and as gradients, and the output once more, for the gradient of its projection.
meets_of_tokens() { # C c
    local C=$1 n=$(($1 / $2)) layers=4 dim=256 rounds=8 tokens=512 layer=737280 table=65536 norms
    norms=$(((2 * layers + 1) * dim * 4))
    want=$(((2 * layers * layer + 2 * table + n * (layers * layer + 2 * table)) * 4 * (C - n) / C + (C - n) * (norms + 8)))
    [ $C -le 2 ] || want=$((want + layers * n * (C - n) * tokens / C * 4 * (2 * 512 + 3 * dim) / C))
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set "parts={context=$C}" --set "mesh={context=$2}" --json \
        >"$WORK/plan.json" 2>"$WORK/err"
    check "meets of $C parts of tokens on $2 ranks" test "$(number met_context)" = $((rounds * want))
}
meets_of_tokens 2 2
meets_of_tokens 4 4
meets_of_tokens 4 2

# The memory of a rank falls with the ranks of either axis. Of the demo in 4 parts each has a quarter of its boxes, which
# are all but the norms; those begin on grains of 1,024 elements, two in each of 4 layers and one in the head, and ranks along
# an axis of parts have them whole. Moments are two numbers for each. Of activations ranks along an axis have a half and a
# quarter of what a rank has that shares no part. With 4 ranks along tensor nothing is gathered, so the peak is the
# beginning of the backward, and they have what the loss keeps, too: a normed value, logits, and two numbers for tokens.
memory_of_axis() { # AXIS KEPT_BY_LOSS
    local boxes=$((3014656 / 4)) all=33112064 state
    plan_of_axis() { # MESH
        "$FSDPGEN" plan "$ROOT/models/demo.lua" --set "parts={$axis=4}" --set "mesh={$1}" --json >"$WORK/plan.json" 2>"$WORK/err"
    }
    local axis=$1
    plan_of_axis shard=4
    check "parts along $1: activations of all tokens" test "$(number activations)" = $all
    plan_of_axis "shard=2,$1=2"
    state=$((4 * (boxes + (4 * 2048 + 2048) / 2)))
    check "parts along $1: state of a rank of 2" test "$(number params) $(number optimizer)" = "$state $((2 * state))"
    check "parts along $1: half of the activations on 2 ranks" test "$(number activations)" = $((all / 2))
    plan_of_axis "$1=4"
    state=$((4 * (boxes + 4 * 2048 + 1024)))
    check "parts along $1: state of a rank of 4" \
        test "$(number params) $(number gradients) $(number optimizer)" = "$state $state $((2 * state))"
    check "parts along $1: a quarter of the activations on 4" test "$(number activations)" = $((all / 4 + $2))
    check "parts along $1: nothing is gathered" test "$(number gather)" = 0
}
memory_of_axis tensor $((512 * (256 + 256 + 1) + 512 * 4))
memory_of_axis context 0

# What ranks wait for in the timeline of --trace: gaps between kernels, the end after the last, collectives in their place;
# and the meets of spans. One round, so that the timeline is the step.
waits() { # MESH PARTS DATA_RANKS AXES
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set "mesh={$1}" --set "parts={$2}" --set global_batch=$((2 * $3)) \
        --set leaves=$3 --kernels --json --trace "$WORK/trace.json" >"$WORK/plan.json" 2>"$WORK/err"
    check "what ranks wait for: $1" python3 - "$WORK/plan.json" "$WORK/trace.json" "$4" <<'EOF'
import json, sys

plan, trace = (json.load(open(f)) for f in sys.argv[1:3])
calls = [e for e in trace["traceEvents"] if e["ph"] == "X"]
kernels = sorted((e["ts"], e["ts"] + e["dur"]) for e in calls
                 if e["tid"] == 1 and (e["cat"] != "sums and optimizer" or "received_bytes" not in e["args"]))
end = max(e["ts"] + e["dur"] for e in calls)
gaps, at = 0.0, 0.0
for first, last in kernels:
    gaps, at = gaps + first - at, last
gaps = (gaps + end - at) * 1e-6
exposed = plan["exposed_seconds"]
data = exposed.get("shard", 0) + exposed.get("replicate", 0)
print(exposed, gaps, plan["step_seconds"], end)
assert sorted(exposed) == sorted(sys.argv[3].split()) and all(s > 0 for s in exposed.values())
assert abs(plan["step_seconds"] - end * 1e-6) < 1e-8 * end
met = sum(r["total_ms"] for r in plan["kernels"]["rows"] if r["name"] == "parts of others") * 1e-3
print(met)
assert abs(data - (gaps if data else 0)) < 1e-9
assert abs(sum(exposed.values()) - gaps - met) < 1e-9
EOF
}
waits shard=2 tensor=1 2 shard
waits replicate=2,shard=2 tensor=1 4 "replicate shard"
waits shard=2,tensor=2 tensor=2 2 "shard tensor"
waits tensor=4 tensor=4 1 tensor
waits shard=2,context=2 context=2 2 "shard context"

# With products in fp8, operands meet as bytes: along tensor, rows of a layer's two inputs in the forward; in the
# backward their columns, and both of the two gradients. Along context the four weights, rows and then columns.
# Eight scales of a layer meet, from each part 4 bytes.
meets_in_fp8() { # AXIS P t
    local p=$2 m=$(($2 / $3)) layers=4 tokens=512 dim=256 rounds=8 layer=737280 table=65536 u norms want
    norms=$(((2 * layers + 1) * dim * 4)) u=$((tokens * dim * (p - m) / p))
    case $1 in
    tensor) want=$(((8 * layers + 3 * 4) * u + (4 * layers + 2) * m * 4 * u + (p - m) * tokens * 12)) ;;
    context) want=$(((2 * layers * layer + (2 * table + m * (layers * layer + 2 * table)) * 4) * (p - m) / p + (p - m) * 8)) ;;
    esac
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set dtypes.linear=fp8 --set "parts={$1=$p}" --set "mesh={$1=$3}" --json \
        >"$WORK/plan.json" 2>"$WORK/err"
    check "meets along $1 in fp8, $p parts on $3 ranks" \
        test "$(number "met_$1")" = $((rounds * (want + (p - m) * (norms + layers * 8 * 4))))
}
meets_in_fp8 tensor 2 2
meets_in_fp8 tensor 4 2
meets_in_fp8 context 2 2

# A rank of GPUs is sent what one of CPUs reads: in turns and sums to pieces no more than its own parts need.
for sets in "parts={tensor=4} mesh={tensor=2}" "parts={context=4} mesh={context=4}" "parts={context=4} mesh={context=2}" \
    "parts={tensor=2,context=4} mesh={tensor=2,context=2}"; do
    flags=() read=
    for set in $sets; do flags+=(--set "$set"); done
    for target in cpu cuda; do
        "$FSDPGEN" plan "$ROOT/models/demo.lua" --target $target "${flags[@]}" --json >"$WORK/plan.json" 2>"$WORK/err"
        read=${read:-$(number met)}
    done
    check "GPUs are sent what CPUs read: $sets" test "$(number met)" = "${read:-none}"
done

# A part of tokens has the logits of one chunk, and two numbers of each of its tokens.
arena_of() { # CHUNK RANKS
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set model.vocab=32768 --set parts.context=4 --set "mesh={context=$2}" \
        --set "loss.chunk_tokens=$1" --json >"$WORK/plan.json" 2>"$WORK/err"
    number arena
}
for n in 1 2 4; do
    want=$((4 / n * 96 * (32768 * 4 + 2 * 4)))
    check "a part of tokens has logits of one chunk, on $n ranks" \
        test $(($(arena_of 128 $n) - $(arena_of 32 $n))) = "$want"
    check "and of no more tokens than it has" test "$(arena_of 512 $n)" = "$(arena_of 128 $n)"
done
check "no warning of chunks that nothing reads" test ! -s "$WORK/err"

# What is not kept of all parts of a rank.
not_kept() { "$FSDPGEN" plan "$ROOT/models/demo.lua" --set parts.tensor=4 --set recompute=block --set "mesh={tensor=$1}" \
    --all 2>"$WORK/err" | sed -n 's/^recomputed: .* blocks: \([0-9.]* MiB\) not kept.*/\1/p'; }
check "4 parts of a rank do not keep four times as much as one" \
    test "$(not_kept 1) $(not_kept 2) $(not_kept 4)" = "28.58 MiB 14.29 MiB 7.14 MiB"

# A token costs as many flops in parts as in one: of heads, of tokens where attention has some of the
# sequences or, with more parts than sequences, of the heads.
flops_of() { # MODEL ARGUMENT...
    "$FSDPGEN" plan "$ROOT/models/$1.lua" "${@:2}" --json 2>"$WORK/err" >"$WORK/plan.json"
    number flops_per_token
}
for name in demo gpt2_124m; do
    whole=$(flops_of $name)
    for field in parts.tensor=2 parts.tensor=4 parts.context=2 parts.context=4 \
        "parts.context=4 micro_batch=2" "parts.tensor=2 parts.context=2"; do
        # shellcheck disable=SC2086
        check "$name, $field: flops per token" \
            test "${whole:-none}" = "$(flops_of $name $(printf ' --set %s' $field))"
    done
done
for name in demo gpt2_124m; do
    check "$name: as many flops per token in fp8" test "$(flops_of $name --set 'dtypes={param="bf16",linear="fp8"}')" \
        = "$(flops_of $name --set dtypes.param=bf16)"
done

# What more parts than ranks cost is the difference of two plans; with as many there is no such line.
parts_plan() { # FIELD=VALUE...
    local sets=() field
    for field; do sets+=(--set "$field"); done
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --target cuda --set mesh.shard=1 "${sets[@]}" --json >"$WORK/plan.json" 2>"$WORK/err"
}
for axes in "parts.tensor=4 parts.tensor=2 mesh.tensor=2" "parts.context=4 parts.context=2 mesh.context=2"; do
    read -r many few mesh <<<"$axes"
    parts_plan "$few" "$mesh"
    check "$few on two ranks: no price" test "$(grep -c parts_price "$WORK/plan.json")" = 0
    seconds=$(number step_seconds) bytes=$(number arena)
    parts_plan "$many" "$mesh"
    check "$many on two ranks: the price in bytes" test "$(sed -n '/"parts_price"/,/}/s/.*"bytes_per_rank": *//p' "$WORK/plan.json")" \
        = $(($(number arena) - bytes))
    check "and in seconds, beside $few" awk -v all="$(number step_seconds)" -v few="$seconds" \
        -v price="$(sed -n '/"parts_price"/,/}/s/.*"seconds": *\([-0-9.e]*\).*/\1/p' "$WORK/plan.json")" \
        'BEGIN { d = all - few - price; exit !(price != "" && d < 1e-9 && d > -1e-9) }'
done
check "and the screen says so" grep -q 'more parts than ranks: a step takes .* more, a rank .* more, than with parts.tensor = 1;$' \
    <("$FSDPGEN" plan "$ROOT/models/demo.lua" --set parts.tensor=2)

# On GPUs a meet follows the collectives before it on their stream. What its span waits for them is time in which no kernel
# runs: not of the kernels, and not slowed down; the rest of what runs beside a collective is, as the rates say.
meets_behind() { # MODEL SETS...
    local c model=$1
    shift
    for c in 1 1.5 3; do
        echo "{ \"fsdpgen_rates\": 1, \"platform\": \"made up\", \"target\": \"cuda\", \"threads\": 1, \"ranks\": 8," \
            "\"products\": [], \"rates\": {}, \"collectives\": [], \"contention\": $c }" >"$WORK/rates_$c.json"
        "$FSDPGEN" plan "$ROOT/models/$model.lua" --target cuda --set target.gpu=h100 "$@" --rates "$WORK/rates_$c.json" \
            --kernels --json --trace "$WORK/trace_$c.json" >"$WORK/plan_$c.json" 2>"$WORK/err"
    done
    check "kernels beside collectives are slower, meets wait: $model $*" python3 - "$WORK" <<'EOF2'
import json, sys

def load(name):
    return json.load(open(f"{sys.argv[1]}/{name}.json"))

trace = [e for e in load("trace_1")["traceEvents"] if e["ph"] == "X"]
plan = load("plan_1")
kernels = [e for e in trace if e["tid"] == 1 and (e["cat"] != "sums and optimizer" or "received_bytes" not in e["args"])]
others = [e for e in trace if e["tid"] != 1]
within = [r for r in plan["kernels"]["rows"] if r["name"] in ("parts of others", "norm_reduce", "largest_reduce")]
calls = sum(e["dur"] for e in trace if e["tid"] == 1) * 1e-3
waited = calls - plan["kernels"]["alone_ms"]
beside = sum(max(0, min(k["ts"] + k["dur"], o["ts"] + o["dur"]) - max(k["ts"], o["ts"])) for k in kernels
             for o in others) * 1e-3 - waited
print(waited, beside)
assert waited > 0 and beside > 0 and plan["kernels"]["contention_ms"] == 0
for c in 1, 1.5, 3:
    p = load(f"plan_{c}")
    k = p["kernels"]
    assert abs(k["contention_ms"] - (c - 1) * beside) < 1e-6 * k["step_ms"], (c, k["contention_ms"])
    exposed = sum(p["exposed_seconds"].values()) * 1e3
    assert abs(k["step_ms"] - k["compute_ms"] + sum(r["total_ms"] for r in within) - exposed) < 1e-6 * k["step_ms"], c
EOF2
}
"$FSDPGEN" plan "$ROOT/models/llama70b_tp.lua" --target cuda --set target.gpu=h100 --set dtypes.linear=fp8 >"$WORK/out" 2>"$WORK/err"
check "the screen calls that a wait" grep -q ' bounded by .* waits for collectives 8 %, collectives, beside nothing 8 %' "$WORK/out"
meets_behind llama8b --set parts.tensor=2 --set 'mesh={tensor=2,shard=4}' --set leaves=4 --set global_batch=4
meets_behind llama8b --set dtypes.linear=fp8 --set parts.tensor=2 --set 'mesh={tensor=2,shard=4}' --set leaves=4 \
    --set global_batch=4
meets_behind llama8b --set parts.context=2 --set 'mesh={context=2,shard=4}' --set leaves=4 --set global_batch=4
