//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- math.h: structs of pointers and one prototype for each span.
/* SPDX-License-Identifier: MIT-0 */
/* math.h: the mathematics of ${name}, one function for each distinct span of the step.
 *
 * bind.c passes pointers to inputs and results. Shapes and strides are constants in math.c.
 * Nothing here depends on ranks, shards or the schedule: this file, math.c and the kernels
 * are byte-identical for all choices that cannot change a result.
 *
 * ${generated}
 * ${regenerate} */
#ifndef TRAINER_MATH_H
#define TRAINER_MATH_H

#include "kernels.h"

#if MATH_IDENTITY != 0x${math_identity}
#error "math.h and kernels.h come from different generations: run fsdpgen again"
#endif

#define math_prepare math_prepare_${math_identity}

//@ for _, c in ipairs(classes) do
//@ local width = widest(c.params, function(p) return p.ident end)
//@ local scales = widest(c.params, function(p) return p.scale or "" end)
//@ if c.has_params then
/* Weights of a block of class ${c.name}, as gathered: ${param_dtype_name}. */
struct ${c.name}_params {
//@ for _, p in ipairs(c.params) do
    const ${p.type} *${left(p.ident .. ";", width + 1)} /* ${p.shape} */
//@ end
//@ for _, p in ipairs(c.params) do
//@ if p.scale then
    const ${p.scale_type} *${left(p.scale .. ";", scales + 1)} /* [1]: of its codes */
//@ end
//@ end
};

//@ end
//@ if #c.saved > 0 then
//@ local types = widest(c.saved, function(v) return v.type .. v.ident end)
/* What the forward of a block leaves to its backward, wherever the schedule keeps it. */
struct ${c.name}_saved {
//@ for _, v in ipairs(c.saved) do
    ${left(v.type .. " *" .. v.ident .. ";", types + 3)} /* ${v.shape} */
//@ end
};

//@ end
//@ for _, s in ipairs(c.scratch) do
//@ local types = widest(s.fields, function(f) return f.type .. f.ident end)
/* What the kernels of its ${s.phase} pass to each other. */
struct ${s.name} {
//@ for _, f in ipairs(s.fields) do
    ${left(f.type .. " *" .. f.ident .. ";", types + 3)} /* ${f.shape} */
//@ end
};

//@ end
//@ if c.has_grads then
/* Gradients of its weights: ${reduce_dtype_name}. beta 0 stores, 1 adds to the old value. */
struct ${c.name}_grads {
//@ for _, p in ipairs(c.params) do
//@ if p.grad_type then
    ${p.grad_type} *${left(p.ident .. ";", width + 1)} /* ${p.shape} */
//@ end
//@ end
//@ if c.has_beta then
    float beta;
//@ end
//@ for _, p in ipairs(c.params) do
//@ if p.tied and p.grad_type then
    float beta_${p.ident}; /* tied: 1 once another block wrote it */
//@ end
//@ end
};

//@ end
//@ end
/* What the library of products needs before the first step. */
void math_prepare(void);

//@ local function prototype(s)
//@ local args = {}
//@ for i, a in ipairs(s.args) do args[i] = a.decl end
${call("void " .. s.name .. "(", args, ");")}

//@ end
//@ if setup then
/* Constants of the model, which depend on no weight and no token. Runs once. */
//@ prototype(setup)
//@ end
//@ for _, s in ipairs(spans) do
/* ${s.class} ${s.phase}: ${s.flops}FLOP, ${s.traffic} of operands. */
//@ prototype(s)
//@ end
#endif
