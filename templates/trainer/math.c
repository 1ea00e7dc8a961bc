//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- math.c: kernels first, then each distinct span once.
/* SPDX-License-Identifier: MIT-0 */
/* math.c: the mathematics of ${name}: kernels first, then each distinct span once.
 *
 * A kernel is one op on one set of shapes, dtypes and constants. Every element of a result is
 * computed by one thread in a fixed order, and every named value is rounded to its dtype where
 * it is defined; so bits depend neither on the number of threads nor on what is fused.
 *
 * ${generated}
 * ${regenerate} */
#include "math.h"
//@ local included = {}
//@ for _, k in ipairs(kernels) do
//@ for line in string.gmatch("\n" .. k.text, "\n(#include [^\n]+)") do
//@ if not included[line] then
${line}
//@ included[line] = true
//@ end
//@ end
//@ end

#include <stddef.h>
#include <string.h>

${section("kernels")}

//@ for _, k in ipairs(kernels) do
/* ${k.op}: ${ctext(k.doc or "")}
//@ if k.operands then
${(string.gsub(call(" * ", k.operands, " */"), "\n  ", "\n *"))}
//@ else
 * On a run of elements of one parameter; called by the runtime. */
//@ end
//@ local text = string.gsub("\n" .. k.text, "\n#include [^\n]+\n*", "\n")
//@ put((string.gsub(align_headings(text), "^\n+", "")))

//@ end
const RtUpdateKernel optimizer_update = ${optimizer};

${section("once, at start")}

void math_prepare(void)
{
//@ for _, statement in ipairs(prepared) do
    ${statement}
//@ end
}

//@ local function span(s)
//@ local args = {}
//@ for i, a in ipairs(s.args) do args[i] = a.decl end
${call("void " .. s.name .. "(", args, ")")}
{
//@ local types = widest(s.locals, function(l) return l.type end)
//@ local names = widest(s.locals, function(l) return l.name end)
//@ local function place(l) return l.on or left("(" .. l.type .. " *)", types + 4) .. "(" .. l.slab .. " + " .. l.offset .. ")" end
//@ local places = widest(s.locals, place)
//@ for _, l in ipairs(s.locals) do
    ${left(l.type, types)} *const ${left(l.name, names)} = ${left(place(l) .. ";", places + 1)} /* ${l.shape} */
//@ end
//@ if #s.locals > 0 then

//@ end
//@ for i, c in ipairs(s.calls) do
${note(call("    " .. c.kernel .. "(", c.args, ");"), c.note, 70)}
//@ end
}
//@ end
//@ if setup then
${section("constants")}

//@ span(setup)

//@ end
${section("spans")}

//@ for i, s in ipairs(spans) do
//@ if i > 1 then

//@ end
//@ local slabs = {}
//@ if s.saved_bytes > 0 then slabs[1] = "saved " .. s.saved_bytes .. " bytes" end
//@ if s.scratch_bytes > 0 then slabs[#slabs + 1] = "scratch " .. s.scratch_bytes .. " bytes" end
/* ${s.class} ${s.phase}: ${s.flops}FLOP, ${s.traffic} of operands read and written once${#slabs > 0 and ";" or ". */"}
//@ if #slabs > 0 then
 * slabs: ${table.concat(slabs, ", ")}. */
//@ end
//@ span(s)
//@ end
