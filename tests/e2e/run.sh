#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Generates, builds and runs whole trainers: equal bits over every choice outside the
# hash, work really divided, ops and architectures from outside, published numbers of
# parameters. FULL=1 takes a larger sample.
set -u
. "$(dirname "$0")/../lib.sh"
quick_builds=1
. "$ROOT/tests/e2e/common.sh"
. "$ROOT/tests/e2e/param_counts.sh"
. "$ROOT/tests/e2e/equal_bits.sh"
. "$ROOT/tests/e2e/divided.sh"
. "$ROOT/tests/e2e/resident.sh"
. "$ROOT/tests/e2e/precision.sh"
. "$ROOT/tests/e2e/frozen.sh"
. "$ROOT/tests/e2e/outside.sh"
. "$ROOT/tests/e2e/chains.sh"
. "$ROOT/tests/e2e/library.sh"
. "$ROOT/tests/e2e/two_hops.sh"
. "$ROOT/tests/e2e/shipped.sh"
. "$ROOT/tests/e2e/loss.sh"
. "$ROOT/tests/e2e/evaluate.sh"
. "$ROOT/tests/e2e/sft.sh"
. "$ROOT/tests/e2e/new_rows.sh"
. "$ROOT/tests/e2e/calibrate.sh"
. "$ROOT/tests/e2e/planted.sh"
. "$ROOT/tests/e2e/parts.sh"
. "$ROOT/tests/e2e/meets.sh"

data=$ROOT/LICENSE # English text, there on every machine; a byte is a token

equal_bits_suite() {
    if [ "$FULL" = 1 ]; then
        equal_bits_products "1 2 3 4 5 6 7 8"
        equal_bits 25 equal_bits_models equal_bits_choices # of each model; tests/matrix has every pair of choices
    else
        turn 1 2 equal_bits_products
        equal_bits 2 equal_bits_models equal_bits_choices
    fi
}

both_axes_suite() {
    equal_bits $([ "$FULL" = 1 ] && echo 25 || echo 1) both_axes_models both_axes_choices
}

part calibrate calibrate
part param_counts param_counts
part shipped shipped
part outside_user outside_user
part outside_examples outside_examples
part outside_formulas turn 1 2 outside_formulas
part chains turn 0 2 chains
part outside_optimizer outside_optimizer
part outside_optimizer_rules outside_optimizer_rules
part outside_optimizer_copies outside_optimizer_copies
part outside_optimizer_matrices turn 0 2 outside_optimizer_matrices
part outside_moved_ops outside_moved_ops
part outside_builtin outside_builtin
part outside_platform turn 1 2 outside_platform
part outside_allocations outside_allocations
part divided divided
part resident resident
part library turn 1 2 library
part two_hops turn 1 2 two_hops
part precision turn 1 2 precision
part precision_split turn 0 3 precision_split
part precision_overflow turn 1 3 precision_overflow
part loss_text loss_text
part loss_masks:loss_text loss_masks
part loss_hashes:loss_masks loss_hashes
part frozen turn 2 3 frozen
part loss_packed:loss_text turn 1 2 loss_packed
part evaluate turn 2 4 evaluate
part fine_tuning turn 0 2 fine_tuning
part new_rows turn 1 2 new_rows
part planted_numbers planted_numbers
part parts turn 0 2 parts_suite
part meets turn 1 4 meets
part both_axes turn 1 2 both_axes_suite
part equal_bits equal_bits_suite
finish
