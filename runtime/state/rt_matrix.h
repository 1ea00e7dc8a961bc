/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.h: matrices that an optimizer treats as a whole, at their owners (rt_owners.c). In:
 * tables of matrices, parameters, segments. Out: where rt_matrix.c of both targets finds a whole
 * matrix, and leaves the result. */
#ifndef RT_MATRIX_H
#define RT_MATRIX_H

#include "state/rt_state.h"

/* The matrix, row after row: where it was gathered, or where this rank has all of it. If it is stored
 * as boxes, this copies them side by side. */
char *rt_matrix_open(Rt *rt, const RtBatch *b, const RtMatrix *m);
/* Where its kernel writes the result of what rt_matrix_open returned. */
char *rt_matrix_result(Rt *rt, const RtBatch *b, const RtMatrix *m, char *open);
/* Copies the result back into boxes, if the matrix is stored as boxes. */
void rt_matrix_close(Rt *rt, const RtBatch *b, const RtMatrix *m);

#endif
