-- SPDX-License-Identifier: Apache-2.0
-- declare.lua: annotations to types. In: the text of models/fsdpgen.lua. Out: classes by name, and
-- types of globals. A type is { kind, ... }: named, literal, union, array, map, fun; `read` reads one.

local T = {}

local function reader(text)
    local at = 1
    local r = {}
    function r.match(pattern)
        local found = text:match("^" .. pattern, at)
        if found then at = at + #found end
        return found
    end
    local function primary()
        if r.match("%(") then
            local type = r.union()
            assert(r.match("%s*%)"), "a ) is missing in " .. text)
            return type
        elseif r.match("fun%(") then
            local type = { "fun", {}, {} }
            while not r.match("%)") do
                r.match("[%s,]*")
                local name = r.match("[%w_.]+")
                local optional = r.match("%?") ~= nil
                if r.match(":%s*") then
                    type[2][#type[2] + 1] = { name = name, optional = optional, type = r.union() }
                elseif name then
                    type[2][#type[2] + 1] = { name = name, optional = optional, type = T.any }
                end
            end
            if r.match(":%s*") then
                repeat type[3][#type[3] + 1] = r.union() until not r.match(",%s*")
            end
            return type
        end
        local word = r.match('"[^"]*"')
        if word then return { "literal", word:sub(2, -2) } end
        local name = assert(r.match("[%a_][%w_.]*"), "no type in " .. text)
        if name == "table" and r.match("<") then
            local key = r.union()
            r.match(",%s*")
            local value = r.union()
            assert(r.match(">"), "a > is missing in " .. text)
            return { "map", key, value }
        end
        return { "named", name }
    end
    local function postfix()
        local type = primary()
        while true do
            if r.match("%[%]") then type = { "array", type }
            elseif r.match("%?") then type = { "union", { type, T.none } }
            else return type end
        end
    end
    function r.union()
        local list = { postfix() }
        while r.match("|") do list[#list + 1] = postfix() end
        return #list == 1 and list[1] or { "union", list }
    end
    return r
end

T.any, T.none = { "named", "any" }, { "named", "nil" }
function T.read(text) return reader(text).union() end

local function add_field(class, line)
    local name, optional, rest = line:match("^%-%-%-@field (%S-)(%??) (.*)")
    local field = { type = T.read(rest), optional = optional == "?" }
    local key = name:match("^%[(.*)%]$")
    if key == "integer" then class.rest = field
    elseif key then class.items[tonumber(key)] = field
    else
        assert(not class.fields[name], class.name .. " has " .. name .. " twice")
        class.fields[name] = field
    end
end

function T.declarations(text)
    local d = { classes = {}, globals = {} }
    local class, params, returns, type = nil, {}, {}, nil
    for line in text:gmatch("[^\n]+") do
        local name = line:match("^%-%-%-@class %(exact%) (%S+)") or line:match("^%-%-%-@class (%S+)")
        if name then
            assert(not d.classes[name], name .. " is declared twice")
            class = { name = name, fields = {}, items = {} }
            d.classes[name] = class
        elseif line:find("^%-%-%-@field ") then
            add_field(class, line)
        elseif line:find("^%-%-%-@overload ") then
            class.overload = T.read(line:match("^%-%-%-@overload (.*)"))
        elseif line:find("^%-%-%-@param ") then
            local param, optional, rest = line:match("^%-%-%-@param ([%w_]+)(%??) (.*)")
            params[#params + 1] = { name = param, optional = optional == "?", type = T.read(rest) }
        elseif line:find("^%-%-%-@return ") then
            returns[#returns + 1] = T.read(line:match("^%-%-%-@return (.*)"))
        elseif line:find("^%-%-%-@type ") then
            type = T.read(line:match("^%-%-%-@type (.*)"))
        elseif line:find("^function ") then
            d.globals[line:match("^function ([%w_]+)")] = { "fun", params, returns }
            params, returns = {}, {}
        elseif line:find("^[%w_]+ = ") then
            d.globals[line:match("^([%w_]+)")] = type
        end
    end
    return d
end

-- Names of classes that a type has and nobody declares, to `missing`.
function T.undeclared(d, type, missing)
    local known = { any = 1, ["nil"] = 1, integer = 1, number = 1, string = 1, boolean = 1, table = 1,
                    ["function"] = 1 }
    if type[1] == "named" and not known[type[2]] and not d.classes[type[2]] then
        missing[#missing + 1] = type[2]
    elseif type[1] == "union" then
        for _, t in ipairs(type[2]) do T.undeclared(d, t, missing) end
    elseif type[1] == "array" then
        T.undeclared(d, type[2], missing)
    elseif type[1] == "map" then
        T.undeclared(d, type[2], missing)
        T.undeclared(d, type[3], missing)
    elseif type[1] == "fun" then
        for _, p in ipairs(type[2]) do T.undeclared(d, p.type, missing) end
        for _, t in ipairs(type[3]) do T.undeclared(d, t, missing) end
    end
end

return T
