-- SPDX-License-Identifier: Apache-2.0
-- op_test_cuts.lua: a call cut into parts gives the parts of its result. In: functions of op_test.lua,
-- in a table. Out: a function that cuts a random call along each axis of the rule's `cuts`, as the
-- generator reads them, runs the reference on each part's inputs and compares with the whole; and one
-- that repeats what a cut's `repeats` names.
return function(t)

local check, integer, random_case, apply = t.check, t.integer, t.random_case, t.apply
local fmt = string.format

-- Calls f(k of the part, k of the whole) for each element of part p; false if nothing can be cut so.
local function each_element(value, place, p, parts, f)
    local inner, outer = 1, 1
    for d, size in ipairs(value.shape) do
        if d < place.dim then outer = outer * size end
        if d > place.dim then inner = inner * size end
    end
    local at = 0
    for o = 0, outer - 1 do
        local section = o * value.shape[place.dim]
        for _, size in ipairs(place.sections) do
            if size % parts ~= 0 then return false end
            local piece = size // parts
            for k = (section + p * piece) * inner, (section + (p + 1) * piece) * inner - 1 do
                at = at + 1
                f(at, k + 1)
            end
            section = section + size
        end
    end
    return true
end

-- Part p of an input; nil if it cannot be cut into so many.
local function part_of(value, place, p, parts)
    if not place then return value end
    local part = { dtype = value.dtype, data = {}, shape = { table.unpack(value.shape) } }
    part.shape[place.dim] = value.shape[place.dim] // parts
    local whole = each_element(value, place, p, parts, function(to, from)
        part.data[to] = value.data[from]
    end)
    part.elems = #part.data
    return whole and part.elems > 0 and part or nil
end

local function part_call(name, inputs, attrs, cut, p, parts)
    local part, own = {}, {}
    for key, value in next, attrs do own[key] = value end
    for _, key in ipairs(cut.attrs) do
        if attrs[key] % parts ~= 0 then return nil end
        own[key] = attrs[key] // parts
    end
    for i, value in t.each_input(name, inputs) do
        part[i] = part_of(value, cut.inputs[i], p, parts)
        if not part[i] then return nil end
    end
    return part, own
end

local function compare(what, got, want, size)
    local largest = 1e-3
    for k = 1, #want do largest = math.max(largest, math.abs(size[k])) end
    for k = 1, #want do
        if not check(math.abs(got[k] - want[k]) <= 1e-12 * largest, "%s[%d] is %.17g, not %.17g",
                     what, k, got[k], want[k]) then
            return
        end
    end
end

-- One more part of each output: compared, or added to sums; of the largest, the larger one.
local function take_part(what, cut, whole, outs, p, parts, sums)
    for i, out in ipairs(outs) do
        local place, sum = cut.outputs[i], sums[i] or { got = {}, size = {} }
        sums[i] = sum
        if place == "sum" then
            for k, v in ipairs(out.data) do
                sum.got[k] = (sum.got[k] or 0.0) + v
                sum.size[k] = (sum.size[k] or 0.0) + math.abs(v)
            end
        elseif place == "max" then
            for k, v in ipairs(out.data) do
                sum.got[k] = math.max(sum.got[k] or v, v)
                sum.size[k] = math.abs(sum.got[k])
            end
        else
            local want = {}
            each_element(whole[i], place, p, parts, function(to, from)
                want[to] = whole[i].data[from]
            end)
            if check(#want == #out.data, "%s: part %d of output %d has %d elements, not %d", what, p, i,
                     #out.data, #want) then
                compare(fmt("%s: part %d of output %d", what, p, i), out.data, want, want)
            end
        end
    end
end

-- Sections of a free axis of so many elements: none, or two.
local function sections_of(axis, n, parts)
    local size = axis.free and not axis.ordered and n[axis.axis]
    if not size or size < 2 * parts or integer(0, 1) == 0 then return nil end
    local first = integer(1, size // parts - 1) * parts
    return { first, size - first }
end

-- False if this random call cannot be cut.
local function test_case(name, axis)
    local parts = integer(2, 4)
    local inputs, attrs = random_case(name, { "f64", "f64" })
    local node = host.infer(name, inputs, attrs)
    local cut, calls = host.cut(node.id, axis.axis, sections_of(axis, node.n, parts)), {}
    if not cut then return false end
    for p = 0, parts - 1 do
        local part, own = part_call(name, inputs, attrs, cut, p, parts)
        if not part or not pcall(host.infer, name, part, own) then return false end
        calls[p] = { part, own }
    end
    local what, sums = fmt("%s: cut %s in %d", name, axis.axis, parts), {}
    local whole = apply(name, inputs, attrs)
    for p = 0, parts - 1 do
        take_part(what, cut, whole, apply(name, calls[p][1], calls[p][2]), p, parts, sums)
    end
    for i, sum in ipairs(sums) do
        if #sum.got > 0
           and check(#sum.got == #whole[i].data, "%s: the sum of output %d has %d elements, not %d",
                     what, i, #sum.got, #whole[i].data) then
            compare(fmt("%s: sum of output %d", what, i), sum.got, whole[i].data, sum.size)
        end
    end
    return true
end

-- A value in which each element of the sections of `attr` stands `times` times: of so many there are n.
local function repeated(value, place, attr, n, times)
    if not place then return value end
    local to = { dtype = value.dtype, data = {}, shape = { table.unpack(value.shape) } }
    local inner, outer, data = 1, 1, to.data
    for d, size in ipairs(value.shape) do
        if d < place.dim then outer = outer * size end
        if d > place.dim then inner = inner * size end
    end
    local from = 0
    for _ = 1, outer do
        for k, size in ipairs(place.sections) do
            local copied = place.weights[k] == attr
            local wide = (copied and size // n or size) * inner
            for _ = 1, copied and n or 1 do
                for _ = 1, copied and times or 1 do
                    for j = 1, wide do data[#data + 1] = value.data[from + j] end
                end
                from = from + wide
            end
        end
    end
    to.elems = #data
    to.shape[place.dim] = #data // (outer * inner)
    return to
end

-- False if this random call cannot have copies.
local function test_repeats(name, axis)
    local attr, times = axis.repeats, integer(2, 3)
    local inputs, attrs = random_case(name, { "f64", "f64" })
    local node = host.infer(name, inputs, attrs)
    local cut, count = host.cut(node.id, axis.axis, nil), attrs[attr]
    if not cut then return false end
    local more, own = {}, {}
    for key, value in next, attrs do own[key] = value end
    own[attr] = count * times
    for i, value in t.each_input(name, inputs) do
        more[i] = repeated(value, cut.inputs[i], attr, count, times)
    end
    if not pcall(host.infer, name, more, own) then return false end
    local whole, outs = apply(name, inputs, attrs), apply(name, more, own)
    for i, out in ipairs(outs) do
        local what = fmt("%s with %d times as many %s: output %d", name, times, attr, i)
        local want = repeated(whole[i], cut.outputs[i], attr, count, times).data
        if check(#want == #out.data, "%s has %d elements, not %d", what, #out.data, #want) then
            compare(what, out.data, want, want)
        end
    end
    return true
end

return function(name)
    host.at(name, "cuts")
    host.dtypes("f64", "f64")
    for _, axis in ipairs(host.cuts(name)) do
        local found = false
        for _ = 1, 400 do
            found = found or test_case(name, axis)
        end
        check(found, "%s: none of 400 cases can be cut along %s", name, axis.axis)
        local repeats = not axis.repeats
        for _ = 1, 400 do
            repeats = repeats or test_repeats(name, axis)
        end
        check(repeats, "%s: none of 400 cases can have more %s", name, axis.repeats)
    end
end

end
