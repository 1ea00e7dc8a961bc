-- SPDX-License-Identifier: Apache-2.0
-- jinja_read.lua: the expressions of chat templates. In: tokens (jinja_lex.lua), jinja.values,
-- and jinja.state, in which `at` is the place of what runs. Out: jinja.parser, whose methods return
-- functions of a scope that give a value. What is not known here is refused by its
-- name and place when the template is read.

local V, state, fail = jinja.values, jinja.state, jinja.fail
local MAX_DEPTH = 100
local P = {}
jinja.parser = P
P.__index = P

-- ---- tokens

function P:peek(kind, value)
    local t = self.tokens[self.i]
    return t.kind == kind and (value == nil or t.value == value)
end

function P:take(kind, value)
    if self:peek(kind, value) then
        self.i = self.i + 1
        return self.tokens[self.i - 1]
    end
end

function P:at()
    return self.tokens[self.i].at
end

function P:refuse(what)
    local t = self.tokens[self.i]
    fail(what or ("unexpected `%s`"):format(t.value or t.kind), t.at)
end

function P:expect(kind, value)
    return self:take(kind, value) or
        self:refuse(("expected `%s` before `%s`"):format(value or kind,
            self.tokens[self.i].value or self.tokens[self.i].kind))
end

function P:deeper(step)
    self.depth = self.depth + step
    if self.depth > MAX_DEPTH then
        self:refuse("is nested more than " .. MAX_DEPTH .. " deep")
    end
end

-- ---- what an expression is made of

local function constant(v)
    return function() return v end
end

local function lookup(name, at)
    return function(scope)
        local level = scope
        while level do
            local v = level.vars[name]
            if v ~= nil then
                return v
            end
            level = level.parent
        end
        state.at = at
        return V.undefined(name)
    end
end

-- Values between brackets: functions in order.
function P:list(close)
    local items = {}
    while not self:take("op", close) do
        items[#items + 1] = self:expression()
        if not self:take("op", ",") then
            self:expect("op", close)
            break
        end
    end
    return items
end

local function all(items, scope)
    local values = {}
    for i = 1, #items do
        values[i] = items[i](scope)
    end
    return values
end

function P:dict()
    local keys, values = {}, {}
    while not self:take("op", "}") do
        keys[#keys + 1] = self:expression()
        self:expect("op", ":")
        values[#values + 1] = self:expression()
        if not self:take("op", ",") then
            self:expect("op", "}")
            break
        end
    end
    return function(scope)
        local dict = V.dict()
        for i = 1, #keys do
            V.put(dict, V.string(keys[i](scope)), values[i](scope))
        end
        return dict
    end
end

local constants = { ["true"] = true, True = true, ["false"] = false, False = false,
                    none = V.none, None = V.none }

function P:primary()
    local t = self.tokens[self.i]
    self.i = self.i + 1
    if t.kind == "name" then
        if constants[t.value] ~= nil then
            return constant(constants[t.value])
        end
        return lookup(t.value, t.at)
    elseif t.kind == "number" then
        return constant(t.value)
    elseif t.kind == "text" then
        local s = t.value
        while self:peek "text" do
            s = s .. self:take("text").value
        end
        return constant(s)
    elseif t.kind == "op" and t.value == "[" then
        local items = self:list "]"
        return function(scope) return V.list(all(items, scope)) end
    elseif t.kind == "op" and t.value == "{" then
        return self:dict()
    elseif t.kind == "op" and t.value == "(" then
        return self:group()
    end
    self.i = self.i - 1
    return self:refuse()
end

-- ( x ) or a tuple
function P:group()
    if self:take("op", ")") then
        return function() return V.tuple {} end
    end
    local first = self:expression()
    if not self:take("op", ",") then
        self:expect("op", ")")
        return first
    end
    local items = self:list ")"
    table.insert(items, 1, first)
    return function(scope) return V.tuple(all(items, scope)) end
end

-- ---- what follows it: .name [key] [from:to] (arguments)

function P:arguments()
    local args, named = {}, {}
    while not self:take("op", ")") do
        if self:peek "name" and self.tokens[self.i + 1].kind == "op" and
            self.tokens[self.i + 1].value == "=" then
            local name = self:take("name").value
            self:take("op", "=")
            named[#named + 1] = { name = name, value = self:expression() }
        else
            if self:peek("op", "*") or self:peek("op", "**") then
                self:refuse "`*` before an argument is not supported"
            end
            args[#args + 1] = self:expression()
        end
        if not self:take("op", ",") then
            self:expect("op", ")")
            break
        end
    end
    return function(scope)
        local names = {}
        for i = 1, #named do
            names[named[i].name] = named[i].value(scope)
        end
        return all(args, scope), names
    end
end

function P:subscript(v, at)
    local bounds, n, is_slice = {}, 1, false
    while not self:peek("op", "]") do
        if self:take("op", ":") then
            n, is_slice = n + 1, true
        else
            bounds[n] = self:expression()
        end
        if n > 3 then
            self:refuse()
        end
    end
    self:expect("op", "]")
    if not is_slice and not bounds[1] then
        self:refuse "an index is missing"
    end
    local function bound(i, scope)
        local x = bounds[i] and bounds[i](scope)
        if x == nil or V.kind(x) == "none" then
            return nil
        elseif V.kind(x) ~= "integer" then
            fail("the bound of a slice must be an integer, not " .. V.what(x), at)
        end
        return x
    end
    return function(scope)
        local value = v(scope)
        if not is_slice then
            local key = bounds[1](scope)
            state.at = at
            return V.index(value, key)
        end
        local from, to, step = bound(1, scope), bound(2, scope), bound(3, scope)
        state.at = at
        return V.slice(value, from, to, step)
    end
end

local function member(v, name, at)
    return function(scope)
        local value = v(scope)
        state.at = at
        return V.member(value, name)
    end
end

local function call(v, arguments, at)
    return function(scope)
        local f = v(scope)
        local args, named = arguments(scope)
        state.at = at
        if V.kind(f) ~= "function" then
            fail(f.name == "strftime_now" and
                "strftime_now: the date of today would make other tokens each day; \z
                 set the template's date in the record's chat_template_kwargs" or
                V.what(f) .. " cannot be called", at)
        end
        return f.call(args, named)
    end
end

function P:postfix(v)
    while true do
        local at = self:at()
        if self:take("op", ".") then
            local name = self:take "name" or self:expect "number"
            v = type(name.value) == "string" and member(v, name.value, at) or
                self:refuse "`.` before a number is not supported"
        elseif self:take("op", "[") then
            v = self:subscript(v, at)
        elseif self:take("op", "(") then
            v = call(v, self:arguments(), at)
        else
            return v
        end
    end
end

function P:filters(v)
    while self:take("op", "|") do
        local at, name = self:at(), self:expect("name").value
        local filter, inner = V.filters[name], v
        if not filter then
            fail("the filter `" .. name .. "` is not supported", at)
        end
        local arguments = self:take("op", "(") and self:arguments() or
            function() return {}, {} end
        v = function(scope)
            local value = inner(scope)
            local args, named = arguments(scope)
            state.at = at
            return filter(value, args, named)
        end
    end
    return v
end

local not_arguments = { ["else"] = true, ["or"] = true, ["and"] = true, ["if"] = true,
                        is = true, ["in"] = true, ["not"] = true }

function P:test(v)
    local wanted = not self:take("name", "not")
    local at, name = self:at(), self:expect("name").value
    local test = V.tests[name]
    if not test then
        fail("the test `" .. name .. "` is not supported", at)
    end
    local arguments
    if self:take("op", "(") then
        arguments = self:arguments()
    elseif self:peek "text" or self:peek "number" or self:peek("op", "[") or
        (self:peek "name" and not not_arguments[self.tokens[self.i].value]) then
        local one = self:postfix(self:primary())
        arguments = function(scope) return { one(scope) }, {} end
    else
        arguments = function() return {}, {} end
    end
    return function(scope)
        local value = v(scope)
        local args, named = arguments(scope)
        state.at = at
        return test(value, args, named) == wanted
    end
end

function P:unary(with_filters)
    local at, v = self:at(), nil
    if self:peek("op", "-") or self:peek("op", "+") then
        local sign = self:take("op").value == "-" and -1 or 1
        self:deeper(1)
        local inner = self:unary(false)
        self:deeper(-1)
        v = function(scope)
            local value = inner(scope)
            state.at = at
            return V.calculate("*", V.number(value) or value, sign)
        end
    else
        v = self:postfix(self:primary())
    end
    if not with_filters then
        return v
    end
    v = self:filters(v)
    while self:take("name", "is") do
        v = self:filters(self:test(v))
    end
    return v
end

-- ---- operators, those that bind closest first

local function binary(a, b, f, at)
    return function(scope)
        local x, y = a(scope), b(scope)
        state.at = at
        return f(x, y)
    end
end

function P:chain(next, functions)
    local v = next(self)
    while self:peek "op" and functions[self.tokens[self.i].value] do
        local at, f = self:at(), functions[self:take("op").value]
        v = binary(v, next(self), f, at)
    end
    return v
end

local products, sums = {}, { ["+"] = V.add }
for _, op in ipairs { "*", "/", "//", "%", "-" } do
    (op == "-" and sums or products)[op] = function(x, y) return V.calculate(op, x, y) end
end
local joins = { ["~"] = function(x, y) return V.concat { V.str(x), V.str(y) } end }
local comparisons = {
    ["=="] = V.equal,
    ["!="] = function(x, y) return not V.equal(x, y) end,
    ["<"] = V.less,
    [">"] = function(x, y) return V.less(y, x) end,
    ["<="] = function(x, y) return V.equal(x, y) or V.less(x, y) end,
    [">="] = function(x, y) return V.equal(x, y) or V.less(y, x) end,
}

function P:product() return self:chain(function(p) return p:unary(true) end, products) end
function P:joined() return self:chain(P.product, joins) end
function P:sum() return self:chain(P.joined, sums) end

function P:comparison()
    local v, parts = self:sum(), {}
    while true do
        local at, f = self:at(), nil
        if self:peek "op" and comparisons[self.tokens[self.i].value] then
            f = comparisons[self:take("op").value]
        elseif self:take("name", "in") then
            f = function(x, y) return V.contains(y, x) end
        elseif self:peek("name", "not") and self.tokens[self.i + 1].value == "in" then
            self.i = self.i + 2
            f = function(x, y) return not V.contains(y, x) end
        else
            break
        end
        parts[#parts + 1] = { at = at, f = f, value = self:sum() }
    end
    if #parts == 0 then
        return v
    end
    return function(scope)
        local x = v(scope)
        for i = 1, #parts do
            local y = parts[i].value(scope)
            state.at = parts[i].at
            if not parts[i].f(x, y) then
                return false
            end
            x = y
        end
        return true
    end
end

function P:negation()
    if self:take("name", "not") then
        self:deeper(1)
        local v = self:negation()
        self:deeper(-1)
        return function(scope) return not V.truth(v(scope)) end
    end
    return self:comparison()
end

function P:either(word, next)
    local v = next(self)
    while self:take("name", word) do
        local a, b, ends = v, next(self), word == "or"
        v = function(scope)
            local x = a(scope)
            if V.truth(x) == ends then
                return x
            end
            return b(scope)
        end
    end
    return v
end

function P:alternatives()
    return self:either("or", function(p) return p:either("and", P.negation) end)
end

function P:expression()
    self:deeper(1)
    local v = self:alternatives()
    while self:take("name", "if") do
        local yes, condition, no = v, self:alternatives(), constant(V.undefined())
        if self:take("name", "else") then
            no = self:expression()
        end
        v = function(scope)
            if V.truth(condition(scope)) then
                return yes(scope)
            end
            return no(scope)
        end
    end
    self:deeper(-1)
    return v
end

