/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.c: matrices that an optimizer treats whole, where they are computed. In:
 * those of a batch that this rank owns, which rt_owners.c has brought here. Out: in the
 * same place, what the matrix kernel made of each; rt_owners.c takes it back.
 *
 * The host does not know whether the update is to be skipped. Then the kernels before and
 * after, which write moments and weights, leave them; what is computed between them, of
 * whatever lies here, nobody reads. */
#include "cuda/rt_gpu.h"
#include "state/rt_matrix.h"

/* From where the matrix lies whole: at its owner, who has gathered it, or, where each
 * rank holds all of its segment, among the directions. */
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
