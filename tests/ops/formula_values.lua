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
    -- NaN stays NaN, and so does its gradient: a step with one is skipped
    { "relu(x)", { x = nan }, nan, { x = 1 } },
    { "square(relu(x))", { x = nan }, nan, { x = nan } },
    { "relu(x)", { x = -inf }, 0, { x = 0 } },
    { "max(0, x)", { x = nan }, nan, { x = 1 } },
    { "max(x, g)", { x = nan, g = 1 }, nan, { x = 1, g = 1 } },
    { "max(x, g)", { x = 1, g = nan }, nan, { x = 1, g = 1 } },
    { "min(x, g)", { x = nan, g = 1 }, nan, { x = 1, g = 1 } },
    { "min(x, g)", { x = 1, g = nan }, nan, { x = 1, g = 1 } },
    { "min(x, 3)", { x = nan }, nan, { x = 1 } },
    { "max(x, g)", { x = inf, g = -inf }, inf, { x = 1, g = 0 } },
    { "abs(x)", { x = nan }, nan, {} },
    { "abs(x)", { x = -0.0 }, 0.0, { x = 0 } },
    { "1 / abs(x)", { x = -0.0 }, inf, {} },
}

-- Formula, a row of x, the row that it gives.
local rows = {
    { "x - max(x)", { 1, 3, 2 }, { -2, 0, -1 } },
    { "min(max(x), x)", { 1, nan, 3 }, { nan, nan, nan } },
    { "max(x) * x", { nan, 1 }, { nan, nan } },
    { "max(x) * x", { 1, nan }, { nan, nan } },
}

local tools = {}
for _, part in ipairs { "grad", "kernel", "rows", "sums", "rule" } do
    tools[part] = dofile(root .. "/gen/lua/formula_" .. part .. ".lua")
end
tools.formula = dofile(root .. "/gen/lua/formula.lua")
tools.ident = function(name) return name:match("^[%a_][%w_]*$") ~= nil end
local formula, gradient = tools.formula, tools.grad
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
    local function leaf(n) return inputs[n.name] * 1.0 end
    return formula.evaluate(formula.order { node }, leaf, formula.exact)[node]
end

for _, row in ipairs(wanted) do
    local text, inputs, value, slopes = table.unpack(row)
    local pool, list = formula.pool(), {}
    for name, v in pairs(inputs) do list[#list + 1] = ("%s = %g"):format(name, v) end
    table.sort(list)
    local at = text .. " at " .. table.concat(list, ", ")
    local node = formula.parse(pool, text, function() end)
    check(at, value_of(node, inputs), value * 1.0)
    local derivative, times = gradient(formula, pool, node, formula.order { node }, pool:num(1))
    for name, slope in pairs(slopes) do
        local of = times(pool:num(1), derivative[name] or pool:num(0))
        check("d/d" .. name .. " of " .. at, value_of(of, inputs), slope * 1.0)
    end
end
for _, row in ipairs(rows) do
    local n = { t = 1, d = #row[2], x = row[2], y = {}, round = function(_, v) return v end }
    dofile(root .. "/gen/lua/op_map.lua")({ y = row[1] }, "row", tools).rule.reference(n)
    for j, want in ipairs(row[3]) do
        check(("element %d of %s"):format(j, row[1]), n.y[j], want * 1.0)
    end
end
print(("formula_values: %d formulas, %d mistakes"):format(#wanted + #rows, failed))
os.exit(failed == 0 and 0 or 1)
