//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- step.c: the loop, the unrolled forward and backward, the end of the step, evaluation.
//@ local sharded = accumulate_sharded
//@ local steps_of_rank = rounds * leaf_micro_batches
/* SPDX-License-Identifier: MIT-0 */
/* step.c: one step of ${name} on ${plural(world_size, "rank")}, unrolled.
 *
 * In: token buffers, parameter shards. Out: updated shards, loss, gradient norm.
 * trainer_step is the loop over micro-batches; the functions that it calls follow in the
 * order in which they run. Calls of the mathematics go through bind.c, which turns
 * offsets into pointers.
//@ if collectives then
 * Collectives run beside the computation on two streams, gather and reduce: a start
 * returns at once, a wait returns when this rank's result is complete.
//@ end
//@ if behind_meets then
 * Starts are held: each begins behind the next meet of parts, or when it is waited for.
//@ end
 * Every size and offset was fixed when this file was generated; nothing is allocated.
 *
 * ${generated}
 * ${regenerate} */
#include "bind.h"
#include "math.h"
#include "tables.h"

#if MATH_IDENTITY != 0x${math_identity} || TRAINER_IDENTITY != 0x${identity}
#error "step.c, math.h and tables.h come from different generations: run fsdpgen again"
#endif

//@ -- ---- the schedule's lines ----------------------------------------------------------------
//@ local in_flight = {} -- of both streams, in order: { stream, n, unit }
//@ local function print_waits(line)
//@ for _, w in ipairs(line.waits) do
${note("    " .. w.call .. "(rt, " .. w.subject .. ");", w.why, 50)}
//@ local left_over = {}
//@ for _, f in ipairs(in_flight) do
//@ if f.stream ~= w.stream or f.n > w.place then left_over[#left_over + 1] = f end
//@ end
//@ in_flight = left_over
//@ end
//@ end
//@ local function print_start(line)
//@ print_waits(line)
//@ if line.kept then
${call("    rt_kept_gather_start(", { "rt", line.segment, line.from, line.to }, ");")}
//@ elseif line.kind == "gather" then
${call("    " .. line.call .. "(", { "rt", line.segment, line.to }, ");")}
//@ else
${call("    " .. line.call .. "(", { "rt", line.segment, line.from, line.to }, ");")}
//@ end
//@ in_flight[#in_flight + 1] = { stream = line.stream, n = line.place, unit = line.unit }
//@ end
//@ local function print_keep(line)
//@ print_waits(line)
${call("    rt_keep(", { "rt", line.segment, line.from, line.to }, ");")}
//@ end
//@ local function print_merge(line)
//@ print_waits(line)
    rt_merge_segment(rt, ${line.segment});
//@ end
//@ -- What runs beside a span, for its heading.
//@ local function meanwhile(waits)
//@ local gathers, reduces = {}, {}
//@ for _, f in ipairs(in_flight) do
//@ local waited = false
//@ for _, w in ipairs(waits) do waited = waited or (w.stream == f.stream and f.n <= w.place) end
//@ local list = f.stream == "gather" and gathers or reduces
//@ if not waited then list[#list + 1] = f.unit end
//@ end
//@ local parts = {}
//@ if #gathers > 0 then parts[1] = table.concat(gathers, ", ") .. (#gathers > 1 and " arrive" or " arrives") end
//@ if #reduces == 1 then parts[#parts + 1] = "the gradient of " .. reduces[1] .. " is summed"
//@ elseif #reduces > 1 then parts[#parts + 1] = "gradients from " .. reduces[1] .. " on are summed" end
//@ return #parts > 0 and "; meanwhile " .. table.concat(parts, ", ") or ""
//@ end
//@ local function print_span(pending, line)
    rt_at(rt, ${line.at});
//@ for _, p in ipairs(pending) do print_start(p) end
//@ print_waits(line)
${call("    " .. line.call .. "(", line.args, ");")}
//@ end
//@ -- Does a part store some gradients and add to others, as its caller says?
//@ local function takes_beta(part)
//@ for _, line in ipairs(part.lines) do
//@ for _, a in ipairs(line.args or {}) do if a == "beta" then return true end end
//@ end
//@ return false
//@ end
//@ local function part_params(part) return takes_beta(part) and { "Rt *rt", "float beta" } or { "Rt *rt" } end
//@ local function part_call(name, beta)
//@ for _, part in ipairs(parts) do
//@ if part.name == name then return name .. (takes_beta(part) and "(rt, " .. beta .. ");" or "(rt);") end
//@ end
//@ error("no part " .. name)
//@ end
//@ local titles = {
//@   forward = "forward", forward_local = "forward, local micro-step", forward_last = "forward, last micro-step",
//@   backward = "backward", merge_leaf = "the end of a leaf",
//@   backward_local = "backward, local: gradients are added to those that lie here",
//@   backward_last = "backward, last: then they are summed over ranks",
//@   forward_evaluation = "forward, evaluation", evaluate = "evaluation, instead of the backward",
//@ }
//@ -- ---- the loop's parts ----------------------------------------------------------------------
//@ local has = {}
//@ for _, part in ipairs(parts) do has[part.name] = part end
//@ local function name_of(phase, variant) return has[phase .. "_" .. variant] and phase .. "_" .. variant or phase end
//@ local leaf = leaf_micro_batches
//@ local looped = steps_of_rank > 1
//@ local first_beta = has[name_of("backward", "local")]
//@ -- does a leaf have local micro-steps beside its first? Unsharded, its last may be one, too
//@ first_beta = leaf > (sharded and 2 or 1) and takes_beta(first_beta)
//@ local variants = {} -- on CUDA: names of functions, their backward's beta
//@ local function variant_name(name) return #variants > 1 and name .. "_micro_step" or "micro_step" end
//@ if cuda then
//@ if first_beta then variants[1] = { "first", "local", "0.0f" } end
//@ if steps_of_rank > 1 and (leaf > 1 or not sharded) then
//@ variants[#variants + 1] = { "local", "local", first_beta and "1.0f" or "0.0f" }
//@ end
//@ variants[#variants + 1] = { "last", "last", leaf > 1 and "1.0f" or "0.0f" }
//@ end
//@ -- every function of this file that the others call, in the order in which it runs
//@ local declared = {}
//@ local function declare(name, params)
//@ if not declared[name] then
//@ declared[name] = true
${call("static void " .. name .. "(", params or { "Rt *rt" }, ");")}
//@ end
//@ end
//@ for _, v in ipairs(variants) do declare(variant_name(v[1])) end
//@ for _, part in ipairs(parts) do
//@ if part.variant ~= "evaluation" then declare(part.name, part_params(part)) end
//@ end
//@ declare("update")
//@ if #batches > 0 then declare("update_matrices") end
//@ for _, part in ipairs(parts) do declare(part.name, part_params(part)) end

${section("the step")}

//@ -- is_first: the condition under which a local micro-step is the first of its leaf
//@ local function micro_step(indent, variant, beta, is_first)
//@ if cuda then
//@ local name = variant_name(variant)
//@ if is_first and first_beta then name = is_first .. " ? " .. variant_name("first") .. " : " .. name end
${indent}rt_run(rt, ${name});
//@ else
${indent}${part_call(name_of("forward", variant), beta)}
${indent}${part_call(name_of("backward", variant), beta)}
//@ end
//@ end
//@ -- The step's tree: loops, in them lines. Several leaves in one loop: unsharded accumulation.
//@ local loops = {}
//@ local function find_loops(node)
//@ for _, n in ipairs(node.nodes) do
//@ if n.over ~= "line" then loops[n.over] = n; find_loops(n) end
//@ end
//@ end
//@ find_loops(step)
//@ local several = rounds > 1 and not loops.rounds
//@ local print_node
//@ local function print_nodes(node, indent)
//@ for _, n in ipairs(node.nodes) do print_node(n, indent) end
//@ end
//@ local function print_rounds(node, indent)
${indent}for (int64_t round = 0; round < ${node.turns}; round++) {
//@ if replicate ~= "0x0" then
${indent}    /* Round j of rank s of copy p is leaf (p * ${rounds} + j) * ${shard} + s: low bits first, as the sums pair up. */
//@ elseif world_size > 1 then
${indent}    /* Round j of rank r is leaf j * ${world_size} + r: low bits first, as the sums pair up. */
//@ end
${indent}    const int64_t first = rt_leaf(rt, round)${leaf == 1 and "" or " * " .. leaf};

${indent}    rt_round(rt, round);
//@ print_nodes(node, indent .. "    ")
${indent}}
//@ end
//@ local function print_local(indent)
//@ local is_first = several and "i % " .. leaf .. " == 0" or "i == 0"
${indent}rt_load_micro_batch(rt, first + i);
//@ micro_step(indent, "local", leaf == 1 and "0.0f" or is_first .. " ? 0.0f : 1.0f", is_first)
//@ if has.merge_leaf then
//@ local merge = cuda and "rt_run(rt, merge_leaf);" or "merge_leaf(rt);"
//@ if leaf > 1 then
${indent}if (i % ${leaf} == ${leaf - 1}) {
${indent}    rt_round(rt, i / ${leaf});
${indent}    ${merge}
${indent}}
//@ else
${indent}rt_round(rt, i);
${indent}${merge}
//@ end
//@ end
//@ end
//@ local function print_last(indent)
${indent}rt_load_micro_batch(rt, ${not looped and "rt_leaf(rt, 0)" or loops.micro_batches and "first + " .. loops.micro_batches.turns or "first"});
//@ if has.merge_leaf then
${indent}rt_round(rt, ${rounds - 1});
//@ end
//@ micro_step(indent, "last", leaf > 1 and "1.0f" or "0.0f")
//@ end
//@ function print_node(node, indent)
//@ if node.over == "rounds" then print_rounds(node, indent)
//@ elseif node.over == "micro_batches" then
${indent}for (int64_t i = 0; i < ${node.turns}; i++) {
//@ print_nodes(node, indent .. "    ")
${indent}}
//@ elseif node.line == "local" then print_local(indent)
//@ elseif node.line == "last" then print_last(indent)
//@ else
${indent}${cuda and "rt_run(rt, update);" or "update(rt);"}
//@ end
//@ end
void trainer_step(Rt *rt)
{
//@ if not looped then
    /* One micro-batch per rank: its rank is its leaf. */
//@ elseif not loops.rounds then
//@ if several then
    /* Rank r computes leaves r * ${rounds} .. r * ${rounds} + ${rounds - 1}, ${leaf} micro-batch${leaf > 1 and "es" or ""} each, one after the other. */
//@ end
    const int64_t first = rt_leaf(rt, 0)${leaf == 1 and "" or " * " .. leaf};

//@ end
//@ print_nodes(step, "    ")
}
//@ if cuda then

${section("what becomes a CUDA graph, besides the end of the step")}

/* The only argument is the rank, because a graph repeats the numbers with which it was
 * captured. */
//@ for _, v in ipairs(variants) do

//@ if v[1] == "first" then
/* Of a leaf: gradients are stored, not added to. */
//@ end
static void ${variant_name(v[1])}(Rt *rt)
{
//@ if behind_meets then
    rt_hold_starts(rt);
//@ end
    ${part_call(name_of("forward", v[2]), v[3])}
    ${part_call(name_of("backward", v[2]), v[3])}
//@ if behind_meets then
    rt_release_starts(rt);
//@ end
}
//@ end
//@ end
//@ local printed, after_forward = {}, {}
//@ local function print_parts(evaluation)
//@ for _, part in ipairs(parts) do
//@ if not printed[part.name] and (part.variant == "evaluation") == evaluation then
//@ printed[part.name] = true
//@ in_flight = part.phase ~= "forward" and table.move(after_forward, 1, #after_forward, 1, {}) or {}

${section(titles[part.name])}

//@ if part.phase ~= "merge" then
/* ${part.flops}FLOP; at most ${part.peak} in buffers that share bytes${part.gathers + part.reduces > 0 and ";" or ". */"}
//@ local moved, merges = {}, false
//@ for _, line in ipairs(part.lines) do merges = merges or line.kind == "merge" end
//@ if part.gathers > 0 then moved[1] = plural(part.gathers, "gather") .. " of " .. part.gathered .. " from peers" end
//@ if part.reduces > 0 then moved[#moved + 1] = plural(part.reduces, "reduction") .. " of " .. part.reduced .. " from peers" end
//@ if #moved > 0 then
 * ${table.concat(moved, ", ")}.${merges and "" or " */"}
//@ if merges then
 * rt_merge_segment adds this leaf's sum into the partial sums of the tree over leaves. */
//@ end
//@ end
//@ else
/* After the last micro-batch of a leaf: its node joins the partial sums of the tree. */
//@ end
${call("static void " .. part.name .. "(", part_params(part), ")")}
{
//@ local pending = {}
//@ local first = true
//@ for _, line in ipairs(part.lines) do
//@ if line.kind == "gather" then
//@ pending[#pending + 1] = line
//@ elseif line.kind == "span" then
//@ if not first then

//@ end
//@ local saved = in_flight
//@ local flying = {}
//@ for i, f in ipairs(in_flight) do flying[i] = f end
//@ for _, p in ipairs(pending) do flying[#flying + 1] = { stream = p.stream, n = p.place, unit = p.unit } end
//@ in_flight = flying
    /* ${line.block} ${line.phase == "recompute" and (line.some and "recompute: what its forward did not keep" or "forward again: its activations were not kept") or line.phase}${meanwhile(line.waits)} */
//@ in_flight = saved
//@ print_span(pending, line)
//@ pending, first = {}, false
//@ else -- gathers that come before it start before it
//@ for _, p in ipairs(pending) do print_start(p) end
//@ pending = {}
//@ if line.kind == "reduce" then
//@ print_start(line)
//@ elseif line.kind == "keep" then
//@ print_keep(line)
//@ elseif line.kind == "merge" then
//@ print_merge(line)
//@ end
//@ end
//@ end
//@ for _, p in ipairs(pending) do print_start(p) end
//@ if part.phase == "forward" then after_forward = in_flight end
}
//@ end
//@ end
//@ end
//@ print_parts(false)

${section("the end of the step")}

//@ local sums, shares = false, false
//@ for _, line in ipairs(lines) do
//@ sums, shares = sums or line.kind == "reduce", shares or line.kind == "gather_updated"
//@ end
//@ if sums then
/* Copies of the model add up their gradient shards. The exact gradient norm and the losses: one
 * small collective. Then the optimizer, on this rank's shards only.${shares and "" or " */"}
//@ else
/* The exact gradient norm and the losses: one small collective. Then the optimizer, on
 * this rank's shards only.${shares and "" or " */"}
//@ end
//@ if shares then
 * Every rank holds all weights: each hands the shard that it updated to the others. */
//@ end
static void update(Rt *rt)
{
//@ local places = { update = "AT_UPDATE", gather_updated = "AT_UPDATE", close = "AT_UPDATE" }
//@ places.largest, places.largest_reduce, places.encode = "AT_UPDATE", "AT_UPDATE", "AT_UPDATE"
//@ local at, matrices
//@ for _, line in ipairs(lines) do
//@ if line.batch then
//@ if not matrices then
    update_matrices(rt);
//@ end
//@ matrices = true
//@ else
//@ local place = places[line.kind] or "AT_NORM"
//@ if place ~= at then
    rt_at(rt, ${place});
//@ at = place
//@ end
//@ if line.kind == "reduce" then
//@ print_start(line)
//@ else
//@ print_waits(line)
//@ end
//@ if line.kind == "norm" then
    rt_norm_add(rt, ${line.segment});
//@ elseif line.kind == "norm_reduce" then
    rt_norm_reduce(rt);
//@ elseif line.kind == "update" then
    rt_update_segment(rt, ${line.segment}, optimizer_update);
//@ elseif line.kind == "gather_updated" then
    rt_gather_updated_start(rt, ${line.segment});
//@ elseif line.kind == "largest" then
    rt_largest_add(rt, ${line.segment});
//@ elseif line.kind == "largest_reduce" then
    rt_largest_reduce(rt);
//@ elseif line.kind == "encode" then
    rt_encode_segment(rt, ${line.segment});
//@ elseif line.kind ~= "reduce" and line.kind ~= "close" then
//@ error("a " .. tostring(line.kind) .. " after the last micro-step")
//@ end
//@ end
//@ end
}
//@ if scales_buffer then

/* Codes of all weights that are gathered so, before the first step. */
void trainer_encode(Rt *rt)
{
//@ for _, s in ipairs(segments) do
//@ if s.codes then
    rt_largest_add(rt, ${s.macro});
//@ end
//@ end
    rt_largest_reduce(rt);
//@ for _, s in ipairs(segments) do
//@ if s.codes then
    rt_encode_segment(rt, ${s.macro});
//@ end
//@ end
}
//@ end
//@ if #batches > 0 then

/* What the optimizer computes of whole matrices: each is one rank's work, whoever holds its
//@ if world_size > 1 then
 * parts. A batch is on its way to its owners while they compute the one before, and its results
 * come back while they compute the next. */
//@ else
 * parts. */
//@ end
static void update_matrices(Rt *rt)
{
//@ local before
//@ for _, line in ipairs(lines) do
//@ if line.batch then
//@ if line.kind == "matrices" then
//@ if before then

//@ end
    /* ${line.batch_name} */
    rt_at(rt, AT_MATRICES);
//@ end
//@ before = line.kind
//@ print_waits(line)
//@ if line.kind == "momentum" then
    rt_update_matrices(rt, ${line.segment}, matrix_momentum);
//@ elseif line.kind == "to_owners" then
    rt_to_owners_start(rt, ${line.batch});
//@ elseif line.kind == "matrices" then
    rt_compute_matrices(rt, ${line.batch});
//@ elseif line.kind == "from_owners" then
    rt_from_owners_start(rt, ${line.batch});
//@ elseif line.kind == "step" then
    rt_update_matrices(rt, ${line.segment}, matrix_update);
//@ end
//@ end
//@ end
}
//@ end
//@ if logits_buffer then

${section("evaluation")}

/* Between steps: the loss of the micro-batch whose tokens are in the buffers, and the
 * logits of its token ROW. Training reads nothing that this writes. */
void trainer_evaluate(Rt *rt)
{
//@ if behind_meets then
    rt_hold_starts(rt);
//@ end
    ${part_call(has.forward_evaluation and "forward_evaluation" or name_of("forward", "last"))}
    ${part_call("evaluate")}
//@ if behind_meets then
    rt_release_starts(rt);
//@ end
}
//@ print_parts(true)
//@ end
