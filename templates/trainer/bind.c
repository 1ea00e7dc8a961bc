//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- bind.c: from the offsets of the schedule to the pointers of the mathematics.
/* SPDX-License-Identifier: MIT-0 */
/* bind.c: the binders of ${name}, from offsets to the pointers of the mathematics.
 *
 * In: offsets of the weights, gradients and activations of one call, as named in step.c.
 * A binder fills the structs of math.h with pointers into this rank's spaces and calls the
 * mathematics of a block. There is one binder per relative layout of its parameters,
 * which is nearly always one per span.
 *
 * ${generated}
 * ${regenerate} */
#include "bind.h"

#if MATH_IDENTITY != 0x${math_identity} || TRAINER_IDENTITY != 0x${identity}
#error "bind.c, math.h and tables.h come from different generations: run fsdpgen again"
#endif

/* Constants of the model; runs once. */
void trainer_setup(Rt *rt)
{
    math_prepare();
//@ if setup then
${call("    " .. setup.name .. "(", setup_args, ");")}
//@ else
    (void)rt; /* no constants */
//@ end
}
//@ if #savers > 0 then

${section("what a forward keeps for its backward")}
//@ end
//@ for _, v in ipairs(savers) do

//@ local idents = widest(v.fields, function(f) return f.ident end)
//@ local function from(f) return "(" .. f.type .. " *)(" .. f.base .. "_base + " .. f.offset .. ")," end
//@ local places = widest(v.fields, from)
//@ local offsets = { "Rt *rt" }
//@ if v.saved then offsets[2] = "int64_t saved" end
//@ if v.dropped then offsets[#offsets + 1] = "int64_t dropped" end
${call("static struct " .. v.class .. "_saved " .. v.name .. "(", offsets, ")")}
{
//@ if v.saved then
    char *const saved_base = ${slab_space}(rt, saved);
//@ end
//@ if v.dropped then
    char *const dropped_base = ${slab_space}(rt, dropped);
//@ end

    return (struct ${v.class}_saved){
//@ for _, f in ipairs(v.fields) do
        .${left(f.ident, idents)} = ${left(from(f), places)} /* ${f.shape} */
//@ end
    };
}
//@ end
//@ if #slabs > 0 then

${section("what kernels hand to each other")}
//@ end
//@ for _, v in ipairs(slabs) do

//@ local idents = widest(v.fields, function(f) return f.ident end)
//@ local function from(f) return "(" .. f.type .. " *)(base + " .. f.offset .. ")," end
//@ local places = widest(v.fields, from)
${call("static struct " .. v.name .. " " .. v.name .. "_at(", { "Rt *rt", "int64_t scratch" }, ")")}
{
    char *const base = ${slab_space}(rt, scratch);

    return (struct ${v.name}){
//@ for _, f in ipairs(v.fields) do
        .${left(f.ident, idents)} = ${left(from(f), places)} /* ${f.shape}${f.over ~= "" and ", over " .. f.over or ""} */
//@ end
    };
}
//@ end
//@ for _, s in ipairs(again) do

/* ${s.class}: computes what is not kept from what is. ${s.flops}FLOP. */
//@ put(span_function(s, "static void "))
//@ end
//@ local function each(f) return f.box and " + " .. f.box .. " * " .. f.box_bytes or "" end
//@ local function fields(b, list, kind, const, var)
//@ local idents = widest(list, function(f) return f.ident end)
//@ local offsets = widest(list, function(f) return f.base .. tostring(f.offset) .. each(f) end)
//@ local shapes = widest(list, function(f) return f.shape end)
//@ local types = #const + widest(list, function(f) return f.type end) + 1
//@ local fits = 12 + idents + offsets + types + 14 + 7 + shapes <= 90 -- else see math.h
//@ if in_parts then
    struct ${b.class}_${kind} ${var}[${here}];

    for (int p = 0; p < ${here}; p++)
        ${var}[p] = (struct ${b.class}_${kind}){
//@ else
    const struct ${b.class}_${kind} ${var} = {
//@ end
//@ for _, f in ipairs(list) do
//@ local from = left("(" .. const .. f.type .. " *)(" .. f.base .. "_base + " .. f.offset .. each(f) .. "),", offsets + types + 14)
//@ local shape = fits and " /* " .. f.shape .. " */" or ""
        .${left(f.ident, idents)} = ${(string.gsub(from .. shape, " +$", ""))}
//@ end
//@ if kind == "grads" and b.has_beta then
        .beta = beta,
//@ end
//@ if kind == "grads" then
//@ for _, f in ipairs(list) do
//@ if f.tied then
        .beta_${f.ident} = beta_${f.ident},
//@ end
//@ end
//@ end
    };
//@ end

${section("binders")}
//@ for _, b in ipairs(binders) do

//@ local params = { "Rt *rt" }
//@ for i, p in ipairs(b.params) do params[i + 1] = p end
${call("void " .. b.name .. "(", params, ")")}
{
//@ for _, base in ipairs(b.bases) do
    char *const ${base.name}_base = ${base.pointer};
//@ end
//@ if #b.weights > 0 then
//@ fields(b, b.weights, "params", "const ", "w")
//@ end
//@ if #b.grads > 0 then
//@ fields(b, b.grads, "grads", "", "dw")
//@ end
//@ if b.saved and in_parts then
    struct ${b.class}_saved kept[${here}];

    for (int p = 0; p < ${here}; p++)
        kept[p] = ${b.saved};
//@ elseif b.saved then
    const struct ${b.class}_saved kept = ${b.saved};
//@ end
//@ if b.scratch and in_parts then
    struct ${b.scratch_struct} temp[${here}];

    for (int p = 0; p < ${here}; p++)
        temp[p] = ${b.scratch};
//@ elseif b.scratch then
    const struct ${b.scratch_struct} temp = ${b.scratch};
//@ end

//@ for _, c in ipairs(b.calls) do
${call("    " .. c.span .. "(", c.args, ");")}
//@ end
}
//@ end
