# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: plan --kernels --image, by images made here (image.py); tests/cuda compares with
# real ones. What is no image of these kernels is refused, whatever its bytes are.

model=$ROOT/models/gpt2_124m.lua
compiled() { # ARGUMENT...: sorted "name registers shared stack threads" of all rows
    "$FSDPGEN" plan "$model" --target cuda --kernels --json "$@" 2>"$WORK/err" | python3 -c '
import json, sys
for row in json.load(sys.stdin)["kernels"]["rows"]:
    for k in row["compiled"]:
        print(k["name"], k["registers"], k["shared_bytes"], k["stack_bytes"], k.get("threads", 0))' | sort -u
}
image_refused() { # NAME PATTERN ARGUMENT...
    local name=$1 pattern=$2
    shift 2
    "$FSDPGEN" plan "$model" --target cuda --kernels "$@" >"$WORK/out" 2>"$WORK/err"
    check "--image, $name: refused" test $? = 1 -a ! -s "$WORK/out"
    check "--image, $name: $pattern" grep -q -- "$pattern" "$WORK/err"
}

"$FSDPGEN" "$model" -o "$WORK/imaged" --target cuda >"$WORK/out" 2>&1
for kind in '' reserved; do
    python3 "$here/image.py" "$WORK/imaged/kernels.c" "$WORK/image.cubin" $kind | sort >"$WORK/want"
    compiled --image "$WORK/image.cubin" >"$WORK/have"
    # all but those of other steps: evaluation, start
    check "--image: each kernel of a step, as in the image $kind" test -z "$(comm -13 "$WORK/want" "$WORK/have")" \
        -a "$(wc -l <"$WORK/have")" -ge 20
done
check "--image: what launches add, threads" test "$(awk '$3 > 50000 && $5 == 128' "$WORK/have" | wc -l)" -ge 1
"$FSDPGEN" plan "$model" --target cuda --kernels --image "$WORK/image.cubin" >"$WORK/out" 2>"$WORK/err"
check "--image: the table has the most of a row's kernels" test "$(awk '$1 == "attention_bwd" { print $9, $10 }' "$WORK/out")" = \
    "$(awk '/^attention_bwd/ { if ($2 > r) r = $2; if ($3 > s) s = $3 } END { print r, s }' "$WORK/have")"
check "--image: and what spills" test "$(grep -c ' bytes of each thread in memory$' "$WORK/out")" = \
    "$(awk '$4 > 0' "$WORK/want" | wc -l)"
check "--image: the table is as without it otherwise" diff \
    <(grep -v 'registers of a thread\|of each thread' "$WORK/out" | cut -c1-70) \
    <("$FSDPGEN" plan "$model" --target cuda --kernels 2>"$WORK/err" | cut -c1-70)
"$FSDPGEN" plan "$model" --target cuda --kernels --image "$WORK/image.cubin" --set 'target.memory="5GiB"' \
    >"$WORK/large" 2>"$WORK/err"
check "--image: of a plan over the budget, too" test $? = 3
check "--image: the same table" cmp "$WORK/out" "$WORK/large"
check "--image: writes nothing else" test -z "$(cd "$WORK" && "$FSDPGEN" plan "$model" --target cuda --kernels \
    --image "$WORK/image.cubin" --html "$WORK/imaged.html" 2>&1 >"$WORK/out" | grep -v 'warning\|help\| | ')" \
    -a -s "$WORK/imaged.html"

image_refused 'of another shape' 'holds the kernels of another description' --image "$WORK/image.cubin" --set seq=512
image_refused 'no file' 'no/image: error: cannot be read: there is no such file' --image no/image
image_refused 'a folder' 'cannot be read: it is a folder' --image "$WORK"
image_refused 'a text' 'is not an image of compiled kernels' --image "$model"
image_refused 'of a processor' 'is not an image of compiled kernels' --image "$FSDPGEN"
"$FSDPGEN" plan "$model" --kernels --image "$WORK/image.cubin" --target cpu >"$WORK/out" 2>"$WORK/err"
check "--image, of the CPU" grep -q 'kernels are compiled to images for cuda, and the target is cpu' "$WORK/err"
"$FSDPGEN" plan "$model" --image "$WORK/image.cubin" --target cuda >"$WORK/out" 2>"$WORK/err"
check "--image, without --kernels" test $? = 2
# a kernel's name that a terminal would obey; a size that no block has (one of the last section)
sed 's/attention_bwd/attention\x1b[1m/' "$WORK/image.cubin" >"$WORK/bad.cubin"
image_refused 'a name with an escape' 'is cut short, or not an image' --image "$WORK/bad.cubin"
python3 -c 'import struct, sys
b = bytearray(open(sys.argv[1], "rb").read())
b[-32:-24] = struct.pack("<Q", 1 << 63)
open(sys.argv[2], "wb").write(b)' "$WORK/image.cubin" "$WORK/bad.cubin"
image_refused 'a size of 2^63' 'is cut short, or not an image' --image "$WORK/bad.cubin"
python3 "$here/image.py" "$WORK/imaged/kernels.c" "$WORK/bad.cubin" '' 5000 >"$WORK/want"
image_refused '5000 kernels' 'is cut short, or not an image' --image "$WORK/bad.cubin"
bytes=$(wc -c <"$WORK/image.cubin")
head -c "$((bytes - 1))" "$WORK/image.cubin" >"$WORK/bad.cubin" # a field of the last section that plan has no use for
image_refused 'without its last byte' 'is cut short, or not an image' --image "$WORK/bad.cubin"
for k in 1 2 3 4 5 6; do # cut; then a byte of it, or of its head, is another one
    random "$bytes"
    head -c "$random_value" "$WORK/image.cubin" >"$WORK/bad.cubin"
    image_refused "cut at $random_value" 'is cut short\|not an image\|how many registers\|cannot be read' --image "$WORK/bad.cubin"
    python3 -c 'import random, sys
b = bytearray(open(sys.argv[1], "rb").read())
rng = random.Random(sys.argv[3])
for _ in range(3):
    b[rng.randrange(16, 64) if rng.random() < 0.5 else rng.randrange(len(b))] = rng.randrange(256)
open(sys.argv[2], "wb").write(b)' "$WORK/image.cubin" "$WORK/bad.cubin" "$SEED.$k"
    "$FSDPGEN" plan "$model" --target cuda --kernels --image "$WORK/bad.cubin" >"$WORK/out" 2>"$WORK/err"
    code=$?
    check "--image, bytes changed by seed $SEED.$k: taken or refused" test $code = 0 -o $code = 1
done
