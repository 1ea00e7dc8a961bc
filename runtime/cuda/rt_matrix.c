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

void rt_copy_rows(Rt *rt, RtRows to, RtRows from, int64_t row_bytes, int64_t rows)
{
    RT_CUDA_CALL(rt, cudaMemcpy2DAsync(to.at, (size_t)to.pitch_bytes, from.at,
                                       (size_t)from.pitch_bytes, (size_t)row_bytes,
                                       (size_t)rows, cudaMemcpyDeviceToDevice,
                                       rt_gpu.stream[RT_COMPUTE]));
}

void rt_compute_matrices(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices; i++) {
        const RtMatrix *m = &t->matrices[b->first_matrix + i];
        if (m->owner != rt->rank)
            continue;
        char *from = rt_matrix_open(rt, b, m);
        m->kernel(rt, from, rt_matrix_result(rt, b, m, from), rt_local(rt, b->workspace));
        rt_matrix_close(rt, b, m);
    }
}
