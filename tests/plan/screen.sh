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
check "in all digits" grep -qF "  $(sed -n 's/.*; \([0-9 ]*\) GPU hours.*/\1/p' "$here/golden/screen_cuda.txt") GPU hours  " \
    "$WORK/size"
for form in --all --kernels; do
    "$FSDPGEN" plan "$llama" --target cuda --tokens 15T --price 2.50 $form >"$WORK/out" 2>"$WORK/err"
    check "$form ends with the run" grep -qxF "$(grep '^15 T tokens: ' "$here/golden/screen_cuda.txt")" "$WORK/out"
    "$FSDPGEN" plan "$llama" --target cuda $form >"$WORK/out" 2>"$WORK/err"
    check "$form has none unless it is asked for" [ "$(grep -c ' hours' "$WORK/out")" = 0 ]
done

# Figures as people read them.
plan_says() { # PATTERN ARGS...
    local pattern=$1
    shift
    "$FSDPGEN" plan "$@" >"$WORK/out" 2>"$WORK/err"
    check "plan ${1##*/}: $pattern" grep -qE -- "$pattern" "$WORK/out"
}
plan_says '^1000 T tokens: 238 M steps, [0-9]+( [0-9]{3})+ days; ' "$ROOT/models/llama405b.lua" --tokens 1000T
plan_says '^gemma3_1b: llama, 1\.0 B parameters on ' "$ROOT/models/gemma3_1b.lua"
plan_says '^  0\.[0-9]+ tokens/s' "$ROOT/models/llama3.2_1b.lua" --set model.ffn=1e7 --set global_batch=4
echo 'return { gpus = { { name = "slow", arch = "sm_90a", memory = "94GiB", tflops = 0.002, bandwidth = 0.001,
    link = 0.5, node = "pcie" } } }' >"$WORK/slow.lua" # rates of a row are rates of a description
plan_says '^gpt2_124m: gpt2, 124 M parameters on 2 slow ' "$ROOT/models/gpt2_124m.lua" --machines "$WORK/slow.lua" \
    --target cuda --set target.gpu=slow
one=(--set seq=1 --set micro_batch=1 --set global_batch=1)
plan_says '^a step of 1 token, ' "$ROOT/tests/models/tiny_llama.lua" "${one[@]}"
plan_says '^step: 1 micro-batch of 1 x 1 tokens in 1 leaf; ' "$ROOT/tests/models/tiny_llama.lua" "${one[@]}" --all
"$FSDPGEN" plan "$ROOT/models/llama405b.lua" --json >"$WORK/out" 2>"$WORK/err"
check "whole numbers in JSON have all digits" grep -qF '"flops_per_token": 2523955986432,' "$WORK/out"

# The name of a file of rates is emitted, so no byte of it may be what emitted texts cannot have.
cat >"$WORK/name.json" <<'EOF'
{ "fsdpgen_rates": 1, "platform": "a", "target": "cpu", "threads": 1, "ranks": 1,
  "rates": { "product_gflops": 10, "attention_gflops": 5, "attention_bwd_gflops": 4, "elementwise_gbps": 20,
             "norm_gbps": 1 } }
EOF
for name in $'r\xc3\xa9.json' 'a${b}.json' $'x\ny.json' $'q\xff\e[31m.json' 'end '; do
    cp "$WORK/name.json" "$WORK/$name"
    rm -rf "$WORK/named"
    label=$(printf %q "$name")
    "$FSDPGEN" "$ROOT/tests/models/tiny_llama.lua" --rates "$WORK/$name" --link-runtime "$ROOT/runtime" -o "$WORK/named" \
        >"$WORK/out" 2>"$WORK/err"
    check "rates of $label: generate" [ $? = 0 ]
    "$FSDPGEN" plan "$ROOT/tests/models/tiny_llama.lua" --rates "$WORK/$name" --json >"$WORK/out" 2>"$WORK/err"
    check "rates of $label: plan --json" [ $? = 0 ]
done
plan_says '\(calibrated by q\\xff\\x1b\[31m\.json\)$' "$ROOT/tests/models/tiny_llama.lua" --rates "$WORK/"$'q\xff\e[31m.json'

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
for pass in place simulate; do
    "$FSDPGEN" plan "$llama" --target cuda --set leaves=8 --dump=$pass >"dump" 2>err
    check "--dump=$pass: code 3" [ $? = 3 ]
    check "--dump=$pass: all its output" test -s dump
    "$FSDPGEN" plan "$llama" --target cuda --set leaves=8 --set 'target.memory="200GiB"' --dump=$pass >dump-large 2>err
    check "--dump=$pass is that of the plan on a larger GPU" cmp dump dump-large
done
"$FSDPGEN" plan "$ROOT/models/demo.lua" --dump=emit >dump 2>err
check "plan --dump=emit: the files that would be emitted" grep -q '^file trainer\.c ' dump

# Of two files neither is written if one may not be; nor is a file replaced that cannot be read.
echo mine >mine.json
"$FSDPGEN" plan "$ROOT/models/demo.lua" --html both.html --trace mine.json >out 2>err
check "a trace that may not be written: code 1" [ $? = 1 ]
check "no page either" [ ! -e both.html -a "$(cat mine.json)" = mine ]
mkdir closed && echo mine >closed/mine.html && chmod 0 closed/mine.html && chmod 777 closed
as_other=()
[ "$(id -u)" != 0 ] || as_other=(setpriv --reuid 65534 --clear-groups)
if [ "$(id -u)" != 0 ] || { command -v setpriv >/dev/null && chmod 711 . && "${as_other[@]}" test -x "$FSDPGEN"; }; then
    "${as_other[@]}" "$FSDPGEN" plan "$ROOT/models/demo.lua" --html closed/mine.html >out 2>err
    check "a file that cannot be read: code 1" [ $? = 1 ]
    chmod 600 closed/mine.html
    check "it stays" [ "$(cat closed/mine.html)" = mine ]
else
    echo "skipped: a file that cannot be read (root reads all)"
fi
cd "$ROOT" || exit 70

# Times longer than can be counted have no figures
"$FSDPGEN" plan "$ROOT/models/llama3.2_1b.lua" --set model.ffn=1e9 >"$WORK/long" 2>"$WORK/err"
check "a step that is too long to count" grep -q ' predicted: more than 26 days (' "$WORK/long"
check "has no rate and no shares" [ "$(grep -cE 'tokens/s|bounded by| %' "$WORK/long")" = 0 ]
"$FSDPGEN" plan "$ROOT/models/llama3.2_1b.lua" --set model.ffn=1e9 --kernels >"$WORK/long" 2>"$WORK/err"
check "and its kernels take no negative time" grep -qE 'kernels alone +[0-9]' "$WORK/long"
