-- SPDX-License-Identifier: Apache-2.0
-- op_test_rows.lua: a row's bits must not depend on the rows beside it, because ranks and
-- spans take other numbers of them. In: functions of op_test.lua, in a table. Out: two
-- functions: plan, which cuts a case in two where its rows are independent, and test.
return function(t)

local check, integer, plan_kernel, run_kernel = t.check, t.integer, t.plan_kernel, t.run_kernel
local inputs_of, of_tokens = t.inputs_of, t.of_tokens

-- Each output has its rows first, and each input has them first or not at all; where the op
-- knows sequences, a cut lies between two of them.
local function step_of(plan)
    local rule = host.rule(plan.name)
    if not rule.axes or rule.axes.t ~= "parallel" then return nil end
    for i, operand in ipairs(rule.outputs) do
        local rows = plan.node.outs[i].shape[1] == plan.node.n.t
        if type(operand[2]) == "string" then rows = of_tokens(operand) end
        if not rows or operand.add then return nil end
    end
    for _, operand in ipairs(rule.inputs) do
        local dims = operand[2]
        if type(dims) ~= "string" then return nil end
        if not of_tokens(operand) and string.find(dims, "%f[%w]t%f[^%w]") then return nil end
    end
    local step = plan.attrs.seq or 1
    return plan.node.n.t // step >= 2 and not plan.attrs.chunk and step or nil
end

-- Products of other shapes may have other bits (runtime/rt_gemm.h).
local function plan_rows(plan)
    local step, total = step_of(plan), plan.node.n.t
    if not step or host.of_products(plan.id) then return end
    local first = step * integer(1, total // step - 1)
    plan.halves = {
        plan_kernel(plan.name, inputs_of(plan, 0, first), plan.attrs),
        plan_kernel(plan.name, inputs_of(plan, first, total - first), plan.attrs),
    }
    plan.cut = first
    for half, rows in ipairs { first, total - first } do
        for _, out in ipairs(plan.halves[half].node.outs) do
            if out.shape[1] ~= rows then -- another dim of that size came first
                plan.halves = nil
                return
            end
        end
    end
end

local function test_rows(plan, raw)
    local _, top = run_kernel(plan.halves[1], 2, 0)
    local _, bottom = run_kernel(plan.halves[2], 2, 0)
    for i, operand in ipairs(host.rule(plan.name).outputs) do
        if not check(top[i] .. bottom[i] == raw[i],
                     "%s: rows of %s have other bits when they are cut after row %d",
                     plan.what, operand[1], plan.cut) then
            return
        end
    end
end

return plan_rows, test_rows

end
