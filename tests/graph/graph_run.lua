-- SPDX-License-Identifier: Apache-2.0
-- graph_run.lua: the text of a graph, executed. In: what --dump=grad, --dump=split or --dump=fuse
-- prints, and the ops' references, which compute in f64. Nothing of the generator takes part but its
-- text and its reading of formulas. Out: functions that read a dump, make random inputs of a class and
-- run its nodes. Loaded with the folders of ops, with colons between.
local folders = ...

-- ---- rules -----------------------------------------------------------------------------------

local rules, tools = {}, nil

-- The rule that op.map makes of a formula, by the generator's own reading of it.
local function formula_rule(given, name)
    local from = arg[0]:match("^(.*)tests/graph/") .. "gen/lua/"
    if not tools then
        tools = { formula = dofile(from .. "formula.lua"), ident = function() return true end }
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

-- "<whole, cut:1:8>": what a part has along each axis; nil: no parts.
local function part_of(text)
    local states, list = text:match("<(.-)>"), {}
    for state in (states or ""):gmatch("[^, ]+") do list[#list + 1] = state end
    return states and list
end

local function node_of(line)
    local left, op, ins, rest = line:match("^    (.-) = ([%w_]+)%((.-)%)(.*)$")
    left = left:gsub("%b<>", function(states) return (states:gsub(",", "")) end)
    local node = { op = op, out = {}, ins = {}, attrs = {} }
    for name, dtype, shape, adds in (left .. ","):gmatch("([%w_]+) ([%w_]+) (%b[])([^,]*),") do
        node.out[#node.out + 1] = { name = name, shape = dims_of(shape), dtype = dtype,
                                    adds = adds:find("adds") ~= nil, part = part_of(adds) }
    end
    for name in ins:gmatch("[%w_-]+") do node.ins[#node.ins + 1] = name end -- "-": omitted
    for key, value in rest:gmatch(" ([%w_]+)=(%S+)") do
        if value == "true" or value == "false" then
            node.attrs[key] = value == "true"
        else
            node.attrs[key] = tonumber(value) or value:sub(2, -2)
        end
    end
    return node
end

-- Nodes of the setup, classes, and the axes of a graph in parts: { { name, parts }, ... }
local function parse(file)
    local setup, classes, class, part, axes = {}, {}, nil, "setup", {}
    for line in io.lines(file) do
        local name = line:match("^class ([%w_]+):")
        if name then
            class = { name = name, params = {}, takes = {}, returns = {}, grads = {},
                      forward = {}, backward = {} }
            classes[#classes + 1] = class
        elseif line:find("^parts %a+ %d") then
            axes[#axes + 1] = { name = line:match("^parts (%a+)"), parts = math.tointeger(line:match("%d+")) }
        elseif line:find("^blocks") then
            break
        elseif line:find("^  param ") then
            local p, shape = line:match("^  param (%S+) (%b[])")
            local ident = p:gsub("%.", "_")
            class.params[#class.params + 1] = { name = p, ident = ident, shape = dims_of(shape),
                                                part = part_of(line), gathered = line:match(" gathered (%w+)") }
        elseif line:find("^  takes ") or line:find("^  returns ") then
            local what, v, _, shape = line:match("^  (%a+) ([%w_]+) (%w+) (%b[])")
            table.insert(class[what], { name = v, shape = dims_of(shape), part = part_of(line) })
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
    return setup, classes, axes
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
local options = {} -- round(dtype, v): how results are rounded; nil: not at all

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
        local dtypes = {}
        for i, output in ipairs(r.outputs) do dtypes[output[1]] = node.out[i].dtype end
        n.round = function(what, v) return options.round and options.round(dtypes[what], v) or v end
        for k, v in pairs(node.attrs) do n[k] = v end
        for k, spec in pairs(r.attrs or {}) do -- "1" is a number, but the rule may say 1.0
            if n[k] == nil and type(spec) == "table" then n[k] = spec[2] end -- a quiet one
            if (spec == "number" or spec[1] == "number") and n[k] then n[k] = n[k] + 0.0 end
        end
        for i, input in ipairs(r.inputs) do
            if not input.optional or (node.ins[i] or "-") ~= "-" then
                local v = assert(values[node.ins[i]], node.ins[i])
                if type(input[2]) == "string" then bind(n, input[2], v.shape) end
                n[input[1]] = v
            end
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

-- Ids must be rows of the parameters that they index: those that a node reads beside tokens, not a table
-- of positions. Of a class without such nodes any may be one.
local function rows_of_ids(class)
    local beside, indexed, any = {}, 1 << 30, 1 << 30
    for _, node in ipairs(class.forward) do
        local names = {}
        for _, name in ipairs(node.ins) do names[name] = true end
        for name in pairs(names.tokens and names or {}) do beside[name] = true end
    end
    for _, p in ipairs(class.params) do
        if #p.shape == 2 then any = math.min(any, p.shape[1]) end
        if #p.shape == 2 and beside[p.ident] then indexed = math.min(indexed, p.shape[1]) end
    end
    return indexed < 1 << 30 and indexed or any
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
        if p.gathered then values[p.ident .. "_scale"] = fill({ 1, elems = 1 }, function() return 0.25 end) end
    end
    for _, t in ipairs(class.takes) do
        values[t.name] = fill(t.shape, function() return 2 * random() - 1 end)
        tokens = t.shape[1]
    end
    local vocab, seq, masked = rows_of_ids(class), tokens, false
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

return { options = options, rule = rule, parse = parse, run = run, random = random, fill = fill, inputs_of = inputs_of }
