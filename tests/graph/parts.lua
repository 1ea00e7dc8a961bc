-- SPDX-License-Identifier: Apache-2.0
-- parts.lua OPS_FOLDERS ENCODE_DUMP SPLIT_DUMP [faults]: does a graph in parts compute what the graph
-- without does? In: what --dump=encode and --dump=split print, in parts along one axis or two. Both run on
-- the same random values, in f64, by the ops' references: the second part by part, with meets between
-- parts that differ along one axis. Every value that both
-- have, every gradient and the loss must agree within 1e-12 of its largest number; rows that are looked
-- up to the bit, also where they are -0.0.
-- With "faults": planted one at a time, each of them must show.
-- Out: one line a class, "bad" where they differ; exit 1 then.
local here = arg[0]:match("^(.*/)")
local graph = assert(loadfile(here .. "graph_run.lua"))(arg[1])
local run, inputs_of = graph.run, graph.inputs_of

-- ---- parts of values -------------------------------------------------------------------------

local axes        -- { { name, parts }, ... }: tensor, context, or one of them
local n_parts = 1 -- all of them; a part's number: tensor * parts along context + context
local TENSOR, CONTEXT = 1, 2
-- Where both axes cut one dim, a part along the inner one has a piece of what a part along the outer
-- one has: some features of each token's part of tokens; a piece of a box of features.
local inner_of = { tokens = TENSOR, boxes = CONTEXT }

-- The number of part p along an axis.
local function along(p, k) return k == #axes and p % axes[k].parts or p // axes[#axes].parts end

-- The part with that number along an axis, and otherwise like p.
local function beside(p, k, number)
    return p + (number - along(p, k)) * (k == #axes and 1 or axes[#axes].parts)
end

-- Dim, sizes of sections, zeros at the end: "cut:1:256-6".
local function cut_of(state)
    local dim, text, pad = (state or "whole"):match("^cut:(%d+):([%d+]+)%-?(%d*)$")
    local sections = {}
    for size in (text or ""):gmatch("%d+") do sections[#sections + 1] = math.tointeger(size) end
    return math.tointeger(dim), sections, math.tointeger(pad) or 0
end

-- What each part has, written as it is of a value: along each axis of what a part along the other has.
-- A mark's features are those of the parameter.
local function part_of_mark(mark)
    local dim, sections = cut_of(mark[1])
    if #axes == 1 or not dim or dim ~= cut_of(mark[2]) then return mark end
    for i, size in ipairs(sections) do sections[i] = size // axes[2].parts end
    return { ("cut:%d:%s"):format(dim, table.concat(sections, "+")), mark[2] }
end

-- The piece that number `number` of `parts` has of a list with these dims; 0: padding.
local function piece(list, dims, dim, sections, number, parts)
    local inner, outer, cut, size = 1, 1, {}, 0
    for d = 1, #dims do
        if d < dim then outer = outer * dims[d] elseif d > dim then inner = inner * dims[d] end
    end
    for o = 0, outer - 1 do
        local at = 0
        size = 0
        for _, section in ipairs(sections) do
            local each = section // parts
            for i = at + number * each, at + (number + 1) * each - 1 do
                local first = i < dims[dim] and (o * dims[dim] + i) * inner
                for k = 1, inner do cut[#cut + 1] = first and list[first + k] or 0 end
            end
            at, size = at + section, size + each
        end
    end
    dims = { table.unpack(dims) }
    dims[dim] = size
    return cut, dims
end

-- Per element of part p: its place in the whole value; 0 if it is padding. And the shape of the part.
local function places(part, shape, p, inner)
    local list, dims = {}, { table.unpack(shape) }
    for k = 1, shape.elems do list[k] = k end
    for _, k in ipairs(#axes == 1 and { 1 } or { 3 - inner, inner }) do
        local dim, sections = cut_of(part[k])
        if dim and #axes == 2 and k ~= inner and dim == cut_of(part[inner]) then
            for i, size in ipairs(sections) do sections[i] = size * axes[inner].parts end
        end
        if dim then list, dims = piece(list, dims, dim, sections, along(p, k), axes[k].parts) end
    end
    return list, dims
end

local function piece_of(whole, part, p, inner)
    local list, shape = places(part, whole.shape, p, inner)
    local v = { shape = shape }
    for k, from in ipairs(list) do v[k] = whole[from] or 0.0 end
    shape.elems = #v
    return v
end

-- What all parts' numbers make of a value: their sum, or the largest, along the axes along which it is made.
local made = { partial = function(a, b) return a + b end, largest = math.max }
local function joined(part, values, name, p, k, axis)
    axis = axis or 1
    if axis > #axes then return values[p][name][k] end
    local join, all = made[part[axis]], nil
    if not join then return joined(part, values, name, p, k, axis + 1) end
    for number = 0, axes[axis].parts - 1 do
        local one = joined(part, values, name, beside(p, axis, number), k, axis + 1)
        all = all and join(all, one) or one
    end
    return all
end

-- Calls f(what part p has, its place in the whole) until that is false. What is wrong, or nil: the part, or
-- what f says, of the second way in which parts may lie, if `inner` does not say which.
local function each_element(name, part, whole, values, inner, f)
    local wrong
    for p = 0, n_parts - 1 do
        local list = places(part, whole.shape, p, inner or TENSOR)
        local v = values[p][name]
        if #v ~= #list then return ("%s: %d elements, not %d"):format(name, #v, #list) end
        for k, at in ipairs(list) do
            wrong = wrong or f(p, k, at)
        end
        if wrong then break end
    end
    if wrong and not inner and #axes == 2 then return each_element(name, part, whole, values, CONTEXT, f) end
    return wrong
end

-- What is wrong with the parts of a value, or nil.
local function difference(name, part, whole, values, inner)
    local largest = 0.0
    for k = 1, #whole do largest = math.max(largest, math.abs(whole[k])) end
    local is_made = made[part[1]] or made[part[2]]
    return each_element(name, part, whole, values, inner, function(p, k, at)
        local got = is_made and joined(part, values, name, p, k) or values[p][name][k]
        local want = whole[at] or 0.0
        if not (math.abs(got - want) <= (at > 0 and 1e-12 or 0) * largest) then
            return ("%s of part %d: %.17g, not %.17g"):format(name, p, got, want)
        end
    end)
end

-- What a sum over parts is that must be the whole value to the bit: that of rows which one part has.
local function other_bits(name, part, whole, values)
    return each_element(name, part, whole, values, nil, function(p, k, at)
        local got = values[p][name][k]
        if string.pack("d", got) ~= string.pack("d", whole[at]) then
            return ("%s of part %d: %a is not %a"):format(name, p, got, whole[at])
        end
    end)
end

-- ---- a class in parts ------------------------------------------------------------------------

local function axis_of(node)
    for k, axis in ipairs(axes) do
        if axis.name == node.attrs.axis then return k end
    end
    error(node.out[1].name .. " meets along " .. node.attrs.axis)
end

-- The parts that differ from part `first` along axis k only.
local function run_meet_of(node, values, first, k)
    local name, o, parts = node.ins[1], node.out[1], axes[k].parts
    local n = { parts = parts, from = node.attrs.from, to = node.attrs.to, x = {}, y = {},
                shape = values[first][name].shape }
    for number = 0, parts - 1 do
        n.x[number + 1] = values[beside(first, k, number)][name]
        n.y[number + 1] = { shape = o.shape }
    end
    graph.rule(node.op).reference(n)
    for number = 0, parts - 1 do
        local v, of, base = n.y[number + 1], values[beside(first, k, number)], o.name:gsub("_%d+$", "")
        if o.adds then
            local before = of[base .. " so far"] or of[base]
            for i = 1, #v do v[i] = v[i] + before[i] end
            of[base .. " so far"] = v
        end
        of[o.name] = v
    end
end

local function run_meet(node, values)
    local k = axis_of(node)
    for p = 0, n_parts - 1 do
        if along(p, k) == 0 then run_meet_of(node, values, p, k) end
    end
end

local function run_parts(class, inputs, is_meet)
    local values, part, inner = {}, {}, {}
    for _, v in ipairs(class.takes) do part[v.name], inner[v.name] = v.part, inner_of.tokens end
    for _, v in ipairs(class.params) do
        part[v.ident], inner[v.ident] = part_of_mark(v.part), inner_of.boxes
    end
    for p = 0, n_parts - 1 do
        values[p] = {}
        for name, v in pairs(inputs) do
            values[p][name] = piece_of(v, part[name] or {}, p, inner[name] or TENSOR)
        end
        values[p].part = { along(p, 1), shape = { 1, elems = 1 } }
    end
    for _, nodes in ipairs { class.forward, class.backward } do
        for _, node in ipairs(nodes) do
            if is_meet(node) then
                run_meet(node, values)
            else
                for p = 0, n_parts - 1 do run({ node }, values[p], class) end
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

-- Have the parts' pieces more than the whole value?
local function has_more(part, v, whole)
    local elems = #v
    for k, state in ipairs(part) do
        if cut_of(state) then elems = elems * axes[k].parts end
    end
    return elems > #whole
end

-- Random inputs of a class, and all values without parts.
local function run_whole(class, setup)
    local inputs = inputs_of(class, setup)
    for _, p in ipairs(class.params) do
        for k = 3, #inputs[p.ident], 7 do inputs[p.ident][k] = -0.0 end
    end
    local whole = inputs_of(class, {}, inputs)
    run(class.forward, whole)
    run(class.backward, whole)
    return inputs, whole
end

-- Differences, and how many values were compared.
local function check_class(class, split, inputs, whole)
    local bad, count = {}, 0
    local values, out = run_parts(split, inputs, is_meet), outputs_of(split)
    local function same(name, part, like, inner)
        bad[#bad + 1] = difference(name, part, whole[like], values, inner)
        count = count + 1
    end
    local copies = has_copies(split)
    for name in pairs(outputs_of(class)) do
        local o = out[name]
        if o and not (copies and has_more(o.part, values[0][name], whole[name])) then
            same(name, o.part, name)
        end
    end
    local of_whole = outputs_of(class)
    for name, o in pairs(out) do
        if is_meet_of(o) and of_whole[o.of] and of_whole[o.of].op == "embed" then
            bad[#bad + 1] = other_bits(name, o.part, whole[o.of], values)
            count = count + 1
        end
    end
    for i, v in ipairs(class.returns) do
        local name = split.returns[i].name
        same(name, split.returns[i].part, v.name, TENSOR)
    end
    if class.loss then same(split.loss, {}, class.loss, TENSOR) end
    for p, d in pairs(class.grads) do same(split.grads[p], out[split.grads[p]].part, d, CONTEXT) end
    table.sort(bad)
    return bad, count
end

-- ---- faults ----------------------------------------------------------------------------------

-- A list of { name, plant }; plant changes a class and returns what undoes it.
local function faults_of(class)
    local list = {}
    local function set(name, t, key, value)
        list[#list + 1] = { name, function()
            local old = t[key]
            t[key] = value
            return function() t[key] = old end
        end }
    end
    for _, p in ipairs(class.params) do
        for k, state in ipairs(p.part) do
            local dim, sections = cut_of(state)
            local all = 0
            for _, size in ipairs(sections) do all = all + size end
            if #sections > 1 then -- q, k and v cut as one
                set(("%s is cut across its sections along %s"):format(p.name, axes[k].name), p.part, k,
                    ("cut:%d:%d"):format(dim, all))
            end
        end
    end
    local scales = {}
    for _, nodes in ipairs { class.forward, class.backward } do
        for i, node in ipairs(nodes) do
            if is_meet(node) and node.attrs.from == "partial" then
                set("no sum of " .. node.ins[1], node.attrs, "from", "whole")
            end
            if is_meet(node) and node.attrs.from == "largest" then scales[#scales + 1] = node.attrs end
            local after = nodes[i + 1]
            if is_meet(node) and node.attrs.from == "partial" and after and after.op == "bias"
                and after.ins[1] == node.out[1].name then
                list[#list + 1] = { "the bias before the sum of " .. node.ins[1], function()
                    local early = { op = after.op, ins = { node.ins[1], after.ins[2] }, attrs = {},
                                    out = { { name = "early", shape = { table.unpack(after.out[1].shape) } } } }
                    local shape = early.out[1].shape
                    local parts = axes[axis_of(node)].parts
                    shape[1] = shape[1] * parts
                    shape.elems = after.out[1].shape.elems * parts
                    nodes[i] = early
                    nodes[i + 1] = { op = node.op, ins = { "early" }, attrs = node.attrs, out = after.out }
                    return function() nodes[i], nodes[i + 1] = node, after end
                end }
            end
        end
    end
    if #scales > 0 then
        list[#list + 1] = { "scales of parts are added", function() -- some are the same in all parts
            for _, attrs in ipairs(scales) do attrs.from = "partial" end
            return function()
                for _, attrs in ipairs(scales) do attrs.from = "largest" end
            end
        end }
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

-- A list's rows, each in the place of the one before.
local function next_rows(list, width)
    local t = copy(list)
    for k = 1, #list do t[k] = list[(k + width - 1) % #list + 1] end
    return t
end

-- A part's tokens are those of whole sequences, or positions are counted wrong.
local function position_faults(class, list)
    local counts = {
        rope = function(n) n.table = next_rows(n.table, n.hd) end,
        rope_bwd = function(n) n.table = next_rows(n.table, n.hd) end,
        add_pos = function(n) n.w = next_rows(n.w, n.d) end,
    }
    local planted = {}
    for _, nodes in ipairs { class.forward, class.backward } do
        for _, node in ipairs(nodes) do
            local op = node.op
            if counts[op] and not planted[op] then
                planted[op] = true
                list[#list + 1] = { op .. " counts from the next token", function()
                    local rule = graph.rule(op)
                    local old = rule.reference
                    rule.reference = function(n)
                        counts[op](n)
                        return old(n)
                    end
                    return function() rule.reference = old end
                end }
            end
        end
    end
end

-- Of two axes: each taken for the other.
local function axes_faults(class, list)
    local function swap(what, t, key, other)
        list[#list + 1] = { what, function()
            local old = t[key]
            t[key] = other
            return function() t[key] = old end
        end }
    end
    if #class.takes > 0 then swap("parts of features have tokens in a row", inner_of, "tokens", CONTEXT) end
    for _, p in ipairs(class.params) do
        local dim = cut_of(p.part[1])
        if dim and dim == cut_of(p.part[2]) then
            swap("boxes are features of pieces", inner_of, "boxes", TENSOR)
            break
        end
    end
    local kinds, order = {}, {} -- the meets of each kind
    for _, nodes in ipairs { class.forward, class.backward } do
        for _, node in ipairs(nodes) do
            if is_meet(node) and node.ins[1] ~= "starts" then -- starts repeat
                local a = node.attrs
                local kind = ("%s %s %s"):format(a.axis, a.from, a.to):gsub("(cut:%d):[%d+-]+", "%1")
                if not kinds[kind] then
                    kinds[kind] = {}
                    order[#order + 1] = kind
                end
                table.insert(kinds[kind], node)
            end
        end
    end
    for _, kind in ipairs(order) do
        local meets = kinds[kind]
        local attrs, axis = meets[1].attrs, meets[1].attrs.axis
        local name, other = "along the other axis: " .. meets[1].out[1].name, axes[3 - axis_of(meets[1])].name
        if attrs.from == "largest" then -- of scales all, since some are the same in all parts
            list[#list + 1] = { name .. " and all like it", function()
                for _, node in ipairs(meets) do node.attrs.axis = other end
                return function()
                    for _, node in ipairs(meets) do node.attrs.axis = axis end
                end
            end }
        else
            swap(name, attrs, "axis", other)
        end
    end
    return list
end

local function check_faults(class, split, setup)
    local missed, list = {}, faults_of(split)
    list = (#axes == 1 and op_faults or axes_faults)(split, list)
    position_faults(split, list)
    local inputs, whole = run_whole(class, setup)
    for _, fault in ipairs(list) do
        local undo = fault[2]()
        local ok, bad = pcall(check_class, class, split, inputs, whole)
        if ok and #bad == 0 then missed[#missed + 1] = "missed: " .. fault[1] end
        undo()
    end
    return missed, #list
end

local setup_nodes, classes = graph.parse(arg[2])
local split, _
_, split, axes = graph.parse(arg[3])
for _, axis in ipairs(axes) do n_parts = n_parts * axis.parts end
local setup, failed, total = {}, false, 0
run(setup_nodes, setup)
for i, class in ipairs(classes) do
    local bad, count
    if arg[4] == "faults" then
        bad, count = check_faults(class, split[i], setup)
    else
        bad, count = check_class(class, split[i], run_whole(class, setup))
    end
    print(("%s %s: %d parts, %d %s"):format(#bad == 0 and "good" or "bad", class.name, n_parts, count,
                                            arg[4] or "values"))
    for k = 1, math.min(#bad, 5) do print("  " .. bad[k]) end
    failed, total = failed or #bad > 0, total + count
end
os.exit(not failed and total > 0 and n_parts > 1 and #classes > 0 and 0 or 1)
