-- SPDX-License-Identifier: Apache-2.0
-- op_test_fused.lua: what every fused op's kernel must hold: its bits are those of its
-- expansion's kernels, one by one; where sums may run in another order, within rounding. In:
-- functions of op_test.lua, in a table. Out: three functions: the reference's test, plan and test.
return function(t)

local fmt, check, compare = string.format, t.check, t.compare
local builder, operands_by_name = t.builder, t.operands_by_name
local plan_kernel, run_kernel = t.plan_kernel, t.run_kernel
local inputs_of, of_tokens, class_dtype = t.inputs_of, t.of_tokens, t.class_dtype
local random_case, apply, by_reference = t.random_case, t.apply, t.by_reference

local function test_expansion_reference(name)
    local rule = host.rule(name)
    host.at(name, "expands")
    host.dtypes("f64", "f64")
    local inputs, attrs = random_case(name, { "f64", "f64" })
    local outputs, node = apply(name, inputs, attrs)
    local expanded = rule.expands(by_reference, operands_by_name(name, node, inputs))
    for i, operand in ipairs(rule.outputs) do
        local want = expanded[operand[1]]
        if check(want, "%s: its expansion has no %s", name, operand[1]) then
            for k = 1, want.elems do
                if not check(math.abs(want.data[k] - outputs[i].data[k])
                             <= 1e-11 * (1 + math.abs(want.data[k])),
                             "%s: reference of %s differs from its expansion's", name,
                             operand[1]) then
                    break
                end
            end
        end
    end
end

-- The expansion of `rows` tokens as kernels to run in order; its values are filled when
-- they run. nil: an op of it has no kernel.
local function plan_part(plan, first, rows)
    local rule, part, missing = host.rule(plan.name), { steps = {} }, false
    local recorder = builder(function(name, inputs, attrs)
        local step = plan_kernel(name, inputs, attrs)
        if not step then
            missing = true
            return host.infer(name, inputs, attrs).outs
        end
        part.steps[#part.steps + 1] = step
        return step.node.outs
    end)
    local inputs = rows and inputs_of(plan, first, rows) or plan.inputs
    local n = operands_by_name(plan.name, plan.node, inputs)
    n.t = rows or n.t
    part.expanded = rule.expands(recorder, n)
    return not missing and part or nil
end

-- An op with an attribute `chunk` stands for its expansion of so many tokens at a time:
-- products of other shapes may have other bits (runtime/rt_gemm.h). On CUDA rows of its
-- logits have a pad, which is another shape, too: there it is compared within rounding.
local function plan_expansion(plan)
    local t, chunk = plan.node.n.t, plan.attrs.chunk
    if not chunk or chunk >= t or host.cuda then
        plan.parts = { plan_part(plan) }
        return
    end
    plan.parts = {}
    for first = 0, t - 1, chunk do
        plan.parts[#plan.parts + 1] = plan_part(plan, first, math.min(chunk, t - first))
    end
end

-- Ops whose sums may run in another order than their expansion's on CUDA, and why.
local reordered = {
    linear_cross_entropy = "dw is added chunk by chunk",
    linear_cross_entropy_alone = "dw is added chunk by chunk",
    linear_cross_entropy_frozen = "losses are added by one block",
}

-- Runs a part; what the op adds to is added to `before`, the part before this one.
local function run_part(rule, part, before)
    local added, bytes = {}, {}
    for _, operand in ipairs(rule.outputs) do
        if operand.add and before then
            added[part.expanded[operand[1]]] = before.expanded[operand[1]].data
        end
    end
    for _, step in ipairs(part.steps) do
        local initial, beta = {}, 0
        for i, out in ipairs(step.node.outs) do
            initial[i] = added[out]
            if added[out] then beta = 1 end
        end
        local outs, raw = run_kernel(step, 2, beta, initial)
        for i, out in ipairs(step.node.outs) do
            out.data = outs[i]
            bytes[out] = raw[i]
        end
    end
    part.bytes = {}
    for _, operand in ipairs(rule.outputs) do
        part.bytes[operand[1]] = bytes[part.expanded[operand[1]]]
    end
end

-- What all parts together give for an output: bytes, or, of a loss, whose parts are added
-- up in f64, numbers.
local function joined_parts(operand, parts)
    local name, bytes = operand[1], {}
    if #parts == 1 or operand.add then return parts[#parts].bytes[name] end
    if not of_tokens(operand) then
        local sum = 0.0
        for _, part in ipairs(parts) do sum = sum + part.expanded[name].data[1] end
        return nil, { sum }
    end
    for i, part in ipairs(parts) do bytes[i] = part.bytes[name] end
    return table.concat(bytes)
end

local function test_fused(plan)
    local rule = host.rule(plan.name)
    local data, raw = run_kernel(plan, 2, 0)
    for i, part in ipairs(plan.parts) do run_part(rule, part, plan.parts[i - 1]) end
    for i, operand in ipairs(rule.outputs) do
        local what = fmt("%s: %s and its expansion's", plan.what, operand[1])
        local dtype = plan.node.outs[i].dtype
        local bytes, numbers = joined_parts(operand, plan.parts)
        if host.cuda and reordered[plan.name] then
            if dtype == "f64" then -- a sum of losses that are rounded to acc
                dtype = class_dtype("acc", plan.config)
            end
            compare(what, data[i], plan.parts[1].expanded[operand[1]].data, dtype,
                    plan.name)
        elseif numbers then
            compare(what, data[i], numbers, dtype, plan.name)
        else
            check(bytes == raw[i], "%s: other bits", what)
        end
    end
end

return test_expansion_reference, plan_expansion, test_fused

end
