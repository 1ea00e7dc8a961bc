-- SPDX-License-Identifier: Apache-2.0
-- op_test_bytes.lua: with --bytes only this: kernels of cuda.cu move the bytes that `plan` prices them by. The
-- simulated device counts accesses to its global memory (sim_traffic). In: functions of op_test.lua, in a
-- table. Out: a test of a kernel, and one of an optimizer's.
--
-- Bytes of an operand count once for a launch that reads them, and once for one that writes them. Their sum is
-- the rule's, exactly. A kernel's workspace is beside it: one kernel writes it, the next one reads it at
-- once, while it lies in the cache, so no price includes it. An operand that a launch reads again is listed
-- below with how often, since such reads come from caches, too: without it, an operand is read once.
return function(t)

local check, run_kernel, each_input = t.check, t.run_kernel, t.each_input

local bytes_of = { f64 = 8, f32 = 4, bf16 = 2, f16 = 2, split = 2, e4m3 = 1, e5m2 = 1, i32 = 4 }

-- How many bytes all reads have, by the bytes read once, the call's sizes, what was counted and the bytes of the
-- first output.
local function of_rows(once, n) return n.t * once end -- each row's threads read it
local function all_at_once(once, n, all) return all end -- threads read the same address
local function of_output(once, n, all, out) return out end
local function at_most_output(once, n, all, out) return math.min(all, out) end -- other parts have the other rows
local function of_heads(once, n) return n.t * (n.heads + n.kv_heads) * n.hd * 4 end

-- The norms' backward: a block for every 8 rows reads the weight; long rows are read in two passes.
local function passes(n) return n.d > 8000 and 2 or 1 end
local function of_passes(once, n) return passes(n) * once end
local function of_blocks(once, n)
    local reads = n.dw and (n.t + 7) // 8 or n.t
    return (passes(n) == 2 and 2 * n.t or reads) * once
end

-- qk_norm: a weight for each head, or over all; then rows of q or k may be long.
local function long_part(n, heads) return n.over_all and heads * n.head_dim > 8000 end
local function of_head(key, backward)
    return function(once, n)
        local row = backward and long_part(n, n[key]) and 2 or 1 -- reads of a row
        if not n.over_all then row = n[key] end
        local in_blocks = backward and n.over_all and n.dwq and row == 1
        return (in_blocks and (n.t + 7) // 8 or n.t * row) * once
    end
end
local function of_long_parts(columns)
    return function(once, n)
        local more = 0
        for _, heads in ipairs { n.heads, n.kv_heads } do more = more + (long_part(n, heads) and heads or 0) end
        return once + more * once // (n.heads + columns * n.kv_heads)
    end
end

local norm = { w = of_rows, b = of_rows, rb = of_rows }
local norm_bwd = { x = of_passes, dy = of_passes, w = of_blocks, mean = all_at_once, rstd = all_at_once }
local scale = { s = all_at_once }
local turn = { table = of_heads, starts = all_at_once }
local again = {
    rmsnorm = norm, layernorm = norm, add_rmsnorm = norm, add_layernorm = norm, bias_add_layernorm = norm,
    rmsnorm_bwd = norm_bwd, layernorm_bwd = norm_bwd, rmsnorm_bwd_add = norm_bwd, layernorm_bwd_add = norm_bwd,
    bias = { b = of_rows }, fp8_rows = scale, fp8_columns = scale, fp8_both = scale, rope = turn, rope_bwd = turn,
    qk_norm = { wq = of_head "heads", wk = of_head "kv_heads" },
    qk_norm_bwd = {
        wq = of_head("heads", true), wk = of_head("kv_heads", true), rstd = all_at_once,
        qkv = of_long_parts(1), dy = of_long_parts(2),
    },
    add_pos = { w = of_output, starts = all_at_once }, add_pos_bwd = { starts = all_at_once },
    embed = { w = at_most_output, tokens = all_at_once, part = all_at_once },
    embed_bwd = { tokens = all_at_once, part = all_at_once },
    gather_rows = { x = of_output, index = all_at_once }, gather_rows_bwd = { index = all_at_once },
    logits_row = { row = all_at_once, part = all_at_once }, repeat_heads = { qkv = of_output },
}

-- Rules that say more than kernels move in a call, or less.
--   rows that data choose: the price is for rows that all differ, and lie here; the kernel moves at most that,
--   and the numbers of the parts that lie here
local function chosen(n, sum, moved) return math.min(sum, moved + 4 * (n.parts or 0)) end
local function with_starts(n, sum, moved, given) return given.starts and chosen(n, sum, moved) or moved end
--   scattered rows: those of a gradient that get something are read and written, in an order made in workspace,
--   and others are filled with zeros; operands other than the gradient are checked one by one
local function scattered(n, sum) return sum end
local other_sum = {
    embed = chosen, gather_rows = chosen, logits_row = chosen, add_pos = chosen,
    rope = with_starts, rope_bwd = with_starts,
    embed_bwd = scattered, gather_rows_bwd = scattered, add_pos_bwd = scattered,
    -- v of its rows has no norm and is not read; the rule counts whole operands
    qk_norm_bwd = function(n, sum, moved, given, elem) return moved - elem * n.t * n.kv_heads * n.head_dim end,
}

local function test_bytes(plan)
    local rule, n = host.rule(plan.name), plan.node.n
    local name = plan.name:gsub("_frozen$", ""):gsub("_scale$", "")
    host.dtypes(plan.config[1], plan.config[2])
    local _, _, _, traffic = run_kernel(plan, 1, 0)
    local sum, place, out, given = 0, 0, plan.node.outs[1], {}
    local function count(operand)
        place = place + 1
        local all, once, written_all, written = table.unpack(traffic[place])
        local more = again[name] and again[name][operand[1]]
        local want = more and more(once, n, all, out.elems * bytes_of[out.dtype]) or once
        check(all == want, "%s: reads %d bytes of %s in all, not %d, of %d", plan.what, all, operand[1], want, once)
        check(written_all == written, "%s: writes %s more than once", plan.what, operand[1])
        sum = sum + once + written
        given[operand[1]] = true
    end
    for _, _, operand in each_input(plan.name, plan.inputs) do count(operand) end
    for _, operand in ipairs(rule.outputs) do count(operand) end
    local moved = host.moved(plan.node.id)
    local other = other_sum[name]
    moved = other and other(n, sum, moved, given, bytes_of[out.dtype]) or moved
    check(sum == moved, "%s: moves %d bytes, but its rule says %d", plan.what, sum, moved)
end

-- What gen/plan/kinds.c prices an update by.
local times = { master = 2, moment1 = 2, moment2 = 2, grad = 1, direction = 1 }
local function test_update(plan, traffic, elems, one_buffer)
    local rule = host.rule(plan.name)
    local split = false
    for i, operand in ipairs(rule.inputs) do split = split or plan.dtypes[i] == "split" end
    local sum, want = 0, 0
    for i, operand in ipairs(rule.inputs) do
        local all, once, written_all, written = table.unpack(traffic[i])
        local still = operand[1] == "moment1" and plan.case.momentum == 0 -- sgd has none then
        local often = still and 0 or times[operand[1]] or one_buffer and 0 or split and 2 or 1
        check(all == once and written_all == written, "%s: moves %s twice", plan.what, operand[1])
        sum, want = sum + once + written, want + often * bytes_of[plan.dtypes[i]] * elems
    end
    check(sum == want, "%s: moves %d bytes, but plan says %d", plan.what, sum, want)
end

return test_bytes, test_update

end
