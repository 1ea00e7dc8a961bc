-- SPDX-License-Identifier: Apache-2.0
-- jinja_filter.lua: what chat templates do with values: filters (x | trim), methods (x.strip()),
-- tests (x is defined) and functions (range(3)). In: jinja.values, jinja.fail, and
-- jinja.space_ends(text), which says where the white space around a text ends. Out: added to values.

local V, fail, space_ends = jinja.values, jinja.fail, jinja.space_ends
local kind = V.kind

local function is_empty(v)
    return v == nil or kind(v) == "none"
end

-- The arguments of a call, in the order of SPEC's names; those that SPEC lacks are refused.
local function arguments(spec, args, named)
    local found = { table.unpack(args) }
    if #args > #spec.names then
        fail "too many arguments"
    end
    for name, value in pairs(named or {}) do
        local i = spec.place[name]
        if not i then
            fail("the argument `" .. name .. "` is not supported")
        elseif found[i] ~= nil then
            fail("the argument `" .. name .. "` is given twice")
        end
        found[i] = value
    end
    for i = 1, #spec.names do
        if found[i] == nil and spec.needed[i] then
            fail("the argument `" .. spec.names[i] .. "` is missing")
        end
    end
    return table.unpack(found, 1, #spec.names)
end

-- F as a filter, method or test whose arguments are NAMES: "a!" is needed, and behind "/" all
-- come by place alone, as in Python.
local function takes(names, f)
    local spec = { names = {}, needed = {}, place = {} }
    for name, mark in names:gmatch "([%a_]+)(!?)" do
        local i = #spec.names + 1
        spec.names[i], spec.needed[i] = name, mark ~= ""
        spec.place[name] = names:sub(1, 1) ~= "/" and i or nil
    end
    return function(v, args, named)
        return f(v, arguments(spec, args, named))
    end
end

-- A whole number; nil if it is omitted, or none.
local function whole(v, what)
    if is_empty(v) then
        return nil
    end
    return math.type(V.number(v)) == "integer" and V.number(v) or
        fail(("%s must be a whole number, not %s"):format(what, V.what(v)))
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
    if from > to then
        return V.cut(v, 1, 0)
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
-- The method's words are letters; the filter's end at white space, a dash or an opening bracket.
local function title(word)
    return recase("title", function(s)
        return (s:gsub(word, function(w)
            return w:sub(1, 1):upper() .. w:sub(2):lower()
        end))
    end)
end

local function replace(v, old, new, count)
    local s, parts, at = V.string(v), {}, 1
    old = V.string(old)
    if old == "" then
        fail "an empty text cannot be replaced"
    end
    count = whole(count, "the count of `replace`") or -1
    count = count >= 0 and count or #s
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
    count = whole(count, "`maxsplit`") or -1
    count = count >= 0 and count or #s
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

-- Bytes from..to of the characters START to STOP, as Python's methods count them; nil: START is
-- behind STOP, where not even an empty text is found.
local function span(v, start, stop)
    local s, n = V.string(v), V.length(v)
    start, stop = whole(start, "the start") or 0, whole(stop, "the end") or n
    start = start < 0 and math.max(start + n, 0) or start
    stop = math.min(stop < 0 and math.max(stop + n, 0) or stop, n)
    if start > stop then
        return nil
    end
    return utf8.offset(s, start + 1), utf8.offset(s, stop + 1) - 1
end

local function has_end(at_begin)
    return function(v, ends, start, stop)
        local from, to = span(v, start, stop)
        local s, several = from and V.string(v):sub(from, to), kind(ends) == "list"
        if several and not ends.tuple then
            fail "expected a text or a tuple of texts, not a list"
        end
        for i = 1, several and ends.n or 1 do
            local part = V.string(several and ends[i] or ends)
            if s and #part <= #s and
                (at_begin and s:sub(1, #part) or s:sub(#s - #part + 1)) == part then
                return true
            end
        end
        return false
    end
end

local function find(v, part, start, stop)
    local from, to = span(v, start, stop)
    local s = V.string(v)
    local at = from and s:sub(1, to):find(V.string(part), from, true)
    return at and utf8.len(s, 1, at - 1) or -1
end

-- What "a.0.b" names in an item, as Jinja's filters look for it. OTHERWISE is for parts that
-- are undefined.
local function attribute_of(name, otherwise)
    local parts = { not is_empty(name) and name or nil }
    if not is_empty(name) and kind(name) == "text" then
        parts = {}
        for part in (V.string(name) .. "."):gmatch "([^.]*)%." do
            parts[#parts + 1] = part:find "^%d+$" and math.tointeger(tonumber(part)) or part
        end
    end
    return function(item)
        for i = 1, #parts do
            item = V.index(item, parts[i])
            if kind(item) == "undefined" and not is_empty(otherwise) then
                item = otherwise
            end
        end
        return item
    end
end

local function join(list, separator, attribute)
    local parts, of = {}, not is_empty(attribute) and attribute_of(attribute)
    list = V.items(list)
    for i = 1, list.n do
        if i > 1 and separator ~= nil then
            parts[#parts + 1] = V.str(separator)
        end
        parts[#parts + 1] = V.str(of and of(list[i]) or list[i])
    end
    return V.concat(parts)
end

-- "x".join(LIST), which has texts alone.
local function join_texts(separator, list)
    list = V.items(list)
    for i = 1, list.n do
        V.string(list[i])
    end
    return join(list, separator)
end

-- ---- JSON, as Python's json.dumps writes it

local quoted = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r",
                 ["\t"] = "\\t", ["\b"] = "\\b", ["\f"] = "\\f" }

local function escaped(c)
    return quoted[c] or ("\\u%04x"):format(c:byte())
end

local function wide(c)
    local point = utf8.codepoint(c)
    if point < 0x10000 then
        return ("\\u%04x"):format(point)
    end
    point = point - 0x10000
    return ("\\u%04x\\u%04x"):format(0xD800 + (point >> 10), 0xDC00 + (point & 0x3FF))
end

local function quote(s, how)
    s = s:gsub('[\0-\x1f"\\]', escaped)
    if how.ascii then
        s = s:gsub("\x7f", escaped):gsub(utf8.charpattern, function(c)
            return #c > 1 and wide(c) or nil
        end)
    end
    return '"' .. s .. '"'
end

local write

local function write_all(out, v, how, depth)
    local is_list, n, keys = kind(v) == "list", V.length(v), v.keys
    local line = how.indent and "\n" .. how.indent:rep(depth + 1) or ""
    if not is_list and how.sorted then
        keys = table.move(v.keys, 1, n, 1, {})
        table.sort(keys)
    end
    out[#out + 1] = (is_list and "[" or "{") .. (n > 0 and line or "")
    for i = 1, n do
        if i > 1 then
            out[#out + 1] = how.item .. line
        end
        if is_list then
            write(out, v[i], how, depth + 1)
        else
            out[#out + 1] = quote(keys[i], how) .. how.key
            write(out, v.map[keys[i]], how, depth + 1)
        end
    end
    out[#out + 1] = (n > 0 and how.indent and "\n" .. how.indent:rep(depth) or "") ..
        (is_list and "]" or "}")
end

function write(out, v, how, depth)
    local k = kind(v)
    if depth > 100 then
        fail "the value is nested more than 100 deep"
    elseif k == "text" then
        out[#out + 1] = quote(V.string(v), how)
    elseif k == "list" or k == "dict" then
        write_all(out, v, how, depth)
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

local function tojson(v, ascii_only, indent, separators, sorted)
    local how = { ascii = ascii_only ~= nil and V.truth(ascii_only),
                  sorted = sorted ~= nil and V.truth(sorted), key = ": " }
    if not is_empty(indent) then
        how.indent = kind(indent) == "text" and V.string(indent) or
            (" "):rep(whole(indent, "`indent`"))
    end
    how.item = how.indent and "," or ", "
    if not is_empty(separators) then
        if kind(separators) ~= "list" or separators.n ~= 2 then
            fail "`separators` are two texts"
        end
        how.item, how.key = V.string(separators[1]), V.string(separators[2])
    end
    local out = {}
    write(out, v, how, 0)
    return V.text(table.concat(out), true)
end

-- ---- lists

local function pairs_of(v)
    local list = {}
    if kind(v) ~= "dict" then
        fail(V.what(v) .. " has no items")
    end
    for i = 1, #v.keys do
        list[i] = V.tuple { V.text(v.keys[i], v.data), v.map[v.keys[i]] }
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
    return function(v, args, named)
        local items, kept = V.items(v), {}
        local test = args[2] and V.string(args[2])
        local rest = { table.unpack(args, 3) }
        if not args[1] then
            fail "the argument `attribute` is missing"
        elseif test and not V.tests[test] then
            fail("the test `" .. test .. "` is not supported")
        elseif not test and next(named) then
            fail("the argument `" .. next(named) .. "` is not supported")
        end
        local of = attribute_of(args[1])
        for i = 1, items.n do
            local member = of(items[i])
            local holds
            if test then
                holds = V.tests[test](member, rest, named)
            else
                holds = V.truth(member)
            end
            if holds == wanted then
                kept[#kept + 1] = items[i]
            end
        end
        return V.generator(V.list(kept))
    end
end

local map_attribute = takes("attribute! default", function(items, attribute, otherwise)
    local of, list = attribute_of(attribute, otherwise), {}
    for i = 1, items.n do
        list[i] = of(items[i])
    end
    return V.generator(V.list(list, items.n))
end)

local function map(v, args, named)
    if not named.attribute or #args > 0 then
        fail "`map` is supported with attribute= alone"
    end
    return map_attribute(V.items(v), args, named)
end

local function default(v, otherwise, falsy)
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

-- x to a whole number, towards 0, or OTHERWISE.
local function truncated(x, otherwise)
    if not x or x ~= x or x == math.huge or x == -math.huge then
        return otherwise
    end
    local i = x >= 0 and math.floor(x) or -math.floor(-x)
    return math.type(i) == "integer" and i or fail "`int` of more than 64 bits is not supported"
end

-- The number that a text writes, as Python's int or else its float reads it; nil: none of them.
local function read_number(s)
    if s:find "[\x80-\xff]" then
        fail "`int` of text that is not ASCII is not supported"
    end
    s = s:gsub("(%d)_%f[%d]", "%1")
    local sign, digits = s:match "^([-+]?)(%d+)$"
    if digits then
        local x = math.tointeger(tonumber(sign == "-" and "-" .. digits or digits))
        return x and #digits < 20 and x or fail "`int` of more than 64 bits is not supported"
    end
    local real = s:gsub("[eE][-+]?%d+$", "")
    return (real:find "^[-+]?%d+%.?%d*$" or real:find "^[-+]?%.%d+$") and
        tonumber((s:gsub("^%+", ""))) or nil
end

local function integer(v, otherwise, base)
    if base ~= nil and base ~= 10 then
        fail "`int` with a base other than 10 is not supported"
    elseif otherwise == nil then
        otherwise = 0
    end
    if kind(v) == "text" then
        local s = V.string(v)
        return truncated(read_number(s:sub(space_ends(s))), otherwise)
    elseif kind(v) == "undefined" or type(v) == "number" and (v - v ~= 0) then
        fail("`int` of " .. (kind(v) == "real" and V.str(v) or V.what(v)))
    end
    return truncated(V.number(v), otherwise)
end

-- A list of its own, as Python's list().
local function list(v)
    local items = V.items(v)
    return V.list(table.move(items, 1, items.n, 1, {}), items.n)
end

V.filters = {
    trim = takes("chars", function(v, chars) return strip(V.str(v), chars, true, true) end),
    tojson = takes("ensure_ascii indent separators sort_keys", tojson),
    length = takes("", V.length), count = takes("", V.length), upper = takes("", upper),
    lower = takes("", lower), capitalize = takes("", capitalize),
    title = takes("", title "[^%-%s\x1c-\x1f({%[<]+"), map = map, list = takes("", list),
    items = takes("", function(v)
        return V.generator(kind(v) == "undefined" and V.list {} or pairs_of(v))
    end),
    first = takes("", at_end(true)), last = takes("", at_end(false)), string = takes("", V.str),
    int = takes("default base", integer), default = takes("default_value boolean", default),
    d = takes("default_value boolean", default),
    reverse = takes("", function(v)
        return V.generator(V.slice(V.items(v), nil, nil, -1))
    end),
    safe = takes("", function(v) return v end),
    selectattr = select(true), rejectattr = select(false),
    abs = takes("", function(v) return math.abs(V.number(v) or fail "`abs` is of a number") end),
    replace = takes("old! new! count", function(v, old, new, count)
        return replace(V.str(v), V.str(old), V.str(new), count)
    end),
    join = takes("d attribute", join),
}

-- ---- methods

local function stripper(left, right)
    return takes("/ chars", function(v, chars) return strip(v, chars, left, right) end)
end

local function get(v, key, otherwise)
    if kind(key) == "list" or kind(key) == "dict" then
        fail(V.what(key) .. " cannot be a key")
    end
    local found = kind(key) == "text" and v.map[V.string(key)]
    if kind(key) ~= "text" or found == nil then
        return otherwise == nil and V.none or otherwise
    end
    return found
end

V.methods = {
    text = {
        strip = stripper(true, true), lstrip = stripper(true, false),
        rstrip = stripper(false, true),
        upper = takes("", upper), lower = takes("", lower), capitalize = takes("", capitalize),
        title = takes("", title "%a+"), replace = takes("/ old! new! count", replace),
        split = takes("sep maxsplit", split),
        startswith = takes("/ prefix! start end", has_end(true)),
        endswith = takes("/ suffix! start end", has_end(false)),
        join = takes("/ iterable!", join_texts), find = takes("/ sub! start end", find),
    },
    dict = {
        items = takes("", function(v) return V.view(pairs_of(v)) end),
        keys = takes("", function(v) return V.view(V.items(v)) end),
        values = takes("", function(v) return V.view(values_of(v)) end),
        get = takes("/ key! default", get),
    },
}

-- ---- tests

local function is_kind(...)
    local kinds = {}
    for _, k in ipairs { ... } do kinds[k] = true end
    return function(v) return kinds[kind(v)] == true end
end
local function odd(v) return V.calculate("%", v, 2) == 1 end
local function divides(v, num) return V.calculate("%", v, num) == 0 end
local equal = takes("/ other!", V.equal)
local differs = takes("/ other!", function(v, other) return not V.equal(v, other) end)

V.tests = {
    defined = function(v) return kind(v) ~= "undefined" end,
    undefined = is_kind "undefined", none = is_kind "none", string = is_kind "text",
    mapping = is_kind "dict", number = is_kind("integer", "real", "boolean"),
    integer = is_kind "integer", float = is_kind "real", boolean = is_kind "boolean",
    iterable = is_kind("text", "list", "dict", "view", "generator", "undefined"),
    sequence = is_kind("text", "list", "dict", "undefined"),
    ["true"] = function(v) return v == true end,
    ["false"] = function(v) return v == false end,
    odd = odd, even = function(v) return not odd(v) end,
}
for name, f in pairs(V.tests) do
    V.tests[name] = takes("", f)
end
V.tests.eq, V.tests.equalto, V.tests["=="] = equal, equal, equal
V.tests.ne, V.tests["!="], V.tests.divisibleby = differs, differs, takes("num!", divides)
V.tests["in"] = takes("seq!", function(v, seq) return V.contains(seq, v) end)

-- ---- functions

local range = takes("/ start! stop step", function(_, from, to, step)
    step = step or 1
    if to == nil then
        from, to = 0, from
    end
    if kind(from) ~= "integer" or kind(to) ~= "integer" or kind(step) ~= "integer" or
        step == 0 then
        fail "`range` takes whole numbers, and steps that are not 0"
    elseif (to - from) // step > 100000 then
        fail "a range of more than 100000"
    end
    local items = {}
    for i = from, to + (step > 0 and -1 or 1), step do
        items[#items + 1] = i
    end
    return V.list(items)
end)

local raise = takes("message!", function(_, message)
    fail("the template says: " .. V.string(V.str(message)))
end)

V.functions = {
    range = function(args, named) return range(nil, args, named) end,
    namespace = function(args, named)
        if #args > 0 then
            fail "`namespace` takes names alone"
        end
        return { kind = "namespace", map = named }
    end,
    raise_exception = function(args, named) return raise(nil, args, named) end,
}
