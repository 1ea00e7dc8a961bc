-- SPDX-License-Identifier: Apache-2.0
-- template_span.lua: the C of a span. In: what all templates may use, the span as emit_math.c
-- makes it, and what comes before its name: "void ". Out: text.
--
-- First the variables, then one kernel per line. In parts, a leg is a loop over the parts of this
-- rank that differ in it, and a meet is a line between legs.

-- Consecutive calls of one leg stand in one loop.
local function calls_of(tools, calls)
  local out, leg = {}, nil -- whose loop is open
  local function put(text) out[#out + 1] = text end
  for _, c in ipairs(calls) do
    local inside = c.each and not c.meet and c.leg or nil
    local fn, args = c.kernel, c.args
    if leg and leg ~= inside then put "    }" end
    if inside and leg ~= inside then put("    for (int " .. c.each .. ") {") end
    leg = inside
    if c.meet then fn, args = c.meet, { "parts", c.axis, c.kernel, table.unpack(c.args) } end
    put(tools.note(tools.call((leg and "        " or "    ") .. fn .. "(", args, ");"), c.note, 70))
  end
  if leg then put "    }" end
  return out
end

return function(tools, s, result)
  local args, out = {}, {}
  for i, a in ipairs(s.args) do args[i] = a.decl end
  out[1] = tools.call(result .. s.name .. "(", args, ")") .. "\n{"
  local types = tools.widest(s.locals, function(l) return l.type end)
  local names = tools.widest(s.locals, function(l) return l.name end)
  local places = tools.widest(s.locals, function(l) return l.on end)
  for _, l in ipairs(s.locals) do
    out[#out + 1] = "    " .. tools.left(l.type, types) .. " *const " .. tools.left(l.name, names)
      .. " = " .. tools.left(l.on .. ";", places + 1) .. " /* " .. l.shape .. ", in place */"
  end
  if #s.locals > 0 then out[#out + 1] = "" end
  for _, line in ipairs(calls_of(tools, s.calls)) do out[#out + 1] = line end
  out[#out + 1] = "}\n"
  return table.concat(out, "\n")
end
