//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- bind.c: from the offsets of the schedule to the pointers of the mathematics.
/* SPDX-License-Identifier: MIT-0 */
/* bind.c: the binders of ${name}, from offsets to the pointers of the mathematics.
 *
 * In: offsets of the weights, gradients and activations of one call, as named in step.c.
 * A binder fills the structs of math.h with pointers into this rank's spaces and calls the
 * mathematics of a block. There is one binder per relative layout of its parameters,
 * which is nearly always one per span. At the end, what `trainer --calibrate` runs alone.
 *
 * ${generated}
 * ${regenerate} */
#include "bind.h"
//@ if cuda then
#include "rt_cuda.h"
//@ end

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
    char *const saved_base = rt_local(rt, saved);
//@ end
//@ if v.dropped then
    char *const dropped_base = rt_local(rt, dropped);
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
    char *const base = rt_local(rt, scratch);

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

${section("binders")}
//@ for _, b in ipairs(binders) do

//@ local params = { "Rt *rt" }
//@ for i, p in ipairs(b.params) do params[i + 1] = p end
${call("void " .. b.name .. "(", params, ")")}
{
//@ for _, base in ipairs(b.bases) do
    char *const ${base.name}_base = ${base.pointer};
//@ end
//@ local function fields(list, kind, const, var)
//@ local idents = widest(list, function(f) return f.ident end)
//@ local offsets = widest(list, function(f) return f.base .. tostring(f.offset) end)
//@ local shapes = widest(list, function(f) return f.shape end)
//@ local types = #const + widest(list, function(f) return f.type end) + 1
//@ local fits = 12 + idents + offsets + types + 14 + 7 + shapes <= 90 -- else see math.h
    const struct ${b.class}_${kind} ${var} = {
//@ for _, f in ipairs(list) do
//@ local from = left("(" .. const .. f.type .. " *)(" .. f.base .. "_base + " .. f.offset .. "),", offsets + types + 14)
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
//@ if #b.weights > 0 then
//@ fields(b.weights, "params", "const ", "w")
//@ end
//@ if #b.grads > 0 then
//@ fields(b.grads, "grads", "", "dw")
//@ end
//@ if b.saved then
    const struct ${b.class}_saved kept = ${b.saved};
//@ end
//@ if b.scratch then
    const struct ${b.scratch_struct} temp = ${b.scratch};
//@ end

//@ for _, c in ipairs(b.calls) do
${call("    " .. c.span .. "(", c.args, ");")}
//@ end
}
//@ end

${section("what --calibrate measures")}

//@ -- Products: each form and shape once, as kernels.c defines it.
//@ local product_type = cuda and "RtMatmul" or "RtGemm"
//@ local bytes_of = { RT_F64 = 8, RT_F32 = 4, RT_BF16 = 2, RT_F16 = 2 }
//@ local products, seen, rows = {}, {}, {}
//@ for _, k in ipairs(kernels) do
//@ local text = k.host or k.text
//@ k.multiplies = string.find(text, product_type .. " ", 1, true) ~= nil
//@ local function add(name, body)
//@ local op, m, n, key = string.match(body, "%.op = RT_(%w+), %.m = (%d+), %.n = (%d+), (%.k = .*)")
//@ local p = { name = name, body = body, op = op, m = tonumber(m), n = tonumber(n), k = tonumber(string.match(key, "%.k = (%d+)")), from = string.match(body, "%.in_dtype = ([%w_]+)"), to = string.match(body, "%.out_dtype = ([%w_]+)") }
//@ local id = table.concat({ op, m, n, p.k, p.from }, " ")
//@ if seen[id] then return end
//@ seen[id] = true
//@ local function size(elems, dtype) return (elems * bytes_of[dtype] + 255) // 256 * 256 end
//@ p.a, p.b, p.c = size(p.m * p.k, p.from), size(p.n * p.k, p.from), size(p.m * p.n, p.to)
//@ p.traffic = (p.m * p.k + p.n * p.k) * bytes_of[p.from] + p.m * p.n * bytes_of[p.to]
//@ products[#products + 1] = p
//@ end
//@ for name, body in string.gmatch(k.timed and text or "", "static [const ]*" .. product_type .. " ([%w_]+) = (%b{});") do add(name, body) end
//@ end
//@ for _, p in ipairs(products) do
static ${cuda and "" or "const "}${product_type} ${p.name} = ${p.body};
static void ${p.name}_alone(Rt *rt, char *at)
{
//@ if cuda then
    if (${p.name}.plan == NULL)
        rt_matmul_prepare(&${p.name});
${call("    rt_matmul(", { "rt", "&" .. p.name, "at", "at + " .. p.a, "at + " .. p.a + p.b, "0.0f" }, ");")}
//@ else
    (void)rt;
${call("    rt_gemm(", { "&" .. p.name, "at", "at + " .. p.a, "at + " .. p.a + p.b, "0.0f" }, ");")}
//@ end
}

//@ end
//@ for _, k in ipairs(kernels) do
//@ if k.timed and not k.multiplies then
static void ${k.fn}_alone(Rt *rt, char *at)
{
    (void)rt;
${call("    " .. k.fn .. "(", k.timed.args, ");")}
}

//@ end
//@ end
/* Kinds and sizes: rt.h. */
const RtTimed trainer_timed[] = {
//@ for _, p in ipairs(products) do
    { .kind = RT_TIMED_${p.op}, .name = "${p.name}", .m = ${p.m}, .n = ${p.n}, .k = ${p.k},
      .dtype = ${p.from}, .flops = ${string.format("%.17g", 2 * p.m * p.n * p.k)}, .traffic_bytes = INT64_C(${p.traffic}),
      .bytes = INT64_C(${p.a + p.b + p.c}), .out = INT64_C(${p.a + p.b}), .run = ${p.name}_alone },
//@ end
//@ for _, k in ipairs(kernels) do
//@ if k.timed and not k.multiplies then
    { .kind = RT_TIMED_${k.timed.kind}, .name = "${k.fn}",
      .flops = ${string.format("%.17g", k.timed.flops)}, .traffic_bytes = INT64_C(${k.timed.traffic}),
      .bytes = INT64_C(${k.timed.bytes}), .out = INT64_C(${k.timed.out}), .run = ${k.fn}_alone },
//@ end
//@ end
    { .run = NULL },
};
