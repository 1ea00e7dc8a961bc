-- SPDX-License-Identifier: Apache-2.0
-- op_cuts.lua: along which axes parts of a call are calls of the same op, and what parts compute in its
-- place. In: a check of gen/lua/op.lua whose operands and dims are known. Out: `cuts` and `in_parts` in the
-- plain form that gen/ops/cuts.c reads; problems of the check. The language:
--
--   cuts = { t = { dw = "sum" }, heads = { qkv = { 2, "heads", "kv_heads" }, ... } }
--
-- The call on part p of P of its operands gives part p of its results. A key is a dim of the
-- inputs, or an int attribute. Operands with that dim are cut along it; the others are whole, and an
-- output without it says what it is:
--   dw = "sum"                    the parts' outputs add up to the whole one
--   s = "max"                     the largest of the parts' outputs is the whole one
--   o = 2                         cut along its second dim
--   qkv = { 2, "heads", "kv_heads", "kv_heads" }
--                                 that dim consists of sections, here of so many heads; each of them
--                                 is cut, and a part has its piece of each. (Of dims "2*f", two)
--   attrs = { "heads", "kv_heads" }   attributes that a part has its share of
--   context = true                for parts of tokens alone (parts.context)
--   ordered = true                the axis itself is never of sections: its order matters
--   pads = true                   zeros at the axis' end change nothing before them, and give zeros
--                                 there: so the rows of a vocabulary may be padded
--   when = function(n) ... end    false: this call cannot be cut so
--   repeats = { kv_heads = function(g, n, copies) return g.repeat_heads { n.qkv, ... } end }
--                                 parts of tokens that do not divide kv_heads get copies of them: the
--                                 function returns the input with sections of so many, in which each of their
--                                 kv_heads stands copies / kv_heads times, one after the other. With
--                                 kv_heads = copies, the call gives the same outputs; those with such
--                                 sections are repeated likewise
-- An axis that is not listed is never cut, and a call whose part fails the rule's `check` is not.
-- Tests cut random cases by every axis and compare with the whole.
--
--   in_parts = { w = 1, ops = function(g, n, part, parts, size, padded)
--     return { y = g.embed { n.tokens, n.w, part, parts = parts } }
--   end }
--
-- Where w is cut along its first dim (if w is an output: the parameter whose gradient it is), the ops that
-- the function calls take the call's place. It gets whole values, as `backward` does, and returns the call's
-- outputs. part: i32 [parts], the parts' numbers 0, 1, ...; it is cut, so part p has [1], its own number,
-- and all parts can run one function. size: of that dim; padded: with the zeros behind it that make
-- all parts equal.

local fmt = string.format
local cut_keys = { attrs = true, when = true, context = true, ordered = true, pads = true, repeats = true }

local function sorted_keys(t)
  local list = {}
  for k in pairs(t) do list[#list + 1] = k end
  table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
  return list
end

-- Has it no keys but 1 to its length?
local function is_list(t)
  return type(t) == "table" and #sorted_keys(t) == #t
end

-- Where an operand has the axis by its dims text: dim and how many pieces of that size; or nil.
local function dim_of(dims, axis)
  local at = 0
  for token in string.gmatch(dims or "", "%S+") do
    at = at + 1
    local times = token == axis and "1" or string.match(token, "^(%d+)%*" .. axis .. "$")
    if times then return at, math.tointeger(times) end
  end
end

-- How the call's operand o is cut, by what the rule says of it.
local function cut_operand(check, axis, o, says)
  local is_output = check.operands[o.name] == "output"
  local cut = { name = o.name, times = 1, weights = {} }
  if says == nil then
    cut.dim, cut.times = dim_of(o.dims, axis)
    if not cut.dim and is_output then
      check:bad("cuts", axis, fmt("%s has no dim %s, so the cut must say what its parts are",
                                  o.name, axis),
                fmt('say %s = "sum" if they add up, "max" if it is the largest, or the dim that is cut', o.name))
    end
    return cut.dim and cut
  end
  if says == "sum" and is_output then
    cut.sum = true
    return cut
  elseif says == "max" and is_output then
    cut.largest = true
    return cut
  end
  local list = type(says) == "table" and says or { says }
  cut.dim = is_list(list) and math.type(list[1]) == "integer" and list[1] >= 1 and list[1] <= 4
    and list[1]
  for k = 2, #list do
    if not check.symbols[list[k]] then cut.dim = nil end
    cut.weights[k - 1] = list[k]
  end
  if not cut.dim then
    check:bad("cuts", axis, fmt("%s is not cut along a dim", o.name),
              fmt('say %s = 2, %s = { 2, "heads", "kv_heads" }%s', o.name, o.name,
                  is_output and ', "sum" or "max"' or ""))
  end
  return cut.dim and cut
end

-- Attributes that a part has its share of.
local function cut_attrs(check, axis, names)
  local list, seen = {}, {}
  if names ~= nil and not is_list(names) then
    check:bad("cuts", axis, fmt("attrs of cut %s is not a list", axis),
              'say attrs = { "heads" }')
    return list
  end
  for k, name in ipairs(names or {}) do
    local spec = (check.rule.attrs or {})[name]
    if spec ~= "int" and (type(spec) ~= "table" or spec[1] ~= "int") then
      check:bad("cuts", axis, fmt("cut %s divides %s, which is not an int attribute", axis,
                                  tostring(name)))
    elseif seen[name] then
      check:bad("cuts", axis, fmt("cut %s divides %s twice", axis, name), "name it once")
    else
      list[k], seen[name] = name, true
    end
  end
  return list
end

-- Which attribute's sections may be repeated: those of one input.
local function cut_repeats(check, axis, cut, says)
  if says == nil then return end
  local keys = type(says) == "table" and sorted_keys(says) or {}
  local name, inputs, divided = keys[1], 0, false
  if #keys ~= 1 or type(says[name]) ~= "function" then
    check:bad("cuts", axis, fmt("repeats of cut %s is not a function of one attribute", axis),
              "say repeats = { kv_heads = function(g, n, copies) return value end }")
    return
  end
  for _, o in ipairs(cut.operands) do
    local has = false
    for _, weight in ipairs(o.weights) do has = has or weight == name end
    inputs = inputs + (has and check.operands[o.name] == "input" and 1 or 0)
  end
  for _, attr in ipairs(cut.attrs) do divided = divided or attr == name end
  if not divided or inputs ~= 1 then
    check:bad("cuts", axis, fmt("cut %s repeats %s, but %s", axis, tostring(name), divided
              and fmt("%d inputs have sections of so many, not one", inputs) or "does not divide it"))
    return
  end
  return name
end

local function cut_of(check, axis, says)
  local cut = { axis = axis, free = not (check.rule.attrs or {})[axis], operands = {},
                context = says.context == true, ordered = says.ordered == true, pads = says.pads == true, when = says.when ~= nil }
  for _, operands in ipairs { check.out.inputs, check.out.outputs } do
    for _, o in ipairs(operands) do
      cut.operands[#cut.operands + 1] = cut_operand(check, axis, o, says[o.name]) or nil
    end
  end
  for _, key in ipairs(sorted_keys(says)) do
    if not cut_keys[key] and not check.operands[key] then
      check:bad("cuts", axis, fmt("cut %s has %s, which is not an operand", axis, tostring(key)),
                "it has operands, attrs, context, ordered, pads, repeats and when")
    end
  end
  if says.when ~= nil and type(says.when) ~= "function" then
    check:bad("cuts", axis, fmt("when of cut %s is not a function of n", axis))
  end
  for _, key in ipairs { "context", "ordered", "pads" } do
    if says[key] ~= nil and type(says[key]) ~= "boolean" then
      check:bad("cuts", axis, fmt("%s of cut %s is %s, not true or false", key, axis, tostring(says[key])))
    end
  end
  cut.attrs = cut_attrs(check, axis, says.attrs)
  cut.repeats = cut_repeats(check, axis, cut, says.repeats)
  return cut
end

-- Ops that take the call's place.
local function check_in_parts(check)
  local rule, says, by = check.rule, check.rule.in_parts, nil
  if not says then return end
  for _, key in ipairs(sorted_keys(says)) do
    if key ~= "ops" and not check.operands[key] then
      check:bad("in_parts", key, fmt("in_parts has %s, which is not an operand", tostring(key)),
                "it has ops, and the operand that is cut with its dim: w = 1")
    elseif key ~= "ops" and (by or math.type(says[key]) ~= "integer" or says[key] < 1 or says[key] > 4) then
      check:bad("in_parts", key, by and fmt("in_parts depends on %s and on %s", by, key)
                or fmt("%s of in_parts is %s, not a dim", key, tostring(says[key])),
                "say one operand: w = 1")
    elseif key ~= "ops" then
      by = key
    end
  end
  if type(says.ops) ~= "function" then
    check:bad("in_parts", nil, "in_parts has no function ops",
              "say ops = function(g, n, part, parts) return { y = value } end")
  elseif not by and check.inputs_good then
    check:bad("in_parts", nil, "in_parts does not say which operand is cut", "say it with its dim: w = 1")
  end
  if rule.expands or check.optimizer then
    check:bad("in_parts", nil, rule.expands and "the ops that a fused op stands for have in_parts"
              or "an optimizer has no in_parts", "leave it out")
  end
  check.out.in_parts = by and { operand = by, dim = says[by] }
end

-- Axes by which a call may be computed in parts, and ops in its place.
return function(check)
  local out, rule = check.out, check.rule
  for _, axis in ipairs(sorted_keys(rule.cuts or {})) do
    local says = rule.cuts[axis]
    if not check:has_key("cuts", axis, says, "%s = {}") then
      -- its message is enough
    elseif type(axis) ~= "string" or check.inputs_good and not check.symbols[axis] then
      check:bad("cuts", axis, fmt("cut %s is neither a dim of the inputs nor an int attribute",
                                  tostring(axis)))
    elseif type(says) ~= "table" then
      check:bad("cuts", axis, fmt("cut %s is %s, not a table", axis, tostring(says)),
                fmt('say %s = {}, or %s = { dw = "sum" }', axis, axis))
    elseif check.inputs_good then
      out.cuts[#out.cuts + 1] = cut_of(check, axis, says)
    end
  end
  if rule.cuts and (rule.expands or check.optimizer) then
    check:bad("cuts", nil, rule.expands and "the ops that a fused op stands for have cuts"
              or "an optimizer has no cuts", "leave it out")
  end
  check_in_parts(check)
end
