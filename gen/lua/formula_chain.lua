-- SPDX-License-Identifier: Apache-2.0
-- formula_chain.lua: several ops that are formulas as one, which reads and writes once what they read
-- and write one after the other. In: tools; a chain (gen/ops/ops_chain.c):
--
--   acc      "f32" or "f64", the compute type
--   doc      what it computes, for people
--   ops      in order: { program, rule, attrs = { cap = 30.0 }, inputs and outputs: the number of the
--            value of each operand, by its name }
--   sums     { { value, output, name, rule }, ... }: output is the sum of the value over rows
--            (formula_sums.lua)
--   dtypes   of each value
--   inputs, outputs   numbers of the values that the whole reads and writes
--
-- Out: as formula_rule.lua. A value that one op makes and another reads is rounded to its dtype in
-- between, written or not: so the bits are those of the ops one by one. Attributes become numbers.

local fmt = string.format

-- What kernels of formula_sums.lua call their own.
local function own_names()
  return { first = true, mine = true, part = true, shared = true, beta = true, workspace = true,
           sum = true, warp = true, of_warps = true }
end

-- Names of operands and parts, each once: x, x_2. used: by name, those that a kernel has itself.
local function namer(used)
  return function(name)
    local free, k = name, 1
    while used[free] do
      k = k + 1
      free = fmt("%s_%d", name, k)
    end
    used[free] = true
    return free
  end
end

local Chain = {}
Chain.__index = Chain

-- An operand of the whole like an operand of the op that reads or makes the value.
function Chain:operand(like)
  local o = { name = self.unique(like.name), feature = like.feature }
  if like.parts then
    o.parts = {}
    for k, part in ipairs(like.parts) do o.parts[k] = self.unique(part) end
  end
  return o
end

-- self.at: by value, its operand; self.maker: { op, operand } of values made here.
function Chain:operands()
  local like = {}
  for _, op in ipairs(self.given.ops) do
    for _, o in ipairs(op.program.inputs) do
      local value = op.inputs[o.name]
      like[value] = like[value] or o
    end
    for _, o in ipairs(op.program.outputs) do
      local value = op.outputs[o.name]
      if value then
        like[value] = o
        self.maker[value] = { op = op, operand = o }
      end
    end
  end
  for k, value in ipairs(self.given.inputs) do
    local o = self:operand(like[value])
    self.inputs[k], self.at[value] = o, o
    for p, name in ipairs(o.parts or { o.name }) do
      self.leaves[name] = { operand = o, part = p }
    end
  end
  for _, sum in ipairs(self.given.sums) do
    like[sum.output] = { name = sum.name, feature = true }
  end
  for k, value in ipairs(self.given.outputs) do
    local o = self:operand(like[value])
    self.outputs[k], self.at[value] = o, o
  end
end

-- What an op reads: a part of an input of the whole, or what an earlier op made of it.
function Chain:read(op, leaf)
  local value, part = op.inputs[leaf.operand.name], leaf.part or 1
  if self.made[value] then return self.made[value][part] end
  local o = self.at[value]
  return self.pool:input(o.parts and o.parts[part] or o.name, o.feature)
end

function Chain:copy(op, node, copies)
  if copies[node] then return copies[node] end
  local pool, copy, child = self.pool, nil, {}
  for k, c in ipairs(node) do child[k] = self:copy(op, c, copies) end
  if node.op == "num" then copy = pool:num(node.value)
  elseif node.op == "attr" then copy = pool:num(op.attrs[node.name])
  elseif node.op == "in" then copy = self:read(op, op.program.leaves[node.name])
  elseif node.op == "pow" then copy = pool:pow(child[1], node.n)
  elseif node.op == "select" then copy = pool:select(node.cmp, table.unpack(child))
  else copy = pool:call(node.op, child[1], child[2]) end
  copies[node] = copy
  return copy
end

-- self.made: by value, the nodes of its parts as a reader sees them.
function Chain:compose()
  for _, op in ipairs(self.given.ops) do
    local copies = {}
    for _, o in ipairs(op.program.outputs) do
      local value = op.outputs[o.name]
      local dtype = value and self.given.dtypes[value]
      local nodes, seen = {}, {}
      for k, node in ipairs(value and o.nodes or {}) do
        nodes[k] = self:copy(op, node, copies)
        seen[k] = dtype == self.given.acc and nodes[k]
          or self.pool:call("round_" .. dtype, nodes[k])
      end
      if value then
        self.made[value] = seen
        if self.at[value] then self.at[value].nodes = nodes end
      end
    end
  end
  for _, sum in ipairs(self.given.sums) do
    local o = self.at[sum.output]
    o.nodes, o.sum_of, o.dtype = self.made[sum.value], self.given.dtypes[sum.value], "grad"
  end
end

-- The input whose bytes the value may take: the one that its op allows; if this chain makes that one
-- too, the one that its op allows, and so on.
function Chain:alias(value)
  local o, taken = self.at[value], self.taken
  local made = self.maker[value]
  while made do
    local from = made.operand.alias and made.op.inputs[made.operand.alias]
    if not from then return end
    made = self.maker[from]
    local input = not made and self.at[from]
    if input and not taken[input] and self.given.dtypes[from] == self.given.dtypes[value]
       and not input.feature and #(input.parts or {}) == #(o.parts or {}) then
      taken[input] = true
      return input.name
    end
  end
end

function Chain:finish_outputs()
  for k, value in ipairs(self.given.outputs) do
    local o, dtype = self.outputs[k], self.given.dtypes[value]
    for i, input in ipairs(self.given.inputs) do
      if not o.dtype and self.given.dtypes[input] == dtype then o.dtype = self.inputs[i].name end
    end
    if not o.sum_of then o.alias = self:alias(value) end
  end
end

-- The sum of the ops' own.
function Chain:flops(n)
  local sum = 0
  for _, op in ipairs(self.given.ops) do
    local own = { t = n.t, d = n.d }
    for name, value in next, op.attrs do own[name] = value end
    for name in next, op.outputs do own[name] = true end
    sum = sum + op.rule.flops(own)
  end
  for _, s in ipairs(self.given.sums) do sum = sum + s.rule.flops({ t = n.t, n = n.d }) end
  return sum
end

return function(tools, given)
  local chain = setmetatable({
    given = given, pool = tools.formula.pool(), unique = namer(given.sums[1] and own_names() or {}),
    inputs = {}, outputs = {}, leaves = {}, at = {}, maker = {}, made = {}, taken = {},
  }, Chain)
  chain:operands()
  chain:compose()
  chain:finish_outputs()
  local result = tools.rule(tools, {
    inputs = chain.inputs, outputs = chain.outputs, leaves = chain.leaves,
    doc = given.doc, about = " of " .. given.doc,
  })
  local rule = result.rule
  rule.flops = function(n) return chain:flops(n) end
  rule.reference, rule.cases = nil, nil
  if given.sums[1] then
    rule.workspace_cuda = function(n)
      local one = given.sums[1].rule.workspace_cuda({ t = n.t, n = n.d, acc_bytes = n.acc_bytes })
      return #given.sums * one
    end
  end
  return result
end
