//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- kernels.c: each kernel, or on CUDA its launch, once.
/* SPDX-License-Identifier: MIT-0 */
//@ if cuda then
/* kernels.c: launches of the kernels of kernels.cu, for the mathematics of ${name}.
 *
 * A launch is one op on one set of shapes, dtypes and constants. It enqueues on the
 * rank's compute stream and returns at once. Pointers are to device memory.
//@ else
/* kernels.c: the kernels of ${name}, for its mathematics.
 *
 * A kernel is one op on one set of shapes, dtypes and constants. One thread computes
 * every element of a result in a fixed order, and every named value is rounded to its
 * dtype where it is defined. So bits depend neither on the number of threads nor on what
 * is fused.
//@ end
 *
 * ${generated}
 * ${regenerate} */
#include "kernels.h"
//@ if cuda then
#include "rt_cuda.h"
//@ end
//@ local included = {}
//@ for _, k in ipairs(kernels) do
//@ for line in string.gmatch("\n" .. (k.host or k.text), "\n(#include [^\n]+)") do
//@ if not included[line] then
${line}
//@ included[line] = true
//@ end
//@ end
//@ end

#include <stddef.h>
#include <string.h>

#if MATH_IDENTITY != 0x${math_identity}
#error "kernels.c and kernels.h come from different generations: run fsdpgen again"
#endif

${section(cuda and "launches" or "kernels")}

//@ for _, k in ipairs(kernels) do
/* ${k.op}: ${ctext(k.doc or "")}
//@ if k.operands then
${(string.gsub(call(" * ", k.operands, " */"), "\n  ", "\n *"))}
//@ else
 * On a run of elements of one parameter; called by the runtime. */
//@ end
//@ local text = string.gsub((k.operands or k.shared) and kernel_shared(k) or "\n" .. (k.host or k.text), "\n#include [^\n]+\n*", "\n")
//@ put((string.gsub(align_calls(align_headings(text)), "^\n+", "")))

//@ end
const RtUpdateKernel optimizer_update = ${optimizer};
//@ if matrix_update then
const RtUpdateKernel matrix_momentum = ${matrix_momentum};
const RtUpdateKernel matrix_update = ${matrix_update};
//@ end

${section("once, at start")}

void kernels_prepare(void)
{
//@ if cuda then
    rt_kernels_check("math_${math_identity}");
//@ end
//@ for _, statement in ipairs(prepared) do
    ${statement}
//@ end
}
