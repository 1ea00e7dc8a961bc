//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- tables.c: units, segments and parameters, a shape and a size on each line.
/* SPDX-License-Identifier: MIT-0 */
/* tables.c: where every parameter of ${name} is: units, segments, parameters.
 *
 * A unit is gathered and freed together. A segment of it is one flat buffer; its
 * parameters follow each other in the layout in which they are used, each at a multiple
 * of 1024 elements, and it is cut into equal shards, one per rank. Gathers, updates and
 * checkpoints all read these tables. A group of ranks is a mask: it joins the ranks whose
 * numbers differ only in these bits.
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
//@ local like = {} -- units one after the other that have as many elements
//@ for _, u in ipairs(units) do
//@ local last = like[#like]
//@ if last and last.elems == u.elems then last.to, last.n = u.name, last.n + 1
//@ else like[#like + 1] = { name = u.name, elems = u.elems, human = u.human, n = 1 } end
//@ end
//@ local function title(u) return u.n > 1 and u.name .. " .. " .. u.to .. ", " .. u.n .. " units of" or u.name end
//@ local names = widest(like, title)
//@ local elems = widest(like, function(u) return u.elems end)
//@ for _, u in ipairs(like) do
 * ${left(title(u), names)}  ${right(u.elems, elems)} elements ${right(u.human, 11)} ${param_dtype_name}
//@ end
 */

${section("segments")}

//@ -- What many segments have in common, with X for the end of a segment's names.
//@ local held, held_by = {}, {}
//@ local function name_of_held(s)
//@ local x = string.sub(s.macro, #"SEG_" + 1)
//@ local fields = { ".dtype = " .. s.dtype, ".shards = " .. s.shards }
//@ for _, k in ipairs { "axes", "within", "across", "between", "same" } do
//@ if s[k] ~= "0x0" then fields[#fields + 1] = "." .. k .. " = " .. s[k] end
//@ end
//@ for _, k in ipairs { "within_ctas", "across_ctas" } do
//@ if s[k] > 0 then fields[#fields + 1] = "." .. k .. " = " .. s[k] end
//@ end
//@ if s.params_whole then fields[#fields + 1] = ".params_whole = true" end
//@ if s.codes then fields[#fields + 1] = ".encoded = true" end
//@ for _, k in ipairs { "param_shard", "codes", "master", "moment1", "moment2", "grad_shard", "grad_accum", "partials", "direction" } do
//@ local place = s[k]
//@ if place and string.sub(place, -#x - 1) == "_" .. x then place = string.sub(place, 1, -#x - 1) .. "##X" end
//@ if place then fields[#fields + 1] = "." .. k .. " = " .. place end
//@ end
//@ local text = table.concat(fields, "\n")
//@ if not held_by[text] then
//@ held[#held + 1] = fields
//@ held_by[text] = "HELD_" .. #held
//@ end
//@ return held_by[text] .. "(" .. x .. ")"
//@ end
//@ for _, s in ipairs(segments) do s.held = name_of_held(s) end
/* A segment: its name; the number of elements of all of it, of a shard and of a partial
 * sum; its first parameter, and how many it has; then how a rank holds it. */
#define SEGMENT(name_, elems_, shard_elems_, partial_elems_, first_param_, n_params_, ...) \
    { .name = name_, .elems = elems_, .shard_elems = shard_elems_, \
      .partial_elems = partial_elems_, .first_param = first_param_, .n_params = n_params_, \
      __VA_ARGS__ }

/* How: the groups of ranks, and the places of what this one has of segment X. */
//@ for i, fields in ipairs(held) do
//@ local lines = string.gsub(call("    ", fields, ""), "\n", " \\\n")
#define HELD_${i}(X) \
${lines}
//@ end

//@ local function column(rows, f) local w = widest(rows, f); return function(r) return right(f(r), w) end end
//@ local function column_left(rows, f) local w = widest(rows, f); return function(r) return left(f(r), w) end end
//@ local s_macro = column_left(segments, function(s) return "[" .. s.macro .. "]" end)
//@ local s_name = column_left(segments, function(s) return cstr(s.name) .. "," end)
//@ local s_elems = column(segments, function(s) return s.elems end)
//@ local s_shard = column(segments, function(s) return s.shard_elems end)
//@ local s_partial = column(segments, function(s) return s.partial_elems end)
//@ local s_first = column(segments, function(s) return s.first_param end)
//@ local s_count = column(segments, function(s) return s.n_params end)
//@ local s_held = column_left(segments, function(s) return s.held .. ")," end)
const RtSegment trainer_segments[N_SEGMENTS] = {
//@ for _, s in ipairs(segments) do
    ${s_macro(s)} = SEGMENT(${s_name(s)} ${s_elems(s)}, ${s_shard(s)}, ${s_partial(s)}, ${s_first(s)}, ${s_count(s)}, ${s_held(s)} /* ${s.human}${s.trainable and "" or ", frozen"} */
//@ end
};

//@ if #hops > 0 then
/* Sums over the group take two hops: among the ranks near, on one node, then among those
 * far. */
const RtHops trainer_hops[N_HOPS] = {
//@ for _, h in ipairs(hops) do
    { .group = ${h.group}, .near = ${h.near}, .far = ${h.far} },
//@ end
};

//@ end
${section("parameters")}

//@ local parts = {} -- of all parameters, in their order
//@ for _, p in ipairs(params) do
//@ p.first_part = #parts
//@ for _, part in ipairs(p.parts) do parts[#parts + 1] = part end
//@ end
//@ if #parts > 0 then
/* Rows of fused parameters that are separate tensors in a checkpoint. */
static const RtPart parts[${#parts}] = {
//@ local part_name = column_left(parts, function(part) return cstr(part.name) .. "," end)
//@ for _, part in ipairs(parts) do
    { .name = ${part_name(part)} .rows = ${part.rows} },
//@ end
};

//@ end
//@ local kinds, kind_of, n_inits = {}, {}, {}
//@ for _, p in ipairs(params) do
//@ local std = p.init == "RT_INIT_NORMAL" and ", .init_std = " .. real(p.init_std) or ""
//@ local lr = p.lr_ratio ~= 1 and ", .lr_ratio = " .. real(p.lr_ratio) or ""
//@ local text = ".init = " .. p.init .. std .. (p.frozen and "" or lr .. ", .weight_decay = " .. real(p.weight_decay))
//@ local init = (p.frozen and "FROZEN_" or "") .. string.sub(p.init, #"RT_INIT_" + 1)
//@ if not kind_of[init .. text] then
//@ n_inits[init] = (n_inits[init] or 0) + 1
//@ kind_of[init .. text] = n_inits[init] == 1 and init or init .. "_" .. n_inits[init]
//@ kinds[#kinds + 1] = { name = kind_of[init .. text], text = text }
//@ end
//@ p.kind = kind_of[init .. text]
//@ end
/* A parameter: its name; its segment, and its offset there; its shape; its file in a
 * checkpoint, and its offset there; then its initial values and updates, and its
 * parts. */
#define PARAM(name_, segment_, offset_, shape_, file_, file_elems_, ...) \
    { .name = name_, .segment = segment_, .offset_elems = offset_, shape_, \
      .file = file_, .file_elems = file_elems_, __VA_ARGS__ }
//@ local products = { "a", "INT64_C(a) * b", "INT64_C(a) * b * c", "INT64_C(a) * b * c * d" }
//@ local dims = { "a", "a, b", "a, b, c", "a, b, c, d" }
//@ local has_dims = {}
//@ for _, p in ipairs(params) do has_dims[p.n_dims] = true end
//@ for n = 1, 4 do
//@ if has_dims[n] then
#define SHAPE_${n}(${dims[n]}) .elems = ${products[n]}, .n_dims = ${n}, .dim = { ${dims[n]} }
//@ end
//@ end
//@ local kind_name = column_left(kinds, function(k) return k.name end)
//@ for _, k in ipairs(kinds) do
#define ${kind_name(k)} ${k.text}
//@ end
//@ if #parts > 0 then
#define PARTS(first, n) .n_parts = n, .parts = parts + first
//@ end
//@ local has_boxes
//@ for _, p in ipairs(params) do has_boxes = has_boxes or p.boxes > 1 end
//@ if has_boxes then
/* Stored as n boxes, one for each part, cut along a dim: those of parts of tokens (inner)
 * of the first part of features, then of the next; and of which sections of that dim each
 * box has a piece. */
#define BOXES(n, inner, dim) .boxes = n, .inner_boxes = inner, .cut_dim = dim
#define SECTIONS(...) .n_sections = sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), .sections = (const int64_t[]){ __VA_ARGS__ }
//@ end
//@ local has_scales
//@ for _, p in ipairs(params) do has_scales = has_scales or p.scale >= 0 end
//@ if has_scales then
#define SCALE(n) .scale = n
//@ end
//@ if #batches > 0 then
#define MATRICES(first, n) .first_matrix = first, .n_matrices = n
//@ end

//@ local function more(p)
//@ return p.kind .. (p.boxes > 1 and ", BOXES(" .. p.boxes .. ", " .. p.inner_boxes .. ", " .. p.cut_dim .. ")" or p.cut_dim > 0 and ", .cut_dim = " .. p.cut_dim or "") ..
//@     (p.sections and ", SECTIONS(" .. p.sections .. ")" or "") ..
//@     (#p.parts > 0 and ", PARTS(" .. p.first_part .. ", " .. #p.parts .. ")" or "") ..
//@     (p.scale >= 0 and ", SCALE(" .. p.scale .. ")" or "") ..
//@     (p.n_matrices > 0 and ", MATRICES(" .. p.first_matrix .. ", " .. p.n_matrices .. ")" or "") .. "),"
//@ end
//@ local p_name = column_left(params, function(p) return cstr(p.name) .. "," end)
//@ local p_segment = column_left(params, function(p) return p.segment .. "," end)
//@ local p_offset = column(params, function(p) return p.offset_elems end)
//@ local p_shape = column_left(params, function(p) return "SHAPE_" .. p.n_dims .. "(" .. p.dims .. ")," end)
//@ local p_file = column(params, function(p) return p.file end)
//@ local p_at = column(params, function(p) return p.file_elems end)
//@ local p_more = column_left(params, more)
//@ local p_id = column(params, function(p, i) p.id = p.id or i - 1; return p.id end)
const RtParam trainer_params[N_PARAMS] = {
//@ for i, p in ipairs(params) do
    PARAM(${p_name(p)} ${p_segment(p)} ${p_offset(p)}, ${p_shape(p)} ${p_file(p)}, ${p_at(p)}, ${p_more(p)} /* ${p_id(p)}: ${p.human}${p.uses > 1 and ", tied: " .. p.uses .. " uses" or ""} */
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

/* The owner computes the whole matrix. */
//@ local m_param = column(matrices, function(m) return m.param end)
//@ local m_element = column(matrices, function(m) return m.element end)
//@ local m_rows = column(matrices, function(m) return m.rows end)
//@ local m_cols = column(matrices, function(m) return m.cols end)
//@ local m_owner = column(matrices, function(m) return m.owner end)
//@ local m_owned = column(matrices, function(m) return m.owned_elems end)
//@ local m_adjust = column_left(matrices, function(m) return real(m.lr_adjust) .. "," end)
//@ local m_kernel = column_left(matrices, function(m) return m.kernel end)
const RtMatrix trainer_matrices[N_MATRICES] = {
//@ for i, m in ipairs(matrices) do
    { .param = ${m_param(m)}, .element = ${m_element(m)}, .rows = ${m_rows(m)}, .cols = ${m_cols(m)}, .owner = ${m_owner(m)}, .owned_elems = ${m_owned(m)}, .lr_adjust = ${m_adjust(m)} .kernel = ${m_kernel(m)} }, /* ${i - 1}: ${m.name} */
//@ end
};

const RtBatch trainer_batches[N_BATCHES] = {
//@ for _, b in ipairs(batches) do
    [${b.macro}] = { /* ${b.flops}FLOP, at most ${b.most} on one rank */
        .first_matrix = ${b.first}, .n_matrices = ${b.count},
        .owned = ${b.owned}, .workspace = ${b.workspace},
//@ if b.group then
        .group = ${b.group},
//@ end
//@ if b.whole_at then
        .whole = ${b.workspace} + ${b.whole_at},
//@ end
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
