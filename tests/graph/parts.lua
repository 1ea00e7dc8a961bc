-- SPDX-License-Identifier: Apache-2.0
-- parts.lua OPS_FOLDERS GRAD_DUMP SPLIT_DUMP [faults]: does a graph in parts compute what the graph
-- without does? In: what --dump=grad and --dump=split print. Both run on the same random values, in
-- f64, by the ops' references: the second part by part, with meets between them. Every value that both
-- have, every gradient and the loss must agree within 1e-12 of its largest number.
-- With "faults": planted one at a time, each of them must show.
-- Out: one line a class, "bad" where they differ; exit 1 then.
local here = arg[0]:match("^(.*/)")
local graph = assert(loadfile(here .. "graph_run.lua"))(arg[1])
local run, inputs_of = graph.run, graph.inputs_of

-- ---- parts of values -------------------------------------------------------------------------

-- Per element of part p: its place in the whole value.
local function places(part, shape, p, parts)
    local dim, text = part:match("^cut:(%d+):([%d+]+)$")
    local list = {}
    if not dim then
        for k = 1, shape.elems do list[k] = k end
        return list
    end
    dim = math.tointeger(dim)
    local inner, outer = 1, 1
    for d = 1, #shape do
        if d < dim then outer = outer * shape[d] elseif d > dim then inner = inner * shape[d] end
    end
    for o = 0, outer - 1 do
        local at = o * shape[dim]
        for size in text:gmatch("%d+") do
            local piece = size // parts
            for k = (at + p * piece) * inner + 1, (at + (p + 1) * piece) * inner do list[#list + 1] = k end
            at = at + math.tointeger(size)
        end
    end
    return list
end

local function piece_of(whole, part, p, parts)
    local list, v = places(part, whole.shape, p, parts), { shape = { table.unpack(whole.shape) } }
    for k, from in ipairs(list) do v[k] = whole[from] end
    local dim = math.tointeger(part:match("^cut:(%d+)"))
    if dim then v.shape[dim] = v.shape[dim] // parts end
    v.shape.elems = #v
    return v
end

-- What is wrong with the parts of a value, or nil.
local function difference(name, part, whole, values, parts)
    local largest = 1.0
    for k = 1, #whole do largest = math.max(largest, math.abs(whole[k])) end
    for p = 0, parts - 1 do
        local list = places(part, whole.shape, p, parts)
        local v = values[p][name]
        if #v ~= #list then return ("%s: %d elements, not %d"):format(name, #v, #list) end
        for k, at in ipairs(list) do
            local got = v[k]
            if part == "partial" then
                got = 0.0
                for q = 0, parts - 1 do got = got + values[q][name][k] end
            end
            if not (math.abs(got - whole[at]) <= 1e-12 * largest) then
                return ("%s of part %d: %.17g, not %.17g"):format(name, p, got, whole[at])
            end
        end
    end
end

-- ---- a class in parts ------------------------------------------------------------------------

local function run_meet(node, values, parts)
    local name, o = node.ins[1], node.out[1]
    local n = { parts = parts, from = node.attrs.from, to = node.attrs.to, x = {}, y = {},
                shape = values[0][name].shape }
    for p = 1, parts do
        n.x[p], n.y[p] = values[p - 1][name], { shape = o.shape }
    end
    graph.rule(node.op).reference(n)
    for p = 0, parts - 1 do
        local v, first = n.y[p + 1], o.name:gsub("_%d+$", "")
        if o.adds then
            local before = values[p][first .. " so far"] or values[p][first]
            for k = 1, #v do v[k] = v[k] + before[k] end
            values[p][first .. " so far"] = v
        end
        values[p][o.name] = v
    end
end

local function run_parts(class, inputs, parts, is_meet)
    local values, part = {}, {}
    for _, list in ipairs { class.params, class.takes } do
        for _, v in ipairs(list) do part[v.ident or v.name] = v.part end
    end
    for p = 0, parts - 1 do
        values[p] = {}
        for name, v in pairs(inputs) do values[p][name] = piece_of(v, part[name] or "whole", p, parts) end
    end
    for _, nodes in ipairs { class.forward, class.backward } do
        for _, node in ipairs(nodes) do
            if is_meet(node) then
                run_meet(node, values, parts)
            else
                for p = 0, parts - 1 do run({ node }, values[p], class) end
            end
        end
    end
    return values
end

local function outputs_of(class)
    local list = {}
    for _, nodes in ipairs { class.forward, class.backward } do
        for _, node in ipairs(nodes) do
            for _, out in ipairs(node.out) do list[out.name] = out end
        end
    end
    return list
end

local function is_meet(node) return node.attrs.from ~= nil and node.attrs.to ~= nil end

-- Differences, and how many values were compared.
local function check_class(class, split, setup, parts)
    local inputs, bad, count = inputs_of(class, setup), {}, 0
    local whole = inputs_of(class, {}, inputs)
    run(class.forward, whole)
    run(class.backward, whole)
    local values, out = run_parts(split, inputs, parts, is_meet), outputs_of(split)
    local function same(name, part, like)
        bad[#bad + 1] = difference(name, part, whole[like], values, parts)
        count = count + 1
    end
    for name in pairs(outputs_of(class)) do
        if out[name] then same(name, out[name].part, name) end
    end
    for i, v in ipairs(class.returns) do
        local name = split.returns[i].name
        same(name, split.returns[i].part, v.name)
    end
    if class.loss then same(split.loss, "whole", class.loss) end
    for p, d in pairs(class.grads) do same(split.grads[p], out[split.grads[p]].part, d) end
    table.sort(bad)
    return bad, count
end

-- ---- faults ----------------------------------------------------------------------------------

-- A list of { name, plant }; plant changes a class and returns what undoes it.
local function faults_of(class, parts)
    local list = {}
    local function set(name, t, key, value)
        list[#list + 1] = { name, function()
            local old = t[key]
            t[key] = value
            return function() t[key] = old end
        end }
    end
    for _, p in ipairs(class.params) do
        if p.part:find("+", 1, true) then -- q, k and v cut as one
            local dim = p.part:match("^cut:(%d+)")
            set(p.name .. " is cut across its sections", p, "part",
                ("cut:%s:%d"):format(dim, p.shape[math.tointeger(dim)]))
        end
    end
    for _, nodes in ipairs { class.forward, class.backward } do
        for i, node in ipairs(nodes) do
            if is_meet(node) and node.attrs.from == "partial" then
                set("no sum of " .. node.ins[1], node.attrs, "from", "whole")
            end
            local after = nodes[i + 1]
            if is_meet(node) and node.attrs.from == "partial" and after and after.op == "bias"
                and after.ins[1] == node.out[1].name then
                list[#list + 1] = { "the bias before the sum of " .. node.ins[1], function()
                    local early = { op = after.op, ins = { node.ins[1], after.ins[2] }, attrs = {},
                                    out = { { name = "early", shape = { table.unpack(after.out[1].shape) } } } }
                    local shape = early.out[1].shape
                    shape[1] = shape[1] * parts
                    shape.elems = after.out[1].shape.elems * parts
                    nodes[i] = early
                    nodes[i + 1] = { op = node.op, ins = { "early" }, attrs = node.attrs, out = after.out }
                    return function() nodes[i], nodes[i + 1] = node, after end
                end }
            end
        end
    end
    return list
end

local function check_faults(class, split, setup, parts)
    local missed, list = {}, faults_of(split, parts)
    for _, fault in ipairs(list) do
        local undo = fault[2]()
        local ok, bad = pcall(check_class, class, split, setup, parts)
        if ok and #bad == 0 then missed[#missed + 1] = "missed: " .. fault[1] end
        undo()
    end
    return missed, #list
end

local setup_nodes, classes = graph.parse(arg[2])
local _, split, parts = graph.parse(arg[3])
local setup, failed, total = {}, false, 0
run(setup_nodes, setup)
for i, class in ipairs(classes) do
    local check = arg[4] == "faults" and check_faults or check_class
    local bad, count = check(class, split[i], setup, parts)
    print(("%s %s: %d parts, %d %s"):format(#bad == 0 and "good" or "bad", class.name, parts, count,
                                            arg[4] or "values"))
    for k = 1, math.min(#bad, 5) do print("  " .. bad[k]) end
    failed, total = failed or #bad > 0, total + count
end
os.exit(not failed and total > 0 and parts > 1 and #classes > 0 and 0 or 1)
