-- SPDX-License-Identifier: Apache-2.0
-- fp8.lua OPS_FOLDERS PLAIN_DUMP FP8_DUMP [faults]: does a graph with dtypes.linear = "fp8" compute the
-- graph without, its products on rounded operands? In: what --dump=grad prints of both. Both run on the
-- same random values, in f64, by the ops' references; in the plain graph each product whose sizes are
-- multiples of 16 first rounds its operands to fp8, in all blocks but the last, by formulas of this
-- file. The graph with fp8 has every value of the other one, and all are equal: gradients and the loss, too.
-- With "faults": other roundings, planted one at a time in the plain graph, must show.
-- Out: one line a class, "bad" where they differ; exit 1 then.
local here = arg[0]:match("^(.*/)")
local graph = assert(loadfile(here .. "graph_run.lua"))(arg[1])

-- ---- fp8, by its definition ------------------------------------------------------------------

local forms = { -- mantissa bits, smallest normal exponent, largest value
    e4m3 = { 3, -6, 448 }, e5m2 = { 2, -14, 57344 },
}

local function to_form(form, v)
    local mantissa, low, largest = table.unpack(forms[form])
    local size, e = math.abs(v), low
    while 2.0 ^ (e + 1) <= size do e = e + 1 end
    local step = 2.0 ^ (e - mantissa)
    local n = size / step
    local down = math.floor(n)
    local rest = n - down
    if rest > 0.5 or rest == 0.5 and down % 2 == 1 then down = down + 1 end
    local rounded = math.min(down * step, largest)
    return v < 0 and -rounded or rounded
end

-- A value, as the product of its scale and of fp8.
local function rounded(v, form)
    local top, s = 0.0, 1.0
    for i = 1, #v do top = math.max(top, math.abs(v[i])) end
    while top > s * forms[form][3] do s = 2 * s end
    while s > 2.0 ^ -126 and top <= s / 2 * forms[form][3] do s = s / 2 end
    local out = { shape = v.shape }
    for i = 1, #v do out[i] = to_form(form, v[i] / s) * s end
    return out
end

-- ---- the plain graph with rounded operands ---------------------------------------------------

local operands = { -- of each product, the form in which it takes them
    linear = { x = "e4m3", w = "e4m3" }, conv1d = { x = "e4m3", w = "e4m3" },
    linear_dx = { dy = "e5m2", w = "e4m3" }, conv1d_dx = { dy = "e5m2", w = "e4m3" },
    linear_dw = { dy = "e5m2", x = "e4m3" }, conv1d_dw = { x = "e4m3", dy = "e5m2" },
}
local products, last = 0, false -- how many ran on rounded operands; is this the last block?
for name in pairs(operands) do
    local rule = graph.rule(name)
    local reference = rule.reference
    rule.reference = function(n)
        local given = {}
        if not last and n.t % 16 + n.k % 16 + n.n % 16 == 0 then
            products = products + 1
            for operand, form in pairs(operands[name]) do
                given[operand] = n[operand]
                n[operand] = rounded(n[operand], form)
            end
        end
        reference(n)
        for operand, v in pairs(given) do n[operand] = v end
    end
end

-- ---- both ------------------------------------------------------------------------------------

graph.options.round = function(dtype, v) return forms[dtype] and to_form(dtype, v) or v end

local function run_class(class, values)
    last = class.loss ~= nil
    graph.run(class.forward, values, class)
    graph.run(class.backward, values, class)
end

-- What a step leaves in place of the weights that are gathered as codes.
local scale_fault = 1
local function encode(class, values)
    for _, p in ipairs(class.params) do
        local scale, one = p.ident .. "_scale", { 1, elems = 1 }
        if p.gathered then
            graph.run({ { op = "fp8_scale", ins = { p.ident }, attrs = { to = p.gathered },
                          out = { { name = scale, shape = one, dtype = "f32" } } } }, values, class)
            values[scale][1] = values[scale][1] * scale_fault
            graph.run({ { op = "fp8_rows", ins = { p.ident, scale }, attrs = { to = p.gathered },
                          out = { { name = "codes", shape = p.shape, dtype = p.gathered } } } }, values, class)
            values[p.ident] = values.codes
        end
    end
end

local function check_class(plain, fp8, codes, setup)
    local values, bad, count = graph.inputs_of(plain, setup), {}, 0
    for i, d in ipairs(plain.returns) do -- gradients of outputs are inputs of the backward
        values["d_" .. d.name] = graph.fill(d.shape, function() return graph.random() - 0.5 end)
    end
    local others, encoded, weights = {}, {}, {}
    for k, v in pairs(values) do others[k], encoded[k] = v, v end
    for _, p in ipairs(codes.params) do weights[p.ident] = p.gathered end
    run_class(plain, values)
    run_class(fp8, others)
    encode(codes, encoded)
    run_class(codes, encoded)
    local function compare(with, of, without)
        for name, v in pairs(values) do
            local o = of[name]
            if without[name] then goto next end
            if not o then bad[#bad + 1] = name .. ": the graph " .. with .. " does not have it" end
            count = count + (o and 1 or 0)
            for k = 1, o and #v or 0 do
                if v[k] ~= o[k] then
                    bad[#bad + 1] = ("%s[%d] %s: %.17g, not %.17g"):format(name, k, with, o[k], v[k])
                    break
                end
            end
            ::next::
        end
    end
    compare("with fp8", others, {})
    compare("with codes", encoded, weights)
    table.sort(bad)
    return bad, count
end

local function all(setup_nodes, plain, fp8, codes)
    local bad, count, setup = {}, 0, {}
    graph.run(setup_nodes, setup)
    products = 0
    for i, class in ipairs(plain) do
        local of, n = check_class(class, fp8[i], codes[i], setup)
        table.move(of, 1, #of, #bad + 1, bad)
        count = count + n
    end
    return bad, count
end

local setup_nodes, plain = graph.parse(arg[2])
local _, fp8 = graph.parse(arg[3])
local _, codes = graph.parse(arg[4])
local planted = {
    { "the weight in e5m2", function() operands.linear.w, operands.conv1d.w = "e5m2", "e5m2" end },
    { "x in e5m2", function() operands.linear_dw.x, operands.conv1d_dw.x = "e5m2", "e5m2" end },
    { "dy in e4m3", function() operands.linear_dx.dy, operands.conv1d_dx.dy = "e4m3", "e4m3" end },
    { "codes by another scale", function() scale_fault = 8 end },
    { "no tie to even", function()
        graph.options.round = function(dtype, v) return forms[dtype] and to_form(dtype, v * 1.001) or v end
    end },
}
local bad, count = all(setup_nodes, plain, fp8, codes)
if arg[5] == "faults" then
    for _, fault in ipairs(planted) do
        local before = {}
        for name, forms_of in pairs(operands) do
            before[name] = {}
            for k, v in pairs(forms_of) do before[name][k] = v end
        end
        local round = graph.options.round
        fault[2]()
        if #all(setup_nodes, plain, fp8, codes) == 0 then bad[#bad + 1] = "missed: " .. fault[1] end
        for name, forms_of in pairs(before) do
            for k, v in pairs(forms_of) do operands[name][k] = v end
        end
        graph.options.round, scale_fault = round, 1
    end
end
print(("%s: %d values, %d products"):format(#bad == 0 and "good" or "bad", count, products))
for k = 1, math.min(#bad, 5) do print("  " .. bad[k]) end
os.exit(#bad == 0 and products > 0 and 0 or 1)
