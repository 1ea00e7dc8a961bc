-- SPDX-License-Identifier: Apache-2.0
-- parse.lua: Lua 5.4 to a tree. In: a file's text. Out: the block { statement, ... }; nodes are
-- { tag, ..., line = N }. A function's node has `declared`, the types of `---@param` lines before it.
-- No goto, no attributes: descriptions have none.

local keywords = {}
for word in ([[and break do else elseif end false for function if in local nil not or repeat return
               then true until while]]):gmatch("%a+") do keywords[word] = true end

local long = "^%[(=*)%[(.-)%]%1%]"
local signs = { "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>" }

local function fail(line, problem) error({ line = line, problem = problem }, 0) end

local function lex(text)
    local tokens, at, line, declared = {}, 1, 1, {}
    local function add(kind, value, length)
        tokens[#tokens + 1] = { kind = kind, value = value, line = line, declared = declared }
        declared = {}
        local _, lines = text:sub(at, at + length - 1):gsub("\n", "")
        line, at = line + lines, at + length
    end
    local function skip(length)
        local _, lines = text:sub(at, at + length - 1):gsub("\n", "")
        line, at = line + lines, at + length
    end
    while at <= #text do
        local space = text:match("^%s+", at)
        local comment = text:match("^%-%-[^\n]*", at)
        if space then
            skip(#space)
        elseif comment then
            local level, body = text:match(long, at + 2)
            if level then
                skip(2 + 2 * #level + 4 + #body)
            else
                local name, type = comment:match("^%-%-%-@param ([%w_]+)%?? (.*)")
                if name then declared[name] = type end
                skip(#comment)
            end
        elseif text:find("^[%a_]", at) then
            local word = text:match("^[%w_]+", at)
            add(keywords[word] and word or "name", word, #word)
        elseif text:find("^%.?%d", at) then
            local number = text:match("^0[xX][%x.]+[pP]?[+-]?%d*", at) or
                text:match("^[%d.]+[eE][+-]?%d+", at) or text:match("^[%d.]+", at)
            add("number", tonumber(number), #number)
        elseif text:find("^[\"']", at) then
            local quote, last = text:sub(at, at), at + 1
            while text:sub(last, last) ~= quote do
                if last > #text then fail(line, "a string without an end") end
                last = last + (text:sub(last, last) == "\\" and 2 or 1)
            end
            add("string", text:sub(at + 1, last - 1), last - at + 1)
        elseif text:find("^%[=*%[", at) then
            local level, body = text:match(long, at)
            add("string", body, 2 * #level + 4 + #body)
        else
            local sign = text:sub(at, at)
            for _, s in ipairs(signs) do
                if text:sub(at, at + #s - 1) == s then sign = s; break end
            end
            add(sign, sign, #sign)
        end
    end
    tokens[#tokens + 1] = { kind = "end of file", line = line, declared = {} }
    return tokens
end

local P = {}
P.__index = P

function P:peek() return self.tokens[self.at].kind end
function P:take()
    self.at = self.at + 1
    return self.tokens[self.at - 1]
end
function P:accept(kind)
    if self:peek() == kind then return self:take() end
end
function P:expect(kind)
    local token = self.tokens[self.at]
    if token.kind ~= kind then fail(token.line, kind .. " is expected, not " .. token.kind) end
    return self:take()
end
function P:line() return self.tokens[self.at].line end

function P:names()
    local list = { self:expect("name").value }
    while self:accept(",") do list[#list + 1] = self:expect("name").value end
    return list
end

function P:expressions()
    local list = { self:expression() }
    while self:accept(",") do list[#list + 1] = self:expression() end
    return list
end

function P:body(declared)
    local node = { "function", {}, line = self:line(), declared = declared }
    self:expect("(")
    while self:peek() ~= ")" do
        node[2][#node[2] + 1] = self:take().value
        if not self:accept(",") then break end
    end
    self:expect(")")
    node[3] = self:block()
    self:expect("end")
    return node
end

function P:table()
    local node = { "table", {}, line = self:line() }
    self:expect("{")
    while self:peek() ~= "}" do
        local field = { line = self:line() }
        if self:accept("[") then
            field.computed = self:expression()
            self:expect("]")
            self:expect("=")
        elseif self:peek() == "name" and self.tokens[self.at + 1].kind == "=" then
            field.key = self:take().value
            self:take()
        end
        field.value = self:expression()
        node[2][#node[2] + 1] = field
        if not (self:accept(",") or self:accept(";")) then break end
    end
    self:expect("}")
    return node
end

function P:arguments()
    if self:peek() == "string" then
        local token = self:take()
        return { { "string", token.value, line = token.line } }
    elseif self:peek() == "{" then
        return { self:table() }
    end
    self:expect("(")
    local list = self:peek() == ")" and {} or self:expressions()
    self:expect(")")
    return list
end

function P:suffixed()
    local line, node = self:line(), nil
    if self:accept("(") then
        node = { "paren", self:expression(), line = line }
        self:expect(")")
    else
        node = { "name", self:expect("name").value, line = line }
    end
    while true do
        local kind, at = self:peek(), self:line()
        if self:accept(".") then
            node = { "index", node, self:take().value, line = at }
        elseif self:accept("[") then
            node = { "computed", node, self:expression(), line = at }
            self:expect("]")
        elseif self:accept(":") then
            local name = self:take().value
            node = { "method", node, name, self:arguments(), line = at }
        elseif kind == "(" or kind == "string" or kind == "{" then
            node = { "call", node, self:arguments(), line = at }
        else
            return node
        end
    end
end

function P:simple()
    local token = self.tokens[self.at]
    local kind = token.kind
    if kind == "number" or kind == "string" then
        self:take()
        return { kind, token.value, line = token.line }
    elseif kind == "nil" or kind == "true" or kind == "false" or kind == "..." then
        self:take()
        return { kind, line = token.line }
    elseif kind == "{" then
        return self:table()
    elseif kind == "function" then
        self:take()
        return self:body(token.declared)
    end
    return self:suffixed()
end

local left = { ["or"] = 1, ["and"] = 2, ["<"] = 3, [">"] = 3, ["<="] = 3, [">="] = 3, ["~="] = 3,
               ["=="] = 3, ["|"] = 4, ["~"] = 5, ["&"] = 6, ["<<"] = 7, [">>"] = 7, [".."] = 9,
               ["+"] = 10, ["-"] = 10, ["*"] = 11, ["/"] = 11, ["//"] = 11, ["%"] = 11, ["^"] = 14 }
local right = { [".."] = 8, ["^"] = 13 }

function P:expression(limit)
    local token, node = self.tokens[self.at], nil
    if token.kind == "not" or token.kind == "-" or token.kind == "#" or token.kind == "~" then
        self:take()
        node = { "unary", token.kind, self:expression(12), line = token.line }
    else
        node = self:simple()
    end
    while (left[self:peek()] or 0) > (limit or 0) do
        local operator = self:take()
        node = { "binary", operator.kind, node,
                 self:expression(right[operator.kind] or left[operator.kind]), line = operator.line }
    end
    return node
end

function P:conditions(line)
    local node = { "if", {}, line = line }
    repeat
        local condition = self:expression()
        self:expect("then")
        node[2][#node[2] + 1] = { condition, self:block() }
    until not self:accept("elseif")
    if self:accept("else") then node[3] = self:block() end
    self:expect("end")
    return node
end

function P:loop(line)
    local names = self:names()
    local from = self:take().kind == "=" and "for" or "in"
    local values = self:expressions()
    self:expect("do")
    local node = { from, names, values, self:block(), line = line }
    self:expect("end")
    return node
end

function P:statement()
    local token = self.tokens[self.at]
    local line = token.line
    if self:accept("if") then
        return self:conditions(line)
    elseif self:accept("for") then
        return self:loop(line)
    elseif self:accept("while") then
        local node = { "while", self:expression(), line = line }
        self:expect("do")
        node[3] = self:block()
        self:expect("end")
        return node
    elseif self:accept("do") then
        local node = { "do", self:block(), line = line }
        self:expect("end")
        return node
    elseif self:accept("repeat") then
        local body = self:block()
        self:expect("until")
        return { "while", self:expression(), body, line = line }
    elseif self:accept("local") then
        if self:accept("function") then
            local name = self:expect("name").value
            return { "local function", name, self:body(token.declared), line = line }
        end
        local names = self:names()
        return { "local", names, self:accept("=") and self:expressions() or {}, line = line }
    elseif self:accept("break") then
        return { "break", line = line }
    end
    local target = self:suffixed()
    if target[1] == "call" or target[1] == "method" then return { "do call", target, line = line } end
    local targets = { target }
    while self:accept(",") do targets[#targets + 1] = self:suffixed() end
    self:expect("=")
    return { "assign", targets, self:expressions(), line = line }
end

function P:block()
    local list = {}
    while true do
        local kind, line = self:peek(), self:line()
        if kind == "end" or kind == "else" or kind == "elseif" or kind == "until" or
            kind == "end of file" then
            return list
        elseif self:accept("return") then
            local empty = ({ ["end"] = 1, ["else"] = 1, ["elseif"] = 1, ["until"] = 1,
                             ["end of file"] = 1 })[self:peek()]
            list[#list + 1] = { "return", empty and {} or self:expressions(), line = line }
        elseif not self:accept(";") then
            list[#list + 1] = self:statement()
        end
    end
end

return function(text)
    local parser = setmetatable({ tokens = lex(text), at = 1 }, P)
    local block = parser:block()
    parser:expect("end of file")
    return block
end
