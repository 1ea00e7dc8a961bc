-- SPDX-License-Identifier: Apache-2.0
-- op_map.lua: ops that are a formula. In: the table of `op.map { ... }` in an op.lua, the op's name.
-- Out: the rule that `op { ... }` would be, the texts of its kernels, its formula as the numerics
-- hash has it, and the same of the op of its gradient; or what is wrong, with places in the
-- formula.
--
--   return op.map {
--     y         = "x * sigmoid(g) * w[d]",    the output's name, its formula. Names in it are
--                                             inputs: rows [t, d], or w[d] a value for each
--                                             feature, which is a parameter
--     doc       = "what it computes",         the formula by default
--     inputs    = { "x", "g", "w" },          their order in calls; as they occur by default
--     attrs     = { cap = "number" },         numbers that the call gives, as in op { ... }
--     parts     = { gu = { "gate", "up" } },  an input [t, 2*d], or an output, of rows that lie
--                                             side by side, which the formulas name
--     outputs   = { "a", "b" },               the order of several formulas' outputs; these
--                                             need a `backward` of their own
--     backward  = false,                      it has no gradient: it is one itself
--     alias     = "x",                        the input whose bytes the first output may take;
--                                             false: none
--     and of op { ... }: arithmetic, canonical, role, check, flops, bytes, cost, backward, reference,
--     cases, where they differ from what follows from the formula
--   }
--
-- Inputs are widened to the compute type (f32; f64 of f64), every operation rounds to it as written,
-- and the result is rounded once; sums over a row have one order: formula_rows.lua. The gradient of x is the derivative times dy, one op
-- NAME_bwd for all inputs; of w[d], its rows are rounded and summed by colsum.

local fmt, concat = string.format, table.concat

local plain_keys = { arithmetic = true, canonical = true, role = true, check = true,
                     flops = true, bytes = true, cost = true, backward = true, reference = true,
                     cases = true, attrs = true, rounds_inside = true }
local own_keys = { doc = "string", inputs = "table", outputs = "table", parts = "table" }

-- Words of Lua, which name nothing in its files.
local keywords = {}
for word in string.gmatch("and break do else elseif end false for function goto if in local nil not or "
                          .. "repeat return then true until while", "%a+") do
  keywords[word] = true
end

-- What a kernel has by these names: gen/lua/template.lua, gen/lua/formula_kernel.lua.
local taken = {}
for _, name in ipairs { "t", "d", "i", "j", "k", "at", "j0", "j1", "half", "lane", "rt", "load", "store", "kernel", "grid",
                        "width", "ld", "st", "lit", "rnd", "acc", "fn", "beta" } do
  taken[name] = true
end

local shown = 60 -- characters of a formula in a comment
local most_inputs = 7 -- a gradient has twice as many operands and one

local Map = {}
Map.__index = Map

function Map:bad(key, item, message, help)
  self.problems[#self.problems + 1] = { key = key, item = item, message = message, help = help }
end

-- What is wrong with a name, or nil.
function Map:name_problem(name)
  local formula = self.tools.formula
  if #name > formula.most.name then
    return fmt("the name %s has more than %d letters", name, formula.most.name)
  elseif not string.find(name, "^[a-z][a-z0-9_]*$") then
    return fmt("the name %s does not match [a-z][a-z0-9_]*", name)
  elseif formula.is_function(name) then
    return fmt("%s is a function", name)
  elseif keywords[name] then
    return fmt("%s is a word of Lua", name)
  elseif not self.tools.ident(name) then
    return fmt("%s is a word of C", name)
  elseif taken[name] or string.find(name, "^[vrs]%d+$") or string.find(name, "_[jkl]$")
         or string.find(name, "_at$") then
    return fmt("kernels see something else by the name %s", name)
  end
end

local function names_of(t)
  local list = {}
  for key in pairs(t) do list[#list + 1] = tostring(key) end
  table.sort(list)
  return list
end

-- Formulas by output, parts, attributes; the order of outputs is self.order.
function Map:keys()
  local given = self.given
  for _, key in ipairs(names_of(given)) do
    local value, want = given[key], own_keys[key]
    if key == "alias" or plain_keys[key] then -- as op { ... } has it
    elseif want then
      if type(value) ~= want then
        self:bad(key, nil, fmt("%s must be a %s, not a %s", key, want, type(value)))
      end
    elseif type(value) ~= "string" then
      self:bad(key, nil, fmt("%s is not a formula but a %s", key, type(value)),
               'write y = "x * sigmoid(x)"; other fields are alias, ' .. concat(names_of(own_keys), ", ")
               .. ", " .. concat(names_of(plain_keys), ", "))
    else
      self.texts[key] = value
      self.order[#self.order + 1] = key
    end
  end
  if #self.order == 0 and #self.problems == 0 then
    self:bad(nil, nil, "there is no formula", 'write y = "x * sigmoid(x)"')
  end
end

-- The lists of names in `parts`.
function Map:sides()
  for _, name in ipairs(names_of(self.given.parts or {})) do
    local list = self.given.parts[name]
    local problem = self:name_problem(name)
    if problem then
      self:bad("parts", name, problem, "choose another")
    elseif type(list) ~= "table" or #list < 2 or #list > 4 then
      self:bad("parts", name, fmt("the parts of %s are not 2 to 4 names", name),
               fmt('write parts = { %s = { "gate", "up" } }', name))
    else
      local operand = { name = name, parts = {} }
      for k, part in ipairs(list) do
        problem = type(part) ~= "string" and fmt("part %d of %s is not a name", k, name)
          or self:name_problem(part) or self.leaves[part] and fmt("%s is named twice", part)
        if problem then return self:bad("parts", name, problem, "choose another") end
        operand.parts[k] = part
        self.leaves[part] = { operand = operand, part = k }
      end
    end
  end
end

-- What a name of a formula stands for.
function Map:meet(key, token, feature)
  local formula, name = self.tools.formula, token.text
  local function refuse(message, help) formula.mistake(token, message, help) end
  if self.attrs[name] then
    if feature then refuse(fmt("%s is an attribute: one number, without [d]", name)) end
    local spec = self.attrs[name]
    local of = type(spec) == "table" and spec[1] or spec
    if of ~= "number" and of ~= "int" then
      refuse(fmt("the attribute %s is not a number", name), 'write attrs = { cap = "number" }')
    end
    return self.pool:attr(name)
  end
  local leaf = self.leaves[name]
  if not leaf then
    local problem = self:name_problem(name)
    if problem then refuse(problem, "choose another") end
    if self.texts[name] then
      refuse(fmt("%s is an output; a formula reads inputs", name),
             name == key and "choose another name" or "write its formula here")
    end
    if self.given.parts and self.given.parts[name] then
      refuse(fmt("%s has parts, which formulas name", name),
             "write one of " .. concat(self.given.parts[name], ", "))
    end
    leaf = { operand = { name = name, feature = feature } }
    self.leaves[name] = leaf
  end
  local operand = leaf.operand
  if feature ~= (operand.feature or false) then
    refuse(fmt("%s is written with [d] here and without it elsewhere", name),
           "write one of both everywhere")
  end
  if leaf.output then refuse(fmt("%s is an output; a formula reads inputs", name)) end
  if not operand.met then
    operand.met = true
    self.inputs[#self.inputs + 1] = operand
    if #self.inputs > most_inputs then
      refuse(fmt("%s is input %d; the most is %d", name, #self.inputs, most_inputs),
             "divide the formula among several ops")
    end
  end
end

-- Formulas to nodes.
function Map:parse()
  for _, key in ipairs(self.order) do
    local leaf = self.leaves[key]
    local problem = not leaf and self:name_problem(key)
    if problem then
      self:bad(key, nil, problem, 'an output is named like y in y = "x * sigmoid(x)"')
    elseif leaf then
      leaf.output = true
    end
  end
  if #self.problems > 0 then return end
  for _, key in ipairs(self.order) do
    local ok, node = pcall(self.tools.formula.parse, self.pool, self.texts[key],
                           function(token, feature) return self:meet(key, token, feature) end)
    if ok then
      self.nodes[key] = node
    elseif type(node) == "table" then
      self.problems[#self.problems + 1] = { key = key, message = node.message, help = node.help,
                                            at = node.at, length = node.length }
    else
      error(node, 0)
    end
  end
end

-- A list of names that must be these, in another order; false after a message.
function Map:permute(key, items)
  local list, by_name, sorted = self.given[key], {}, {}
  if not list then return items end
  for _, o in ipairs(items) do by_name[o.name] = o end
  for k, name in ipairs(list) do
    if type(name) ~= "string" or not by_name[name] then
      return self:bad(key, type(name) == "string" and name or nil,
                      fmt("%s has %s, which no formula %s", key, tostring(name),
                          key == "inputs" and "reads" or "gives"))
    end
    sorted[k], by_name[name] = by_name[name], nil
  end
  for _, o in ipairs(items) do
    if by_name[o.name] then return self:bad(key, nil, fmt("%s lacks %s", key, o.name)) end
  end
  return sorted
end

-- Outputs, of which some are parts of one, and the order of all operands.
function Map:operands()
  local outputs, seen = {}, {}
  for _, key in ipairs(self.order) do
    local leaf = self.leaves[key]
    local o = leaf and leaf.operand or { name = key, nodes = { self.nodes[key] } }
    if leaf and not seen[o] then
      o.nodes = {}
      for k, part in ipairs(o.parts) do
        o.nodes[k] = self.nodes[part]
        if not o.nodes[k] then
          self:bad("parts", part, fmt("%s, a part of %s, has no formula", part, o.name),
                   fmt('write %s = "..."', part))
        end
      end
    end
    if not seen[o] then outputs[#outputs + 1] = o end
    seen[o] = true
  end
  if #outputs > 1 and not self.given.outputs then
    self:bad(self.order[2], nil, fmt("the op has several formulas: %s", concat(self.order, ", ")),
             "write one, or their order: outputs = { ... }")
  end
  local inputs = self:permute("inputs", self.inputs)
  outputs = self:permute("outputs", outputs)
  for _, o in ipairs(inputs or {}) do
    if not o.feature then self.row = self.row or o end
  end
  if #self.problems > 0 then return end
  if not self.row then
    self:bad(self.order[1], nil, "the formula reads no row",
             "name an input without [d]: it has one value for each element")
  end
  self.inputs, self.outputs = inputs, outputs
end

-- ---- the gradient ---------------------------------------------------------------------------

-- The program of NAME_bwd, nil where gradients are dy itself or nothing; and for each input
-- "dy", the output that has it, or nil.
function Map:gradient()
  local formula, out = self.tools.formula, self.outputs[1]
  local dy, node = "d" .. out.name, out.nodes[1]
  local order, by_name = formula.order { node }, {}
  local seed, outputs = self.pool:input(dy, false), {}
  local derivative, times = self.tools.grad(formula, self.pool, node, order, seed)
  for _, input in ipairs(self.inputs) do
    local nodes, depends = {}, false
    for k, name in ipairs(input.parts or { input.name }) do
      nodes[k] = times(seed, derivative[name] or self.pool:num(0))
      depends = depends or nodes[k].op ~= "num"
    end
    if depends and not input.parts and nodes[1] == seed then
      by_name[input.name] = dy
    elseif depends then
      local o = { name = "d" .. input.name, nodes = nodes, parts = nil,
                  dtype = dy, of = input }
      if input.parts then
        o.parts = {}
        for k, part in ipairs(input.parts) do o.parts[k] = "d" .. part end
      end
      outputs[#outputs + 1], by_name[input.name] = o, o.name
    end
  end
  return #outputs > 0 and self:backward_program(dy, outputs) or nil, by_name
end

function Map:backward_program(dy, outputs)
  local formula, used, leaves, inputs, nodes = self.tools.formula, {}, {}, {}, {}
  local attrs, texts, short, rows = {}, {}, true, 0
  for _, o in ipairs(outputs) do
    for k, node in ipairs(o.nodes) do
      nodes[#nodes + 1] = node
      local text = formula.plain(node, shown)
      short = short and text
      texts[#texts + 1] = text and (o.parts and o.parts[k] or o.name) .. " = " .. text
    end
    rows = rows + (o.of.feature and 0 or 1)
  end
  for _, node in ipairs(formula.order(nodes)) do
    if node.op == "attr" then attrs[node.name] = self.given.attrs[node.name] end
    used[node.name or ""] = true
  end
  for _, input in ipairs(self.inputs) do
    local any = false
    for k, name in ipairs(input.parts or { input.name }) do
      any = any or used[name]
      leaves[name] = { operand = input, part = k }
    end
    if any then inputs[#inputs + 1] = input end
  end
  local seed = { name = dy }
  inputs[#inputs + 1] = seed
  leaves[dy] = { operand = seed }
  for _, o in ipairs(outputs) do
    local own = false
    for _, input in ipairs(inputs) do own = own or input == o.of end
    if own and not o.of.feature then o.dtype = o.of.name end
    if o.of.feature and rows > 0 then o.optional = "frozen" end
    if not o.of.feature and not self.in_place then
      self.in_place = true
      o.alias = not o.parts and dy or own and o.of.name or nil
    end
  end
  local doc = short and concat(texts, ", ")
  return { inputs = inputs, outputs = outputs, leaves = leaves, attrs = attrs, about = "",
           doc = "gradient of " .. self.name .. (doc and #doc < shown and ": " .. doc or "") }
end

-- backward(g, n, d) of the op, from the two results of gradient().
function Map:backward(program, by_name)
  local out, name, inputs = self.outputs[1].name, self.name .. "_bwd", self.inputs
  return function(g, n, d)
    local gradients, values = {}, {}
    if program then
      local call = {}
      for k, o in ipairs(program.inputs) do call[k] = o.name == "d" .. out and d[out] or n[o.name] end
      for attr in pairs(program.attrs) do call[attr] = n[attr] end
      local made = { g[name](call) }
      for k, o in ipairs(program.outputs) do values[o.name] = made[k] end
    end
    for _, input in ipairs(inputs) do
      local from = by_name[input.name]
      local value = from and (values[from] or d[out])
      gradients[input.name] = input.feature and value and g.colsum { value } or value
    end
    return gradients
  end
end

-- The names that the gradient adds must be free.
function Map:check_gradient(program)
  local owner = { ["d" .. self.outputs[1].name] = "the gradient of " .. self.outputs[1].name }
  for _, o in ipairs(program and program.outputs or {}) do
    for _, name in ipairs { o.name, table.unpack(o.parts or {}) } do
      owner[name] = owner[name] or "the gradient of " .. string.sub(name, 2)
    end
  end
  for name, what in pairs(owner) do
    if not self.tools.ident(name) then
      self:bad(self.order[1], nil, fmt("%s would be named %s, a word of C", what, name),
               fmt("give %s another name", string.sub(name, 2)))
    end
  end
  for _, input in ipairs(self.inputs) do
    for _, name in ipairs { input.name, table.unpack(input.parts or {}) } do
      if owner[name] then
        self:bad(self.order[1], nil, fmt("%s is %s and an input", name, owner[name]),
                 "give the input another name")
      end
    end
  end
end

-- The first output may take the bytes of a row that the gradient does not read.
function Map:choose_alias(backward)
  local given, out = self.given, self.outputs[1]
  if given.alias ~= nil or given.backward or out.parts or not self.row or self.row.parts then
    out.alias = given.alias or nil
    return
  end
  local read = false
  for _, input in ipairs(backward and backward.inputs or {}) do read = read or input == self.row end
  out.alias = not read and self.row.name or nil
end

function Map:build()
  local given, texts = self.given, {}
  for _, o in ipairs(self.outputs) do
    o.dtype = self.row.name
    for k, node in ipairs(o.nodes) do
      local key = o.parts and o.parts[k] or o.name
      texts[#texts + 1] = key .. " = "
        .. (self.tools.formula.plain(node, self.tools.formula.most.bytes) or self.texts[key])
    end
  end
  local program, by_name, derived
  if given.backward == nil and #self.order == 1 then
    program, by_name = self:gradient()
    self:check_gradient(program)
    if #self.problems > 0 then return end
  end
  self:choose_alias(program)
  local doc = concat(texts, ", ")
  local whole = { inputs = self.inputs, outputs = self.outputs, leaves = self.leaves,
                  attrs = given.attrs, doc = given.doc or doc,
                  about = #doc < shown and " of " .. doc or "" }
  local result = self.tools.rule(self.tools, whole)
  if by_name then
    result.rule.backward = self:backward(program, by_name)
    derived = program and self.tools.rule(self.tools, program)
  end
  if derived then
    derived.rule.arithmetic = given.arithmetic
    derived.rule.canonical = given.canonical and given.canonical .. "_bwd"
    derived.rule.cases = given.cases or derived.rule.cases
    result.derived, result.derived_name = derived, self.name .. "_bwd"
  end
  for key in pairs(plain_keys) do
    if given[key] ~= nil then result.rule[key] = given[key] end
  end
  if given.backward == false then result.rule.backward = nil end
  return result
end

-- tools: formula.lua, formula_grad.lua, formula_kernel.lua, formula_rows.lua, formula_rule.lua; ident.
return function(given, name, tools)
  local map = setmetatable({
    given = given, name = name, tools = tools, problems = {}, texts = {}, order = {}, leaves = {},
    attrs = type(given.attrs) == "table" and given.attrs or {}, inputs = {}, nodes = {},
    pool = tools.formula.pool(),
  }, Map)
  map:keys()
  if #map.problems == 0 then map:sides() end
  if #map.problems == 0 then map:parse() end
  if #map.problems == 0 then map:operands() end
  local result = #map.problems == 0 and map:build() or nil
  return result, map.problems
end
