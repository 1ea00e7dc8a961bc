/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.c: computes the matrices that an optimizer treats as a whole. In: those of a
 * batch that this rank owns, gathered by rt_owners.c. Out: in the same place, the result
 * of the matrix kernel for each; rt_owners.c takes it back. */
#include "cpu/rt_cpu.h"
#include "state/rt_matrix.h"

/* Reads the whole matrix: at its owner, who has gathered it, or among the directions if
 * each rank holds all of its segment. */
void rt_compute_matrices(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices && !rt->state->skip; i++) {
        const RtPlace p = rt_place_of(t, b, i);
        char *direction = rt_symmetric(rt, rt_held_at(t, &p, 0, 0));
        char *owned = rt_symmetric(rt, rt_owned_at(t, b, &p, 0));
        if (p.matrix->owner == rt->rank) {
            p.matrix->kernel(p.segment->shards > 1 ? owned : direction,
                             rt->world_size > 1 ? owned : direction,
                             rt_local(rt, b->workspace));
        }
    }
}
