# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the first screen of a plan, a run's hours and dollars, plans over the budget.

llama=$ROOT/models/llama8b.lua
screen() { # GOLDEN CODE ARGS...
    local name=$1 code=$2
    shift 2
    (cd "$ROOT/models" && "$FSDPGEN" plan "$@" >"$WORK/screen" 2>"$WORK/err")
    check "screen, $name: code $code" [ $? = "$code" ]
    [ $update = 1 ] && cp "$WORK/screen" "$here/golden/screen_$name.txt"
    if diff -u "$here/golden/screen_$name.txt" "$WORK/screen" >"$WORK/diff" 2>&1; then
        ok "golden screen, $name"
    else
        bad "golden screen, $name" "$WORK/diff"
    fi
    check "screen, $name: one screen" [ "$(wc -l <"$WORK/screen")" -le 24 ]
}
screen cuda 0 llama8b.lua --target cuda --tokens 15T --price 2.50
screen cpu 0 demo.lua
screen over 3 llama8b.lua --target cuda --set leaves=8

# The hours of a run are its tokens at the predicted rate, on all GPUs: llama8b has steps of
# 64 sequences of 8192 tokens, on 8 ranks.
run_of() { # TOKENS PRICE ARGS...
    local tokens=$1 price=$2
    shift 2
    "$FSDPGEN" plan "$llama" --target cuda "$@" --json 2>/dev/null | tr -d '",' |
        awk -v n="$tokens" -v price="$price" '
        function near(a, b) { return a > 0.999999 * b && a < 1.000001 * b }
        { v[$1] = $2 }
        END { hours = n / (64 * 8192) * v["step_seconds:"] / 3600
              exit !(v["tokens:"] == n && near(v["steps:"], n / (64 * 8192)) &&
                     near(v["hours:"], hours) && near(v["gpu_hours:"], 8 * hours) &&
                     (price == "" ? !("usd:" in v) : near(v["usd:"], 8 * hours * price))) }'
}
check "hours of 15T tokens" run_of 15000000000000 "" --tokens 15T
check "and of 1.5b, with a price" run_of 1500000000 2.5 --tokens 1.5b --price=2.5
check "and of 250M" run_of 250000000 0.75 --tokens 250M --price 0.75
check "a price alone is for a billion tokens" run_of 1000000000 3 --price 3
check "the datasheet of a node has a price: 39.33 for 8 GPUs" \
    run_of 1000000000 4.91625 --tokens 1B --set target.node=aws-p5
check "--price goes before it" run_of 1000000000 2 --price 2 --set target.node=aws-p5
"$FSDPGEN" plan "$llama" --target cuda --set target.node=aws-p5 >"$WORK/out" 2>&1
check "the screen says whose price it is" grep -q ' USD at 4.92 an hour (aws-p5)$' "$WORK/out"
check "neither: a plan has no run" [ "$("$FSDPGEN" plan "$llama" --json 2>/dev/null | grep -c '"run"')" = 0 ]
"$FSDPGEN" size "$llama" --gpu h100 --tokens 15T --price h100=2.50 >"$WORK/size" 2>"$WORK/err"
check "size says the same hours" grep -q "GPU hours and dollars of 15 T tokens" "$WORK/size"
check "in four digits" \
    [ "$(awk '/h100/ { for (i = 2; i <= NF; i++) if ($i == "GPU") printf "%.0f", $(i - 1) / 100 }' "$WORK/size")" = \
    "$(sed -n 's/.*; \([0-9 ]*\) GPU hours.*/\1/p' "$here/golden/screen_cuda.txt" | tr -d ' ' | awk '{ printf "%.0f", $1 / 100 }')" ]

wrong_number() { # OPTION VALUE TEXT
    "$FSDPGEN" plan "$llama" "--$1=$2" >"$WORK/out" 2>"$WORK/err"
    check "--$1 $2: code 2" [ $? = 2 ]
    check "--$1 $2 is refused" grep -qF -- "--$1: \`$2\` is not between $3" "$WORK/err"
}
for value in 0 -5 15X T 1.5BB 0x10 1e40 nan inf 2000T 0.4 1,5B '1 B'; do
    wrong_number tokens "$value" "1 and 1e+15, as in 15T, 1.5B, 250M or 1000000"
done
for value in -1 2,50 1e9 nan '2.5$' h100=2; do
    wrong_number price "$value" "0 and 1000000 dollars, as in 2.50"
done

# What does not fit is drawn as well, with what is too many.
cd "$WORK" || exit 70
"$FSDPGEN" plan "$llama" --target cuda --set leaves=8 --html over.html --trace over.json >out 2>err
check "a page of a plan that does not fit: code 3" [ $? = 3 ]
check "it says so" grep -q '<dt>does not fit: too many</dt><dd>7.72 GiB of 79.10 GiB</dd>' over.html
check "and the message what would" grep -q 'leaves = 64 needs about 70.32 GiB a rank' err
"$FSDPGEN" plan "$llama" --target cuda --set leaves=8 --set 'target.memory="200GiB"' --json >large.json 2>err
arena=$(sed -n 's/.*"arena": *\([0-9]*\).*/\1/p' large.json)
check "its bytes are those of the plan on a larger GPU" grep -q "^\"arena\":$arena," over.html
check "and a trace" grep -q '^{"otherData":{"generator":"fsdpgen plan"' over.json
"$FSDPGEN" plan "$llama" --target cuda --set leaves=8 --json >out 2>err
check "--json: code 3, and all its output" [ $? = 3 -a -s out ]
for memory in 40GiB 200GiB; do # what was tried to find a change that fits leaves no trace
    "$FSDPGEN" plan "$llama" --target cuda --set recompute=cheap --set "target.memory=\"$memory\"" 2>err |
        grep -A 99 '^a step of' >"step-$memory"
done
check "its times are those of the plan on a larger GPU" cmp step-40GiB step-200GiB
check "there are times" test -s step-40GiB
cd "$ROOT" || exit 70

# Times longer than can be counted: they stay what they are at most
"$FSDPGEN" plan "$ROOT/models/llama3.2_1b.lua" --set model.ffn=1e9 >"$WORK/long" 2>"$WORK/err"
check "shares of a step that is too long to count are at most 100 %" \
    awk '/bounded by/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^%/) { n++; bad += $i > 100 } } END { exit !n || bad }' "$WORK/long"
"$FSDPGEN" plan "$ROOT/models/llama3.2_1b.lua" --set model.ffn=1e9 --kernels >"$WORK/long" 2>"$WORK/err"
check "and its kernels take no negative time" grep -qE 'kernels alone +[0-9]' "$WORK/long"
