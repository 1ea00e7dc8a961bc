-- SPDX-License-Identifier: Apache-2.0
-- formula_grad.lua: derivatives of formulas. In: a node of formula.lua and its pool. Out: for each
-- input the derivative of the node, a node of the same pool, simplified while it is built;
-- inputs that the node does not depend on have none.
--
-- Of a formula with reductions the whole gradient is built, dy inside: a value that is one for the row
-- has as derivative the sum over the row's elements, and the elements that are the largest share
-- that of max(x).
--
-- At a tie max, min and select give the whole derivative to one side, the second; abs has the
-- slope 0 at 0, and comparisons have no derivative. So relu and abs have PyTorch's slopes at 0. But
-- smooth functions made of these could have wrong ones there: softplus has a rule of its own. Where
-- max or min is NaN, both sides have the derivative, so that no NaN is hidden.

-- ---- simplest forms of sums and products --------------------------------------------------

local Build = {}
Build.__index = Build

local function is_num(node, value)
  return node.op == "num" and (not value or node.value == value)
end

function Build:num(v) return self.pool:num(v) end

local function finite(v) return math.abs(v) < 3e38 end -- in f32, too

function Build:neg(a)
  if is_num(a) then return self:num(-a.value) end
  return a.op == "neg" and a[1] or self.pool:call("neg", a)
end

-- A node as a constant c times the rest, to collect equal terms.
local function factor(node)
  if node.op == "mul" and is_num(node[1]) then return node[1].value, node[2] end
  return 1, node
end

function Build:add(a, b)
  if is_num(a, 0) then return b end
  if is_num(b, 0) then return a end
  if is_num(a) and is_num(b) and finite(a.value + b.value) then
    return self:num(a.value + b.value)
  end
  if b.op == "neg" then return self:sub(a, b[1]) end
  if a.op == "neg" then return self:sub(b, a[1]) end
  local m, x = factor(a)
  local n, y = factor(b)
  if x == y then return self:mul(self:num(m + n), x) end
  return self.pool:call("add", a, b)
end

function Build:sub(a, b)
  if is_num(b, 0) then return a end
  if is_num(a, 0) then return self:neg(b) end
  if is_num(a) and is_num(b) and finite(a.value - b.value) then
    return self:num(a.value - b.value)
  end
  if b.op == "neg" then return self:add(a, b[1]) end
  if a == b then return self:num(0) end
  return self.pool:call("sub", a, b)
end

function Build:mul(a, b)
  if is_num(b) and not is_num(a) then a, b = b, a end
  if is_num(a, 0) then return a end
  if is_num(a, 1) then return b end
  if is_num(a, -1) then return self:neg(b) end
  if is_num(a) and is_num(b) and finite(a.value * b.value) then
    return self:num(a.value * b.value)
  end
  if is_num(a) and b.op == "mul" and is_num(b[1]) and finite(a.value * b[1].value) then
    return self:mul(self:num(a.value * b[1].value), b[2])
  end
  if a.op == "neg" then return self:neg(self:mul(a[1], b)) end
  if b.op == "neg" then return self:neg(self:mul(a, b[1])) end
  if b.op == "div" and is_num(b[1], 1) then return self:div(a, b[2]) end
  if a.op == "div" and is_num(a[1], 1) then return self:div(b, a[2]) end
  return self.pool:call("mul", a, b)
end

function Build:div(a, b)
  if is_num(a, 0) or is_num(b, 1) then return a end
  if a.op == "neg" then return self:neg(self:div(a[1], b)) end
  if a.op == "mul" and a[1] == b then return a[2] end
  if a.op == "mul" and a[2] == b then return a[1] end
  return self.pool:call("div", a, b)
end

function Build:select(cmp, a, b, yes, no)
  return yes == no and yes or self.pool:select(cmp, a, b, yes, no)
end

-- ---- derivatives of operations --------------------------------------------------------------

-- For each argument of node, what is added to its derivative where that of node is d.
local rules = {
  add = function(_, _, d) return d, d end,
  sub = function(b, _, d) return d, b:neg(d) end,
  mul = function(b, n, d) return b:mul(d, n[2]), b:mul(d, n[1]) end,
  div = function(b, n, d) return b:div(d, n[2]), b:neg(b:mul(d, b:div(n, n[2]))) end,
  neg = function(b, _, d) return b:neg(d) end,
  pow = function(b, n, d)
    return b:mul(d, b:mul(b:num(n.n), b.pool:pow(n[1], n.n - 1)))
  end,
  exp = function(b, n, d) return b:mul(d, n) end,
  log = function(b, n, d) return b:div(d, n[1]) end,
  tanh = function(b, n, d) return b:mul(d, b:sub(b:num(1), b:mul(n, n))) end,
  sigmoid = function(b, n, d) return b:mul(d, b:mul(n, b:sub(b:num(1), n))) end,
  softplus = function(b, n, d) return b:mul(d, b.pool:call("sigmoid", n[1])) end,
  sqrt = function(b, n, d) return b:div(b:mul(b:num(0.5), d), n) end,
  abs = function(b, n, d)
    local zero = b:num(0)
    return b:select(">", n[1], zero, d, b:select("<", n[1], zero, b:neg(d), zero))
  end,
  max = function(b, n, d)
    local zero = b:num(0)
    return b:select("<=", n[1], n[2], zero, d), b:select(">", n[1], n[2], zero, d)
  end,
  min = function(b, n, d)
    local zero = b:num(0)
    return b:select(">=", n[1], n[2], zero, d), b:select("<", n[1], n[2], zero, d)
  end,
  rsum = function(_, _, d) return d end,
  rmax = function(b, n, d)
    local function largest(yes) return b:select("<", n[1], n, b:num(0), yes) end
    return largest(b:div(d, b.pool:call("rsum", largest(b:num(1)))))
  end,
  select = function(b, n, d)
    local zero = b:num(0)
    return nil, nil, b:select(n.cmp, n[1], n[2], d, zero),
           b:select(n.cmp, n[1], n[2], zero, d)
  end,
}

-- Is a node one value for the row? By node; and is there a reduction?
local function find_fixed(formula, order)
  local fixed, reduces = {}, false
  for _, n in ipairs(order) do
    local all = n.op ~= "in"
    if formula.reductions[n.op] then
      reduces = true
    else
      for _, child in ipairs(n) do all = all and fixed[child] end
    end
    fixed[n] = all
  end
  return fixed, reduces
end

-- Reverse mode over the tree's order. order: formula.order{node}; seed: dy. Returns derivatives by
-- the inputs' names, and the function that makes a gradient of dy and a derivative.
return function(formula, pool, node, order, seed)
  local build = setmetatable({ pool = pool }, Build)
  local fixed, reduces = find_fixed(formula, order)
  local of, over_row, by_name = {}, {}, {} -- over_row: what is still to be summed over the row
  local function add(list, n, part) list[n] = list[n] and build:add(list[n], part) or part end
  add(reduces and fixed[node] and over_row or of, node, reduces and seed or build:num(1))
  for i = #order, 1, -1 do
    local n = order[i]
    if over_row[n] then add(of, n, pool:call("rsum", over_row[n])) end
    local d, rule = of[n], rules[n.op]
    if d and not is_num(d, 0) then
      if n.op == "in" then by_name[n.name] = d end
      local parts = rule and { rule(build, n, d) } or {}
      local for_each = reduces and (not fixed[n] or formula.reductions[n.op])
      for k = 1, 4 do
        local child, part = n[k], parts[k]
        if child and part then
          add(for_each and fixed[child] and over_row or of, child, part)
        end
      end
    end
  end
  if reduces then return by_name, function(_, gradient) return gradient end end
  return by_name, function(a, b) return build:mul(a, b) end
end
