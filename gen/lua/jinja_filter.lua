-- SPDX-License-Identifier: Apache-2.0
-- jinja_filter.lua: what chat templates do with values: filters (x | trim), methods (x.strip()),
-- tests (x is defined) and functions (range(3)). In: jinja.values, jinja.fail, and
-- jinja.space_ends(text), which says where the white space around a text ends. Out: added to values.

local V, fail, space_ends = jinja.values, jinja.fail, jinja.space_ends
local kind = V.kind

local function is_empty(v)
    return v == nil or kind(v) == "none"
end

-- Of a call: its arguments, by place or by name; others are refused.
local function arguments(args, named, ...)
    local names, found = { ... }, {}
    for i = 1, #names do
        found[i] = args[i]
        if named and named[names[i]] ~= nil then
            found[i], named[names[i]] = named[names[i]], nil
        end
    end
    for name in pairs(named or {}) do
        fail("the argument `" .. name .. "` is not supported")
    end
    if #args > #names then
        fail("too many arguments")
    end
    return found[1], found[2], found[3]
end

-- ---- texts

-- Without characters of CHARS, or white space, at the ends that are named.
local function strip(v, chars, left, right)
    local s = V.string(v)
    local from, to = 1, #s
    if is_empty(chars) then
        from, to = space_ends(s)
    else
        local set = {}
        for _, c in utf8.codes(V.string(chars)) do
            set[c] = true
        end
        while from <= to and set[utf8.codepoint(s, from)] do
            from = utf8.offset(s, 2, from)
        end
        while to >= from and set[utf8.codepoint(s, utf8.offset(s, -1, to + 1))] do
            to = utf8.offset(s, -1, to + 1) - 1
        end
    end
    return V.cut(v, left and from or 1, right and to or #s)
end

local function ascii(v, what)
    local s = V.string(v)
    if s:find "[\x80-\xff]" then
        fail("`" .. what .. "` of text that is not ASCII is not supported")
    end
    return s
end

local function recase(what, f)
    return function(v)
        return V.text(f(ascii(v, what)), type(v) ~= "string" and v.data or nil)
    end
end

local upper = recase("upper", string.upper)
local lower = recase("lower", string.lower)
local capitalize = recase("capitalize", function(s)
    return s:sub(1, 1):upper() .. s:sub(2):lower()
end)
local title = recase("title", function(s)
    return (s:gsub("[%a]+", function(word)
        return word:sub(1, 1):upper() .. word:sub(2):lower()
    end))
end)

local function replace(v, old, new, count)
    local s, parts, at = V.string(v), {}, 1
    old = V.string(old)
    if old == "" then
        fail "an empty text cannot be replaced"
    end
    count = not is_empty(count) and count >= 0 and count or #s
    for _ = 1, count do
        local from, to = s:find(old, at, true)
        if not from then
            break
        end
        parts[#parts + 1] = V.cut(v, at, from - 1)
        parts[#parts + 1] = new
        at = to + 1
    end
    parts[#parts + 1] = V.cut(v, at, #s)
    return V.concat(parts)
end

local function split(v, separator, count)
    if is_empty(separator) or V.string(separator) == "" then
        fail "`split` without a text to split at is not supported"
    end
    local s, parts, at = V.string(v), {}, 1
    count = not is_empty(count) and count >= 0 and count or #s
    while #parts < count do
        local from, to = s:find(V.string(separator), at, true)
        if not from then
            break
        end
        parts[#parts + 1] = V.cut(v, at, from - 1)
        at = to + 1
    end
    parts[#parts + 1] = V.cut(v, at, #s)
    return V.list(parts)
end

local function has_end(v, ends, at_begin)
    local s = V.string(v)
    for i = 1, kind(ends) == "list" and ends.n or 1 do
        local part = V.string(kind(ends) == "list" and ends[i] or ends)
        if at_begin and s:sub(1, #part) == part or
            not at_begin and #part <= #s and s:sub(#s - #part + 1) == part then
            return true
        end
    end
    return false
end

local function join(list, separator, attribute)
    local parts = {}
    list = V.items(list)
    for i = 1, list.n do
        if i > 1 and not is_empty(separator) then
            parts[#parts + 1] = V.str(separator)
        end
        local item = is_empty(attribute) and list[i] or V.index(list[i], attribute)
        parts[#parts + 1] = V.str(item)
    end
    return V.concat(parts)
end

-- ---- JSON, as Python's json.dumps writes it

local quoted = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r",
                 ["\t"] = "\\t", ["\b"] = "\\b", ["\f"] = "\\f" }

local function quote(s)
    return '"' .. s:gsub('[%c"\\]', function(c)
        return c ~= "\x7f" and (quoted[c] or ("\\u%04x"):format(c:byte())) or nil
    end) .. '"'
end

local write

local function write_all(out, v, indent, depth)
    local is_list, n = kind(v) == "list", V.length(v)
    local line = indent and "\n" .. (" "):rep(indent * (depth + 1)) or ""
    out[#out + 1] = (is_list and "[" or "{") .. (n > 0 and line or "")
    for i = 1, n do
        if i > 1 then
            out[#out + 1] = indent and "," .. line or ", "
        end
        if not is_list then
            out[#out + 1] = quote(v.keys[i]) .. ": "
        end
        if is_list then
            write(out, v[i], indent, depth + 1)
        else
            write(out, v.map[v.keys[i]], indent, depth + 1)
        end
    end
    out[#out + 1] = (n > 0 and indent and "\n" .. (" "):rep(indent * depth) or "") ..
        (is_list and "]" or "}")
end

function write(out, v, indent, depth)
    local k = kind(v)
    if depth > 100 then
        fail "the value is nested more than 100 deep"
    elseif k == "text" then
        out[#out + 1] = quote(V.string(v))
    elseif k == "list" or k == "dict" then
        write_all(out, v, indent, depth)
    elseif k == "none" then
        out[#out + 1] = "null"
    elseif k == "boolean" then
        out[#out + 1] = tostring(v)
    elseif type(v) == "number" then
        local s = V.str(v)
        out[#out + 1] = s == "nan" and "NaN" or (s:gsub("inf", "Infinity"))
    else
        fail(V.what(v) .. " cannot be written as JSON")
    end
end

local function tojson(v, args, named)
    local indent, ascii_only = arguments(args, named, "indent", "ensure_ascii")
    local out = {}
    if ascii_only then
        fail "`ensure_ascii` is not supported"
    end
    write(out, v, not is_empty(indent) and indent or nil, 0)
    return V.text(table.concat(out), true)
end

-- ---- lists

local function pairs_of(v)
    local list = {}
    if kind(v) ~= "dict" then
        fail(V.what(v) .. " has no items")
    end
    for i = 1, #v.keys do
        list[i] = V.list { V.text(v.keys[i], v.data), v.map[v.keys[i]] }
    end
    return V.list(list)
end

local function values_of(v)
    local list = {}
    for i = 1, #v.keys do
        list[i] = v.map[v.keys[i]]
    end
    return V.list(list)
end

local function select(wanted)
    return function(v, args)
        local items, kept = V.items(v), {}
        local test = args[2] and V.string(args[2])
        local rest = { table.unpack(args, 3) }
        if test and not V.tests[test] then
            fail("the test `" .. test .. "` is not supported")
        end
        for i = 1, items.n do
            local member = V.index(items[i], args[1])
            if (test and V.tests[test](member, rest) or not test and V.truth(member)) == wanted then
                kept[#kept + 1] = items[i]
            end
        end
        return V.list(kept)
    end
end

local function map(v, args, named)
    local items, list = V.items(v), {}
    local attribute = named and named.attribute
    if not attribute or #args > 0 then
        fail "`map` is supported with attribute= alone"
    end
    for i = 1, items.n do
        list[i] = V.index(items[i], attribute)
    end
    return V.list(list, items.n)
end

local function default(v, args, named)
    local otherwise, falsy = arguments(args, named, "default_value", "boolean")
    if kind(v) == "undefined" or falsy and V.truth(falsy) and not V.truth(v) then
        return otherwise == nil and "" or otherwise
    end
    return v
end

local function at_end(first)
    return function(v)
        local list = kind(v) == "text" and v or V.items(v)
        if V.length(list) == 0 then
            return V.undefined "an item of an empty list"
        end
        return V.index(list, first and 0 or -1)
    end
end

local function integer(v)
    local s = kind(v) == "text" and V.string(v)
    local x = s and tonumber(s:match "^%s*([-+]?%d+)%s*$" or "0") or V.number(v)
    return x and (x >= 0 and math.floor(x) or -math.floor(-x)) or 0
end

local function reverse(v)
    return V.slice(V.items(v), nil, nil, -1)
end

V.filters = {
    trim = function(v, args, named)
        return strip(V.str(v), (arguments(args, named, "chars")), true, true)
    end,
    tojson = tojson, length = V.length, count = V.length, upper = upper, lower = lower,
    capitalize = capitalize, title = title, map = map, list = V.items, items = pairs_of,
    first = at_end(true), last = at_end(false), string = V.str, int = integer,
    default = default, d = default, reverse = reverse, safe = function(v) return v end,
    selectattr = select(true), rejectattr = select(false),
    abs = function(v) return math.abs(V.number(v) or fail "`abs` is of a number") end,
    replace = function(v, args, named)
        return replace(V.str(v), arguments(args, named, "old", "new", "count"))
    end,
    join = function(v, args, named)
        return join(v, arguments(args, named, "d", "attribute"))
    end,
}

-- ---- methods

local function stripper(left, right)
    return function(v, args) return strip(v, args[1], left, right) end
end

V.methods = {
    text = {
        strip = stripper(true, true), lstrip = stripper(true, false),
        rstrip = stripper(false, true),
        upper = upper, lower = lower, capitalize = capitalize, title = title,
        replace = function(v, args) return replace(v, args[1], args[2], args[3]) end,
        split = function(v, args, named)
            return split(v, arguments(args, named, "sep", "maxsplit"))
        end,
        startswith = function(v, args) return has_end(v, args[1], true) end,
        endswith = function(v, args) return has_end(v, args[1], false) end,
        join = function(v, args) return join(args[1], v) end,
        find = function(v, args)
            local at = V.string(v):find(V.string(args[1]), 1, true)
            return at and utf8.len(V.string(v), 1, at) - 1 or -1
        end,
    },
    dict = {
        items = pairs_of, keys = V.items, values = values_of,
        get = function(v, args)
            local found = v.map[V.string(args[1])]
            if found == nil then
                return args[2] == nil and V.none or args[2]
            end
            return found
        end,
    },
}

-- ---- tests

local function is_kind(...)
    local kinds = {}
    for _, k in ipairs { ... } do kinds[k] = true end
    return function(v) return kinds[kind(v)] == true end
end
local equal = function(v, args) return V.equal(v, args[1]) end
local differs = function(v, args) return not V.equal(v, args[1]) end

V.tests = {
    defined = function(v) return kind(v) ~= "undefined" end,
    undefined = is_kind "undefined", none = is_kind "none", string = is_kind "text",
    mapping = is_kind "dict", number = is_kind("integer", "real", "boolean"),
    integer = is_kind "integer", float = is_kind "real", boolean = is_kind "boolean",
    iterable = is_kind("text", "list", "dict", "undefined"),
    sequence = is_kind("text", "list", "dict", "undefined"),
    ["true"] = function(v) return v == true end,
    ["false"] = function(v) return v == false end,
    eq = equal, equalto = equal, ne = differs, ["=="] = equal, ["!="] = differs,
    ["in"] = function(v, args) return V.contains(args[1], v) end,
    odd = function(v) return V.calculate("%", v, 2) == 1 end,
    even = function(v) return V.calculate("%", v, 2) == 0 end,
    divisibleby = function(v, args) return V.calculate("%", v, args[1]) == 0 end,
}

-- ---- functions

local function range(args)
    local from, to, step = args[1], args[2], args[3] or 1
    if to == nil then
        from, to = 0, from
    end
    if kind(from) ~= "integer" or kind(to) ~= "integer" or kind(step) ~= "integer" or
        step == 0 then
        fail "`range` takes whole numbers, and steps that are not 0"
    elseif (to - from) // step > 100000 then
        fail "a range of more than 100000"
    end
    local list = {}
    for i = from, to + (step > 0 and -1 or 1), step do
        list[#list + 1] = i
    end
    return V.list(list)
end

V.functions = {
    range = range,
    namespace = function(args, named)
        if #args > 0 then
            fail "`namespace` takes names alone"
        end
        return { kind = "namespace", map = named }
    end,
    raise_exception = function(args)
        fail("the template says: " .. V.string(args[1]))
    end,
}
