-- SPDX-License-Identifier: Apache-2.0
-- check.lua FOLDER ANNOTATIONS FILE...: what an editor with the Lua language server would say of
-- descriptions. In: models/fsdpgen.lua, descriptions and architectures. Out: a line for each field,
-- method or global that is not declared, and each value of another type than is declared; exit 1.
--
-- It runs functions on types: a call of a local function checks its body with the types of that call,
-- and a function given where `fun(g: fsdpgen.g)` is declared is called so. Both sides of an `if` run.
local folder, declared_in = arg[1], arg[2]
package.path = folder .. "/?.lua"
local parse, T = require "parse", require "declare"

local any, none = T.any, T.none
local function named(name) return { "named", name } end
local integer, number, str, boolean = named "integer", named "number", named "string", named "boolean"

local function text_of(path)
    local file = assert(io.open(path))
    local text = file:read "a"
    file:close()
    return text
end

local d = T.declarations(text_of(declared_in))
local problems, seen, quiet, depth, file_name = {}, {}, 0, 0, nil

local function report(line, problem, ...)
    if quiet > 0 then quiet = quiet + 1; return end
    local message = ("%s:%d: " .. problem):format(file_name, line, ...)
    if not seen[message] then problems[#problems + 1] = message end
    seen[message] = true
end

-- ---- types ----------------------------------------------------------------------------------------

local function show(t)
    if t[1] == "named" then return t[2]
    elseif t[1] == "literal" then return ("%q"):format(t[2])
    elseif t[1] == "union" then
        local list = {}
        for i, u in ipairs(t[2]) do list[i] = show(u) end
        return table.concat(list, "|")
    elseif t[1] == "array" then return show(t[2]) .. "[]"
    elseif t[1] == "tbl" then return "a table"
    elseif t[1] == "closure" or t[1] == "fun" then return "a function"
    end
    return t[1]
end

local function is(t, name) return t[1] == "named" and t[2] == name end

local function members(t)
    if t[1] ~= "union" then return { t } end
    local list = {}
    for _, u in ipairs(t[2]) do
        for _, v in ipairs(members(u)) do list[#list + 1] = v end
    end
    return list
end

local function union(a, b)
    if a == b or is(b, "nil") and is(a, "nil") then return a end
    return { "union", { a, b } }
end

-- Without nil: whether a value is there is not followed.
local function there(t)
    local list = {}
    for _, u in ipairs(members(t)) do
        if not is(u, "nil") then list[#list + 1] = u end
    end
    return #list == 0 and none or #list == 1 and list[1] or { "union", list }
end

local call, fits

-- The fields of a table that is written where a class is declared.
local function check_class(value, class, line)
    for name, field in pairs(value.fields) do
        local want = class.fields[name]
        if not want then
            report(value.lines[name], "%s has no field %s", class.name, name)
        else
            fits(field, want.type, value.lines[name], class.name .. "." .. name)
        end
    end
    for i, item in ipairs(value.items) do
        local want = class.items[i] or class.rest
        if not want then
            report(line, "%s takes no value at %d", class.name, i)
        else
            fits(item, want.type, line, ("%s[%d]"):format(class.name, i))
        end
    end
    for name, want in pairs(class.fields) do
        if not want.optional and not value.fields[name] then
            report(line, "%s needs the field %s", class.name, name)
        end
    end
    for i, want in pairs(class.items) do
        if not want.optional and not value.items[i] and not value.open then
            report(line, "%s needs a value at %d", class.name, i)
        end
    end
end

local function fits_one(value, want, line, what)
    if is(want, "any") or is(value, "any") or is(value, "nil") then return true end
    if want[1] == "named" and d.classes[want[2]] then
        if value[1] == "tbl" then
            check_class(value, d.classes[want[2]], line)
            return true
        end
        return is(value, want[2])
    elseif want[1] == "array" then
        if value[1] == "tbl" then
            for i, item in ipairs(value.items) do fits(item, want[2], line, ("%s[%d]"):format(what, i)) end
            return true
        end
        return value[1] == "array" or is(value, "table")
    elseif want[1] == "map" or is(want, "table") then
        return value[1] == "tbl" or value[1] == "array" or value[1] == "map" or is(value, "table") or
            value[1] == "named" and d.classes[value[2]] ~= nil
    elseif want[1] == "fun" then
        if value[1] ~= "closure" then return value[1] == "fun" or is(value, "function") end
        local types = {}
        for i, p in ipairs(want[2]) do types[i] = p.type end
        local got = call(value, types, line, what)
        if want[3][1] then fits(got, want[3][1], line, "what " .. what .. " returns") end
        return true
    elseif want[1] == "literal" then
        return value[1] == "literal" and value[2] == want[2]
    elseif is(want, "string") then
        return is(value, "string") or value[1] == "literal"
    elseif is(want, "number") then
        return is(value, "number") or is(value, "integer")
    end
    return want[1] == "named" and is(value, want[2])
end

-- A union takes what one of its members takes; a table, the one with the fewest complaints.
function fits(value, want, line, what)
    for _, v in ipairs(members(there(value))) do
        local fewest, best = math.huge, nil
        for _, w in ipairs(members(want)) do
            local before = quiet
            quiet = 1
            local good = fits_one(v, w, line, what)
            local complaints = quiet - 1
            quiet = before
            if good and complaints < fewest then fewest, best = complaints, w end
        end
        if not best then
            report(line, "%s is %s, not %s", what, show(v), show(want))
        elseif fewest > 0 then
            fits_one(v, best, line, what)
        end
    end
end

-- ---- the libraries that descriptions have ---------------------------------------------------------

local function fun(result, ...)
    local params = {}
    for i, t in ipairs { ... } do params[i] = { name = "argument " .. i, type = t, optional = i > 1 } end
    return { "fun", params, { result } }
end
local free = { "free" } -- takes anything, returns anything

local libraries = {
    math = { sqrt = fun(number, number), floor = fun(integer, number), ceil = fun(integer, number),
             max = free, min = free, abs = free, huge = number, pi = number, type = free,
             log = free, exp = fun(number, number) },
    table = { concat = free, insert = free, remove = free, unpack = free, sort = free },
    string = { format = free, rep = free, sub = free, lower = free, upper = free },
}
local methods = { format = str, rep = str, sub = str, lower = str, upper = str, gsub = str, match = any,
                  find = any, len = integer, byte = integer }
local globals = { ipairs = free, pairs = free, tostring = fun(str, any), tonumber = free, type = fun(str, any),
                  error = free, assert = free, select = free, next = free }

-- ---- expressions ----------------------------------------------------------------------------------

local E, S, run, module = {}, {}, nil, nil

local function eval(node, scope)
    return E[node[1]](node, scope) or any
end

local function find(scope, name)
    while scope do
        if scope.vars[name] then return scope.vars, scope.vars[name] end
        scope = scope.up
    end
end

function E.number(node) return math.type(node[2]) == "integer" and integer or number end
function E.string(node) return { "literal", node[2] } end
E["true"] = function() return boolean end
E["false"] = function() return boolean end
E["nil"] = function() return none end
E["..."] = function() return any end
E["function"] = function(node, scope) return { "closure", node, scope } end
function E.paren(node, scope) return eval(node[2], scope) end

function E.name(node, scope)
    local _, type = find(scope, node[2])
    type = type or d.globals[node[2]] or globals[node[2]]
    if not type and libraries[node[2]] then return { "library", node[2] } end
    if not type and node[2] ~= "require" then report(node.line, "there is no %s", node[2]) end
    return type
end

local function index(type, name, line)
    local result
    for _, t in ipairs(members(there(type))) do
        local found = any
        if t[1] == "library" then
            found = libraries[t[2]][name]
            if not found then report(line, "%s has no %s", t[2], name) end
        elseif t[1] == "tbl" then
            found = t.fields[name] or any
        elseif t[1] == "named" and d.classes[t[2]] then
            local field = d.classes[t[2]].fields[name]
            if not field then report(line, "%s has no field %s", t[2], name) end
            found = field and (field.optional and union(field.type, none) or field.type)
        elseif t[1] ~= "named" or not (t[2] == "any" or t[2] == "table") then
            report(line, "%s has no field %s", show(t), name)
        end
        found = found or any
        result = result and union(result, found) or found
    end
    return result or any
end

function E.index(node, scope) return index(eval(node[2], scope), node[3], node.line) end

function E.computed(node, scope)
    local of, key = eval(node[2], scope), eval(node[3], scope)
    for _, t in ipairs(members(there(of))) do
        if t[1] == "array" then return t[2] end
        if t[1] == "map" then return t[3] end
        if t[1] == "tbl" and key[1] == "literal" then return t.fields[key[2]] or any end
        if t[1] == "tbl" and t.items[1] then return t.items[1] end
    end
    return any
end

function E.table(node, scope)
    local value = { "tbl", fields = {}, items = {}, lines = {} }
    for _, field in ipairs(node[2]) do
        local type = eval(field.value, scope)
        if field.key then
            value.fields[field.key] = type
            value.lines[field.key] = field.line
        elseif not field.computed then
            value.items[#value.items + 1] = type
        end
    end
    return value
end

function E.unary(node, scope)
    local type = eval(node[3], scope)
    return node[2] == "not" and boolean or node[2] == "#" and integer or type
end

local compares = { ["=="] = 1, ["~="] = 1, ["<"] = 1, [">"] = 1, ["<="] = 1, [">="] = 1 }
function E.binary(node, scope)
    local a, b = eval(node[3], scope), eval(node[4], scope)
    local sign = node[2]
    if compares[sign] then return boolean
    elseif sign == "and" then return b
    elseif sign == "or" then return union(there(a), b)
    elseif sign == ".." then return str end
    for _, side in ipairs { a, b } do
        for _, t in ipairs(members(there(side))) do
            if not (is(t, "integer") or is(t, "number") or is(t, "any")) then
                report(node.line, "arithmetic on %s", show(t))
            end
        end
    end
    if sign == "/" or sign == "^" then return number end
    if is(a, "any") or is(b, "any") then return any end
    return is(a, "integer") and is(b, "integer") and integer or number
end

local function call_fun(f, types, line, what)
    for i, param in ipairs(f[2]) do
        local given = types[i]
        if not given then
            if not param.optional and not is(param.type, "any") then
                report(line, "%s needs %s", what, param.name)
            end
        else
            fits(given, param.type, line, param.name .. " of " .. what)
        end
    end
    if #types > #f[2] then report(line, "%s takes %d values, not %d", what, #f[2], #types) end
    return f[3][1] or none
end

function call(f, types, line, what)
    if f[1] == "closure" then
        if depth > 30 then return any end
        local scope = { vars = {}, up = f[3], returns = {} }
        for i, name in ipairs(f[2][2]) do
            local own = f[2].declared[name]
            scope.vars[name] = own and T.read(own) or types[i] or none
        end
        depth = depth + 1
        run(f[2][3], scope, scope.returns)
        depth = depth - 1
        local result
        for _, t in ipairs(scope.returns) do result = result and union(result, t) or t end
        return result or none
    elseif f[1] == "fun" then
        return call_fun(f, types, line, what)
    elseif f[1] == "named" and d.classes[f[2]] then
        local overload = d.classes[f[2]].overload
        if overload then return call_fun(overload, types, line, what) end
        report(line, "%s cannot be called", f[2])
    elseif f[1] == "union" then
        for _, t in ipairs(members(there(f))) do call(t, types, line, what) end
    elseif f[1] ~= "free" and not is(f, "any") then
        report(line, "%s, %s, cannot be called", what, show(f))
    end
    return any
end

local function path(node)
    if node[1] == "name" then return node[2] end
    return (node[1] == "index" or node[1] == "method") and path(node[2]) .. "." .. node[3] or "it"
end

local function eval_all(list, scope)
    local types = {}
    for i, e in ipairs(list) do types[i] = eval(e, scope) end
    return types
end

function E.call(node, scope)
    if node[2][1] == "name" and node[2][2] == "require" then
        return module(node[3][1][2], node.line)
    end
    local f = eval(node[2], scope)
    return call(f, eval_all(node[3], scope), node.line, path(node[2]))
end

function E.method(node, scope)
    local object, name = eval(node[2], scope), node[3]
    local types = eval_all(node[4], scope)
    local kind = there(object)
    if is(kind, "string") or kind[1] == "literal" then
        if not methods[name] then report(node.line, "a string has no method %s", name) end
        return methods[name]
    end
    local f = index(object, name, node.line)
    table.insert(types, 1, object)
    return call(f, types, node.line, path(node))
end

-- ---- statements -----------------------------------------------------------------------------------

local function inner(scope) return { vars = {}, up = scope } end

S["local"] = function(node, scope)
    local types = eval_all(node[3], scope)
    local several = #node[3] < #node[2] and #types > 0 -- results of one call
    for i, name in ipairs(node[2]) do scope.vars[name] = types[i] or (several and any or none) end
end
S["local function"] = function(node, scope) scope.vars[node[2]] = { "closure", node[3], scope } end
function S.assign(node, scope)
    local types = eval_all(node[3], scope)
    for i, target in ipairs(node[2]) do
        if target[1] == "name" then
            local vars, old = find(scope, target[2])
            if not vars then report(node.line, "%s becomes global", target[2])
            else vars[target[2]] = union(there(old), types[i] or any) end
        else
            eval(target[2], scope)
        end
    end
end
S["do call"] = function(node, scope) eval(node[2], scope) end
S["break"] = function() end
S["do"] = function(node, scope, returns) run(node[2], inner(scope), returns) end
S["while"] = function(node, scope, returns)
    eval(node[2], scope)
    run(node[3], inner(scope), returns)
end
S["if"] = function(node, scope, returns)
    for _, branch in ipairs(node[2]) do
        eval(branch[1], scope)
        run(branch[2], inner(scope), returns)
    end
    if node[3] then run(node[3], inner(scope), returns) end
end
S["for"] = function(node, scope, returns)
    eval_all(node[3], scope)
    local body = inner(scope)
    body.vars[node[2][1]] = integer
    run(node[4], body, returns)
end
S["in"] = function(node, scope, returns)
    eval_all(node[3], scope)
    local body = inner(scope)
    for _, name in ipairs(node[2]) do body.vars[name] = any end
    run(node[4], body, returns)
end
S["return"] = function(node, scope, returns)
    local types = eval_all(node[2], scope)
    returns[#returns + 1] = types[1] or none
end

function run(block, scope, returns)
    for _, statement in ipairs(block) do S[statement[1]](statement, scope, returns) end
end

-- ---- files ----------------------------------------------------------------------------------------

local root = declared_in:match("^(.*)/[^/]*$") -- where modules are
local function check_file(path)
    local before, text = file_name, text_of(path)
    file_name = path
    local good, block = pcall(parse, text)
    if not good then
        report(block.line or 0, "%s", block.problem or tostring(block))
        file_name = before
        return any
    end
    local returns = {}
    run(block, { vars = {} }, returns)
    file_name = before
    local as = text:match("%-%-%[%[@as ([%w_.]+)%]%]%s*$")
    return as and named(as) or returns[1] or none
end

local modules = {}
function module(name, line)
    if not modules[name] then
        local path = ("%s/%s.lua"):format(root, (name:gsub("%.", "/")))
        local file = io.open(path)
        if not file then report(line, "there is no module %s", name); return any end
        file:close()
        modules[name] = check_file(path)
    end
    return modules[name]
end

local missing = {}
for _, class in pairs(d.classes) do
    for _, field in pairs(class.fields) do T.undeclared(d, field.type, missing) end
    for _, field in pairs(class.items) do T.undeclared(d, field.type, missing) end
    if class.rest then T.undeclared(d, class.rest.type, missing) end
    if class.overload then T.undeclared(d, class.overload, missing) end
end
for _, type in pairs(d.globals) do T.undeclared(d, type, missing) end
table.sort(missing)
for _, name in ipairs(missing) do problems[#problems + 1] = declared_in .. ": " .. name .. " is not declared" end
for i = 3, #arg do check_file(arg[i]) end
for _, problem in ipairs(problems) do print(problem) end
os.exit(#problems == 0 and 0 or 1)
