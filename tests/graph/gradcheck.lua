-- SPDX-License-Identifier: Apache-2.0
-- gradcheck.lua OPS_FOLDERS GRAD_DUMP FUSE_DUMP: are the gradients of a graph right? In: what
-- --dump=grad and --dump=fuse print, and the ops' references, which compute in f64. Each class is run
-- forward and backward on random values; its gradients are compared with central differences,
-- then with those of the fused graph. Nothing of the generator takes part but its text and its
-- reading of formulas.
-- Out: one line a class, "bad" where they differ; exit 1 then.
local folders, grad_file, fuse_file = arg[1], arg[2], arg[3]

-- ---- rules -----------------------------------------------------------------------------------

local rules, tools = {}, nil

-- The rule that op.map makes of a formula, by the generator's own reading of it.
local function formula_rule(given, name)
    local from = arg[0]:match("^(.*)tests/graph/") .. "gen/lua/"
    if not tools then
        tools = { formula = dofile(from .. "formula.lua") }
        for _, part in ipairs { "grad", "kernel", "rows", "rule" } do
            tools[part] = dofile(from .. "formula_" .. part .. ".lua")
        end
    end
    local made, problems = dofile(from .. "op_map.lua")(given, name, tools)
    if not made then error(name .. ": " .. problems[1].message) end
    if made.derived then rules[made.derived_name] = made.derived.rule end
    return made.rule
end

local function rule(name)
    if rules[name] then return rules[name] end
    local op = setmetatable({ map = function(given) return formula_rule(given, name) end },
                            { __call = function(_, t) return t end })
    for folder in folders:gmatch("[^:]+") do
        local chunk = loadfile(("%s/%s/op.lua"):format(folder, name), "t",
                               setmetatable({ op = op }, { __index = _G }))
        if chunk then
            rules[name] = chunk()
            return rules[name]
        end
    end
    error("no op " .. name)
end

-- ---- the dump --------------------------------------------------------------------------------

local function dims_of(text)
    local dims, elems = {}, 1
    for d in text:gmatch("%d+") do
        dims[#dims + 1] = math.tointeger(d)
        elems = elems * d
    end
    dims.elems = math.tointeger(elems)
    return dims
end

local function node_of(line)
    local left, op, ins, rest = line:match("^    (.-) = ([%w_]+)%((.-)%)(.*)$")
    local node = { op = op, out = {}, ins = {}, attrs = {} }
    for name, dtype, shape, adds in (left .. ","):gmatch("([%w_]+) ([%w_]+) (%b[])([^,]*),") do
        node.out[#node.out + 1] = { name = name, shape = dims_of(shape), dtype = dtype,
                                    adds = adds:find("adds") ~= nil }
    end
    for name in ins:gmatch("[%w_]+") do node.ins[#node.ins + 1] = name end
    for key, value in rest:gmatch(" ([%w_]+)=(%S+)") do
        if value == "true" or value == "false" then
            node.attrs[key] = value == "true"
        else
            node.attrs[key] = tonumber(value) or value:sub(2, -2)
        end
    end
    return node
end

local function parse(file)
    local setup, classes, class, part = {}, {}, nil, "setup"
    for line in io.lines(file) do
        local name = line:match("^class ([%w_]+):")
        if name then
            class = { name = name, params = {}, takes = {}, returns = {}, grads = {},
                      forward = {}, backward = {} }
            classes[#classes + 1] = class
        elseif line:find("^blocks") then
            break
        elseif line:find("^  param ") then
            local p, shape = line:match("^  param (%S+) (%b[])")
            local ident = p:gsub("%.", "_")
            class.params[#class.params + 1] = { name = p, ident = ident, shape = dims_of(shape) }
        elseif line:find("^  takes ") or line:find("^  returns ") then
            local what, v, _, shape = line:match("^  (%a+) ([%w_]+) (%w+) (%b[])")
            table.insert(class[what], { name = v, shape = dims_of(shape) })
        elseif line:find("^  loss ") then
            class.loss = line:match("^  loss ([%w_]+)")
        elseif line:find("^  gradient of ") then
            local p, v = line:match("^  gradient of (%S+): ([%w_]+)")
            class.grads[p] = v
        elseif line == "  forward" or line == "  backward" then
            part = line:sub(3)
        elseif line:find("^    %S") and line:find(" = ") then
            table.insert(class and class[part] or setup, node_of(line))
        end
    end
    return setup, classes
end

-- ---- running ---------------------------------------------------------------------------------

local function bind(n, dims, shape)
    local i = 0
    for token in dims:gmatch("%S+") do
        i = i + 1
        local factor, name = token:match("^(%d+)%*([%a_][%w_]*)$")
        name = name or token:match("^[%a_][%w_]*$")
        if name and n[name] == nil then n[name] = shape[i] // math.tointeger(factor or 1) end
    end
end

local run

-- A chain of formulas: what it replaced, of the class before fusion, on what the chain reads.
local function run_chain(node, values, class)
    local known, before = {}, {}
    for _, part in ipairs { class.forward, class.backward } do
        for _, one in ipairs(part) do
            for _, out in ipairs(one.out) do before[out.name] = one end
        end
    end
    for _, name in ipairs(node.ins) do known[name] = assert(values[name], name) end
    local function find(name)
        if known[name] then return end
        local one = before[name] or error(("the chain %s lacks %s"):format(node.op, name))
        for _, input in ipairs(one.ins) do find(input) end
        run({ one }, known, class)
    end
    for _, out in ipairs(node.out) do
        find(out.name)
        values[out.name] = known[out.name]
    end
end

function run(nodes, values, class)
    for _, node in ipairs(nodes) do
        if node.op:find("^map_") then
            run_chain(node, values, class)
            goto next
        end
        local r, n = rule(node.op), {}
        n.round = function(_, v) return v end
        for k, v in pairs(node.attrs) do n[k] = v end
        for k, spec in pairs(r.attrs or {}) do -- "1" is a number, but the rule may say 1.0
            if n[k] == nil and type(spec) == "table" then n[k] = spec[2] end -- a quiet one
            if (spec == "number" or spec[1] == "number") and n[k] then n[k] = n[k] + 0.0 end
        end
        for i, input in ipairs(r.inputs) do
            if input.optional and not node.ins[i] then break end
            local v = assert(values[node.ins[i]], node.ins[i])
            if type(input[2]) == "string" then bind(n, input[2], v.shape) end
            n[input[1]] = v
        end
        for i, output in ipairs(r.outputs) do
            local v = { shape = node.out[i].shape }
            for k = 1, v.shape.elems do v[k] = 0.0 end
            n[output[1]] = v
        end
        assert(r.reference, node.op .. " has no reference")(n)
        for i, output in ipairs(r.outputs) do
            local v, o = n[output[1]], node.out[i]
            if o.adds then -- into the buffer of the first use: d_w, then d_w_2, d_w_3
                local first = o.name:gsub("_%d+$", "")
                local before = assert(values[first .. " so far"] or values[first], o.name)
                for k = 1, #v do v[k] = v[k] + before[k] end
                values[first .. " so far"] = v
            end
            values[o.name] = v
        end
        ::next::
    end
end

local state = 88172645463325252
local function random() -- xorshift: the same on every machine
    state = state ~ (state << 13)
    state = state ~ (state >> 7)
    state = state ~ (state << 17)
    return (state >> 11) / 2.0 ^ 53
end

local function fill(shape, f)
    local v = { shape = shape }
    for i = 1, shape.elems do v[i] = f(i) end
    return v
end

local function inputs_of(class, setup, like)
    local values, tokens = {}, 0
    for k, v in pairs(setup) do values[k] = v end
    if like then
        for k, v in pairs(like) do values[k] = v end
        return values
    end
    for _, p in ipairs(class.params) do
        values[p.ident] = fill(p.shape, function() return random() - 0.5 end)
    end
    for _, t in ipairs(class.takes) do
        values[t.name] = fill(t.shape, function() return 2 * random() - 1 end)
        tokens = t.shape[1]
    end
    local vocab = 1 << 30 -- ids must be rows of every parameter that ids may index
    for _, p in ipairs(class.params) do
        if #p.shape == 2 then vocab = math.min(vocab, p.shape[1]) end
    end
    local seq, masked = tokens, false
    for _, node in ipairs(class.forward) do
        seq, masked = node.attrs.seq or seq, masked or node.attrs.masked
    end
    for _, node in ipairs(class.backward) do masked = masked or node.attrs.masked end
    for _, name in ipairs { "tokens", "targets" } do
        values[name] = fill({ tokens, elems = tokens }, function()
            return math.tointeger(random() * vocab // 1)
        end)
    end
    values.starts = fill({ tokens, elems = tokens }, function(i) -- four tokens, then the rest
        return (i - 1) % seq < 4 and 0 or 4
    end)
    if masked then values.targets[2] = -1 end
    return values
end

-- What the backward differentiates: the loss, or the output times what the backward takes.
local function objective(class, inputs)
    local values = inputs_of(class, {}, inputs)
    run(class.forward, values)
    if class.loss then return values[class.loss][1] end
    local out, d, sum = values[class.returns[1].name], values[class.takes[#class.takes].name], 0.0
    for i = 1, #out do sum = sum + out[i] * d[i] end
    return sum
end

local function compare(what, got, want, tolerance, bad)
    local scale = math.max(math.abs(want), math.abs(got), 1e-3)
    if not (math.abs(got - want) <= tolerance * scale) then
        bad[#bad + 1] = ("%s: %.12g, not %.12g"):format(what, got, want)
    end
end

local function check_class(class, fused, setup)
    local bad, count = {}, 0
    local inputs = inputs_of(class, setup)
    local values = inputs_of(class, {}, inputs)
    run(class.forward, values)
    run(class.backward, values)
    local pairs_to_check = {}
    for _, p in ipairs(class.params) do
        pairs_to_check[#pairs_to_check + 1] = { p.ident, class.grads[p.name], fused.grads[p.name] }
    end
    local n = #class.returns
    if n > 0 and class.returns[n].name:find("^d_") then
        pairs_to_check[#pairs_to_check + 1] = { class.takes[1].name, class.returns[n].name,
                                                fused.returns[#fused.returns].name }
    end
    local again = inputs_of(class, {}, inputs)
    run(fused.forward, again, class)
    run(fused.backward, again, class)
    for _, p in ipairs(pairs_to_check) do
        local x, d, f = inputs[p[1]], values[p[2]], again[p[3]]
        for i = 1, #d do compare(p[2] .. " fused", f[i], d[i], 1e-9, bad) end
        for _ = 1, 4 do
            local i, h = math.tointeger(random() * #x // 1) + 1, 1e-5
            local at = x[i]
            x[i] = at + h
            local up = objective(class, inputs)
            x[i] = at - h
            local down = objective(class, inputs)
            x[i] = at
            compare(("%s[%d]"):format(p[2], i), d[i], (up - down) / (2 * h), 2e-5, bad)
            count = count + 1
        end
    end
    return bad, count
end

local setup_nodes, classes = parse(grad_file)
local _, fused = parse(fuse_file)
local setup, failed = {}, false
run(setup_nodes, setup)
for i, class in ipairs(classes) do
    local bad, count = check_class(class, fused[i], setup)
    print(("%s %s: %d derivatives"):format(#bad == 0 and "good" or "bad", class.name, count))
    for k = 1, math.min(#bad, 5) do print("  " .. bad[k]) end
    failed = failed or #bad > 0
end
os.exit(not failed and #classes > 0 and 0 or 1)
