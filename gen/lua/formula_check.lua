-- SPDX-License-Identifier: Apache-2.0
-- formula_check.lua: does the op of a chain compute what its ops do, one by one? In: the chain, as
-- formula_chain.lua takes it; the rule of its op. Out: nil, or what is wrong. Runs each op's own
-- formula on a few numbers, rounding what it gives to the dtype, and the whole. In place of the
-- dtypes' rounding stand coarser ones, so that one which is missing, or of another dtype, shows.

local fmt = string.format
local rows, columns, most_parts = 2, 3, 4
local grain = { bf16 = 2 ^ 5, f16 = 2 ^ 7, f32 = 2 ^ 9, f64 = 2 ^ 11 }

local function to(dtype, v) return math.floor(v * grain[dtype] + 0.5) / grain[dtype] end

-- Any functions will do that differ from each other.
local arithmetic = {
  num = function(v) return v end,
  add = function(a, b) return a + b end,
  sub = function(a, b) return a - b end,
  mul = function(a, b) return a * b end,
  div = function(a, b) return a / b end,
  exp = function(x) return 0.7 * x + 1.3 end,
  log = function(x) return 0.3 * x - 0.2 end,
  sqrt = function(x) return 0.9 * x + 0.1 end,
  sigmoid = function(x) return 0.4 * x + 0.6 end,
  softplus = function(x) return 0.6 * x + 0.9 end,
  tanh = function(x) return 0.8 * x - 0.5 end,
}
for dtype in next, grain do
  arithmetic["round_" .. dtype] = function(v) return to(dtype, v) end
end

local function numbers(state)
  local list = {}
  for i = 1, rows * columns * most_parts do
    state = (state * 16807) % 2147483647
    list[i] = state / 2147483647 * 4 - 2
  end
  return list
end

-- What a run of the chain's ops leaves, by value.
local function one_by_one(chain)
  local data = {}
  for k, value in ipairs(chain.inputs) do data[value] = numbers(k * 7919) end
  for i, op in ipairs(chain.ops) do
    local n = { t = rows, d = columns }
    local dtype = {}
    for name, value in next, op.attrs do n[name] = value end
    for name, value in next, op.inputs do
      if not data[value] then return nil, fmt("op %d reads a value that nothing made", i) end
      n[name] = data[value]
    end
    for name, value in next, op.outputs do
      data[value], dtype[name] = {}, chain.dtypes[value]
      n[name] = data[value]
    end
    n.round = function(name, v)
      return dtype[name] == chain.acc and v or to(dtype[name], v)
    end
    op.rule.interpret(n, arithmetic)
  end
  for _, sum in ipairs(chain.sums) do
    local list = {}
    for i, v in ipairs(data[sum.value]) do
      local j = (i - 1) % columns + 1
      list[j] = (list[j] or 0.0) + v
    end
    data[sum.output] = list
  end
  return data
end

return function(chain, whole)
  local data, problem = one_by_one(chain)
  if problem then return problem end
  local n, dtype = { t = rows, d = columns }, {}
  for k, value in ipairs(chain.inputs) do n[whole.inputs[k][1]] = data[value] end
  for k, value in ipairs(chain.outputs) do
    local name = whole.outputs[k][1]
    n[name], dtype[name] = {}, chain.dtypes[value]
  end
  n.round = function(name, v) return dtype[name] == chain.acc and v or to(dtype[name], v) end
  whole.interpret(n, arithmetic)
  for k, value in ipairs(chain.outputs) do
    local name = whole.outputs[k][1]
    if #n[name] ~= #data[value] then return fmt("%s has %d elements", name, #n[name]) end
    for i, v in ipairs(data[value]) do
      local own = n[name][i]
      if own ~= v and (own == own or v == v) then
        return fmt("%s[%d] is %.17g, but %.17g by its ops one by one", name, i, own, v)
      end
    end
  end
end
