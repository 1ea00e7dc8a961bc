#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# `fsdpgen tune`: candidates and their order against plans made one by one; words that are refused; the
# override generates what was ranked; what is measured, by a fake make whose trainers have known times,
# and once by real trainers; wisdom, stops, and weights that differ. --update writes the golden texts.
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
here=$ROOT/tests/tune
llama=$ROOT/tests/models/tiny_llama.lua
. "$here/sizes.sh"

tune() { "$FSDPGEN" tune "$@"; }
golden() { # NAME FILE
    if [ "$update" = 1 ]; then cp "$2" "$here/golden/$1.txt"; fi
    check "$1 is as in golden/$1.txt" diff "$here/golden/$1.txt" "$2"
}
field() { # PATH FILE: a value of JSON
    python3 -c 'import json, sys
v = json.load(open(sys.argv[2]))
for key in sys.argv[1].split("."):
    v = v[int(key)] if isinstance(v, list) else v[key]
print(v)' "$1" "$2"
}

# ---- words -----------------------------------------------------------------------------------------

words() {
    local line
    while read -r line; do
        echo "== tune tiny_llama.lua $line"
        eval "set -- $line"
        (cd "$ROOT/tests/models" && tune tiny_llama.lua "$@" --plan-only 2>&1)
        echo "-- $?"
    done >"$WORK/words" <<'LINES'
wrap
wrap=
=3
wrap=1,,2
wrap=1 wrap=2
wrp=1,2
strategy=full,none
strategy=full_shard,bad
seq=16,32
mesh.shard=1,2,3,4
'wrap=per_block(1),by_size(100)' mesh.shard=2
recompute=none,block --set 'target.memory="130MiB"'
recompute=none,block --set 'target.memory="1MiB"'
recompute=none --set seq=0
-o tiny_llama.lua
-o found.txt
-o nowhere/found.lua
--measure 0
--measure 3
--machines nowhere.lua
--minutes x
--mesure 3
LINES
    golden words "$WORK/words"
    tune "$llama" $'name=a,\xff' --plan-only --json >"$WORK/bytes.json"
    check 'JSON of a value that is not UTF-8' test "$(field left_out.1.sets "$WORK/bytes.json")" = "['name=\\\\xff']"
    tune "$llama" wrap=1 --plan-only -o "$WORK/"$'w\e[31m.lua' >"$WORK/bytes.txt"
    check 'no terminal obeys the name of -o' test "$(tail -n 1 "$WORK/bytes.txt")" = "  written: $WORK/w\\x1b[31m.lua"
    check 'a missing description is named' test "$(tune nowhere.lua 2>&1 | head -n 1)" = \
        'nowhere.lua: error: cannot read the description: there is no such file'
    check 'a folder is no data' test "$(tune "$llama" --data "$WORK" --measure 1 2>&1 | head -n 1)" = \
        "$WORK: error: it is a folder"
}

# ---- plans -----------------------------------------------------------------------------------------

# Every ranked candidate has the bytes and seconds of its plan, and the best one is the best of all.
plans() {
    local grid='strategy=full_shard,shard_grad_op,shard_optimizer wrap=1,2,root_only prefetch=0,2'
    tune "$llama" $grid --set mesh.shard=4 --plan-only --json >"$WORK/plans.json"
    check "tune --json ends well" test $? = 0
    check "every candidate's plan is that of fsdpgen plan" python3 "$here/plans.py" "$FSDPGEN" "$llama" \
        "$WORK/plans.json" mesh.shard=4
    tune "$llama" $grid --set mesh.shard=4 --plan-only >"$WORK/a" && tune "$llama" $grid --set mesh.shard=4 \
        --plan-only >"$WORK/b"
    check "rates have no exponents" grep -qE ' [0-9]+( [0-9]{3})+  +[0-9.]+ GiB  ' \
        <(tune "$ROOT/models/llama3.2_1b.lua" wrap=1 --target cuda --plan-only)
    check "twice the same text" cmp "$WORK/a" "$WORK/b"
    tune "$llama" seq=16,32 micro_batch=1,2 --allow-numerics --plan-only --json >"$WORK/numerics.json"
    tune "$llama" target.jit=true,false --target cuda --plan-only --json >"$WORK/jit.json"
    check "a field of the target that no instruction shows" test "$(field ranked "$WORK/jit.json" | grep -o "'id'" | wc -l)" = 2
    tune "$llama" target.arch=native,x86-64-v3 --plan-only --json >"$WORK/arch.json"
    check "nor its arch" test "$(field ranked "$WORK/arch.json" | grep -o "'id'" | wc -l)" = 2
    local large="$ROOT/models/llama405b.lua --target cpu --plan-only"
    check "no candidate of more than 26 days a step is ranked" grep -q '^3 candidates: 1 ranked, 2 too long for a prediction' \
        <(tune $large mesh.shard=16,32)
    tune $large wrap=1,2 --set 'mesh={shard=1}' >"$WORK/out" 2>"$WORK/err"
    check "where all are: code 1" test $? = 1
    check "and a message" grep -q 'every candidate that fits takes more than 26 days a step' "$WORK/err"
    check "other numerics, when asked for" test "$(field ranked "$WORK/numerics.json" | grep -o "'id'" | wc -l)" -ge 4
}

# Candidates of two graphs, some too large and some refused. What candidates share is decided from
# their resolved fields, also where a description's wrap is a function.
shared() {
    local grid='seq=16,32 strategy=full_shard,shard_optimizer,bogus wrap=per_block(1),root_only recompute=none,block,auto'
    local sets='mesh.shard=4 target.memory="129MiB"'
    tune "$llama" $grid --set mesh.shard=4 --set 'target.memory="129MiB"' --allow-numerics --plan-only --json \
        >"$WORK/shared.json"
    check "candidates of two graphs" test $? = 0
    check "are ranked, too large and refused as plans are" python3 "$here/plans.py" "$FSDPGEN" "$llama" \
        "$WORK/shared.json" $sets
    check "each of the three occurs" test "$(field left_out "$WORK/shared.json" | grep -o "'left_out': '[a-z]*" |
        sort -u | wc -l)" -ge 2
    sed 's/^    seq = 19/    wrap = function(block) return block.index == 2 end, seq = 19/' "$llama" >"$WORK/function.lua"
    tune "$WORK/function.lua" strategy=full_shard,shard_grad_op recompute=none,block --set mesh.shard=2 \
        --plan-only --json >"$WORK/function.json"
    check "a wrap that is a function" python3 "$here/plans.py" "$FSDPGEN" "$WORK/function.lua" "$WORK/function.json" \
        mesh.shard=2
}

# Without words: the grid of a model on 4 ranks. A candidate costs a small part of a plan by itself.
cpu() { # COMMAND...: hundredths of a second of its processors
    python3 -c 'import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
u = resource.getrusage(resource.RUSAGE_CHILDREN)
print(int(100 * (u.ru_utime + u.ru_stime)))' "$@"
}
grid() {
    local cost one
    tune "$llama" --plan-only --set mesh.shard=4 --set global_batch=32 --json >"$WORK/grid.json"
    local n=$(field candidates "$WORK/grid.json")
    check "the grid of a model: $n candidates" test "$n" -gt 200
    check "every strategy that cuts over fewer than all ranks is tried with copies" test "$(tr -d ' \n' <"$WORK/grid.json" |
        grep -oE '"mesh\.replicate=2","mesh\.shard=2","strategy=[a-z_]*"' | sed 's/.*=//; s/"//' | sort -u | xargs)" = \
        'hybrid_shard shard_optimizer'
    # parts may be shared by fewer or more ranks, but the candidates' ranks are as many as the description's
    tune "$llama" --plan-only --set mesh.shard=2 --set parts.tensor=2 --set mesh.tensor=2 --set model.heads=4 \
        --set model.head_dim=4 --set model.vocab=256 --json >"$WORK/tensor.json"
    check "with parts, meshes of as many ranks" test "$(tr -d ' \n' <"$WORK/tensor.json" |
        grep -oE '"mesh\.tensor=[0-9]*","mesh\.replicate=[0-9]*","mesh\.shard=[0-9]*"' | tr -dc '0-9"' | tr -s '"' ' ' |
        xargs -n 3 | sort -u | xargs)" = '1 1 4 1 2 2 2 1 2'
    for _ in 1 2 3 4 5; do # whatever else the machine does counts, too, in one of both
        cost=$(cpu "$FSDPGEN" tune "$llama" --plan-only --set mesh.shard=4 --set global_batch=32 --json)
        one=$(cpu sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do "$@"; done' - "$FSDPGEN" plan "$llama" \
            --set mesh.shard=4 --json)
        [ $((cost * 10 * 3)) -lt $((one * n)) ] && break
    done
    check "$n candidates take less than a third of as many plans (${cost}0 ms; ten plans ${one}0 ms)" \
        test $((cost * 10 * 3)) -lt $((one * n))
}

# ---- the override ----------------------------------------------------------------------------------

written() { # NAME FLAGS...: the file of -o is the description with these flags
    local name=$1
    shift
    rm -f "$WORK/tuned.lua"
    tune "$WORK/$name.lua" wrap=1 --plan-only "$@" -o "$WORK/tuned.lua" >"$WORK/out" 2>&1
    check "$name $*: is written" grep -q '^  written: ' "$WORK/out"
    "$FSDPGEN" plan "$WORK/tuned.lua" --path "$WORK/beside" --json >"$WORK/tuned.json" 2>/dev/null
    "$FSDPGEN" plan "$WORK/$name.lua" --set wrap=1 "$@" --json >"$WORK/mine.json" 2>/dev/null
    check "$name $*: has a plan" test -s "$WORK/mine.json" # messages are sorted by their places
    check "$name $*: the same plan" cmp <(tr -d , <"$WORK/tuned.json" | sort) <(tr -d , <"$WORK/mine.json" | sort)
}
override() {
    local sets='--set strategy=hybrid_shard --set mesh.replicate=2 --set mesh.shard=2 --set prefetch=2
        --set wrap=per_block(2) --set recompute=every(2)'
    cp "$llama" "$WORK/mine.lua"
    tune "$WORK/mine.lua" 'mesh.replicate=2' 'mesh.shard=2' strategy=hybrid_shard prefetch=2 'wrap=per_block(2)' \
        'recompute=every(2)' --set optimizer.lr=0.5 --plan-only -o "$WORK/tuned.lua" >"$WORK/out" 2>&1
    check "an override is written" test -s "$WORK/tuned.lua"
    "$FSDPGEN" plan "$WORK/tuned.lua" --json >"$WORK/tuned.json" 2>/dev/null
    "$FSDPGEN" plan "$WORK/mine.lua" $sets --set optimizer.lr=0.5 --json >"$WORK/mine.json" 2>/dev/null
    check "it is the description with these fields" cmp "$WORK/tuned.json" "$WORK/mine.json"
    # a number that stands for a table, and sizes without quotes
    sed 's/^return trainer {/& prefetch = 2,/' "$llama" >"$WORK/numbers.lua"
    check "a number for a table is planted" grep -q 'prefetch = 2' "$WORK/numbers.lua"
    written numbers --set prefetch.forward=0 --set target.memory=8GiB
    # words of any case, --target, tables that the description omits
    grep -v 'dtypes = ' "$llama" >"$WORK/bare.lua"
    written bare --set dtypes.param=bf16
    written bare --target cuda --set target.gpu=h100
    written bare --target cuda
    written bare --set 'target.memory="900MiB"'
    written bare --set name=llama.v3
    mkdir "$WORK/beside" && cp "$WORK/bare.lua" "$WORK/beside/deep.lua"
    written beside/deep --set dtypes.param=bf16
    # where the file would be another description, it is not written
    rm -f "$WORK/tuned.lua"
    sed 's/^return trainer {/local same = { context = 1 }\nreturn trainer { mesh = same, parts = same,/' "$llama" \
        >"$WORK/same.lua"
    check "one table for two fields: not written" test "$(tune "$WORK/same.lua" wrap=1 --plan-only --set parts.context=2 \
        -o "$WORK/tuned.lua" >"$WORK/out" 2>&1; echo $?)" = 1
    check "and why" grep -q 'tuned.lua: error: not written: read back, it is another description' "$WORK/out"
    check "no file is left" test -z "$(ls "$WORK" | grep tuned.lua)"
    check "a file that would require itself" test "$(tune "$WORK/bare.lua" wrap=1 --plan-only --force -o \
        "$WORK/beside/bare.lua" >"$WORK/out" 2>&1; echo $?)" = 1
    check "is refused" grep -q 'bare.lua: error: it would require itself' "$WORK/out"
    # a default that another field changes is written
    tune "$WORK/mine.lua" strategy=shard_optimizer accumulate=sharded --set mesh.shard=2 --plan-only -o "$WORK/tuned.lua" \
        >"$WORK/out" 2>&1
    "$FSDPGEN" plan "$WORK/tuned.lua" --json >"$WORK/tuned.json" 2>/dev/null
    "$FSDPGEN" plan "$WORK/mine.lua" --set mesh.shard=2 --set strategy=shard_optimizer --set accumulate=sharded \
        --json >"$WORK/mine.json" 2>/dev/null
    check "and those that it says only by default" cmp "$WORK/tuned.json" "$WORK/mine.json"
    sed 's/^return t$/t.seed = 7\n&/' "$WORK/tuned.lua" >"$WORK/tuned.new" && mv "$WORK/tuned.new" "$WORK/tuned.lua"
    check "one that was edited" test "$(tune "$WORK/mine.lua" wrap=1 --plan-only -o "$WORK/tuned.lua" >"$WORK/out" 2>&1
        echo $?)" = 1 -a "$(grep -c '^t.seed = 7$' "$WORK/tuned.lua")" = 1
    check "is kept" grep -q 'tuned.lua: error: the file was edited after fsdpgen tune wrote it' "$WORK/out"
    check "but with --force" tune "$WORK/mine.lua" wrap=1 --plan-only --force -o "$WORK/tuned.lua"
    check "it is replaced" tune "$WORK/mine.lua" wrap=1 --plan-only -o "$WORK/tuned.lua"
    echo mine >"$WORK/tuned.lua.new"
    check "beside a file of the user's" tune "$WORK/mine.lua" wrap=1 --plan-only -o "$WORK/tuned.lua"
    check "which stays" test "$(cat "$WORK/tuned.lua.new")" = mine
    check "and nothing else" test "$(cd "$WORK" && echo tuned.lua*)" = 'tuned.lua tuned.lua.new'
    # names with dots, as those of models are, and with dashes; others are refused before any plan
    cp "$llama" "$WORK/llama3.2_1b-a.lua"
    written llama3.2_1b-a --set prefetch=2
    for name in $'caf\xc3\xa9' 'my model' Mine a..b; do
        cp "$llama" "$WORK/$name.lua"
        check "$name: code 1" test "$(tune "$WORK/$name.lua" no_such_field=1 --plan-only -o "$WORK/x.lua" >"$WORK/out" 2>&1; echo $?)" = 1
        check "$name cannot be required" grep -q 'lua: error: -o writes a description that requires this one' "$WORK/out"
    done
    echo 'return 1' >"$WORK/other.lua"
    check "another file is not" test "$(tune "$WORK/mine.lua" wrap=1 --plan-only -o "$WORK/other.lua" >"$WORK/out" 2>&1
        echo $?)" = 1 -a "$(cat "$WORK/other.lua")" = 'return 1'
    check "but with --force" tune "$WORK/mine.lua" wrap=1 --plan-only --force -o "$WORK/other.lua"
    echo 'return require "mine"' >"$WORK/outer.lua"
    check "a module that is read is not, even with it" test "$(tune "$WORK/outer.lua" wrap=1 --plan-only --force -o \
        "$WORK/mine.lua" >"$WORK/out" 2>&1; echo $?)" = 1
    check "and why" grep -q 'mine.lua: error: is read here; the output would replace it' "$WORK/out"
    check "a folder that is not there" test "$(tune "$WORK/mine.lua" wrap=1 --plan-only -o "$WORK/no/x.lua" \
        >"$WORK/out" 2>&1; echo $?)" = 1
    check "is named" grep -q 'no/x.lua: error: cannot be written: No such file' "$WORK/out"
}

# ---- measured, by trainers of known times ----------------------------------------------------------

axes='strategy=full_shard,shard_grad_op,no_shard recompute=none,block'
export FAKE_ID=$$ # that of whose trainers hang
# fake NAME CODE [FLAGS...]: tunes with the fake make
fake() {
    local name=$1 code=$2
    shift 2
    export FAKE_DIR=$WORK/fake
    : >"$FAKE_DIR/calls"
    PATH=$WORK/bin:$PATH timeout 900 "$FSDPGEN" tune "${model:-$llama}" $axes --set mesh.shard=2 --work "$WORK/work" \
        "$@" >"$WORK/fake.out" 2>"$WORK/fake.err"
    local got=$?
    check "$name: exit code $got" test $got = "$code"
}
calls() { wc -l <"$WORK/fake/calls"; }

measured() {
    mkdir -p "$WORK/bin" "$WORK/fake"
    ln -sf "$here/fake_make.sh" "$WORK/bin/make"
    printf '%s\n' 'full_shard 3' 'shard_grad_op 2' 'no_shard 1' 'block 5' >"$WORK/fake/times"
    fake 'the fastest' 0 --measure 6 --json --html "$WORK/fake.html"
    check "its strategy" test "$(field ranked "$WORK/fake.out" | grep -o "'median_seconds': 1.0" | wc -l)" = 1
    local best=$(field best "$WORK/fake.out")
    check "is the best one ($best)" python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
best = min((c for c in d["ranked"] if c["median_seconds"]), key=lambda c: c["median_seconds"])
sys.exit(best["id"] != d["best"] or best["median_seconds"] != 1.0 or "strategy=no_shard" not in best["sets"])' \
        "$WORK/fake.out"
    check "five runs each ($(calls))" test "$(calls)" = 30
    cp "$WORK/fake.err" "$WORK/lines"
    check "its page has what was measured" python3 "$ROOT/tests/report/drawings.py" tune "$WORK/fake.html" "$WORK/fake.out"
    mkdir -p "$WORK/theirs"
    local random=$(cd "$WORK/work" && ls random-*.bin)
    echo mine >"$WORK/theirs/$random"
    fake 'a folder with a file of that name' 1 --measure 1 --work "$WORK/theirs"
    check 'the file stays' test "$(cat "$WORK/theirs/$random")" = mine
    fake 'a table' 0 --measure 2
    sed "s|$WORK|WORK|g" "$WORK/fake.out" >"$WORK/table"
    golden table "$WORK/table"
}

# Times that a hash of the description decides: the best of all is found, whatever was predicted, and
# however the measurements are split over several searches.
exhaustive() {
    local seed grid='wrap=1,2'
    for seed in 1 2; do
        echo $seed >"$WORK/fake/seed"
        : >"$WORK/fake/seen"
        fake "seed $seed" 0 $grid --measure 32 --json
        check "seed $seed: the fastest of all is taken, or the description where it is that" python3 -c 'import json, sys
found = json.load(open(sys.argv[1]))
seen = dict(line.split() for line in open(sys.argv[2]))
ranked = found["ranked"]
assert len(ranked) > 9 and len(seen) == len(ranked), (len(ranked), len(seen))
best, = (c for c in ranked if c["id"] == found["best"])
assert "%.4f" % best["median_seconds"] == min(seen.values()), (best, seen)' "$WORK/fake.out" "$WORK/fake/seen"
    done
    sed '/weights_hash/d' "$WORK/fake.out" >"$WORK/whole" # of this search's own runs only
    rm -f "$WORK/split.wisdom"
    fake 'the first two' 0 $grid --measure 2 --json --wisdom "$WORK/split.wisdom"
    fake 'then the others' 0 $grid --measure 32 --json --wisdom "$WORK/split.wisdom"
    sed '/weights_hash/d' "$WORK/fake.out" >"$WORK/parts"
    check 'find the same' cmp "$WORK/whole" "$WORK/parts"
    rm "$WORK/fake/seed"
}

# no_shard's median is a little less than the description's, and two runs in five are slower. Then one
# in four: five runs do not show that it is faster, and twenty do.
noise() {
    printf '%s\n' 'full_shard 3' 'no_shard 2.9' 'shard_grad_op 4' 'block 5' >"$WORK/fake/times"
    echo no_shard >"$WORK/fake/shaky"
    echo 01001 >"$WORK/fake/slow_runs"
    rm -rf "$WORK/work"
    fake 'a gain within the noise' 0 --measure 2 -o "$WORK/noise.lua"
    check "the two that are close have twenty runs each, the other one five ($(calls))" test "$(calls)" = 45
    check 'is named' grep -q 'strategy=no_shard ran 3.4 % faster: within the spread of the runs' "$WORK/fake.out"
    check 'and the description is kept' grep -q '^best, measured here: as described' "$WORK/fake.out"
    check 'which is what is written' test "$(grep -c '^t\.' "$WORK/noise.lua")" = 1
    rm "$WORK/noise.lua" "$WORK/noise.wisdom"
    echo 0001 >"$WORK/fake/slow_runs"
    rm -rf "$WORK/work"
    fake 'a gain that only more runs show' 0 --measure 1
    check 'counts' grep -q '^best, measured here: strategy=no_shard' "$WORK/fake.out"
    check 'with twenty runs' grep -q '2.9 s x20 ' "$WORK/fake.out"
    rm "$WORK/fake/shaky"
    fake 'without the noise' 0 --measure 1
    check 'the gain counts' grep -q '^best, measured here: strategy=no_shard' "$WORK/fake.out"
    printf '%s\n' 'full_shard 3' 'shard_grad_op 2' 'no_shard 1' 'block 5' >"$WORK/fake/times"
}

failures() {
    echo shard_grad_op >"$WORK/fake/broken"
    fake 'a trainer that fails' 0 --measure 6
    check 'is named' grep -q 'could not be measured: ended with 1: trainer: error: out of luck' "$WORK/fake.out"
    check 'the best is another one' grep -q '^best, measured here: strategy=no_shard' "$WORK/fake.out"
    rm "$WORK/fake/broken"
    echo no_shard >"$WORK/fake/tired"
    rm -rf "$WORK/work"
    fake 'the fastest fails after three runs' 0 --measure 6
    check 'it is not taken' grep -q '^best, measured here: strategy=shard_grad_op' "$WORK/fake.out"
    echo full_shard >"$WORK/fake/tired"
    rm -rf "$WORK/work"
    fake 'the description fails after three runs' 0 --measure 6
    check 'another one is taken' grep -q '^best, measured here: strategy=no_shard' "$WORK/fake.out"
    check 'with no gain over it' test "$(grep -c 'more tokens a second' "$WORK/fake.out")" = 0
    rm "$WORK/fake/tired"
    echo no_shard >"$WORK/fake/wrong"
    fake 'other weights' 70 --measure 6
    check 'are a bug, with both hashes' grep -q 'bug: candidates .* numerics hash .* weights 1*2* and' "$WORK/fake.err"
    rm "$WORK/fake/wrong"
    echo full_shard >"$WORK/fake/fickle"
    rm -rf "$WORK/work"
    PATH=$WORK/bin:$PATH FAKE_DIR=$WORK/fake timeout 900 "$FSDPGEN" tune "$llama" strategy=full_shard recompute=none --set mesh.shard=2 --measure 1 \
        --work "$WORK/work" >"$WORK/fake.out" 2>"$WORK/fake.err"
    check 'a candidate that disagrees with itself' test $? = 70
    check 'is a bug, too' grep -q 'bug: candidates 0 and 0 .* weights 1*1 and 4*4' "$WORK/fake.err"
    rm "$WORK/fake/fickle"
    # 60 minutes pass at once
    echo 'int nanosleep(const void *a, void *b) { (void)a; (void)b; return 0; }' >"$WORK/hurry.c"
    ${CC:-cc} -shared -fPIC -fno-builtin -o "$WORK/hurry.so" "$WORK/hurry.c"
    echo shard_grad_op >"$WORK/fake/slow_build"
    rm -rf "$WORK/work"
    LD_PRELOAD=$WORK/hurry.so fake 'a build without an end' 0 --measure 6
    check 'is named' grep -q 'could not be measured: make took over 60 minutes' "$WORK/fake.out"
    rm "$WORK/fake/slow_build"
    # a folder of another description is in the way of one trainer
    rm -rf "$WORK/work"
    fake 'six trainers' 0 --measure 6
    local one=$(cd "$WORK/work" && grep -l '"no_shard"' */description.lua | head -n 1)
    one=$WORK/work/${one%/*}
    rm -rf "$one" && mkdir "$one" && echo mine >"$one/trainer.c" && echo mine >"$one/Makefile"
    fake 'one cannot be generated' 0 --measure 6
    check 'is named' grep -q 'could not be measured: generate ended with 1' "$WORK/fake.out"
    check 'the best of the others' grep -q '^best, measured here: ' "$WORK/fake.out"
    rm -rf "$WORK/work"
    fake 'wisdom that cannot be written' 1 --measure 2 --wisdom "$WORK/nowhere/x.wisdom" -o "$WORK/full.lua"
    check 'is an error' grep -q 'nowhere/x.wisdom: error: cannot be written' "$WORK/fake.err"
    check 'the table is printed' grep -q '^best, .*: as described' "$WORK/fake.out"
    check 'and the best one written' test -s "$WORK/full.lua"
    : >"$WORK/fake/no_build"
    fake 'make fails' 0 --measure 1
    check 'is named, too' grep -q 'make failed: no such compiler' "$WORK/fake.out"
    check 'what a terminal would obey is shown' grep -qF 'no such compiler\x1b[2J' "$WORK/fake.out"
    check 'and predictions count' grep -q '^best, predicted:' "$WORK/fake.out"
    rm "$WORK/fake/no_build"
}

wisdom() {
    local file=$WORK/kept.wisdom
    rm -f "$file"
    fake 'wisdom' 0 --measure 3 --wisdom "$file"
    local lines=$(wc -l <"$file") first=$(calls)
    check "a line for each run ($lines)" test "$lines" = $((first + 1))
    cp "$WORK/fake.out" "$WORK/first"
    fake 'again' 0 --measure 3 --wisdom "$file"
    check 'nothing is run again' test "$(calls)" = 0
    check 'the same table' cmp "$WORK/first" "$WORK/fake.out"
    head -n 4 "$file" >"$file.cut" && printf '{"description": "12' >>"$file.cut"
    fake 'cut short' 0 --measure 3 --wisdom "$file.cut"
    check 'the others are run' test "$(calls)" = $((first - 3))
    check 'the same table again' cmp "$WORK/first" "$WORK/fake.out"
    sed 's/"machine":"/&another /' "$file" >"$file.other"
    fake 'of another machine' 1 --measure 3 --wisdom "$file.other"
    check 'is refused' grep -q 'other:1:1: error: is of another machine or generator' "$WORK/fake.err"
    OMP_NUM_THREADS=77 fake 'with other threads' 1 --measure 3 --wisdom "$file"
    if command -v taskset >/dev/null 2>&1 && [ "$(nproc)" -gt 1 ]; then
        taskset -cp "$(taskset -cp $BASHPID | sed 's/.*: //; s/[-,].*//')" $BASHPID >"$WORK/cores"
        fake 'on fewer cores' 1 --measure 3 --wisdom "$file"
        taskset -cp "$(sed -n '1s/.*: //p' "$WORK/cores")" $BASHPID >/dev/null
    fi
    head -c 12 "$file" >"$file.head"
    fake 'a head cut short' 0 --measure 3 --wisdom "$file.head"
    fake 'and again' 0 --measure 3 --wisdom "$file.head"
    check 'what was measured then is known' test "$(calls)" = 0
    printf 'no wisdom' >"$file.none"
    fake 'a line without an end' 1 --measure 3 --wisdom "$file.none"
    check 'stays' test "$(cat "$file.none")" = 'no wisdom'
    head -n 3 "$file" | sed 's/"weights":"1/&2/' >"$file.weights"
    cp "$file.weights" "$file.moved"
    fake 'other weights in the file' 70 --measure 3 --wisdom "$file.weights"
    # what another compiler or library ran says nothing here, neither its times nor its weights
    echo feedfacefeedface >"$WORK/fake/platform"
    fake 'of another platform' 0 --measure 3 --wisdom "$file.moved"
    check 'all is run again' test "$(calls)" = "$first"
    check 'and it says why' grep -q "moved: warning: 2 runs of another platform" "$WORK/fake.err"
    fake 'on this one again' 0 --measure 3 --wisdom "$file.moved"
    check 'only its own runs count' test "$(calls)" = 0
    rm "$WORK/fake/platform"
    # an architecture is no field of the description
    mkdir -p "$WORK/edit/arch" && cp "$llama" "$WORK/edit" && cp "$ROOT/models/arch/llama.lua" "$WORK/edit/arch"
    rm -f "$WORK/edit.wisdom"
    model=$WORK/edit/tiny_llama.lua fake 'an architecture' 0 --measure 1 --wisdom "$WORK/edit.wisdom"
    sed -i 's/local residual_std = m.init_std$/& * 2/' "$WORK/edit/arch/llama.lua"
    model=$WORK/edit/tiny_llama.lua fake 'edited' 0 --measure 1 --wisdom "$WORK/edit.wisdom" --work "$WORK/edited"
    check 'all is run again' test "$(calls)" = 10
    echo 'no wisdom' >"$file.none"
    fake 'no wisdom' 1 --measure 3 --wisdom "$file.none"
    check 'and is as it was' test "$(cat "$file.none")" = 'no wisdom'
}

# Stopped while a trainer hangs: what was measured stays, and no process does.
stop_at() { # STRATEGY FLAGS...: whose trainer hangs
    local name=$1 pid i
    shift
    rm -f "$WORK/stop.wisdom"
    echo "$name" >"$WORK/fake/slow"
    export FAKE_DIR=$WORK/fake
    : >"$FAKE_DIR/calls"
    PATH=$WORK/bin:$PATH "$FSDPGEN" tune "$llama" $axes --set mesh.shard=2 --work "$WORK/work" \
        --wisdom "$WORK/stop.wisdom" "$@" >"$WORK/fake.out" 2>"$WORK/fake.err" &
    pid=$!
    for ((i = 0; i < 6000; i++)); do
        grep -q "$name" "$FAKE_DIR/calls" && break
        sleep 0.1
    done
    kill -INT $pid
    wait $pid
    check "$name hangs: a signal ends it" test $? = 130 # 128 + SIGINT
    rm "$WORK/fake/slow"
}
stopped() {
    stop_at no_shard --measure 6
    check "it says where what it knows is" grep -q "stopped; what was measured is in $WORK/stop.wisdom" "$WORK/fake.err"
    check "a table is printed" grep -q '^best' "$WORK/fake.out"
    check "no trainer is left" timeout 60 bash -c "while pgrep -xf 'sleep 1000[.]$$' >/dev/null; do sleep 0.1; done"
    stop_at full_shard --measure 1
    check "another one ran" test "$(wc -l <"$WORK/stop.wisdom")" = 2
    check "the description, which did not run, is kept" grep -q '^best, .*: as described' "$WORK/fake.out"
    check "and why" grep -q 'too few runs to tell' "$WORK/fake.out"
}

# On a terminal a table is redrawn in place, at any width; in a pipe each event has a line.
live() {
    check 'in a pipe: a line for each trainer that is built' test "$(grep -c '^fsdpgen: built [0-9]* of 6: ' "$WORK/lines")" = 6
    check 'and for each run' test "$(grep -cE '^fsdpgen: run [0-9]+ of 30: [0-9.]+ m?s a step: ' "$WORK/lines")" = 30
    check 'the last one' grep -q '^fsdpgen: run 30 of 30: ' "$WORK/lines"
    check 'nothing moves a cursor' bash -c "! grep -q $'[\\033\\r]' '$WORK/lines'"
    rm -rf "$WORK/again" && fake 'other steps in the same folder' 0 --measure 1 --steps 2 --work "$WORK/again"
    fake 'and again' 0 --measure 1 --steps 3 --work "$WORK/again"
    command -v tmux >/dev/null 2>&1 || { echo "skipped: the terminal (no tmux)"; return; }
    on_a_terminal
}

tm() { tmux -L "fsdpgen-tune-$$" -f /dev/null "$@"; }
shown() { tm capture-pane -p -t x | sed 's/ *$//' | grep -v '^$'; }
seen() { # PATTERN: comes to stand on the screen
    local i
    for ((i = 0; i < 1200; i++)); do
        shown | grep -qE -- "$1" && return 0
        sleep 0.1
    done
    shown >&2
    return 1
}
table_is() { # COLUMNS: once, with all candidates and one that runs, the fastest first, within the width
    shown >"$WORK/shown"
    test "$(grep -c '^running [0-9]* of 30; ' "$WORK/shown")" = 1 &&
        test "$(grep -c '^ *a step .*what ' "$WORK/shown")" = 1 &&
        test "$(sed '1,/^ *a step/d' "$WORK/shown" | wc -l)" = 6 &&
        test "$(grep -c '^>  *- ' "$WORK/shown")" = 1 &&
        sed '1,/^ *a step/d' "$WORK/shown" | grep -oE '^  +[0-9.]+ s x1' | awk '{ print $1 }' | sort -nc &&
        ! awk -v most="$1" 'length($0) >= most { long = 1 } END { exit !long }' "$WORK/shown"
}
few_rows() { # drawn for 7 rows, 6 of which it takes: what runs, and the first of the table
    shown >"$WORK/shown"
    test "$(grep -c '^running' "$WORK/shown")" = 1 -a "$(wc -l <"$WORK/shown")" -le 6 &&
        test "$(grep -c '^running\|x1 \|^> ' "$WORK/shown")" -ge 4
}
drawn() { # COMMAND...: comes to succeed, as the table is drawn again about every second
    comes "$@" || { shown >&2; false; }
}
on_a_terminal() {
    local file=$WORK/live.wisdom columns
    rm -f "$file"
    echo shard_grad_op >"$WORK/fake/slow"
    tm new-session -d -s x -x 90 -y 24 "env FAKE_DIR='$WORK/fake' PATH='$WORK/bin:$PATH' PS1='$ ' bash --noprofile --norc -i"
    tm send-keys -t x "clear; $FSDPGEN tune $llama $axes --set mesh.shard=2 --work $WORK/work --measure 6 --wisdom $file" \
        "; echo over \$?" Enter
    check 'a table comes' seen '^running 4 of 30'
    check '90 columns: all in it' drawn table_is 90
    for columns in 40 60 30; do
        tm resize-window -t x -x $columns
        check "$columns columns: once, and it fits" drawn table_is $columns
    done
    check '30 columns: no rates' test "$(shown | grep -c tokens/s)" = 0
    tm resize-window -t x -x 90 -y 7
    check '7 rows: the first ones' drawn few_rows
    tm resize-window -t x -x 90 -y 40
    tm send-keys -t x C-c
    check 'Ctrl-C ends it' seen '^over 130$'
    check 'it says how to go on' seen '^fsdpgen: stopped; what was measured is in '
    check 'the result stands there' seen '^best, measured here: '
    check 'nothing of the table is left' test "$(shown | grep -c '^running\|^building\|^> ')" = 0
    local kept=$(($(wc -l <"$file") - 1))
    check "its runs are kept ($kept)" test "$kept" = 3
    rm "$WORK/fake/slow"
    : >"$WORK/fake/calls"
    tm send-keys -t x "clear; $FSDPGEN tune $llama $axes --set mesh.shard=2 --work $WORK/work --measure 6 --wisdom $file" \
        "; echo over \$?" Enter
    check 'the same command' seen '^over 0$'
    check 'runs only what is missing' test "$(calls)" = $((30 - kept))
    tm kill-server
}

# ---- measured, in earnest --------------------------------------------------------------------------

earnest() {
    TMPDIR=$WORK tune "$llama" strategy=full_shard,shard_grad_op --set mesh.shard=2 --measure 2 --steps 2 --minutes 1 \
        --json >"$WORK/earnest.json" 2>"$WORK/earnest.err"
    check 'real trainers' test $? = 0
    check 'have equal weights' test "$(grep -o '"weights_hash": "[0-9a-f]*"' "$WORK/earnest.json" | sort -u | wc -l)" = 1
    check 'both of them' test "$(grep -c '"weights_hash": "' "$WORK/earnest.json")" = 2
    check 'their folder is removed' test -z "$(find "$WORK" -maxdepth 1 -name 'fsdpgen-tune-*')"
}

part words words
part plans plans
part shared shared
part grid turn 2 3 grid
part sizes sizes
part override override
part measured measured
part exhaustive:measured turn 1 3 exhaustive
part noise:measured noise
part failures:measured failures
part wisdom:measured wisdom
part stopped:measured stopped
part live:measured live
part earnest turn 1 4 earnest
finish
