# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: every shipped model.

for model in "$ROOT"/models/*.lua; do
    name=$(basename "$model" .lua)
    [ "$name" = fsdpgen ] && continue
    check "$name: graph, grad, fuse, span hold their invariants" \
        "$FSDPGEN" "$model" --dump=span
done

# A product of 2^67 flops, more than Lua's integers hold.
huge() {
    "$FSDPGEN" "$ROOT/tests/models/tiny_llama.lua" --dump=graph --set model.dim=1048576 --set model.ffn=4194304 \
        --set model.heads=64 --set model.kv_heads=64 --set model.head_dim=128 --set seq=1048576 --set micro_batch=8 \
        >"$WORK/huge" 2>&1
    grep -q 'flops 147573952589676412928$' "$WORK/huge" || { head -n 3 "$WORK/huge"; return 1; }
}
check "flops of a huge product do not wrap" huge

# An op's name in C would be a rule that does not live in its folder. Names that are also words
# (add, bias, embed, linear, an optimizer's) cannot be searched for; what other programs call
# an activation (gen/hf) is their word, and so are the classes of kernels in files and fields of rates.
names=$(ls "$ROOT/templates/ops" | grep _ | tr '\n' '|')
grep -nE "(${names}rmsnorm|layernorm|swiglu|gelu|colsum|conv1d)" "$ROOT"/gen/*/*.c |
    grep -v -e '/gen/hf/' -e 'rates\.' >"$WORK/names"
check "no op's name in gen/" test ! -s "$WORK/names"

# 126 layers, every pass up to span: processor time, the best of three. A figure, not a check: a busy
# machine shares its cores.
best=1000000
TIMEFORMAT='%U %S'
for _ in 1 2 3; do
    { time "$FSDPGEN" "$ROOT/models/llama405b.lua" --dump=span >/dev/null 2>&1; } 2>"$WORK/time"
    ms=$(awk '{ printf "%d", ($1 + $2) * 1000 }' "$WORK/time")
    [ "$ms" -lt "$best" ] && best=$ms
done
echo "figure: llama405b to span: $best ms of a processor"
