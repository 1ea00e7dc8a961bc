# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the largest model.

largest=$ROOT/models/llama405b.lua
cpu=$( { TIMEFORMAT='%U %S'; time "$FSDPGEN" "$largest" -o "$WORK/405b" --target cpu \
         >"$WORK/gen.log" 2>&1; } 2>&1)
check "llama405b is generated" test -s "$WORK/405b/step.c"
check "llama405b: under 2 MB without the runtime" sh -c \
    "test \$(du -sb --exclude=runtime '$WORK/405b' | cut -f1) -lt 2000000"
echo "figure: llama405b is generated in $cpu s of processor, user and system"
for file in trainer step bind math kernels tables; do
    check "llama405b: $file.c compiles without a warning" \
        gcc $strict -I"$WORK/405b/runtime" "$WORK/405b/$file.c"
done

# More than 2^31 elements in the sums of a head's keys and values: no size is an int.
check "2^20 tokens and a head of 1024 are generated" "$FSDPGEN" "$ROOT/tests/models/tiny_llama.lua" \
    --set seq=1048576 --set micro_batch=1 --set model.dim=1024 --set model.heads=1 \
    --set model.head_dim=1024 -o "$WORK/long"
check "2^20 tokens and a head of 1024: kernels.c compiles without a warning" \
    gcc $strict -I"$WORK/long/runtime" "$WORK/long/kernels.c"
