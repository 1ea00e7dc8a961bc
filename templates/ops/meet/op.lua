-- SPDX-License-Identifier: Apache-2.0
-- meet: in what each part has of a value; out what each part needs of it. The pass `split` inserts it
-- where an op's parts need something else than its inputs' parts are: a gather (cut to whole), a sum
-- (partial to cut or whole), the largest (likewise), a turn (cut to another cut); whole to cut takes a
-- piece and moves nothing. `from` and `to` are "whole", "partial", "largest" or "cut:2:64+32+32": along dim 2, which consists of
-- sections of these sizes; a part has its piece of each.
local function sections_of(state)
    local dim, text = state:match("^cut:(%d+):([%d+]+)%-?%d*$") -- padding is cut with the rest
    if not dim then return nil end
    local list = {}
    for size in text:gmatch("%d+") do list[#list + 1] = math.tointeger(size) end
    return math.tointeger(dim), list
end

-- The whole shape of what has this shape in each part.
local function whole_shape(n, shape)
    local whole, dim = { table.unpack(shape) }, sections_of(n.from)
    if dim then whole[dim] = whole[dim] * n.parts end
    return whole
end

-- Calls f(place in part p, place in the whole).
local function each_element(state, shape, p, parts, f)
    local dim, sections = sections_of(state)
    local inner, outer, at = 1, 1, 0
    if not dim then dim, sections = 1, { shape[1] * parts } end -- all of it
    for d, size in ipairs(shape) do
        if d < dim then outer = outer * size end
        if d > dim then inner = inner * size end
    end
    local whole = not sections_of(state)
    for o = 0, outer - 1 do
        local first = o * shape[dim]
        for _, size in ipairs(sections) do
            local piece = size // parts
            local from = whole and first or first + p * piece
            for k = from * inner, (from + piece) * inner - 1 do
                at = at + 1
                f(at, k + 1)
            end
            first = first + size
        end
    end
end

-- A balanced tree over the parts first .. last.
local function sum(list, k, first, last)
    if first == last then return list[first][k] end
    local middle = (first + last) // 2
    return sum(list, k, first, middle) + sum(list, k, middle + 1, last)
end

-- Of all parts; NaN if one has it.
local function largest(list, k)
    local top = list[1][k]
    for p = 2, #list do
        local v = list[p][k]
        if v > top or v ~= v then top = v end
    end
    return top
end

-- Is the value made of all parts' numbers?
local function is_made(state)
    return state == "partial" or state == "largest"
end

return op {
    role = "collective",
    arithmetic = 1,
    doc = "y = what each part needs of x, of which it has a part",
    inputs = { { "x", "...", class = "any" } },
    attrs = {
        axis = "string", from = "string", parts = "int", to = "string",
        dtype = { "string", "x", quiet = true }, -- of y; the summands may be wider
    },
    outputs = {
        { "y", function(n)
            local shape, dim = whole_shape(n, n.x), sections_of(n.to)
            if dim then shape[dim] = shape[dim] // n.parts end
            return shape
        end, dtype = "dtype", add = true },
    },
    check = function(n)
        for _, state in ipairs { n.from, n.to } do
            local dim, sections = sections_of(state)
            local sum = 0
            for _, size in ipairs(sections or {}) do
                if size % n.parts ~= 0 then return ("%d parts do not divide %s"):format(n.parts, state) end
                sum = sum + size
            end
            if dim and sum ~= whole_shape(n, n.x)[dim] then
                return ("%s is not all of the dim"):format(state)
            elseif not dim and state ~= "whole" and not is_made(state) then
                return ("%s is not whole, partial, largest or cut"):format(state)
            end
        end
        if n.dtype ~= "x" and n.from ~= "partial" then return "only a sum has another dtype" end
        if n.from == n.to or is_made(n.to) then return "it would do nothing" end
        if sections_of(n.from) and sections_of(n.from) == sections_of(n.to) then
            return "its pieces are of the same dim as before: they are pieces of the whole"
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    -- n.x and n.y: lists, of each part the numbers; n.shape: of x in a part.
    reference = function(n)
        local shape, whole = whole_shape(n, n.shape), {}
        if is_made(n.from) then
            for k in ipairs(n.x[1]) do
                whole[k] = n.from == "partial" and sum(n.x, k, 1, n.parts) or largest(n.x, k)
            end
        else
            for p = 1, n.from == "whole" and 1 or n.parts do
                each_element(n.from, shape, p - 1, n.parts, function(at, k) whole[k] = n.x[p][at] end)
            end
        end
        for p = 1, n.parts do
            each_element(n.to, shape, p - 1, n.parts, function(at, k) n.y[p][at] = whole[k] end)
        end
    end,
}
