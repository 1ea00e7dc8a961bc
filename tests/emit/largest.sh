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
