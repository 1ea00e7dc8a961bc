# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: one more layer adds its own lines to step.c and changes no other one, so that
# a diff of two committed trainers can be read.
layer_of() { # LAYERS FOLDER
    "$FSDPGEN" "$ROOT/models/llama8b.lua" --set model.layers="$1" -o "$2" >"$WORK/layer.log" 2>&1
}
layer_lines() { # FOLDER: step.c without hashes and counts of the whole
    grep -v 'IDENTITY\|_[0-9a-f]\{16\}' "$1/step.c"
}

check "llama8b of 32 layers" layer_of 32 "$WORK/layers.32"
check "and of 33" layer_of 33 "$WORK/layers.33"
layer_lines "$WORK/layers.32" >"$WORK/layer.a"
layer_lines "$WORK/layers.33" >"$WORK/layer.b"
layer_changed=$(diff "$WORK/layer.a" "$WORK/layer.b" | grep -c '^[<>]')
check "a layer more changes at most 80 lines of step.c, not $layer_changed" \
    test "$layer_changed" -le 80 -a "$layer_changed" -ge 30

# The step is read from its top: trainer_step, then what it calls; pointers are bind.c's.
step_first() { # FOLDER
    test "$(grep -B1 '^{' "$1/step.c" | head -n 1)" = "void trainer_step(Rt *rt)"
}
check "step.c begins with trainer_step" step_first "$WORK/layers.32"
check "math.c has no kernel" sh -c \
    "! grep -n '^RtKernel\|^static\|^rt_\|rt_launch' '$WORK/layers.32/math.c' && grep -q '^void linear_' '$WORK/layers.32/kernels.c'"
check "step.c makes no pointers, bind.c does" sh -c \
    "! grep -n 'rt_local\|rt_symmetric' '$WORK/layers.32/step.c' && grep -q rt_local '$WORK/layers.32/bind.c'"
check "plan.txt has like units on one line" test "$(grep -c 'layers\.0 .. layers\.31, 32 units  *6 param' \
    "$WORK/layers.32/plan.txt")$(sed -n '/^units:/,/^  padding/p' "$WORK/layers.32/plan.txt" | wc -l)" = 15
for word in unit segment span class leaf round merge saved; do
    check "the README says what a $word is" grep -q "^| $word | [a-z]" "$WORK/layers.32/README.md"
done
