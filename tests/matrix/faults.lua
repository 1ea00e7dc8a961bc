-- SPDX-License-Identifier: Apache-2.0
-- faults.lua: one fault, or more, for each rule of "How it is kept" of the numerics contract,
-- and what shows it.
--
--     matrix_lua faults.lua list             names, a line each
--     matrix_lua faults.lua plant NAME DIR   edits a copy of runtime/ and templates/ in DIR;
--                                            prints `what|how|sets of the model|row`
--
-- A fault is a plausible mistake made everywhere, in the one-rank reference too. How it shows:
-- `row`: that row of the matrix fails; `builds`: other compilers disagree; `symbols`: the
-- trainer's objects call what they must not. Every edit's old text must be there once.

local function row(replicate, shard, threads, ...)
    local sets = { "mesh.replicate=" .. replicate, "mesh.shard=" .. shard, ... }
    return ("%dx%d, %d threads\t%d\t%s"):format(replicate, shard, threads, threads,
                                               table.concat(sets, "\t"))
end

local function in_parts(tensor, context)
    return "parts.tensor=" .. tensor .. " parts.context=" .. context .. " global_batch=8 model.layers=2 "
        .. "model.heads=16 model.kv_heads=8 model.head_dim=6 model.ffn=64 model.vocab=260 seq=16"
end

local faults = {
    { "merge_in_order", "a rank adds its leaves one after the other, not as a tree",
      row = row(1, 8, 1),
      { "runtime/cpu/rt_sum.c", "const int levels = rt_merge_levels(round);",
        "const int levels = round > 0;" },
      { "runtime/cpu/rt_sum.c", "memcpy(p + levels * elems * item, v,",
        "memcpy(p, v," } },

    { "reduce_by_rank", "a reduction adds rank after rank, not as a tree",
      row = row(1, 4, 1),
      { "runtime/cpu/rt_pull.c", "op->order == RT_ORDER_LIBRARY ? rt_sum_in_order : rt_sum_tree;",
        "rt_sum_in_order;" } },

    { "two_hops", "the sums of nodes are added one after the other",
      row = row(1, 8, 1, "mesh.node=2"),
      { "runtime/cpu/rt_pull.c", "op->order == RT_ORDER_LIBRARY ? rt_sum_in_order : rt_sum_tree;",
        "(group & ~rt->trainer->nodes) == 0 ? rt_sum_in_order : rt_sum_tree;" } },

    { "nodes_unrounded", "a reduction rounds its sum once, not at every node",
      row = row(1, 4, 1), sets = 'dtypes.reduce="bf16"',
      { "runtime/cpu/rt_sum.c", "tree_block(d, out, parts, count, n, scratch);", [[
(void)scratch;
    for (int64_t i = 0; i < n; i++) {
        float sum[RT_MAX_RANKS];
        for (int r = 0; r < count; r++) {
            sum[r] = rt_f32_from_bf16(((const rt_bf16 *)parts[r])[i]);
        }
        for (int w = 1; w < count; w *= 2) {
            for (int r = 0; r < count; r += 2 * w) {
                sum[r] += sum[r + w];
            }
        }
        ((rt_bf16 *)out)[i] = rt_bf16_from_f32(sum[0]);
    }
    return;
    tree_block(d, out, parts, count, n, scratch);]] } },

    { "reduce_ring", "a reduction begins at the shard's owner, as a ring does",
      row = row(1, 4, 1),
      { "runtime/cpu/rt_pull.c", "rt_group_rank(group, rt->rank, k)] + from + at * item;",
        "rt_group_rank(group, rt->rank, (k + rt->rank) % ranks)] + from + at * item;" } },

    { "leaves_sharded", "sharded accumulators with the leaves of unsharded ones",
      row = row(1, 2, 1, "accumulate=sharded"),
      { "runtime/rt.h", "const RtGroup low = t->summed_first, high = t->summed_last;",
        "const RtGroup low = 0, high = t->data;" } },

    { "leaves_unsharded", "unsharded accumulators with leaves dealt in turn",
      row = row(1, 2, 1, "accumulate=unsharded"),
      { "runtime/rt.h", "const RtGroup low = t->summed_first, high = t->summed_last;",
        "const RtGroup low = t->data, high = 0;" } },

    { "leaves_hybrid", "a copy's leaves are dealt in turn to all ranks", row = row(2, 2, 1),
      { "runtime/rt.h", "const RtGroup low = t->summed_first, high = t->summed_last;",
        "const RtGroup low = t->data, high = 0;" } },

    { "norm_of_runs", "squares are added in floating point over a shard, not over chunks",
      row = row(1, 4, 1),
      { "runtime/cpu/rt_norm.c", "at < run->elems; at += RT_GRAIN_ELEMS",
        "at < run->elems; at += run->elems" },
      { "runtime/cpu/rt_norm.c", "left < RT_GRAIN_ELEMS ? left : RT_GRAIN_ELEMS", "left" } },

    { "loss_by_rank", "losses are added rank by rank, not in the order of micro-batches",
      row = row(1, 4, 1), sets = 'dtypes.param="f64"', -- sums of f32 are exact in f64
      { "runtime/cpu/rt_norm.c", [[
for (int64_t i = 0; i < t->micro_batches; i++) {
        double one = 0;
        for (int k = 0; k < data_ranks; k++) {]], [[
for (int k = 0; k < data_ranks; k++) {
        double one = 0;
        for (int64_t i = 0; i < t->micro_batches; i++) {]] } },

    -- f16 has subnormals at once: there a power of two, too, is seen
    { "mean_in_dlogits", "dlogits carry 1 / tokens of a rank; the optimizer divides by ranks",
      row = row(1, 4, 1), sets = 'dtypes.param="f16" loss_scale.init=1',
      { "runtime/state/rt_scale.c", "return (float)rt_scale(rt);", [[
return (float)(rt_scale(rt) * rt->world_size / (double)rt_step_tokens(rt->trainer));]] },
      { "runtime/cpu/rt_norm.c", "rt_sqrt(rt_superacc_round(total)) / tokens",
        "rt_sqrt(rt_superacc_round(total)) / rt->world_size" },
      { "runtime/state/rt_update.c", "st->clip_factor / (double)st->valid_tokens",
        "st->clip_factor / (double)rt->world_size" } },

    { "mean_of_rank", "the optimizer divides by the targets of its rank, times ranks",
      row = row(1, 4, 1), sets = "documents.end_id=10", -- ends of lines: uneven targets
      { "runtime/cpu/rt_norm.c", "st->valid_tokens += *(const int64_t *)(rt->peer[r] + targets_at);",
        "st->valid_tokens += *(const int64_t *)(rt->symmetric + targets_at);" } },

    { "init_by_rank", "initial weights are counted from the shard's first element",
      row = row(1, 2, 1),
      { "runtime/state/rt_init.c", "(uint64_t)(run->element + from + i)",
        "(uint64_t)(run->shard_offset_elems + from + i)" } },

    { "noise_by_rank", "stochastic rounding is counted from the run's first element",
      row = row(1, 2, 1), sets = 'dtypes.param="bf16" dtypes.moments="bf16"',
      { "runtime/state/rt_update.c", "const int64_t element = run->element + from + i;",
        "const int64_t element = from + i;" } },

    { "scale_by_rank", "only one rank's loss scale shrinks",
      row = row(1, 2, 1), sets = 'dtypes.param="f16" loss_scale.init=1<<30 loss_scale.factor=16',
      { "runtime/state/rt_scale.c", "st->overflowed = st->loss_scale > rt->trainer->loss_scale.min;",
        "st->overflowed = st->loss_scale > rt->trainer->loss_scale.min && rt->rank == 0;" } },

    { "data_by_rank", "each rank shuffles with a seed of its own",
      row = row(1, 2, 1),
      { "runtime/data/rt_data.c", "rt_tokens_place(st->tokens, (uint64_t)st->flags.seed, global)",
        "rt_tokens_place(st->tokens, (uint64_t)(st->flags.seed + rt->rank), global)" } },

    { "split_k", "a product's K is split among the threads", row = row(1, 1, 3),
      { "runtime/cpu/rt_gemm.c", "#else\n    rt_builtin_tile(&p->g, t);\n#endif", [[
#else
    const int64_t parts = omp_get_num_threads(), k = p->g.k;
    for (int64_t i = 0; i < parts; i++) {
        const int64_t lo = k * i / parts, in = (int64_t)rt_dtype_bytes(p->g.in_dtype);
        RtGemm g = p->g;
        RtTile s = *t;
        g.k = k * (i + 1) / parts - lo;
        s.a = (const char *)t->a + (g.op == RT_TN ? lo * g.lda : lo) * in;
        s.b = (const char *)t->b + (g.op == RT_NT ? lo : lo * g.ldb) * in;
        s.beta = i == 0 ? t->beta : 1;
        rt_builtin_tile(&g, &s);
    }
#endif]] } },

    { "updated_from_first", "whole weights take the first shard of each rank, not the one it updated",
      row = row(1, 4, 1, "strategy=shard_optimizer"),
      { "runtime/cpu/rt_pull.c", "op->kind == RT_OP_GATHER_IN_PLACE ? bytes : 0;", "0;" } },

    { "whole_at_first", "ranks that hold all weights begin with the shard that they initialised",
      row = row(1, 2, 1, "strategy=shard_optimizer"),
      { "runtime/rt_main.c", "rt_complete_weights(rt);", "" } },

    { "matrix_in_part", "the owner of a matrix has only what lay there before",
      row = row(1, 4, 1), sets = "optimizer=muon{lr=2e-3}",
      { "runtime/state/rt_owners.c", "if (run.elems > 0)",
        "if (run.elems > 0 && (l->back || holder == m->owner))" } },

    { "matrix_not_back", "a rank keeps its part of a matrix that another one owns",
      row = row(1, 4, 1), sets = "optimizer=muon{lr=2e-3}",
      { "runtime/state/rt_owners.c", "if (run.elems > 0)",
        "if (run.elems > 0 && (!l->back || holder == m->owner))" } },

    { "matrix_of_own_boxes", "ranks along an axis take each other's boxes of a matrix for their own",
      row = row(1, 1, 1, "mesh.tensor=2"), sets = "optimizer=muon{lr=2e-3} " .. in_parts(2, 1),
      { "runtime/state/rt_map.c", ".elems = x->along == at.along && from < to", ".elems = from < to" } },

    { "moment_of_others", "second moments lie at their shard's places, over what has none",
      row = row(1, 4, 1), sets = "optimizer=muon{lr=2e-3}",
      { "runtime/state/rt_map.c", "n += p->n_matrices == 0 && from < to ? to - from : 0;",
        "n = from < to ? 0 : n;" } },

    { "tail", "the last block of a run is computed by another formula", row = row(1, 4, 1),
      { "templates/ops/adamw/cpu.c", '"p - step * m / denominator"',
        '"to - from < 4096 ? p - step / denominator * m : p - step * m / denominator"' } },

    { "contraction", "the compiler may contract a * b + c", builds = true,
      { "templates/trainer/Makefile", "-ffp-contract=off", "-ffp-contract=fast" } },

    { "libm", "the gradient at the target is of libm's exp", symbols = true,
      { "runtime/rt_row_body.h",
        "const RT_A p = RT_SCALAR(exp)(RT_TO_ACC(x[target]) - lse);",
        "const RT_A p = (RT_A)__builtin_exp((double)(RT_TO_ACC(x[target]) - lse));" } },

    { "mesh_in_math", "the mathematics know the number of ranks", row = row(1, 2, 1),
      { "templates/trainer/math.c", "the mathematics of ${name}: each distinct span once",
        "the mathematics of ${name} on ${world_size} ranks: each distinct span once" } },

    -- with two ranks the second begins at half of the parts, which is the same tree
    { "meet_at_own", "a sum of all parts begins at the first part of the rank that adds it",
      row = row(1, 1, 1, "mesh.tensor=4"), sets = in_parts(8, 1),
      { "templates/ops/meet/cpu.c", 'name = "x[" .. first .. "]"',
        'name = "x[(part + " .. first .. ") % " .. parts .. "]"' } },

    { "part_by_rank", "parts are numbered from the rank's number on, however many it has",
      row = row(1, 1, 1, "mesh.context=2"), sets = in_parts(1, 4),
      { "runtime/state/rt_map.c", ".first = rt_group_index(ranks, rank) * here}",
        ".first = rt_group_index(ranks, rank)}" } },

    { "boxes_in_turn", "a rank's boxes follow each other, also where parts along both axes cut a weight",
      row = row(1, 1, 1, "mesh.tensor=2", "mesh.context=2"), sets = in_parts(2, 4),
      { "runtime/state/rt_map.c", "if (p->inner_boxes <= 1)", "if (p->inner_boxes <= 1 || held > 1)" } },

    { "arena", "the trainer maps more than the plan states", row = row(1, 2, 1),
      { "templates/trainer/trainer.c", ".local_bytes = ", ".local_bytes = 4096 + " } },
}

local function find(name)
    for _, f in ipairs(faults) do
        if f[1] == name then
            return f
        end
    end
    error("there is no fault " .. name)
end

local function replace_once(path, old, new)
    local file = assert(io.open(path, "rb"))
    local text = file:read("a")
    file:close()
    local first, last = text:find(old, 1, true)
    if not first or text:find(old, last + 1, true) then
        error(("%s: the text to replace is there %s:\n%s"):format(
            path, first and "twice" or "no more", old), 0)
    end
    file = assert(io.open(path, "wb"))
    assert(file:write(text:sub(1, first - 1), new, text:sub(last + 1)))
    assert(file:close())
end

local function plant(fault, dir)
    for i = 3, #fault do
        replace_once(dir .. "/" .. fault[i][1], fault[i][2], fault[i][3])
    end
    local how = fault.builds and "builds" or fault.symbols and "symbols" or "row"
    print(table.concat({ fault[2], how, fault.sets or "", fault.row or "" }, "|"))
end

if arg[1] == "list" then
    for _, f in ipairs(faults) do
        print(f[1])
    end
else
    plant(find(arg[2]), arg[3])
end
