# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: plans that fit a budget, or do not.

# budget NAME WANT TEXT ARGS...: plan of tiny_llama on 2 ranks ends with code WANT and says TEXT.
budget() {
    local name=$1 want=$2 text=$3
    shift 3
    "$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --set "mesh={shard=2}" --all "$@" >"$WORK/plan.txt" 2>&1
    check "budget, $name: exit code" [ $? = "$want" ]
    if grep -q -- "$text" "$WORK/plan.txt"; then
        ok "budget, $name: says '$text'"
    else
        bad "budget, $name: does not say '$text'" "$WORK/plan.txt"
    fi
}
total=$("$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --set "mesh={shard=2}" --json 2>/dev/null |
    sed -n 's/.*"total": *\([0-9]*\).*/\1/p')
budget "just enough" 0 "arena" --set "target=cpu{memory=\"$total\"}"
budget "a byte less" 3 'recompute = "block" needs about' \
    --set "target=cpu{memory=\"$((total - 1))\"}"
budget "more ranks would do" 3 "mesh.shard = 4 needs about" --set 'recompute=block' \
    --set 'target=cpu{memory="129.1MiB"}'
budget "nothing fits" 3 "give a rank at least" --set 'target=cpu{memory="1MiB"}'
budget "an op that is none" 1 'did you mean "swiglu"?' --set 'recompute=ops{"swglu"}'
budget "an op that changes nothing" 0 'it changes nothing' --set 'recompute=ops{"rope"}'
budget "auto, without a budget: none" 0 "total per rank  *$total " --set recompute=auto --set "mesh={shard=2}"
budget "auto, plenty" 0 "0 of 3 blocks layer recomputed" --set recompute=auto \
    --set 'target=cpu{memory="1GiB"}'
budget "auto, little" 0 'of 3 blocks layer recomputed' --set recompute=auto \
    --set "target=cpu{memory=\"$((total - 131072))\"}"
budget "auto, too little" 3 'the least memory that "auto" found' --set recompute=auto \
    --set 'target=cpu{memory="128MiB"}'

# More ranks divide the weights, too, unless every rank holds them whole; then parts do.
more_ranks() { # SETS TEXT
    local set flags=()
    for set in $1; do flags+=(--set "$set"); done
    "$FSDPGEN" plan "$ROOT/models/llama8b.lua" --target cuda "${flags[@]}" >"$WORK/plan.txt" 2>&1
    check "budget, llama8b with $1: '$2'" grep -q -- "$2" "$WORK/plan.txt"
}
more_ranks mesh.shard=1 "mesh.shard = 8 needs about 70.32 GiB a rank on 8 ranks"
more_ranks "mesh.shard=2 strategy=shard_optimizer" "parts.tensor = 4 with mesh.tensor = 4, another numerics hash, needs 77.06 GiB"

# The estimate alone would propose recompute = "block", mesh.shard = 8, micro_batch = 1: 145.70 MiB, where the
# plan needs 158.78. So what is proposed has been planned, and needs what the help says.
estimated=(--set 'target=cpu{memory="150MiB"}' --set parts.tensor=4 --set mesh.shard=1)
"$FSDPGEN" plan "$ROOT/models/demo.lua" "${estimated[@]}" >"$WORK/plan.txt" 2>&1
check "budget, ranks that only an estimate fits: exit code" [ $? = 3 ]
check "budget, ranks that only an estimate fits: none" grep -q 'mesh.shard, mesh.tensor or micro_batch fits: give' "$WORK/plan.txt"
"$FSDPGEN" plan "$ROOT/models/llama8b.lua" --target cuda --set mesh.shard=8 >"$WORK/plan.txt" 2>&1
check "budget, proposed ranks: they need that" grep -q '^memory: fits: 70.32 GiB a rank' "$WORK/plan.txt"

# What does not fit is shown, too, with the same exit code: in whole, its kernels, and for programs.
misfit() { # ARGUMENT...
    "$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --set "mesh={shard=2}" \
        --set "target=cpu{memory=\"$((total - 1))\"}" "$@" >"$WORK/misfit" 2>"$WORK/err"
    check "too large, $*: exit code" test $? = 3
    check "too large, $*: what would fit" grep -q 'recompute = "block" needs about' "$WORK/err"
    "$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --set "mesh={shard=2}" \
        --set "target=cpu{memory=\"$total\"}" "$@" >"$WORK/fits" 2>"$WORK/err"
    check "too large, $*: as the plan that fits" diff \
        <(sed "s/\"fits\": false/\"fits\": true/; s/$((total - 1))/$total/
            s/DOES NOT FIT: 1 B more than the budget of \(.*\)/fits: 0 B of the budget of \1 are free/" "$WORK/misfit") "$WORK/fits"
}
misfit --json
check "too large: fits is false" grep -q '^  "fits": false,$' "$WORK/misfit"
check "too large: its budget" grep -q "^  \"budget_bytes\": $((total - 1)),$" "$WORK/misfit"
check "too large: its bytes" grep -q "^    \"total\": $total,$" "$WORK/misfit"
misfit --kernels
misfit --kernels --json
misfit --all

# Parts, and ranks that share them, are proposed where the model is marked, where the numbers divide, and
# where the plan with them fits: it needs what the help says.
in_parts() { # BUDGET HELP ARGUMENT...: HELP names fields and their values; "" proposes none
    local budget=$1 want=$2 sets=() word
    shift 2
    "$FSDPGEN" check "$ROOT/models/demo.lua" --set "target=cpu{memory=\"$budget\"}" "$@" >"$WORK/plan.txt" 2>"$WORK/err"
    check "parts, $budget, $*: exit code" test $? = 3
    if [ -z "$want" ]; then
        check "parts, $budget, $*: none is proposed" test -z "$(grep 'tensor = ' "$WORK/err")"
        return
    fi
    check "parts, $budget, $*: '$want'" grep -q "[:;] $want needs" "$WORK/err"
    for word in $(grep -o '[a-z]*\.tensor = [0-9]*' <<<"$want" | tr -d ' '); do sets+=(--set "$word"); done
    "$FSDPGEN" plan "$ROOT/models/demo.lua" --set "target=cpu{memory=\"$budget\"}" "$@" "${sets[@]}" --all \
        >"$WORK/plan.txt" 2>"$WORK/err2"
    check "parts, $budget, $*: it fits" test $? = 0
    check "parts, $budget, $*: it needs that" grep -qF "$want needs $(sed -n 's/^  total per rank  *[0-9]*  //p' \
        "$WORK/plan.txt") a rank" "$WORK/err"
}
in_parts 150MiB "parts.tensor = 4 with mesh.tensor = 4, another numerics hash,"
in_parts 160MiB "mesh.tensor = 4" --set parts.tensor=4
in_parts 160MiB "parts.tensor = 4 with mesh.tensor = 4, another numerics hash," --set parts.tensor=2 --set mesh.tensor=2
in_parts 150MiB "" --set model.kv_heads=1
in_parts 131MiB ""

# Ranks along tensor see the same data: a warning that counts leaves names those that do not.
"$FSDPGEN" plan "$ROOT/models/llama8b.lua" --target cuda --set parts.tensor=8 --set mesh.shard=1 --set mesh.tensor=8 \
    >"$WORK/plan.txt" 2>&1
check "leaves on ranks along tensor: data ranks are counted" grep -q '64 leaves on 1 data rank keep' "$WORK/plan.txt"
