-- SPDX-License-Identifier: Apache-2.0
-- jinja.lua: chat templates of Hugging Face's, in the part of Jinja that they use. In: a template's
-- text, and what chats give it. Out: the text of a chat, which bytes of it are messages' and which
-- are to be predicted. Statements are here: for, if, set, macro, generation; expressions are in
-- jinja_read.lua. A template becomes Lua functions once. It has no I/O and no memory between
-- chats; tokenize_jinja.c counts what it takes.

local V, state, fail, P = jinja.values, jinja.state, jinja.fail, jinja.parser
local MAX_CALLS = 50
local function inside(parent)
    return { vars = {}, parent = parent }
end

-- Statements return nil, "break" or "continue".
local function run_all(list)
    return function(scope, out)
        for i = 1, #list do
            local left = list[i](scope, out)
            if left then
                return left
            end
        end
    end
end

local function text_of(body, scope)
    local out = {}
    body(scope, out)
    for i = 1, #out do
        out[i] = out[i].value
    end
    return V.concat(out)
end

-- ---- statements

local statements = {}

-- Reads to {% NAME %}, for any of the names, and returns it; the tag is not yet closed.
function P:block(opened, ...)
    local list, ends = {}, {}
    for _, name in ipairs { ... } do ends[name] = true end
    self:deeper(1)
    while true do
        local t = self.tokens[self.i]
        self.i = self.i + 1
        if t.kind == "data" then
            local piece = { value = t.value }
            list[#list + 1] = function(_, out) out[#out + 1] = piece end
        elseif t.kind == "{{" then
            local v = self:expression()
            self:expect "}}"
            list[#list + 1] = function(scope, out)
                local value = v(scope)
                state.at = t.at
                out[#out + 1] = { value = V.str(value) }
            end
        elseif t.kind == "{%" then
            local name = self:expect("name").value
            if ends[name] then
                self:deeper(-1)
                return run_all(list), name
            elseif not statements[name] then
                self.i = self.i - 1
                self:refuse(("the tag `%s` is not supported, or ends nothing"):format(name))
            end
            list[#list + 1] = statements[name](self, t.at)
        elseif opened then
            fail("`" .. opened.name .. "` has no end", opened.at)
        else
            return run_all(list)
        end
    end
end

statements["if"] = function(p, at)
    local branches, name = {}, "if"
    while name == "if" or name == "elif" do
        local condition = p:expression()
        p:expect "%}"
        local body
        body, name = p:block({ name = "if", at = at }, "elif", "else", "endif")
        branches[#branches + 1] = { condition = condition, body = body }
    end
    if name == "else" then
        p:expect "%}"
        local body = p:block({ name = "if", at = at }, "endif")
        branches[#branches + 1] = { condition = function() return true end, body = body }
    end
    p:expect "%}"
    return function(scope, out)
        for i = 1, #branches do
            if V.truth(branches[i].condition(scope)) then
                return branches[i].body(scope, out)
            end
        end
    end
end

-- Names before `in` or `=`, as many as a list has, or one.
local function read_names(p)
    local names = {}
    repeat
        names[#names + 1] = p:expect("name").value
    until not p:take("op", ",")
    return names
end

local function assign(scope, names, value, at)
    if #names == 1 then
        scope.vars[names[1]] = value
        return
    end
    local items = V.items(value)
    if items.n ~= #names then
        fail(("%d names for %d values"):format(#names, items.n), at)
    end
    for i = 1, #names do
        scope.vars[names[i]] = items[i]
    end
end

local function kept(items, names, condition, scope, at)
    local list = {}
    for i = 1, items.n do
        local inner = inside(scope)
        assign(inner, names, items[i], at)
        if V.truth(condition(inner)) then
            list[#list + 1] = items[i]
        end
    end
    return V.list(list)
end

statements["for"] = function(p, at)
    local names = read_names(p)
    p:expect("name", "in")
    local over, condition = p:alternatives(), nil
    if p:take("name", "if") then
        condition = p:expression()
    end
    if p:peek("name", "recursive") then
        p:refuse "a recursive loop is not supported"
    end
    p:expect "%}"
    p.loops = p.loops + 1
    local body, name = p:block({ name = "for", at = at }, "else", "endfor")
    p.loops = p.loops - 1
    local otherwise
    if name == "else" then
        p:expect "%}"
        otherwise = p:block({ name = "for", at = at }, "endfor")
    end
    p:expect "%}"
    return function(scope, out)
        local value = over(scope)
        state.at = at
        local items = V.items(value)
        items = condition and kept(items, names, condition, scope, at) or items
        local loop = { kind = "loop", items = items }
        for i = 1, items.n do
            local inner = inside(scope)
            loop.i, inner.vars.loop = i, loop
            assign(inner, names, items[i], at)
            if body(inner, out) == "break" then
                break
            end
        end
        if items.n == 0 and otherwise then
            return otherwise(inside(scope), out)
        end
    end
end

for _, word in ipairs { "break", "continue" } do
    statements[word] = function(p)
        if p.loops == 0 then
            p:refuse("`" .. word .. "` is outside a loop")
        end
        p:expect "%}"
        return function() return word end
    end
end

statements.set = function(p, at)
    if p.tokens[p.i + 1].value == "." then
        local space, _, name = p:expect("name").value, p:take "op", p:expect("name").value
        p:expect("op", "=")
        local v = p:expression()
        p:expect "%}"
        return function(scope)
            local level = scope
            while level and level.vars[space] == nil do level = level.parent end
            local target = level and level.vars[space]
            if V.kind(target or V.none) ~= "namespace" then
                fail("`" .. space .. "` is not a namespace", at)
            end
            target.map[name] = v(scope)
        end
    end
    local names = read_names(p)
    if p:take("op", "=") then
        local v = p:expression()
        if p:peek("op", ",") then
            p:refuse "a list without brackets is not supported"
        end
        p:expect "%}"
        return function(scope) assign(scope, names, v(scope), at) end
    end
    p:expect "%}"
    local body = p:block({ name = "set", at = at }, "endset")
    p:expect "%}"
    return function(scope) assign(scope, names, text_of(body, inside(scope)), at) end
end

local function read_parameters(p)
    local parameters = {}
    p:expect("op", "(")
    while not p:take("op", ")") do
        local name = p:expect("name").value
        parameters[#parameters + 1] = {
            name = name, default = p:take("op", "=") and p:expression(),
        }
        if not p:take("op", ",") then
            p:expect("op", ")")
            break
        end
    end
    return parameters
end

statements.macro = function(p, at)
    local name, parameters = p:expect("name").value, read_parameters(p)
    local loops = p.loops
    p:expect "%}"
    p.loops, p.macros = 0, p.macros + 1
    local body = p:block({ name = "macro", at = at }, "endmacro")
    p.loops, p.macros = loops, p.macros - 1
    p:expect "%}"
    return function(scope)
        scope.vars[name] = { kind = "function", call = function(args, named)
            local inner = inside(scope)
            state.calls = state.calls + 1
            if state.calls > MAX_CALLS then
                fail("macros call each other more than " .. MAX_CALLS .. " deep")
            elseif #args > #parameters then
                fail("too many arguments for `" .. name .. "`")
            end
            for i = 1, #parameters do
                local q, v = parameters[i], args[i]
                if v == nil then v = named[q.name] end
                named[q.name] = nil
                if v == nil and q.default then v = q.default(inner) end
                if v == nil then v = V.undefined(q.name) end
                inner.vars[q.name] = v
            end
            if next(named) then
                fail(("`%s` has no argument `%s`"):format(name, (next(named))))
            end
            local text = text_of(body, inner)
            state.calls = state.calls - 1
            return text
        end }
    end
end

-- The model learns to predict the text in between. For transformers it is a call block of
-- Jinja's: it has a scope of its own, and loops outside cannot be left from within.
statements.generation = function(p, at)
    if p.macros > 0 then
        p:refuse "`generation` within a macro is not supported"
    end
    p:expect "%}"
    local loops = p.loops
    p.generation, p.loops = true, 0
    local body = p:block({ name = "generation", at = at }, "endgeneration")
    p.loops = loops
    p:expect "%}"
    return function(scope, out)
        local from = #out + 1
        body(inside(scope), out)
        for i = from, #out do
            out[i] = { value = out[i].value, target = true }
        end
    end
end

-- ---- a chat

local function render(body, vars)
    local functions = {}
    for name, f in pairs(V.functions) do
        functions[name] = { kind = "function", call = f }
    end
    local out = {}
    state.at, state.calls = 1, 0
    body(inside { vars = vars, parent = { vars = functions } }, out)
    local values = {}
    for i = 1, #out do
        values[i] = out[i].value
    end
    return V.concat(values), out
end

local function part(messages, n)
    local list = {}
    for i = 1, n do list[i] = messages[i] end
    return V.list(list)
end

-- Bytes that {% generation %} marks: from, to, from, to, ...
local function marked(out)
    local targets, at = {}, 0
    for i = 1, #out do
        local n = #V.string(out[i].value)
        if out[i].target and n > 0 then
            targets[#targets + 1] = at
            targets[#targets + 1] = at + n
        end
        at = at + n
    end
    return targets
end

-- The bytes of WHOLE that a shorter chat's text begins with, apart from the text's own end; nil:
-- it does not begin like that.
local function beginning(whole, text, eos)
    if whole:sub(1, #text) == text then
        return #text
    end
    local n = #text - #eos
    if eos ~= "" and text:sub(n + 1) == eos and whole:sub(1, n) == text:sub(1, n) then
        return n
    end
end

-- Without such marks: of an assistant's message, what the template writes for it behind what
-- it writes for those before and to prompt for it. Both must be how the whole begins.
local function turns(body, vars, whole)
    local targets, messages = {}, vars.messages
    local eos = vars.eos_token and V.string(vars.eos_token) or ""
    for i = 1, messages.n do
        local role = messages[i].map.role
        if role ~= nil and V.kind(role) == "text" and V.string(role) == "assistant" then
            vars.messages, vars.add_generation_prompt = part(messages, i - 1), true
            local before = V.string((render(body, vars)))
            vars.messages, vars.add_generation_prompt = part(messages, i), false
            local after = i == messages.n and whole or V.string((render(body, vars)))
            local to = beginning(whole, after, eos)
            if not to or after:sub(1, #before) ~= before then
                error(("%s: what it writes up to message %d is not how it writes the chat, \z
                    so the targets are unknown: mark them with {%% generation %%}, or use \z
                    chatml, llama3 or a FILE.lua"):format(state.name, i), 0)
            end
            targets[#targets + 1] = #before
            targets[#targets + 1] = to
        end
    end
    vars.messages = messages
    return targets
end

function jinja.open(text, name)
    text = text:gsub("\r\n?", "\n"):gsub("\n$", "")
    state.text, state.name = text, name
    local parser = setmetatable({ tokens = jinja.lex(text), i = 1, depth = 0, loops = 0,
                                  macros = 0 }, P)
    local body = parser:block()
    return function(vars)
        local whole, out = render(body, vars)
        local s = V.string(whole)
        local targets = parser.generation and marked(out) or turns(body, vars, s)
        return s, type(whole) ~= "string" and whole.data or false, targets,
            not parser.generation
    end
end
