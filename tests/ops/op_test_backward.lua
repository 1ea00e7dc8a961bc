-- SPDX-License-Identifier: Apache-2.0
-- op_test_backward.lua: the gradient of a random projection of an op's outputs, by central
-- differences of its reference in f64, equals the backward's graph run by references. In: functions
-- of op_test.lua, in a table. Out: a function of the op's name.
return function(t)

local check, integer, random_case, random_data = t.check, t.integer, t.random_case, t.random_data
local zeros, apply, by_reference = t.zeros, t.apply, t.by_reference
local operands_by_name, formula, allowed = t.operands_by_name, t.formula, t.allowed

local function test_backward(name)
    local rule = host.rule(name)
    host.at(name, "backward")
    host.dtypes("f64", "f64")
    local inputs, attrs = random_case(name, { "f64", "f64" })
    local outputs, node = apply(name, inputs, attrs)
    local d, weight = {}, {}
    for i, operand in ipairs(rule.outputs) do
        local out = outputs[i]
        if operand.dtype == "f64" then -- a loss: its gradient is 1
            weight[i] = { 1.0 }
        elseif operand.dtype ~= "acc" then -- acc: kept for the backward, no result
            local like = { shape = out.shape, dtype = "f64", elems = out.elems }
            d[operand[1]] = random_data(like)
            weight[i] = like.data
        end
    end
    local gradients = rule.backward(by_reference,
                                    operands_by_name(name, node, inputs, outputs), d)
    if not check(type(gradients) == "table", "%s: backward returns a %s, not a table: %s", name,
                 type(gradients), "{ x = its gradient }, by the names of inputs") then
        return
    end
    local function projection()
        local sum, outs = 0.0, apply(name, inputs, attrs)
        for i = 1, #outs do
            for k, w in ipairs(weight[i] or {}) do sum = sum + w * outs[i].data[k] end
        end
        return sum
    end
    for _, value, operand in t.each_input(name, inputs) do
        local gradient = gradients[operand[1]]
        if not gradient and rule.interpret then -- of a formula: it is 0
            gradient = zeros { elems = value.elems }
        end
        if not gradient then
            check(operand.class == "i32" or operand.class == "acc",
                  "%s: backward has no gradient for %s", name, operand[1])
        elseif type(gradient) ~= "table" or not gradient.data then
            check(false, "%s: backward gives a %s as the gradient of %s, not what an op returns",
                  name, type(gradient), operand[1])
        elseif check(#gradient.data == value.elems,
                     "%s: gradient of %s has another size", name, operand[1]) then
            for _ = 1, math.min(12, value.elems) do
                local k, step = integer(1, value.elems), 1e-5
                local x = value.data[k]
                local function difference_over(step)
                    value.data[k] = x + step
                    local above = projection()
                    value.data[k] = x - step
                    local below = projection()
                    value.data[k] = x
                    return (above - below) / (2 * step), above, below
                end
                local difference, above, below = difference_over(step)
                local got = gradient.data[k]
                if rule.interpret and formula.bends(above, projection(), below, step) then
                    break -- of max, abs or select
                end
                -- a difference of long sums is good to about 1e-8
                local off, limit = math.abs(difference - got), 1e-6 * (0.1 + math.abs(got))
                if off > limit then -- without its error's first term, of the third derivative
                    difference = (4 * difference - difference_over(2 * step)) / 3
                    off = math.abs(difference - got)
                end
                if not check(off <= limit, "%s: d%s[%d] is %.12g, by differences %.12g" .. allowed,
                             name, operand[1], k, got, difference, off, limit) then
                    break
                end
            end
        end
    end
end

return test_backward

end
