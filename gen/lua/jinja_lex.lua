-- SPDX-License-Identifier: Apache-2.0
-- jinja_lex.lua: a chat template's text to tokens. In: the text. Out: jinja.lex, a
-- list of tokens {kind, value, at}; `at` is a byte. White space goes as transformers has Jinja take it:
-- trim_blocks, lstrip_blocks, no newline at the end of the text.

local fail, space_ends = jinja.fail, jinja.space_ends
local MAX_BYTES, MAX_TOKENS = 1 << 20, 100000
local escapes = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f", v = "\v", a = "\a",
                  ["\\"] = "\\", ["'"] = "'", ['"'] = '"', ["\n"] = "" }
local operators = {}
for op in ("== != <= >= // ** + - * / % ~ < > ( ) [ ] { } , . : | ="):gmatch "%S+" do
    operators[op] = true
end

-- Where what is not white space begins, from AT on; nil: nowhere. White space is Python's.
local function space_end(s, at)
    while true do
        at = s:find("[^ \t\n\r\f\v\x1c-\x1f]", at)
        local wide = at and s:match("^[\xc2-\xf4][\x80-\xbf]+", at)
        local from, to = space_ends(wide or "x")
        if from <= to then
            return at
        end
        at = at + #wide
    end
end

local Lexer = {}
Lexer.__index = Lexer

function Lexer:put(kind, value, at)
    if #self.tokens == MAX_TOKENS then
        fail("the template has more than " .. MAX_TOKENS .. " parts", at)
    end
    self.tokens[#self.tokens + 1] = { kind = kind, value = value, at = at }
end

-- The text before a tag, without what the tag takes of it.
function Lexer:put_data(from, to, sign, is_variable)
    local data = self.s:sub(from, to)
    if sign == "-" then
        local from, to = space_ends(data)
        data = from > to and "" or data:sub(1, to)
    elseif sign ~= "+" and not is_variable then
        local line = data:match ".*\n()" or 1
        if (line > 1 or self.at_line) and not space_end(data, line) then
            data = data:sub(1, line - 1)
        end
    end
    if data ~= "" then
        self:put("data", data, from)
    end
end

-- Behind a tag that ends before `at`; TRIM: a newline goes, too.
function Lexer:behind(at, sign, trim)
    local next = at
    if sign == "-" then
        next = space_end(self.s, at) or #self.s + 1
    elseif trim and sign ~= "+" and self.s:byte(at) == 10 then
        next = at + 1
    end
    self.at_line = self.s:byte(next - 1) == 10
    return next
end

local function escaped(self, c, at)
    if escapes[c] then
        return escapes[c], 2
    end
    local digits = c == "x" and self.s:match("^%x%x", at + 2) or
        c == "u" and self.s:match("^%x%x%x%x", at + 2)
    if digits then
        local point = tonumber(digits, 16)
        if point >= 0xD800 and point < 0xE000 then
            fail("half a surrogate pair is not supported", at)
        end
        return utf8.char(point), 2 + #digits
    elseif c:find "[xuUN0-7]" then
        fail("the escape \\" .. c .. " is not supported", at)
    end
    return "\\" .. c, 2
end

function Lexer:text(at)
    local quote, parts, from = self.s:sub(at, at), {}, at + 1
    while true do
        local to = self.s:find("[\\" .. quote .. "]", from)
        if not to then
            fail("the text is not closed", at)
        end
        parts[#parts + 1] = self.s:sub(from, to - 1)
        if self.s:byte(to) ~= 92 then
            self:put("text", table.concat(parts), at)
            return to + 1
        end
        local part, n = escaped(self, self.s:sub(to + 1, to + 1), to)
        parts[#parts + 1] = part
        from = to + n
    end
end

function Lexer:number(at)
    local real = self.s:match("^%d+%.%d+[eE][-+]?%d+", at) or self.s:match("^%d+%.%d+", at)
    local digits = real or self.s:match("^%d+", at)
    if not real and not math.tointeger(tonumber(digits)) or #digits > 18 then
        fail("the number is too long", at)
    end
    self:put("number", real and tonumber(digits) + 0.0 or math.tointeger(tonumber(digits)), at)
    return at + #digits
end

-- One token within a tag; returns where the next one may begin.
function Lexer:token(at)
    local s = self.s
    local word = s:match("^[%a_][%w_]*", at)
    if word then
        self:put("name", word, at)
        return at + #word
    elseif s:find("^%d", at) then
        return self:number(at)
    elseif s:find("^['\"]", at) then
        return self:text(at)
    end
    local op = operators[s:sub(at, at + 1)] and s:sub(at, at + 1) or s:sub(at, at)
    if not operators[op] then
        fail("unexpected character", at)
    end
    self.depth = self.depth + (op:find "[%(%[{]" and 1 or op:find "[%)%]}]" and -1 or 0)
    if self.depth < 0 then
        fail("`" .. op .. "` has no opening bracket", at)
    end
    self:put("op", op, at)
    return at + #op
end

-- A tag {{ }} or {% %} whose inside begins at `at`.
function Lexer:tag(at, from, is_variable)
    local close = is_variable and "^(%-?)}}" or "^([-+]?)%%}"
    self.depth = 0
    self:put(is_variable and "{{" or "{%", nil, from)
    while true do
        at = space_end(self.s, at)
        if not at then
            fail("the tag is not closed", from)
        end
        local sign = self.depth == 0 and self.s:match(close, at)
        if sign then
            self:put(is_variable and "}}" or "%}", nil, at)
            return self:behind(at + #sign + 2, sign, not is_variable)
        end
        at = self:token(at)
    end
end

function Lexer:comment(at, from)
    local close = self.s:find("#}", at, true)
    if not close then
        fail("the comment is not closed", from)
    end
    local sign = close > at and self.s:match("^[-+]", close - 1) or ""
    return self:behind(close + 2, sign, true)
end

function Lexer:run()
    local s, at = self.s, 1
    while at <= #s do
        local from = s:find("{[{%%#]", at)
        if not from then
            self:put_data(at, #s, "+", true)
            break
        end
        local kind = s:sub(from + 1, from + 1)
        local sign = s:match("^[-+]", from + 2) or ""
        self:put_data(at, from - 1, sign, kind == "{")
        at = from + 2 + #sign
        if kind == "#" then
            at = self:comment(at, from)
        else
            at = self:tag(at, from, kind == "{")
        end
    end
    self:put("end", nil, #s + 1)
    return self.tokens
end

function jinja.lex(s)
    if #s > MAX_BYTES then
        fail("the template is larger than 1 MiB", 1)
    end
    return setmetatable({ s = s, tokens = {}, at_line = true }, Lexer):run()
end
