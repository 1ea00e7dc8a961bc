-- SPDX-License-Identifier: Apache-2.0
-- op_scale.lua: an op that also makes the scale of what it makes. In: the rule of an op with `scale_of`, and
-- its name; the rule and the name of the op of role "scale". Out: the rule of NAME_scale, a fused op
-- with the bits of both, for devices, where a kernel has the largest element before it is written.
-- It lacks the op's optional inputs.

-- What the scale's rule says of a tensor [rows, cols] holds for values in any shape.
local function scale_values(scale, n, values, made)
  scale.reference(setmetatable({ t = 1, k = #values, x = values, s = made }, { __index = n }))
end

return function(rule, name, scale, scale_name)
  local of, blocks = next(rule.scale_of)
  local out = scale.outputs[1]
  local fused = {
    arithmetic = rule.arithmetic, same_bits = true,
    doc = (rule.doc or rule.outputs[1][1]) .. "; and the scale of " .. of,
    inputs = {}, attrs = {}, outputs = {}, axes = rule.axes, check = rule.check, cost = rule.cost,
    rounds_inside = rule.rounds_inside,
  }
  for _, input in ipairs(rule.inputs) do
    if not input.optional then fused.inputs[#fused.inputs + 1] = input end
  end
  for _, output in ipairs(rule.outputs) do fused.outputs[#fused.outputs + 1] = output end
  fused.outputs[#fused.outputs + 1] = { out[1], out[2], dtype = out.dtype }
  for key, spec in next, rule.attrs or {} do fused.attrs[key] = spec end
  for key, spec in next, scale.attrs do fused.attrs[key] = spec end
  fused.workspace_cuda = function(n)
    local own = rule.workspace_cuda or rule.workspace
    return (own and own(n) or 0) + 4 * blocks(n)
  end
  fused.expands = function(g, n)
    local args, values, of_scale = {}, {}, {}
    for i, input in ipairs(fused.inputs) do args[i] = n[input[1]] end
    for key in next, rule.attrs or {} do args[key] = n[key] end
    local made = table.pack(g[name](args))
    for i, output in ipairs(rule.outputs) do values[output[1]] = made[i] end
    for key in next, scale.attrs do of_scale[key] = n[key] end
    of_scale[1] = values[of]
    values[out[1]] = g[scale_name](of_scale)
    return values
  end
  fused.variants = rule.variants and {} -- but those that give optional inputs
  for _, variant in ipairs(rule.variants or {}) do
    local key = next(variant)
    if (rule.attrs or {})[key] then fused.variants[#fused.variants + 1] = variant end
  end
  fused.reference = rule.reference and function(n)
    rule.reference(n)
    scale_values(scale, n, n[of], n[out[1]])
  end
  fused.cases = rule.cases and function(r)
    local case, of_scale = rule.cases(r), scale.cases(r)
    for key in next, scale.attrs do case[key] = of_scale[key] end
    return case
  end
  return fused
end
