-- SPDX-License-Identifier: Apache-2.0
-- jinja_value.lua: the values of chat templates, as Python has them. In: the table `jinja`. Out: in
-- it `values`, what they can do (print, compare, add, index), and `fail`, which names the place.
--
-- A text is a Lua string if the template itself says it, or { kind = "text", s =, data = } with
-- what messages say in it: data is true, if all of it is theirs, or a string with "\1" for each
-- byte that is. So a message cannot spell a special token: see tokenize_chat.c.
-- Lists, dicts, their views, generators, namespaces, loops, functions, none and undefined are tables with a
-- `kind`.

local state = { at = 1 } -- where the template is; its name, its text
jinja.state = state

local function fail(message, at)
    local before = state.text:sub(1, (at or state.at) - 1)
    local _, lines = before:gsub("\n", "")
    local column = utf8.len(before:match ".*\n(.*)$" or before) or 0
    error(("%s:%d:%d: %s"):format(state.name, lines + 1, column + 1, message), 0)
end
jinja.fail = fail

local V = { none = { kind = "none" } }
jinja.values = V

function V.undefined(name)
    return { kind = "undefined", name = name }
end

function V.kind(v)
    local type = type(v)
    if type == "string" then
        return "text"
    elseif type == "number" then
        return math.type(v) == "integer" and "integer" or "real"
    end
    return type == "boolean" and "boolean" or v.kind
end
local kind = V.kind

-- For messages.
function V.what(v)
    if kind(v) == "undefined" then
        return v.name and "`" .. v.name .. "`, which is undefined" or "an undefined value"
    end
    return "a value of kind " .. kind(v)
end

-- ---- texts

function V.string(v)
    if type(v) == "string" then
        return v
    elseif kind(v) == "text" then
        return v.s
    end
    return fail("expected a text, not " .. V.what(v))
end

local function data_of(v)
    if type(v) == "string" then
        return ("\0"):rep(#v)
    end
    return v.data == true and ("\1"):rep(#v.s) or v.data
end

function V.text(s, data)
    return data and { kind = "text", s = s, data = data } or s
end

function V.concat(list)
    local s, data, theirs, ours = {}, {}, 0, 0
    for i = 1, #list do
        s[i] = V.string(list[i])
        if s[i] == "" then
        elseif type(list[i]) == "string" then
            ours = ours + 1
        else
            theirs = theirs + (list[i].data == true and 1 or 0)
            ours = ours + (list[i].data ~= true and 1 or 0)
            data[1] = true
        end
    end
    if not data[1] then
        return table.concat(s)
    elseif ours == 0 then
        return V.text(table.concat(s), true)
    end
    for i = 1, #list do
        data[i] = data_of(list[i])
    end
    return V.text(table.concat(s), table.concat(data))
end

-- Bytes from..to of a text.
function V.cut(v, from, to)
    local s = V.string(v):sub(from, to)
    if type(v) == "string" then
        return s
    end
    return V.text(s, v.data == true or v.data:sub(from, to))
end

local function real(x)
    if x ~= x or x == math.huge or x == -math.huge then
        return x ~= x and "nan" or x > 0 and "inf" or "-inf"
    end
    local text
    for digits = 1, 17 do
        text = ("%." .. digits - 1 .. "e"):format(x)
        if tonumber(text) == x then
            break
        end
    end
    local sign, first, rest, e = text:match "^(-?)(%d)%.?(%d*)e([-+]%d+)$"
    local all, exponent = first .. rest, math.tointeger(tonumber(e))
    if exponent < -4 or exponent >= 16 then
        return sign .. first .. (rest ~= "" and "." .. rest or "") ..
            ("e%s%02d"):format(exponent < 0 and "-" or "+", math.abs(exponent))
    elseif exponent < 0 then
        return sign .. "0." .. ("0"):rep(-exponent - 1) .. all
    end
    all = all .. ("0"):rep(exponent + 2 - #all)
    return sign .. all:sub(1, exponent + 1) .. "." .. all:sub(exponent + 2)
end

-- As Python's str.
function V.str(v)
    local k = kind(v)
    if k == "text" then
        return v
    elseif k == "integer" then
        return ("%d"):format(v)
    elseif k == "real" then
        return real(v)
    elseif k == "boolean" then
        return v and "True" or "False"
    elseif k == "none" then
        return "None"
    elseif k == "undefined" then
        return ""
    end
    return fail("a " .. k .. " cannot be printed; `tojson` converts it to text")
end

-- ---- lists and dicts

function V.list(items, n)
    items.kind, items.n = "list", n or #items
    return items
end

-- As a list, but equal to tuples alone.
function V.tuple(items, n)
    items.tuple = true
    return V.list(items, n)
end

-- What filters give, such as `map`: it has no length and counts as true, and can be iterated over
-- once. `list` makes a list of it.
function V.generator(list)
    return { kind = "generator", list = list }
end

-- The keys, values or items of a dict: what Python calls a view. It can be iterated over again, but
-- has no item of a number.
function V.view(list)
    return { kind = "view", list = list }
end

function V.dict()
    return { kind = "dict", keys = {}, map = {} }
end

function V.put(dict, key, value)
    if dict.map[key] == nil then
        dict.keys[#dict.keys + 1] = key
    end
    dict.map[key] = value
end

-- The items that `for` iterates over.
function V.items(v)
    local k = kind(v)
    if k == "list" then
        return v
    elseif k == "undefined" then
        return V.list {}
    elseif k == "generator" then
        local list = v.list or fail "iterates a second time over what a filter gave; add `| list`"
        v.list = nil
        return list
    elseif k == "view" then
        return v.list
    elseif k == "dict" then
        local keys = {}
        for i = 1, #v.keys do
            keys[i] = V.text(v.keys[i], v.data)
        end
        return V.list(keys)
    end
    return fail(V.what(v) .. " cannot be iterated")
end

function V.length(v)
    local k = kind(v)
    if k == "text" then
        return utf8.len(V.string(v)) or fail "a text is cut within a character"
    elseif k == "list" or k == "view" then
        return V.items(v).n
    elseif k == "dict" then
        return #v.keys
    elseif k == "undefined" then
        return 0
    end
    return fail(V.what(v) .. " has no length")
end

function V.truth(v)
    local k = kind(v)
    if k == "boolean" then
        return v
    elseif k == "integer" or k == "real" then
        return v ~= 0
    elseif k == "none" or k == "undefined" then
        return false
    elseif k == "text" then
        return V.string(v) ~= ""
    elseif k == "list" or k == "dict" or k == "view" then
        return V.length(v) > 0
    end
    return true
end

-- ---- comparing

local function number(v)
    if kind(v) == "boolean" then
        return v and 1 or 0
    end
    return type(v) == "number" and v or nil
end
V.number = number

function V.equal(a, b)
    local x, y = number(a), number(b)
    if x and y then
        return x == y
    elseif kind(a) ~= kind(b) then
        return false
    elseif kind(a) == "text" then
        return V.string(a) == V.string(b)
    elseif kind(a) == "none" or kind(a) == "undefined" or a == b then
        return true
    elseif kind(a) == "view" then
        return fail "what a dict has is not compared here; add `| list`"
    elseif kind(a) == "list" then
        local same = a.n == b.n and not a.tuple == not b.tuple
        for i = 1, same and a.n or 0 do
            same = same and V.equal(a[i], b[i])
        end
        return same
    elseif kind(a) == "dict" then
        local same = #a.keys == #b.keys
        for i = 1, same and #a.keys or 0 do
            local key = a.keys[i]
            same = same and b.map[key] ~= nil and V.equal(a.map[key], b.map[key])
        end
        return same
    end
    return false
end

function V.less(a, b)
    local x, y = number(a), number(b)
    if x and y then
        return x < y
    elseif kind(a) == "text" and kind(b) == "text" then
        return V.string(a) < V.string(b)
    end
    return fail(V.what(a) .. " and " .. V.what(b) .. " cannot be compared")
end

function V.contains(set, v)
    local k = kind(set)
    if k == "text" then
        return V.string(set):find(V.string(v), 1, true) ~= nil
    elseif k == "dict" then
        return kind(v) == "text" and set.map[V.string(v)] ~= nil
    elseif k == "namespace" or k == "loop" then
        return fail("`in` needs a text, list or dict, not " .. V.what(set))
    end
    local items, found = V.items(set), false
    for i = 1, items.n do
        found = found or V.equal(items[i], v)
    end
    return found
end

-- ---- adding

function V.add(a, b)
    if kind(a) == "text" and kind(b) == "text" then
        return V.concat { a, b }
    elseif kind(a) == "list" and kind(b) == "list" and not a.tuple == not b.tuple then
        local both = { tuple = a.tuple }
        for i = 1, a.n do both[i] = a[i] end
        for i = 1, b.n do both[a.n + i] = b[i] end
        return V.list(both)
    end
    return V.calculate("+", a, b)
end

local calculations = {
    ["+"] = function(x, y) return x + y end,
    ["-"] = function(x, y) return x - y end,
    ["*"] = function(x, y) return x * y end,
    ["/"] = function(x, y) return x / y end,
    ["//"] = function(x, y) return x // y end,
    ["%"] = function(x, y) return x % y end,
}

function V.calculate(op, a, b)
    local x, y = number(a), number(b)
    if op == "*" and kind(a) == "text" and kind(b) == "integer" then
        local copies = {}
        for i = 1, b do copies[i] = a end
        return V.concat(copies)
    elseif not x or not y then
        fail(("%s and %s have no `%s`"):format(V.what(a), V.what(b), op))
    elseif y == 0 and op:find "[/%%]" then
        fail "a division by 0"
    end
    local result = calculations[op](x, y)
    if math.type(result) == "integer" and op:find "[-+*]" and
        math.abs(calculations[op](x + 0.0, y + 0.0)) >= 2.0 ^ 63 then
        fail "a whole number of more than 64 bits is not supported"
    end
    return result
end

-- ---- parts

function V.item(list, i, name)
    if list[i] == nil then
        return V.undefined(name)
    end
    return list[i]
end

-- v[key]; texts and lists count from 0, or from their ends.
function V.index(v, key)
    local k, i = kind(v), number(key)
    if (k == "list" or k == "text") and math.type(i) == "integer" then
        local n = V.length(v)
        i = i < 0 and i + n or i
        if k == "text" and i >= 0 and i < n then
            return V.slice(v, i, i + 1, 1)
        end
        return k == "list" and V.item(v, i + 1, "an item") or V.undefined "an item"
    elseif k == "undefined" and kind(key) ~= "text" then
        return fail(V.what(v) .. " has no items")
    elseif kind(key) ~= "text" then
        return V.undefined "an item"
    end
    return V.member(v, V.string(key), true)
end

-- v.name, or v["name"]: what a dict has goes before its methods in the second form alone.
function V.member(v, name, by_key)
    local k = kind(v)
    if k == "undefined" then
        return fail(("%s has no `%s`"):format(V.what(v), name))
    elseif k == "loop" then
        return V.loop_member(v, name)
    end
    local map = (k == "dict" or k == "namespace") and v.map or {}
    local method = V.methods[k] and V.methods[k][name]
    if map[name] ~= nil and (by_key or not method) then
        return map[name]
    elseif method then
        return { kind = "function", call = function(args, named)
            return method(v, args, named)
        end }
    end
    return V.undefined(name)
end

function V.loop_member(loop, name)
    local i, n = loop.i, loop.items.n
    if name == "index" or name == "index0" then
        return name == "index" and i or i - 1
    elseif name == "revindex" or name == "revindex0" then
        return name == "revindex" and n - i + 1 or n - i
    elseif name == "first" or name == "last" then
        return i == (name == "first" and 1 or n)
    elseif name == "length" then
        return n
    elseif name == "previtem" or name == "nextitem" then
        return V.item(loop.items, name == "previtem" and i - 1 or i + 1, "loop." .. name)
    elseif name == "cycle" then
        return { kind = "function", call = function(args, named)
            if next(named) then
                fail("the argument `" .. next(named) .. "` is not supported")
            end
            return #args > 0 and args[(i - 1) % #args + 1] or fail "cycle of nothing"
        end }
    end
    return fail("`loop." .. name .. "` is not supported")
end

-- v[from:to:step] as in Python; nil: omitted.
function V.slice(v, from, to, step)
    local is_text = kind(v) == "text"
    local n = V.length(v)
    step = step or 1
    if not is_text and kind(v) ~= "list" or step == 0 then
        fail(step == 0 and "a slice cannot have the step 0" or V.what(v) .. " cannot be sliced")
    end
    local function clamp(at, otherwise)
        if not at then
            return otherwise
        end
        at = at < 0 and at + n or at
        return step > 0 and math.max(0, math.min(at, n)) or math.max(-1, math.min(at, n - 1))
    end
    from, to = clamp(from, step > 0 and 0 or n - 1), clamp(to, step > 0 and n or -1)
    if is_text then
        if step ~= 1 then
            fail "a slice of a text with a step is not supported"
        elseif from >= to then
            return ""
        end
        local s = V.string(v)
        return V.cut(v, utf8.offset(s, from + 1), utf8.offset(s, to + 1) - 1)
    end
    local items = { tuple = v.tuple }
    for i = from, to + (step > 0 and -1 or 1), step do
        items[#items + 1] = v[i + 1]
    end
    return V.list(items)
end

