//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- kernels.cu: the kernels alone; kernels.c launches them.
/* SPDX-License-Identifier: MIT-0 */
/* kernels.cu: the kernels of ${name}, each one op on one set of shapes, dtypes and constants.
 * kernels.c launches them.
 *
 * Every sum is taken in an order that shapes fix, and every named value is rounded to its dtype
 * where it is defined; so bits depend neither on timing nor on what is fused. No header of the
 * toolkit is read: nvcc, or the trainer itself when it starts, compiles the same text.
 *
 * ${generated}
 * ${regenerate} */
#define ${reduce_dtype}_SUMS /* what gradients are summed in */
#include "rt_device.h"
#include "rt_kernels.h" /* the runtime's own: sums, norms */
//@ if scales_buffer then
#define ${param_dtype}_WEIGHTS
#include "rt_fp8_kernels.h" /* and codes of weights */
//@ end
//@ local included = {}
//@ for _, k in ipairs(kernels) do
//@ for line in string.gmatch("\n" .. k.text, "\n(#include [^\n]+)") do
//@ if not included[line] then
${line}
//@ included[line] = true
//@ end
//@ end
//@ end

${section("kernels")}

/* Never launched: by its name kernels.c finds that these kernels are of its generation. */
RT_GLOBAL(32)
math_${math_identity}(void)
{
}
//@ for _, k in ipairs(kernels) do
//@ if string.find(k.text, "%S") then

/* ${k.op}: ${ctext(k.doc or "")}
//@ if k.operands then
${(string.gsub(call(" * ", k.operands, " */"), "\n  ", "\n *"))}
//@ else
 * On a run of elements of one parameter. */
//@ end
//@ local text = align_headings(string.gsub("\n" .. k.text, "\n#include [^\n]+", ""))
//@ put((string.gsub(string.gsub(text, "^\n+", ""), "\n+$", "\n")))
//@ end
//@ end
