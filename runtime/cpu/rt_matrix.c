/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.c: computes the matrices that an optimizer treats as a whole. In: those of a
 * batch that this rank owns, gathered by rt_owners.c. Out: in the same place, the result
 * of the matrix kernel for each; rt_owners.c takes it back. */
#include "cpu/rt_cpu.h"
#include "state/rt_matrix.h"

#include <string.h>

void rt_copy_rows(Rt *rt, RtRows to, RtRows from, int64_t row_bytes, int64_t rows)
{
    (void)rt;
#pragma omp parallel for schedule(static) if (rows * row_bytes > 256 * 1024)
    for (int64_t i = 0; i < rows; i++)
        memcpy(to.at + i * to.pitch_bytes, from.at + i * from.pitch_bytes,
               (size_t)row_bytes);
}

void rt_compute_matrices(Rt *rt, int batch)
{
    const RtTrainer *t = rt->trainer;
    const RtBatch *b = &t->batches[batch];
    for (int i = 0; i < b->n_matrices && !rt->state->skip; i++) {
        const RtMatrix *m = &t->matrices[b->first_matrix + i];
        if (m->owner != rt->rank)
            continue;
        char *from = rt_matrix_open(rt, b, m);
        m->kernel(from, rt_matrix_result(rt, b, m, from), rt_local(rt, b->workspace));
        rt_matrix_close(rt, b, m);
    }
}
