-- SPDX-License-Identifier: Apache-2.0
-- formula_kernel.lua: the kernels of an op that is formulas, as the templates that its folder would
-- have. In: a program of op_map.lua: { inputs, outputs, leaves, about }. An operand is { name,
-- feature } or { name, parts = { names } }: a row, one value for each feature, or several rows
-- side by side. An output has node, or nodes, those of its parts, and optional: NAME_frozen
-- lacks it; sum_of, a dtype: it is the sum of such a node over rows (formula_sums.lua). leaves: by
-- the name in a formula, { operand, part }. Out: the texts of cpu.c and cuda.cu, for
-- gen/lua/template.lua.
--
-- A kernel reads what it needs of an element, computes in the compute type what is written, in
-- the order of the formula, and rounds once for each output. What occurs twice, or would make a
-- line long, is a variable.

local fmt, concat = string.format, table.concat

local longest = 52 -- columns of an expression

local constants = { num = true, attr = true, cols = true }

-- A value as it would be read again, had it been stored in a dtype (formula_chain.lua).
local rounded = {
  round_bf16 = "rt_f32_from_bf16(rt_bf16_from_f32(%s))",
  round_f16 = "rt_f32_from_f16(rt_f16_from_f32(%s))",
  round_f32 = "(float)(%s)",
}

-- C of max or min: the second value at a tie; NaN where one of them is NaN. A comparison with a constant
-- needs no other test.
local function larger(node, t)
  local sign, opposite = ">", "<="
  if node.op == "min" then sign, opposite = "<", ">=" end
  if constants[node[2].op] then
    return fmt("(%s %s %s ? %s : %s)", t[1], opposite, t[2], t[2], t[1])
  elseif constants[node[1].op] then
    return fmt("(%s %s %s ? %s : %s)", t[1], sign, t[2], t[1], t[2])
  end
  return fmt("(%s %s %s || %s != %s ? %s : %s)", t[1], sign, t[2], t[1], t[1], t[1], t[2])
end

-- C of a program's nodes. at: what follows an input's name, "_j" or "_k[k]"; names: of nodes that
-- are variables already.
local function writer(formula, at, names)
  names = setmetatable({}, { __index = names })
  local self = { names = names }
  local style = {
    leaf = function(node)
      if names[node] then return names[node] end
      if node.op == "num" then
        if node.value == 0 and 1 / node.value < 0 then return "(${lit(-0.0)})" end
        return fmt("${lit(%.17g)}", node.value)
      end
      if node.op == "cols" then return "${lit(d)}" end
      if node.op == "attr" then return "${lit(" .. node.name .. ")}" end
      if node.op == "in" then return node.name .. at end
    end,
    call = function(name, texts)
      if name == "abs" then return fmt("(%s > 0 ? %s : 0 - %s)", texts[1], texts[1], texts[1]) end
      if rounded[name] then return fmt(rounded[name], texts[1]) end
      return fmt("rt_%s${_f}(%s)", name, concat(texts, ", "))
    end,
    pow = function(text, n) return "(" .. text .. string.rep(" * " .. text, n - 1) .. ")" end,
    choose = function(node, t)
      if node.op == "select" then
        return fmt("(%s %s %s ? %s : %s)", t[1], node.cmp, t[2], t[3], t[4])
      end
      return larger(node, t)
    end,
  }
  -- Without the parentheses that stand around all of it.
  function self.text(node)
    local text = formula.text(node, style)
    local bare = not style.leaf(node) and (node.op == "pow" or node.op == "max"
      or node.op == "min" or node.op == "select" or node.op == "abs")
    return bare and string.sub(text, 2, -2) or text
  end
  -- Variables for all under these nodes that need one: { name, text }, in order. letter: of their
  -- names, "v"; all: these nodes themselves have one, too.
  function self.variables(nodes, letter, all)
    local order, uses, atoms, list = formula.order(nodes, names), {}, {}, {}
    letter = letter or "v"
    for _, node in ipairs(order) do
      local whole = node.op == "pow" or node.op == "abs" or node.op == "max" or node.op == "min"
        or node.op == "select"
      for _, child in ipairs(node) do
        uses[child] = (uses[child] or 0) + 1
        atoms[child] = atoms[child] or whole
      end
    end
    for _, node in ipairs(nodes) do uses[node] = (uses[node] or 0) + (all and 2 or 1) end
    for _, node in ipairs(order) do
      local text = not style.leaf(node) and formula.text(node, style)
      if text and (uses[node] > 1 or atoms[node] or #text > longest) then
        list[#list + 1] = { name = fmt("%s%d", letter, (self.last or 0) + #list + 1), text = self.text(node) }
        names[node] = list[#list].name
      end
    end
    if all then self.last = (self.last or 0) + #list end
    return list
  end
  return self
end

-- A line's text inside Lua: "a ${b} c" becomes "a " .. b .. " c".
local function quoted(text)
  text = '"' .. string.gsub(text, "%${([^}]*)}", '" .. %1 .. "') .. '"'
  text = string.gsub(text, '^"" %.%. ', "")
  return (string.gsub(text, ' %.%. ""$', ""))
end

-- What a kernel of some outputs is made of.
local function parts_of(formula, program, outputs)
  local nodes, reads, stores = {}, {}, {}
  for _, out in ipairs(outputs) do
    for k, node in ipairs(out.nodes) do
      nodes[#nodes + 1] = node
      stores[#stores + 1] = { operand = out, part = k, name = out.parts and out.parts[k] or out.name,
                              node = node }
    end
  end
  local used = {}
  for _, node in ipairs(formula.order(nodes)) do
    if node.op == "in" then used[node.name] = true end
  end
  for _, input in ipairs(program.inputs) do
    for k, name in ipairs(input.parts or { input.name }) do
      if used[name] then reads[#reads + 1] = { operand = input, part = k, name = name } end
    end
  end
  return nodes, reads, stores
end

-- Where an element lies: "at", "gu_at + 3 * d", "" for a feature, before " + j".
local function place(x)
  local o = x.operand
  if o.feature then return "" end
  if not o.parts then return "at" end
  return o.name .. "_at" .. (x.part > 1 and fmt(" + ${%d * d}", x.part - 1) or "")
end

local function plus(base, more) return base == "" and more or base .. " + " .. more end

-- const T *x, ..., T *y. A call may give a value twice, add { x, x }: so where an output takes the
-- bytes of a row, no row is restrict.
local function arguments(program, outputs)
  local list, in_place = {}, false
  for _, out in ipairs(outputs) do in_place = in_place or out.alias end
  for _, input in ipairs(program.inputs) do
    local alone = input.feature or not in_place
    list[#list + 1] = fmt("const ${%s.type} *%s%s", input.name, program.cuda and "" or alone
                          and "restrict " or "", input.name)
  end
  for _, out in ipairs(outputs) do
    list[#list + 1] = fmt("${%s.type} *%s%s", out.name,
                          (program.cuda or out.alias) and "" or "restrict ", out.name)
  end
  return concat(list, ", ")
end

local function unused(program, reads)
  local read, lines = {}, {}
  for _, x in ipairs(reads) do read[x.operand] = true end
  for _, input in ipairs(program.inputs) do
    if not read[input] then lines[#lines + 1] = fmt("    (void)%s;", input.name) end
  end
  return lines
end

local function append(list, more)
  for _, line in ipairs(more) do list[#list + 1] = line end
end

-- Rows of several parts among these: their operands, once each.
local function parted(reads, stores)
  local list, seen, rows = {}, {}, false
  for _, x in ipairs(reads) do
    if x.operand.parts and not seen[x.operand] then list[#list + 1] = x.operand end
    seen[x.operand] = true
    rows = rows or not (x.operand.parts or x.operand.feature)
  end
  for _, x in ipairs(stores) do
    if x.operand.parts and not seen[x.operand] then list[#list + 1] = x.operand end
    seen[x.operand] = true
    rows = rows or not x.operand.parts
  end
  return list, rows
end

local function cpu_kernel(formula, program, outputs)
  local nodes, reads, stores = parts_of(formula, program, outputs)
  local c = writer(formula, "_j")
  local sides, rows = parted(reads, stores)
  local out = { fmt("static void ${fn}(%s)", arguments(program, outputs)), "{" }
  append(out, unused(program, reads))
  append(out, { "#pragma omp parallel for schedule(static)",
                "    for (int64_t i = 0; i < ${t}; i++) {" })
  if rows then out[#out + 1] = "        const int64_t at = i * ${d};" end
  for _, o in ipairs(sides) do
    out[#out + 1] = fmt("        const int64_t %s_at = i * ${%d * d};", o.name, #o.parts)
  end
  append(out, { "#pragma omp simd", "        for (int64_t j = 0; j < ${d}; j++) {" })
  for _, x in ipairs(reads) do
    out[#out + 1] = fmt("            const ${acc} %s_j = ${ld(%s, %s)};", x.name, x.operand.name,
                        quoted(plus(place(x), "j")))
  end
  for _, v in ipairs(c.variables(nodes)) do
    out[#out + 1] = fmt("            const ${acc} %s = %s;", v.name, v.text)
  end
  for _, x in ipairs(stores) do
    out[#out + 1] = fmt("            ${st(%s, %s, %s)};", x.operand.name,
                        quoted(plus(place(x), "j")), quoted(c.text(x.node)))
  end
  append(out, { "        }", "    }", "}" })
  return out
end

-- The host's part of a kernel of CUDA; threads and blocks: text.
local function launcher(program, outputs, threads, blocks)
  local names, shown = {}, {}
  for _, o in ipairs(program.inputs) do names[#names + 1] = "&" .. o.name end
  for _, o in ipairs(outputs) do
    names[#names + 1] = "&" .. o.name
    shown[#shown + 1] = fmt("%s[${t}, ${%d * d}]", o.name, o.parts and #o.parts or 1)
  end
  return {
    "//@ host", fmt("${kernel(fn, %s)}", threads), "",
    fmt("/* %s%s */", concat(shown, ", "), program.about),
    fmt("static void ${fn}(Rt *rt, %s)", arguments(program, outputs)), "{",
    fmt("    rt_launch(rt, &${fn}_kernel, %s, (void *[]){ %s });",
        blocks, concat(names, ", ")),
    "}",
  }
end

local function cuda_kernel(formula, program, outputs)
  local nodes, reads, stores = parts_of(formula, program, outputs)
  local c = writer(formula, "_k[k]")
  local sides, rows = parted(reads, stores)
  local flat, first = #sides == 0, nil
  for _, x in ipairs(reads) do
    flat = flat and not x.operand.feature
    first = first or not x.operand.feature and x.operand.name
  end
  first = first or outputs[1].name
  local out = {
    fmt("//@ local _g = grid(%s, %s)", flat and "t * d" or "d", first),
    "RT_GLOBAL(${_g.threads})",
    fmt("${fn}(%s)", arguments(program, outputs)), "{",
  }
  append(out, unused(program, reads))
  if flat then
    out[#out + 1] = "    const int64_t at = "
      .. "((int64_t)blockIdx.x * ${_g.threads} + threadIdx.x) * ${_g.width};"
  else
    out[#out + 1] = "    const int j = (blockIdx.y * ${_g.threads} + threadIdx.x) * ${_g.width};"
    if rows then out[#out + 1] = "    const int64_t at = (int64_t)blockIdx.x * ${d} + j;" end
    for _, o in ipairs(sides) do
      out[#out + 1] = fmt("    const int64_t %s_at = (int64_t)blockIdx.x * ${%d * d} + j;", o.name,
                          #o.parts)
    end
  end
  append(out, { "//@ if not _g.whole then", flat and "    if (at >= ${t * d})"
                or "    if (j >= ${d})", "        return;", "//@ end" })
  local arrays = {}
  for _, x in ipairs(reads) do arrays[#arrays + 1] = x.name .. "_k[${_g.width}]" end
  for _, x in ipairs(stores) do arrays[#arrays + 1] = x.name .. "_k[${_g.width}]" end
  out[#out + 1] = "    ${acc} " .. concat(arrays, ", ") .. ";"
  for _, x in ipairs(reads) do
    out[#out + 1] = fmt('    ${load("%s_k", %s, %s, _g)};', x.name, x.operand.name,
                        x.operand.feature and '"j"' or quoted(place(x)))
  end
  local body = {}
  for _, v in ipairs(c.variables(nodes)) do
    body[#body + 1] = fmt("        const ${acc} %s = %s;", v.name, v.text)
  end
  for _, x in ipairs(stores) do
    body[#body + 1] = fmt("        %s_k[k] = %s;", x.name, c.text(x.node))
  end
  out[#out + 1] = "    for (int k = 0; k < ${_g.width}; k++)" .. (#body > 1 and " {" or "")
  append(out, body)
  if #body > 1 then out[#out + 1] = "    }" end
  for _, x in ipairs(stores) do
    out[#out + 1] = fmt('    ${store(%s, %s, "%s_k", _g)};', x.operand.name, quoted(place(x)),
                        x.name)
  end
  out[#out + 1] = "}"
  append(out, launcher(program, outputs, "_g.threads",
                       flat and "${_g.blocks}, 1" or "${t}, ${_g.blocks}"))
  return out
end

local helpers = { writer = writer, quoted = quoted, parts_of = parts_of, place = place, plus = plus,
                  arguments = arguments, unused = unused, append = append, parted = parted,
                  launcher = launcher }

local function reduces(formula, program)
  local nodes = {}
  for _, out in ipairs(program.outputs) do append(nodes, out.nodes) end
  for _, node in ipairs(formula.order(nodes)) do
    if formula.reductions[node.op] then return true end
  end
end

-- A template: all outputs, or those that a form has.
local function template(formula, program, kernel)
  local always, optional = {}, nil
  for _, out in ipairs(program.outputs) do
    if out.optional then optional = optional or out.name else always[#always + 1] = out end
  end
  local lines = { '//@ local _f = acc == "float" and "f" or ""' }
  if optional then lines[2] = fmt("//@ if %s then", optional) end
  append(lines, kernel(formula, program, program.outputs))
  if optional then
    lines[#lines + 1] = "//@ else"
    append(lines, kernel(formula, program, always))
    lines[#lines + 1] = "//@ end"
  end
  return concat(lines, "\n") .. "\n"
end

-- rows: formula_rows.lua; sums: formula_sums.lua, for CUDA only. The last result: has it sums over a
-- row?
return function(formula, program, rows, sums)
  local device = setmetatable({ cuda = true }, { __index = program })
  local cpu, cuda = cpu_kernel, cuda_kernel
  local by_row = reduces(formula, program)
  if by_row then cpu, cuda = rows(helpers) end
  for _, out in ipairs(program.outputs) do
    if out.sum_of then return nil, template(formula, device, sums(helpers)) end
  end
  return template(formula, program, cpu), template(formula, device, cuda), by_row
end
