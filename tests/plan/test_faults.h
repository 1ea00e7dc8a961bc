/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults.h: shared by the plants of faults. A plant damages a plan, and returns false
 * where this model has no place for the fault. */
#ifndef TEST_FAULTS_H
#define TEST_FAULTS_H

#include "test_plan.h"

int choose(uint64_t *r, int n); /* one of n; -1 where n is 0 */
Instr *find_ins(Gen *g, uint64_t *r, InsKind kind);
Instr *find_recompute(Gen *g, uint64_t *r);

/* Of an instruction of the first kind, for one of the other. */
bool drop_wait(Gen *g, uint64_t *r, InsKind of, InsKind on);

bool plant_param_overlap(Gen *g, uint64_t *r);
bool plant_param_off_grain(Gen *g, uint64_t *r);
bool plant_unequal_shards(Gen *g, uint64_t *r);
bool plant_param_lost(Gen *g, uint64_t *r);
bool plant_frozen(Gen *g, uint64_t *r);
bool plant_other_dtype(Gen *g, uint64_t *r);
bool plant_one_key(Gen *g, uint64_t *r);
bool plant_cut_along_data(Gen *g, uint64_t *r);
bool plant_half_held(Gen *g, uint64_t *r);
bool plant_copies_mixed(Gen *g, uint64_t *r);
bool plant_param_twice(Gen *g, uint64_t *r);
bool plant_other_segment(Gen *g, uint64_t *r);
bool plant_larger_shards(Gen *g, uint64_t *r);

bool plant_other_codes(Gen *g, uint64_t *r);
bool plant_gathered_weights(Gen *g, uint64_t *r);
bool plant_bound_weights(Gen *g, uint64_t *r);
bool plant_codes_early(Gen *g, uint64_t *r);
bool plant_codes_lost(Gen *g, uint64_t *r);
bool plant_codes_of_before(Gen *g, uint64_t *r);
bool plant_not_shared(Gen *g, uint64_t *r);
bool plant_shared_early(Gen *g, uint64_t *r);
bool plant_not_closed(Gen *g, uint64_t *r);

bool plant_saved_twice(Gen *g, uint64_t *r);
bool plant_scratch_on_saved(Gen *g, uint64_t *r);
bool plant_dropped_on_boundary(Gen *g, uint64_t *r);
bool plant_on_persistent(Gen *g, uint64_t *r);
bool plant_grad_under_peers(Gen *g, uint64_t *r);
bool plant_misaligned(Gen *g, uint64_t *r);
bool plant_outside(Gen *g, uint64_t *r);

bool plant_first_adds(Gen *g, uint64_t *r);
bool plant_later_stores(Gen *g, uint64_t *r);
bool plant_span_access_lost(Gen *g, uint64_t *r);
bool plant_span_access_other(Gen *g, uint64_t *r);
bool plant_span_peers(Gen *g, uint64_t *r);
bool plant_other_scratch(Gen *g, uint64_t *r);
bool plant_grad_from_elsewhere(Gen *g, uint64_t *r);
bool plant_weights_of_gradient(Gen *g, uint64_t *r);

bool plant_less_state(Gen *g, uint64_t *r);
bool plant_less_gathered(Gen *g, uint64_t *r);
bool plant_less_shared(Gen *g, uint64_t *r);
bool plant_less_levels(Gen *g, uint64_t *r);
bool plant_more_rounds(Gen *g, uint64_t *r);
bool plant_more_micro_batches(Gen *g, uint64_t *r);
bool plant_state_in_passing(Gen *g, uint64_t *r);
bool plant_peers_at_local(Gen *g, uint64_t *r);
bool plant_more_elems(Gen *g, uint64_t *r);
bool plant_waits_alone(Gen *g, uint64_t *r);
bool plant_long_waits(Gen *g, uint64_t *r);
bool plant_moved_dtype(Gen *g, uint64_t *r);
bool plant_moved_less(Gen *g, uint64_t *r);

#endif
