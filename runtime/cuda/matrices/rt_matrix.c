/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.c: computes the matrices that an optimizer treats as a whole. In: those of a
 * batch that this rank owns, gathered by rt_owners.c. Out: in the same place, the result
 * of the matrix kernel for each; rt_owners.c takes it back.
 *
 * The host does not know whether the update is to be skipped. If it is, the kernels
 * before and after do not write moments and weights, and the results computed between
 * them are ignored. */
#include "cuda/rt_gpu.h"
#include "state/rt_matrix.h"

/* Reads the whole matrix: at its owner, who has gathered it, or among the directions if
 * each rank holds all of its segment. */
void rt_compute_matrices(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices; i++) {
        const RtPlace p = rt_place_of(t, b, i);
        char *direction = rt_symmetric(rt, rt_held_at(t, &p, 0, 0));
        char *owned = rt_symmetric(rt, rt_owned_at(t, b, &p, 0));
        if (p.matrix->owner == rt->rank) {
            p.matrix->kernel(rt, p.segment->shards > 1 ? owned : direction,
                             rt->world_size > 1 ? owned : direction,
                             rt_local(rt, b->workspace));
        }
    }
}
