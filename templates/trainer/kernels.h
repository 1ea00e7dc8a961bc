//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- kernels.h: a prototype for each kernel.
/* SPDX-License-Identifier: MIT-0 */
/* kernels.h: the kernels of ${name}, each one op on one set of shapes, dtypes and constants.
 * The spans of math.c call them, and so does bind.c to compute values again.
 *
 * ${generated}
 * ${regenerate} */
#ifndef TRAINER_KERNELS_H
#define TRAINER_KERNELS_H

#include "rt.h"

/* The hash of the mathematics: kernels.h, kernels.c, ${cuda and "kernels.cu, " or ""}math.h and
 * math.c. Files of other mathematics neither compile nor link with these. */
#define MATH_IDENTITY 0x${math_identity}
#define kernels_prepare kernels_prepare_${math_identity}

/* What the library of products needs before the first step. */
void kernels_prepare(void);

//@ for _, k in ipairs(kernels) do
//@ if k.operands and not k.shared then
${kernel_prototype(k)}
//@ end
//@ end

//@ if matrix_update then
/* On a run of elements: optimizer_update for parameters that are not matrices; for a matrix,
 * matrix_momentum before the whole is computed, and matrix_update after. */
extern const RtUpdateKernel optimizer_update, matrix_momentum, matrix_update;

/* On a whole matrix, one per shape. */
//@ for _, k in ipairs(kernels) do
//@ if k.shared then
${kernel_prototype(k)}
//@ end
//@ end
//@ else
/* The optimizer, on a run of elements of one parameter. */
extern const RtUpdateKernel optimizer_update;
//@ end

#endif
