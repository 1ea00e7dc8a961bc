//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- calibrate.c: the products and kernels of a step, alone.
/* SPDX-License-Identifier: MIT-0 */
/* calibrate.c: what `trainer --calibrate` of ${name} measures. No step runs any of it.
 *
 * In: free bytes of the arena, where the operands of a call lie one after the other. Out:
 * each product's shape once, in the form of rt_gemm.h; a call of every other kernel; a
 * table of both, with what they compute (rt.h).
 *
 * ${generated}
 * ${regenerate} */
#include "kernels.h"
#include "tables.h"
#include "${cuda and "rt_cuda.h" or "rt_gemm.h"}"

#if TRAINER_IDENTITY != 0x${identity}
#error "calibrate.c and tables.h come from different generations: run fsdpgen again"
#endif

//@ if #products > 0 then
static ${cuda and "RtMatmul" or "RtGemm"} products[] = {
//@ for _, p in ipairs(products) do
    ${product(p, not cuda)},
//@ end
};

//@ end
//@ for _, k in ipairs(timed) do
static void ${k.fn}_alone(Rt *rt, char *at)
{
    (void)rt;
${call("    " .. k.fn .. "(", k.args, ");")}
}

//@ end
const RtTimed trainer_timed[] = {
//@ for i, p in ipairs(products) do
    { .kind = RT_TIMED_${p.form}, .name = "${p.form} ${p.m} x ${p.n} x ${p.k} ${p.from}",
      .m = ${p.m}, .n = ${p.n}, .k = ${p.k}, .dtype = RT_${string.upper(p.from)},
      .flops = ${string.format("%.17g", p.flops)}, .traffic_bytes = INT64_C(${p.traffic}),
      .product = &products[${i - 1}], .second = INT64_C(${p.second}),
      .bytes = INT64_C(${p.bytes}), .out = INT64_C(${p.out}) },
//@ end
//@ for _, k in ipairs(timed) do
    { .kind = RT_TIMED_${k.kind}, .name = "${k.fn}",
      .flops = ${string.format("%.17g", k.flops)}, .traffic_bytes = INT64_C(${k.traffic}),
      .bytes = INT64_C(${k.bytes}), .out = INT64_C(${k.out}),
      .run = ${k.fn}_alone },
//@ end
    { .name = NULL },
};
//@ if #sites > 0 then

${section("both kernels of each attention, for --tune-kernels")}

//@ for _, s in ipairs(sites) do
//@ for _, k in ipairs { s.library, s.own } do
static void ${k.fn}_measured(Rt *rt, char *at)
{
${call("    " .. k.fn .. "(", k.args, ");")}
}

//@ end
//@ end
const RtSite trainer_sites[] = {
//@ for _, s in ipairs(sites) do
    { .site = "${s.site}",
      .op = "${s.op}",
      .library = ${s.library.fn}_measured,
      .generated = ${s.own.fn}_measured,
      .bytes = INT64_C(${s.bytes}), .out = INT64_C(${s.out}), .out_bytes = INT64_C(${s.out_bytes}) },
//@ end
    { .site = NULL },
};
//@ end
