-- SPDX-License-Identifier: Apache-2.0
-- op_form.lua: an op without its optional outputs. In: the rule of an op, and the word
-- with which some of its outputs are `optional`. Out: the rule of NAME_word, which lacks
-- them. What the rule says about them is dropped.

-- The input whose dtype the output has, or nil.
local function input_like(rule, output)
  for _, input in ipairs(rule.inputs) do
    local float = (input.class or "float") == "float"
    if input[1] == output.dtype or (float and not output.dtype) then return input[1] end
  end
end

return function(rule, word)
  local form, gone, like, names = {}, {}, {}, {}
  for key, value in next, rule do form[key] = value end
  form.outputs, form.backward = {}, nil
  for _, output in ipairs(rule.outputs) do
    if output.optional == word then
      gone[output[1]], like[output[1]] = true, input_like(rule, output)
      names[#names + 1] = output[1]
    else
      form.outputs[#form.outputs + 1] = output
    end
  end
  if rule.in_parts then
    for name in next, gone do
      if rule.in_parts[name] then form.in_parts = nil end
    end
  end
  form.doc = (rule.doc or rule.outputs[1][1]) .. "; without " .. table.concat(names, ", ")
  form.expands = rule.expands and function(g, n)
    local values = rule.expands(g, n)
    for name in next, gone do values[name] = nil end
    return values
  end
  form.reference = rule.reference and function(n)
    local round = n.round
    n.round = function(name, value)
      if gone[name] and not like[name] then return value end
      return round(like[name] or name, value)
    end
    for name in next, gone do
      n[name] = setmetatable({}, { __index = function() return 0.0 end })
    end
    rule.reference(n)
  end
  return form
end
