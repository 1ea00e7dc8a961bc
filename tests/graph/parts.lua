-- SPDX-License-Identifier: Apache-2.0
-- parts.lua OPS_FOLDERS GRAD_DUMP SPLIT_DUMP [faults]: does a graph in parts compute what the graph
-- without does? In: what --dump=grad and --dump=split print. Both run on the same random values, in
-- f64, by the ops' references: the second part by part, with meets between them. Every value that both
-- have, every gradient and the loss must agree within 1e-12 of its largest number; rows that are looked
-- up to the bit, also where they are -0.0.
-- With "faults": planted one at a time, each of them must show.
-- Out: one line a class, "bad" where they differ; exit 1 then.
local here = arg[0]:match("^(.*/)")
local graph = assert(loadfile(here .. "graph_run.lua"))(arg[1])
local run, inputs_of = graph.run, graph.inputs_of

-- ---- parts of values -------------------------------------------------------------------------

-- Per element of part p: its place in the whole value; 0 if it is padding: "cut:1:256-6".
local function places(part, shape, p, parts)
    local dim, text = part:match("^cut:(%d+):([%d+]+)%-?%d*$")
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
        local at = 0
        for size in text:gmatch("%d+") do
            local piece = size // parts
            for i = at + p * piece, at + (p + 1) * piece - 1 do
                local first = i < shape[dim] and (o * shape[dim] + i) * inner
                for k = 1, inner do list[#list + 1] = first and first + k or 0 end
            end
            at = at + math.tointeger(size)
        end
    end
    return list
end

local function piece_of(whole, part, p, parts)
    local list, v = places(part, whole.shape, p, parts), { shape = { table.unpack(whole.shape) } }
    for k, from in ipairs(list) do v[k] = whole[from] or 0.0 end
    local dim, pad = part:match("^cut:(%d+):[%d+]+%-?(%d*)$")
    dim = math.tointeger(dim)
    if dim then v.shape[dim] = (v.shape[dim] + (tonumber(pad) or 0)) // parts end
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
            local want = whole[at] or 0.0
            if not (math.abs(got - want) <= (at > 0 and 1e-12 or 0) * largest) then
                return ("%s of part %d: %.17g, not %.17g"):format(name, p, got, want)
            end
        end
    end
end

-- What a sum over parts is that must be the whole value to the bit: that of rows which one part has.
local function other_bits(name, part, whole, values, parts)
    for p = 0, parts - 1 do
        for k, at in ipairs(places(part, whole.shape, p, parts)) do
            local got = values[p][name][k]
            if string.pack("d", got) ~= string.pack("d", whole[at]) then
                return ("%s of part %d: %a is not %a"):format(name, p, got, whole[at])
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
        values[p].part = { p, shape = { 1, elems = 1 } }
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
            for _, out in ipairs(node.out) do
                list[out.name], out.op, out.of = out, node.op, node.ins[1]
            end
        end
    end
    return list
end

local function is_meet(node) return node.attrs.from ~= nil and node.attrs.to ~= nil end
local function is_meet_of(out) return graph.rule(out.op).role == "collective" end

-- Has the class copies of key and value heads? Values of these are larger than the whole ones.
local function has_copies(class)
    for _, node in ipairs(class.forward) do
        if node.op == "repeat_heads" then return true end
    end
end

-- Differences, and how many values were compared.
local function check_class(class, split, setup, parts)
    local inputs, bad, count = inputs_of(class, setup), {}, 0
    for _, p in ipairs(class.params) do
        for k = 3, #inputs[p.ident], 7 do inputs[p.ident][k] = -0.0 end
    end
    local whole = inputs_of(class, {}, inputs)
    run(class.forward, whole)
    run(class.backward, whole)
    local values, out = run_parts(split, inputs, parts, is_meet), outputs_of(split)
    local function same(name, part, like)
        bad[#bad + 1] = difference(name, part, whole[like], values, parts)
        count = count + 1
    end
    local copies = has_copies(split)
    for name in pairs(outputs_of(class)) do
        local o = out[name]
        if o and not (copies and #values[0][name] * parts > #whole[name] and o.part:find "^cut") then
            same(name, o.part, name)
        end
    end
    local of_whole = outputs_of(class)
    for name, o in pairs(out) do
        if is_meet_of(o) and of_whole[o.of] and of_whole[o.of].op == "embed" then
            bad[#bad + 1] = other_bits(name, o.part, whole[o.of], values, parts)
            count = count + 1
        end
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

-- In what ops compute that only parts need: { op, what is wrong, how that changes its operands, the
-- attribute without which there is no such place }.
local function copy(list)
    local t = { shape = list.shape }
    for k, v in ipairs(list) do t[k] = v end
    return t
end
local function shifted(key)
    return function(n)
        n[key] = copy(n[key])
        for k, v in ipairs(n[key]) do n[key][k] = v >= 0 and v + 1 or v end
    end
end
-- f(list of each part's stats of a token), which it may change.
local function of_stats(f)
    return function(n)
        n.stats = copy(n.stats)
        for i = 0, n.t - 1 do
            local parts = {}
            for k = 0, n.p - 1 do
                local at = (k * n.t + i) * n.c
                parts[k + 1] = setmetatable({}, {
                    __index = function(_, s) return n.stats[at + s] end,
                    __newindex = function(_, s, v) n.stats[at + s] = v end,
                })
            end
            f(parts)
        end
    end
end

-- Rows [q | k | v] whose first key is another's.
local function other_key(n)
    local hd = n.c // (n.heads + 2 * n.kv_heads)
    n.qkv = copy(n.qkv)
    for k = n.heads * hd + 1, (n.heads + 1) * hd do n.qkv[k] = n.qkv[k] + 1 end
end

local wrong_ops = {
    { "embed", "takes the rows of the next part", shifted "part" },
    { "embed", "looks up the row after", shifted "tokens" },
    { "embed_bwd", "takes the rows of the next part", shifted "part" },
    { "embed_bwd", "adds to the row after", shifted "tokens" },
    { "cross_entropy_part", "takes the classes of the next part", shifted "part" },
    { "cross_entropy_part", "takes the class after", shifted "targets" },
    { "cross_entropy_bwd", "takes the classes of the next part", shifted "part" },
    { "cross_entropy_bwd", "takes the class after", shifted "targets" },
    { "cross_entropy_join", "does not rescale sums", of_stats(function(parts)
        local top = -math.huge
        for _, stats in ipairs(parts) do top = math.max(top, stats[1]) end
        for _, stats in ipairs(parts) do stats[1] = top end
    end) },
    { "cross_entropy_join", "lacks a part", of_stats(function(parts) parts[#parts][2] = 0.0 end) },
    { "cross_entropy_join", "adds the target's logit twice", of_stats(function(parts)
        for _, stats in ipairs(parts) do stats[3] = 2 * stats[3] end
    end) },
    { "repeat_heads", "copies another key", other_key },
    { "repeat_heads_bwd", "lacks a copy", function(n)
        n.dy = copy(n.dy)
        local hd = n.c // (n.heads + 2 * n.copies)
        for k = n.heads * hd + 1, (n.heads + 1) * hd do n.dy[k] = 0.0 end
    end },
    { "cross_entropy_join", "smooths over one part", of_stats(function(parts)
        for k = 2, #parts do parts[k][4] = 0.0 end
    end), "smoothing" },
}

local function wrong_op(op, change)
    return function()
        local rule = graph.rule(op)
        local old = rule.reference
        rule.reference = function(n)
            if n.part or n.stats or n.copies then change(n) end
            return old(n)
        end
        return function() rule.reference = old end
    end
end

-- Rows of 0.0 in place of -0.0 for what other parts have.
local function zeros_of_others()
    local rule = graph.rule "embed"
    local old = rule.reference
    rule.reference = function(n)
        old(n)
        for k, v in ipairs(n.part and n.y or {}) do
            if v == 0 then n.y[k] = 0.0 end
        end
    end
    return function() rule.reference = old end
end

local function op_faults(class, list)
    local has = {}
    for _, nodes in ipairs { class.forward, class.backward } do
        for _, node in ipairs(nodes) do
            local last = node.ins[#node.ins]
            if last == "part" or node.op == "cross_entropy_join" or node.attrs.copies then
                has[node.op] = node
            end
        end
    end
    for _, fault in ipairs(wrong_ops) do
        local node = has[fault[1]]
        if node and (not fault[4] or node.attrs[fault[4]] > 0) then
            list[#list + 1] = { fault[1] .. " " .. fault[2], wrong_op(fault[1], fault[3]) }
        end
    end
    if has.embed then list[#list + 1] = { "other parts' rows are 0.0", zeros_of_others } end
    return list
end

local function check_faults(class, split, setup, parts)
    local missed, list = {}, op_faults(split, faults_of(split, parts))
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
