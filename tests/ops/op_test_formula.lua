-- SPDX-License-Identifier: Apache-2.0
-- op_test_formula.lua: what kernels of formulas must hold: the bits of a plain interpreter, which
-- rounds each operation to the compute type as it is written. In: functions of op_test.lua, in a
-- table. Out: test(plan, data), bends(above, middle, below, step) and special(inputs), which puts a zero of
-- each sign, both infinities and NaN among random numbers.
return function(t)

local fmt, check = string.format, t.check

-- Arithmetic of f64 or f32: sums, products, quotients and roots of floats are right if they are
-- rounded from doubles; functions are the runtime's, or those of the simulated device.
local function arithmetic(dtype)
    local function rounded(v) return host.round(dtype, v) end
    local a = {
        num = rounded,
        add = function(x, y) return rounded(x + y) end,
        sub = function(x, y) return rounded(x - y) end,
        mul = function(x, y) return rounded(x * y) end,
        div = function(x, y) return rounded(x / y) end,
        sqrt = function(x) return rounded(math.sqrt(x)) end,
    }
    for _, name in ipairs { "exp", "log", "tanh", "sigmoid", "softplus" } do
        a[name] = function(x) return host.apply(name, dtype, x, host.cuda) end
    end
    return a
end

local function same(a, b)
    return a == b and (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b
end

-- data: what the kernel gave, by output.
local function test(plan, data)
    local rule, n = host.rule(plan.name), {}
    if host.device then return end -- its functions are its own
    for key, v in next, plan.node.n do n[key] = v end
    for i, value in ipairs(plan.inputs) do n[rule.inputs[i][1]] = value.data end
    local dtype = {}
    for i, operand in ipairs(rule.outputs) do
        n[operand[1]], dtype[operand[1]] = {}, plan.node.outs[i].dtype
    end
    n.round = function(what, v) return host.round(dtype[what], v) end
    rule.interpret(n, arithmetic(plan.config[1] == "f64" and "f64" or "f32"))
    for i, operand in ipairs(rule.outputs) do
        local want, got = n[operand[1]], data[i]
        check(#want == #got, "%s: interpreted, %s has another size", plan.what, operand[1])
        for k = 1, #want do
            if not check(same(want[k], got[k]), "%s: %s[%d] is %.17g, interpreted %.17g",
                         plan.what, operand[1], k, got[k], want[k]) then
                return
            end
        end
    end
end

-- Does a function change its slope between these values?
local function bends(above, middle, below, step)
    local right, left = (above - middle) / step, (middle - below) / step
    return math.abs(right - left) > 1e-3 * (0.1 + math.abs(right) + math.abs(left))
end

local odd = { 0.0, -0.0, math.huge, -math.huge, 0.0 / 0.0, 0.0 / 0.0 }

local function special(inputs)
    for _, value in ipairs(inputs) do
        for _, v in ipairs(odd) do value.data[t.integer(1, value.elems)] = v end
    end
end

return { test = test, bends = bends, special = special }

end
