//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- math.c: each distinct span once.
/* SPDX-License-Identifier: MIT-0 */
/* math.c: the mathematics of ${name}: each distinct span once, one kernel per line.
 *
 * ${generated}
 * ${regenerate} */
#include "math.h"

#if MATH_IDENTITY != 0x${math_identity}
#error "math.c, math.h and kernels.h come from different generations: run fsdpgen again"
#endif

${section("once, at start")}

void math_prepare(void)
{
    kernels_prepare();
}

//@ if setup then
${section("constants")}

//@ put(span_function(setup, "void "))

//@ end
${section("spans")}

//@ for i, s in ipairs(spans) do
//@ if i > 1 then

//@ end
/* ${s.class} ${s.phase}: ${s.flops}FLOP, ${s.traffic} of operands read and written once${s.scratch_bytes > 0 and ";" or ". */"}
//@ if s.scratch_bytes > 0 then
 * scratch ${s.scratch_bytes} bytes.${in_parts and " The figures are of one part." or ""} */
//@ end
//@ put(span_function(s, "void "))
//@ end
