-- SPDX-License-Identifier: Apache-2.0
-- formula.lua: the formulas of elementwise ops. In: a text, "x * sigmoid(g) * w[d]". Out: its
-- tree, in which equal parts are one node, or a mistake with its place in the text; trees as
-- text, in order of evaluation, evaluated.
--
-- A node is { id, op, ... }: "num" with value; "attr" with name; "in" with name, and feature =
-- true where it has one value for each feature; "neg" and the functions of one argument;
-- "add", "sub", "mul", "div", "max", "min" of two; "pow" with n; "select" with cmp: nodes 3
-- and 4 where node 1 cmp node 2 holds, or not; "rsum" and "rmax", the sum and the largest of a row's
-- values of their argument; "cols", how many these are. Nodes belong to a pool, which makes each
-- once.

local fmt, find, sub, concat = string.format, string.find, string.sub, table.concat

local most = { bytes = 1000, nodes = 250, depth = 32, name = 24, power = 8 }

local formula = {}

-- ---- nodes ----------------------------------------------------------------------------

local Pool = {}
Pool.__index = Pool

function formula.pool() return setmetatable({ nodes = {}, by_key = {} }, Pool) end

function Pool:make(node, detail)
  local key = { node.op, detail or "" }
  for i, child in ipairs(node) do key[i + 2] = fmt("%d", child.id) end
  key = concat(key, " ")
  local known = self.by_key[key]
  if known then return known end
  node.id = #self.nodes + 1
  self.nodes[node.id], self.by_key[key] = node, node
  return node
end

function Pool:num(value)
  value = value + 0.0
  return self:make({ op = "num", value = value }, fmt("%.17g", value))
end

function Pool:input(name, feature)
  return self:make({ op = "in", name = name, feature = feature }, name)
end

function Pool:attr(name) return self:make({ op = "attr", name = name }, name) end
function Pool:call(op, a, b) return self:make { op = op, a, b } end

function Pool:pow(a, n)
  return n == 1 and a or self:make({ op = "pow", n = n, a }, fmt("%d", n))
end

function Pool:select(cmp, a, b, yes, no)
  return self:make({ op = "select", cmp = cmp, a, b, yes, no }, cmp)
end

-- ---- functions ------------------------------------------------------------------------

-- Arguments, and what a call becomes: a node of its own, or of simpler ones.
local functions = {
  exp = { 1 }, log = { 1 }, tanh = { 1 }, sigmoid = { 1 }, sqrt = { 1 }, abs = { 1 },
  max = { 2 }, min = { 2 },
  softplus = { 1 }, -- of max, log, exp and abs it would have no slope at 0
  sum = { 1, function(p, x) return p:call("rsum", x) end },
  mean = { 1, function(p, x) return p:call("div", p:call("rsum", x), p:call "cols") end },
  rms = { 1, function(p, x)
    return p:call("sqrt", p:call("div", p:call("rsum", p:pow(x, 2)), p:call "cols"))
  end },
  select = { 3 },
  rsqrt = { 1, function(p, x) return p:call("div", p:num(1), p:call("sqrt", x)) end },
  square = { 1, function(p, x) return p:pow(x, 2) end },
  relu = { 1, function(p, x) return p:call("max", x, p:num(0)) end },
  silu = { 1, function(p, x) return p:call("mul", x, p:call("sigmoid", x)) end },
  softcap = { 2, function(p, x, c)
    return p:call("mul", c, p:call("tanh", p:call("div", x, c)))
  end },
  -- the tanh form: (1 + tanh(u)) / 2 is sigmoid(2 u)
  gelu = { 1, function(p, x)
    local cube = p:call("mul", p:call("mul", p:num(0.044715), p:call("mul", x, x)), x)
    local u = p:call("mul", p:num(1.5957691216057308), p:call("add", x, cube))
    return p:call("mul", x, p:call("sigmoid", u))
  end },
}

local function function_names()
  local list = {}
  for name in pairs(functions) do list[#list + 1] = name end
  table.sort(list)
  return concat(list, ", ")
end

function formula.is_function(name) return functions[name] ~= nil end

-- ---- text to nodes --------------------------------------------------------------------

local function mistake(at, length, message, help)
  error({ at = at - 1, length = length, message = message, help = help }, 0)
end

local Parser = {}
Parser.__index = Parser

function Parser:next()
  local text, at = self.text, find(self.text, "[^ \t\n]", self.at) or #self.text + 1
  local function take(kind, to)
    self.token = { kind = kind, text = sub(text, at, to), at = at }
    self.at = to + 1
  end
  local _, name = find(text, "^[%a_][%w_]*", at)
  local _, number = find(text, "^%d+", at)
  if at > #text then return take("end", #text) end
  if name then return take("name", name) end
  if number then
    local _, fraction = find(text, "^%.%d*", number + 1)
    number = fraction or number
    local _, exponent = find(text, "^[eE][+-]?%d+", number + 1)
    return take("number", exponent or number)
  end
  if find(text, "^[<>]=", at) then return take("sign", at + 1) end
  if find(text, "^[-+*/^()%[%],<>]", at) then return take("sign", at) end
  local odd = string.byte(text, at)
  mistake(at, 1, odd > 32 and odd < 127 and fmt("%s is not part of a formula", sub(text, at, at))
          or fmt("byte %d is not part of a formula", odd),
          "a formula has names, numbers, + - * / ^, parentheses and functions")
end

function Parser:shown()
  return self.token.kind == "end" and "the end of the formula" or self.token.text
end

function Parser:is(sign) return self.token.kind == "sign" and self.token.text == sign end

function Parser:expect(sign, what)
  if not self:is(sign) then
    mistake(self.token.at, #self.token.text, fmt("expected %s, found %s", what, self:shown()))
  end
  self:next()
end

function Parser:deeper(at)
  self.depth = self.depth + 1
  if self.depth > most.depth then
    mistake(at, 1, fmt("the formula is nested more than %d deep", most.depth),
            "divide it among several ops")
  end
end

-- a < b, the first argument of select.
function Parser:condition()
  local a = self:sum()
  local token = self.token
  if not (self:is "<" or self:is "<=" or self:is ">" or self:is ">=") then
    mistake(token.at, #token.text, fmt("expected a comparison, found %s", self:shown()),
            "write select(a < b, yes, no); comparisons are < <= > >=")
  end
  self:next()
  return token.text, a, self:sum()
end

function Parser:call(name)
  local spec, args = functions[name.text], {}
  if not spec then
    mistake(name.at, #name.text, fmt("unknown function %s", name.text),
            "functions are " .. function_names())
  end
  self:next()
  local cmp, a, b
  if name.text == "select" then
    cmp, a, b = self:condition()
    args[1] = a
  elseif not self:is ")" then
    args[1] = self:sum()
  end
  while self:is "," do
    self:next()
    args[#args + 1] = self:sum()
  end
  local largest = name.text == "max" and #args == 1
  if #args ~= spec[1] and not largest then
    mistake(name.at, #name.text, fmt("%s takes %d argument%s, not %d", name.text, spec[1],
                                     spec[1] == 1 and "" or "s", #args),
            cmp and "write select(a < b, yes, no)" or nil)
  end
  self:expect(")", fmt(") after the arguments of %s", name.text))
  if largest then return self.pool:call("rmax", args[1]) end
  if cmp then return self.pool:select(cmp, a, b, args[2], args[3]) end
  if spec[2] then return spec[2](self.pool, args[1], args[2]) end
  return self.pool:call(name.text, args[1], args[2])
end

-- x, or w[d].
function Parser:name(name)
  local feature = false
  if self:is "[" then
    self:next()
    local dim = self.token
    if dim.kind ~= "name" or dim.text ~= "d" then
      mistake(dim.at, #dim.text, fmt("%s[%s]: the dims of an input are [d]", name.text,
                                     dim.kind == "end" and "" or dim.text),
              fmt("write %s[d], one value for each feature, or %s, one for each element",
                  name.text, name.text))
    end
    self:next()
    self:expect("]", fmt("] after %s[d", name.text))
    feature = true
  end
  return self.names(name, feature) or self.pool:input(name.text, feature)
end

function Parser:atom()
  local token = self.token
  if self:is "(" then
    self:next()
    self:deeper(token.at)
    local inside = self:sum()
    self.depth = self.depth - 1
    self:expect(")", ")")
    return inside
  end
  if token.kind == "number" then
    self:next()
    local value = tonumber(token.text)
    if not value or value > 3e38 then
      mistake(token.at, #token.text, fmt("%s is not a number of f32", token.text))
    elseif value < 1.2e-38 and find(token.text, "^[0.]*[1-9]") then
      mistake(token.at, #token.text, fmt("%s is 0 in f32", token.text))
    end
    return self.pool:num(value)
  end
  if token.kind ~= "name" then
    mistake(token.at, #token.text, fmt("expected a name, a number or (, found %s", self:shown()))
  end
  self:next()
  if not self:is "(" then return self:name(token) end
  self:deeper(token.at)
  local value = self:call(token)
  self.depth = self.depth - 1
  return value
end

function Parser:power()
  local base = self:atom()
  if not self:is "^" then return base end
  self:next()
  local token = self.token
  local n = token.kind == "number" and tonumber(token.text)
  if math.type(n) ~= "integer" or n < 1 or n > most.power then
    mistake(token.at, #token.text, fmt("^ takes a whole number from 1 to %d, not %s", most.power,
                                       self:shown()),
            "write sqrt(x), or exp(p * log(x))")
  end
  self:next()
  return self.pool:pow(base, n)
end

function Parser:factor()
  local token = self.token
  if not self:is "-" then return self:power() end
  self:next()
  self:deeper(token.at)
  local value = self:factor()
  self.depth = self.depth - 1
  return self.pool:call("neg", value)
end

function Parser:product()
  local value = self:factor()
  while self:is "*" or self:is "/" do
    local op = self.token.text == "*" and "mul" or "div"
    self:next()
    value = self.pool:call(op, value, self:factor())
  end
  return value
end

function Parser:sum()
  local value = self:product()
  while self:is "+" or self:is "-" do
    local op = self.token.text == "+" and "add" or "sub"
    self:next()
    value = self.pool:call(op, value, self:product())
  end
  return value
end

-- names(token, feature): the node of a name that is not an input; may call formula.mistake.
function formula.parse(pool, text, names)
  local p = setmetatable({ pool = pool, text = text, at = 1, depth = 0, names = names }, Parser)
  if #text > most.bytes then
    mistake(1, 1, fmt("the formula has %d characters; the most is %d", #text, most.bytes),
            "divide it among several ops")
  end
  p:next()
  if p.token.kind == "end" then mistake(1, 1, "the formula is empty") end
  local node = p:sum()
  if p:is "<" or p:is "<=" or p:is ">" or p:is ">=" then
    mistake(p.token.at, #p.token.text, "a comparison is not a number",
            "write select(a < b, yes, no)")
  elseif p.token.kind ~= "end" then
    mistake(p.token.at, #p.token.text, fmt("expected an operator, found %s", p:shown()))
  elseif #pool.nodes > most.nodes then
    mistake(1, 1, fmt("the formula has %d operations; the most is %d", #pool.nodes, most.nodes),
            "divide it among several ops")
  end
  return node
end

function formula.mistake(token, message, help)
  mistake(token.at, #token.text, message, help)
end

formula.most = most

-- ---- what all readers of trees share ----------------------------------------------------

local reductions = { rsum = "sum", rmax = "max" }
formula.reductions = reductions

-- Every node under these, each after its children. known: nodes, by node, that are left out, and what
-- is only under them.
function formula.order(nodes, known)
  local list, seen = {}, {}
  local function visit(node)
    if seen[node] or known and known[node] then return end
    seen[node] = true
    for _, child in ipairs(node) do visit(child) end
    list[#list + 1] = node
  end
  for _, node in ipairs(nodes) do visit(node) end
  return list
end

local signs = { add = " + ", sub = " - ", mul = " * ", div = " / " }
local ranks = { select = 9, num = 9, add = 1, sub = 1, mul = 2, div = 2, neg = 3, pow = 4 }
local function rank(node) return ranks[node.op] or 9 end

-- A node as text. style: leaf(node), the text of a leaf or of what has a name, or nil;
-- call(name, arguments); pow(text, n); choose(node, texts).
function formula.text(node, style)
  local function at_least(child, least)
    local known = style.leaf(child)
    if known then return known end
    local text = formula.text(child, style)
    return rank(child) < least and "(" .. text .. ")" or text
  end
  local known, op = style.leaf(node), node.op
  if known then return known end
  if signs[op] then
    local own = rank(node)
    return at_least(node[1], own) .. signs[op] .. at_least(node[2], own + 1)
  elseif op == "neg" then
    return "-" .. at_least(node[1], 4)
  elseif op == "pow" then
    return style.pow(at_least(node[1], 5), node.n)
  end
  local texts = {}
  for i, child in ipairs(node) do texts[i] = style.leaf(child) or formula.text(child, style) end
  if op == "select" or op == "max" or op == "min" then return style.choose(node, texts) end
  return style.call(op, texts)
end

-- As people write it.
local plain = {
  leaf = function(node)
    if node.op == "num" then return fmt("%.14g", node.value) end
    if node.op == "in" then return node.name .. (node.feature and "[d]" or "") end
    return node.op == "cols" and "d" or node.name
  end,
  call = function(name, texts)
    return (reductions[name] or name) .. "(" .. concat(texts, ", ") .. ")"
  end,
  pow = function(text, n) return fmt("%s^%d", text, n) end,
}
function plain.choose(node, texts)
  if node.op ~= "select" then return plain.call(node.op, texts) end
  return fmt("select(%s %s %s, %s, %s)", texts[1], node.cmp, texts[2], texts[3], texts[4])
end

-- nil if that has more than so many characters: a value that occurs often is written as often.
function formula.plain(node, longest)
  for _, part in ipairs(formula.order { node }) do
    if #formula.text(part, plain) > longest then return nil end
  end
  return formula.text(node, plain)
end

-- Operations whose results changed, by the names that they have in hashes since: NaN is kept, and
-- abs(-0.0) is 0.0.
local hashed = { abs = "abs2", max = "max2", min = "min2", rmax = "rmax2" }

-- As the numerics hash has it, one operation a line: leaf(node) names leaves by their place.
function formula.canonical(nodes, leaf)
  local order, line, lines = formula.order(nodes), {}, {}
  for _, node in ipairs(order) do
    local parts = {}
    if node.op == "num" then
      line[node] = fmt("%.17g", node.value)
    elseif node.op == "in" or node.op == "attr" then
      line[node] = leaf(node)
    else
      for i, child in ipairs(node) do parts[i] = line[child] end
      lines[#lines + 1] = (hashed[node.op] or node.op) .. (node.cmp or node.n and fmt("%d", node.n) or "") .. " "
        .. concat(parts, " ")
      line[node] = fmt("%%%d", #lines)
    end
  end
  for _, node in ipairs(nodes) do lines[#lines + 1] = "= " .. line[node] end
  return concat(lines, "\n")
end

-- ---- values -----------------------------------------------------------------------------

local function holds(cmp, a, b)
  if cmp == "<" then return a < b end
  if cmp == "<=" then return a <= b end
  if cmp == ">" then return a > b end
  return a >= b
end

-- The values of all nodes of an order, by node. leaf(node): of inputs and attributes. known: values
-- of nodes that the order lacks.
-- arithmetic: functions add, sub, mul, div, num and those of one argument; they round as the
-- caller wants.
function formula.evaluate(order, leaf, arithmetic, known)
  local value = setmetatable({}, { __index = known })
  for _, node in ipairs(order) do
    local op, a, b = node.op, value[node[1]], value[node[2]]
    if op == "num" then value[node] = arithmetic.num(node.value)
    elseif op == "in" or op == "attr" or op == "cols" then value[node] = leaf(node)
    elseif op == "neg" then value[node] = -a
    elseif op == "abs" then value[node] = a > 0 and a or 0.0 - a -- 0.0 of -0.0
    elseif op == "max" then value[node] = (a > b or a ~= a) and a or b
    elseif op == "min" then value[node] = (a < b or a ~= a) and a or b
    elseif op == "select" then
      value[node] = holds(node.cmp, a, b) and value[node[3]] or value[node[4]]
    elseif op == "pow" then
      local product = a
      for _ = 2, node.n do product = arithmetic.mul(product, a) end
      value[node] = product
    else
      value[node] = arithmetic[op](a, b)
    end
  end
  return value
end

-- In double precision.
formula.exact = {
  num = function(v) return v end,
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  exp = math.exp, log = function(x) return math.log(x) end, sqrt = math.sqrt,
  sigmoid = function(x) return 1 / (1 + math.exp(-x)) end,
  softplus = function(x) -- as in runtime/rt_math.h
    local e = math.exp(x > 0 and -x or x)
    local u = 1 + e
    return (x <= 0 and 0.0 or x) + (math.log(u) + (e - (u - 1)) / u)
  end,
  tanh = function(x)
    local e = math.exp(-2 * math.abs(x))
    local y = (1 - e) / (1 + e)
    if math.abs(x) < 1e-4 then y = math.abs(x) * (1 - x * x / 3) end
    return x < 0 and -y or y
  end,
}

local weights = { sigmoid = 3, softplus = 10, tanh = 5, num = 0, attr = 0, cols = 0, ["in"] = 0,
                  round_f32 = 0, round_bf16 = 0, round_f16 = 0 }

-- Operations on an element, for the plan.
function formula.flops(order)
  local n = 0
  for _, node in ipairs(order) do
    n = n + (node.op == "pow" and node.n - 1 or weights[node.op] or 1)
  end
  return n
end

return formula
