-- SPDX-License-Identifier: Apache-2.0
-- formula_values.lua: formulas at the points where mistakes hide: zeros, ties, NaN, infinities, large
-- values. In: the root of the source. Out: exit 1, and a line for each value or slope that the
-- generator's own reading of the formula, in f64, gives otherwise. What is wanted is PyTorch's where it
-- defines it; kernels equal this reading, to the bit (op_test_formula.lua).
local root = arg[1]
local nan, inf = 0.0 / 0.0, math.huge

-- Formula, inputs, value, slopes by input.
local wanted = {
    { "softplus(x)", { x = 0 }, math.log(2), { x = 0.5 } },
    { "softplus(x)", { x = -0.0 }, math.log(2), { x = 0.5 } },
    { "softplus(x)", { x = -17 }, 4.139937633089748e-08, { x = 4.139937547394331e-08 } },
    { "softplus(x)", { x = -40 }, 4.248354255291589e-18, { x = 4.248354255291589e-18 } },
    { "softplus(x)", { x = -700 }, 9.859676543759770e-305, { x = 9.859676543759770e-305 } },
    { "softplus(x)", { x = 50 }, 50, { x = 1 } },
    { "softplus(x)", { x = inf }, inf, { x = 1 } },
    { "softplus(x)", { x = -inf }, 0, { x = 0 } },
    { "softplus(x)", { x = nan }, nan, { x = nan } },
    { "g * softplus(x)", { x = 0, g = 3 }, 3 * math.log(2), { x = 1.5, g = math.log(2) } },
    -- where a slope jumps: 0 of relu and abs, the second value's of max, min and select
    { "relu(x)", { x = 0 }, 0, { x = 0 } },
    { "abs(x)", { x = 0 }, 0, { x = 0 } },
    { "max(x, g)", { x = 2, g = 2 }, 2, { x = 0, g = 1 } },
    { "min(x, g)", { x = 2, g = 2 }, 2, { x = 0, g = 1 } },
    { "select(x < g, x, g)", { x = 2, g = 2 }, 2, { x = 0, g = 1 } },
    { "square(relu(x))", { x = 0 }, 0, { x = 0 } },
}

local formula = dofile(root .. "/gen/lua/formula.lua")
local gradient = dofile(root .. "/gen/lua/formula_grad.lua")
local failed = 0

local function near(got, want)
    if want ~= want then return got ~= got end
    if want == 0 then return got == 0 and 1 / got == 1 / want end
    return got == want or math.abs(got - want) <= 2e-15 * math.abs(want)
end

local function check(what, got, want)
    if near(got, want) then return end
    failed = failed + 1
    print(("formula_values: %s is %.17g, not %.17g"):format(what, got, want))
end

local function value_of(node, inputs)
    local function leaf(n) return inputs[n.name] + 0.0 end
    return formula.evaluate(formula.order { node }, leaf, formula.exact)[node]
end

for _, row in ipairs(wanted) do
    local text, inputs, value, slopes = table.unpack(row)
    local pool, list = formula.pool(), {}
    for name, v in pairs(inputs) do list[#list + 1] = ("%s = %g"):format(name, v) end
    table.sort(list)
    local at = text .. " at " .. table.concat(list, ", ")
    local node = formula.parse(pool, text, function() end)
    check(at, value_of(node, inputs), value + 0.0)
    local derivative, times = gradient(formula, pool, node, formula.order { node }, pool:num(1))
    for name, slope in pairs(slopes) do
        local of = times(pool:num(1), derivative[name] or pool:num(0))
        check("d/d" .. name .. " of " .. at, value_of(of, inputs), slope + 0.0)
    end
end
print(("formula_values: %d formulas, %d mistakes"):format(#wanted, failed))
os.exit(failed == 0 and 0 or 1)
