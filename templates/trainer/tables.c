//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- tables.c: units, segments and parameters, a shape and a size on each line.
/* SPDX-License-Identifier: MIT-0 */
/* tables.c: where every parameter of ${name} lies: units, segments, parameters.
 *
 * A unit is gathered and freed together. A segment of it is one flat buffer; its
 * parameters follow each other in the layout they are computed with, each at a multiple
 * of 1024 elements, and it is cut into equal shards, one for each of its ranks. This is
 * the whole truth about sharding: gathers, updates and checkpoints read it. A group of
 * ranks is a mask: it joins those that differ in these bits of their number alone.
 *
 * ${generated}
 * ${regenerate} */
//@ if #batches > 0 then
#include "math.h"
//@ end
#include "tables.h"

#if TRAINER_IDENTITY != 0x${identity}
#error "tables.c and tables.h come from different generations: run fsdpgen again"
#endif

/* ---- units ----------------------------------------------------------------------------
 *
//@ local names = widest(units, function(u) return u.name end)
//@ local elems = widest(units, function(u) return u.elems end)
//@ for _, u in ipairs(units) do
 * ${left(u.name, names)}  ${right(u.elems, elems)} elements ${right(u.human, 11)} ${param_dtype_name}
//@ end
 */

${section("segments")}

const RtSegment trainer_segments[N_SEGMENTS] = {
//@ for _, s in ipairs(segments) do
    [${s.macro}] = { /* ${plural(s.n_params, s.trainable and "parameter" or "frozen parameter")} in ${s.human} */
        .name = ${cstr(s.name)},
        .elems = ${s.elems}, .shard_elems = ${s.shard_elems}, .shards = ${s.shards},
//@ local groups = {}
//@ for _, k in ipairs { "within", "across", "between" } do
//@ if s[k] ~= "0x0" then groups[#groups + 1] = "." .. k .. " = " .. s[k] .. "," end
//@ end
//@ if s.params_whole then groups[#groups + 1] = ".params_whole = true," end
//@ if #groups > 0 then
        ${table.concat(groups, " ")}
//@ end
        .first_param = ${s.first_param}, .n_params = ${s.n_params},
        .param_shard = ${s.param_shard}, .master = ${s.master},
        .moment1 = ${s.moment1}, .moment2 = ${s.moment2},
        .grad_shard = ${s.grad_shard}, .grad_accum = ${s.grad_accum},
        .partials = ${s.partials}, .partial_elems = ${s.partial_elems},
//@ if s.direction then
        .direction = ${s.direction},
//@ end
    },
//@ end
};

${section("parameters")}

const RtParam trainer_params[N_PARAMS] = {
//@ for i, p in ipairs(params) do
    { /* ${i - 1}: ${p.shape}, ${p.human}${p.uses > 1 and ", tied: " .. p.uses .. " uses" or ""} */
        .name = ${cstr(p.name)},
        .segment = ${p.segment}, .offset_elems = ${p.offset_elems},${p.file > 0 and " .file = " .. p.file .. "," or ""} .file_elems = ${p.file_elems},
        .elems = ${p.elems}, .n_dims = ${p.n_dims}, .dim = { ${p.dims} },
//@ local std = p.init == "RT_INIT_NORMAL" and " .init_std = " .. real(p.init_std) .. "," or ""
//@ local lr = p.lr_ratio ~= 1 and " .lr_ratio = " .. real(p.lr_ratio) .. "," or ""
//@ local decay = " .weight_decay = " .. real(p.weight_decay) .. ","
        .init = ${p.init},${std}${p.frozen and " /* frozen */" or lr .. decay}
//@ if p.n_matrices > 0 then
        .first_matrix = ${p.first_matrix}, .n_matrices = ${p.n_matrices},
//@ end
//@ if #p.parts > 0 then
        .n_parts = ${#p.parts}, .parts = (const RtPart[]){
//@ for _, part in ipairs(p.parts) do
            { .name = ${cstr(part.name)}, .rows = ${part.rows} },
//@ end
        },
//@ end
    },
//@ end
};

/* Parameter ids, segment after segment, in order of their offsets. */
const int trainer_segment_params[N_PARAMS] = {
//@ for _, s in ipairs(segments) do
//@ local ids = {}
//@ for i, id in ipairs(s.params) do ids[i] = tostring(id - 1) end
${call("    ", ids, ",")} /* ${s.name} */
//@ end
};

//@ if #batches > 0 then
${section("matrices")}

/* Each is computed whole by the rank that owns it. */
const RtMatrix trainer_matrices[N_MATRICES] = {
//@ for i, m in ipairs(matrices) do
    { /* ${i - 1}: ${m.name} [${m.rows}, ${m.cols}] */
        .param = ${m.param}, .element = ${m.element}, .rows = ${m.rows}, .cols = ${m.cols},
        .owner = ${m.owner}, .owned_elems = ${m.owned_elems},
        .lr_adjust = ${real(m.lr_adjust)}, .kernel = ${m.kernel},
    },
//@ end
};

const RtBatch trainer_batches[N_BATCHES] = {
//@ for _, b in ipairs(batches) do
    [${b.macro}] = { /* ${b.flops}FLOP, at most ${b.most} on one rank */
        .first_matrix = ${b.first}, .n_matrices = ${b.count},
        .owned = ${b.owned}, .workspace = ${b.workspace},
    },
//@ end
};

//@ end
${section("memory of a rank, as planned")}

const RtMemory trainer_memory[N_MEMORY] = {
//@ for _, m in ipairs(memory) do
    { .what = ${left(cstr(m.what) .. ",", 15)} .bytes = INT64_C(${right(m.bytes, 13)}) }, /* ${right(m.human, 10)} */
//@ end
};

${section("places")}

const char *const trainer_places[N_PLACES] = {
//@ for _, p in ipairs(places) do
    [${p.macro}] = ${cstr(p.name)},
//@ end
    [AT_NORM] = "gradient norm",
    [AT_UPDATE] = "update",
//@ if #batches > 0 then
    [AT_MATRICES] = "update of matrices",
//@ end
};
