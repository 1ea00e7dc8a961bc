-- SPDX-License-Identifier: Apache-2.0
-- formula_rule.lua: programs of formulas as ops. In: tools; a program (see formula_kernel.lua) with
-- doc and attrs. Out: the rule that `op { ... }` would be, the texts of its kernels, its formula as
-- the numerics hash has it, interpret(n, arithmetic), which runs it, and the program.

local fmt, concat = string.format, table.concat

local function dims(o)
  return o.feature and "d" or o.parts and fmt("t %d*d", #o.parts) or "t d"
end

-- The elements of an operand's row, and the first of its part.
local function stride(o, d) return o.feature and 0 or (o.parts and #o.parts or 1) * d end

-- A sum or the largest of a row's values, list[1..n], in the order of formula_rows.lua.
local function reduce(op, list, n, arithmetic)
  local lanes = {}
  local function join(a, b)
    if op == "rsum" then return arithmetic.add(a, b) end
    return (a > b or a ~= a) and a or b
  end
  for k = 1, 32 do lanes[k] = op == "rsum" and 0.0 or arithmetic.num(-3.4028234663852886e38) end
  for j = 1, n do
    local k = (j - 1) % 32 + 1
    lanes[k] = join(lanes[k], list[j])
  end
  for _, half in ipairs { 16, 8, 4, 2, 1 } do
    for k = 1, half do lanes[k] = join(lanes[k], lanes[k + half]) end
  end
  return lanes[1]
end

-- run(n, arithmetic): outputs computed row by row, element by element, into n's lists; and the
-- operations on an element.
local function evaluator(formula, program)
  local nodes, passes = {}, {}
  for _, out in ipairs(program.outputs) do
    for _, node in ipairs(out.nodes) do nodes[#nodes + 1] = node end
  end
  local all, known = formula.order(nodes), {}
  for _, node in ipairs(all) do
    if formula.reductions[node.op] then known[node] = true end
  end
  for _, node in ipairs(all) do
    if known[node] then
      passes[#passes + 1] = { node = node, order = formula.order({ node[1] }, known) }
    end
  end
  local order = formula.order(nodes, known)
  local function values(order, n, arithmetic, i, j, reduced)
    return formula.evaluate(order, function(node)
      if node.op == "attr" then return arithmetic.num(n[node.name] + 0.0) end
      if node.op == "cols" then return arithmetic.num(n.d + 0.0) end
      local leaf = program.leaves[node.name]
      local o = leaf.operand
      return n[o.name][i * stride(o, n.d) + ((leaf.part or 1) - 1) * n.d + j]
    end, arithmetic, reduced)
  end
  return function(n, arithmetic)
    for i = 0, n.t - 1 do
      local reduced = {}
      for _, pass in ipairs(passes) do
        local list, of = {}, pass.node[1]
        for j = 1, n.d do
          list[j] = reduced[of] or values(pass.order, n, arithmetic, i, j, reduced)[of]
        end
        reduced[pass.node] = reduce(pass.node.op, list, n.d, arithmetic)
      end
      for j = 1, n.d do
        local value = values(order, n, arithmetic, i, j, reduced)
        for _, out in ipairs(program.outputs) do
          if out.sum_of then n[out.name][j] = (n[out.name][j] or 0.0) + value[out.nodes[1]] end
          for k, node in ipairs(out.sum_of and {} or out.nodes) do
            local at = i * stride(out, n.d) + (k - 1) * n.d + j
            if n[out.name] then n[out.name][at] = n.round(out.name, value[node]) end
          end
        end
      end
    end
  end, formula.flops(all)
end

-- Rows are independent; elements of a row, where no formula sums over it or reads its length.
local function cuts_of(formula, program)
  local nodes = {}
  for _, out in ipairs(program.outputs) do table.move(out.nodes, 1, #out.nodes, #nodes + 1, nodes) end
  for _, node in ipairs(formula.order(nodes)) do
    if formula.reductions[node.op] or node.op == "cols" then return { t = {} } end
  end
  return { t = {}, d = {} }
end

-- The rule of a program. program.inputs and outputs: operands; attrs: those that it reads.
local function rule_of(tools, program)
  local run, flops = evaluator(tools.formula, program)
  local rule = {
    doc = program.doc, inputs = {}, outputs = {}, attrs = program.attrs,
    axes = { t = "parallel", d = "parallel" }, cuts = cuts_of(tools.formula, program),
    flops = function(n) return flops * n.t * n.d end,
    reference = function(n) run(n, tools.formula.exact) end,
    cases = function(r)
      local case = { t = r(1, 20), d = r(1, 70) }
      for key, spec in pairs(program.attrs or {}) do
        local of = type(spec) == "table" and spec[1] or spec
        case[key] = type(spec) == "table" and spec[2] or of == "int" and 2 or 1.5
      end
      return case
    end,
  }
  for k, o in ipairs(program.inputs) do rule.inputs[k] = { o.name, dims(o) } end
  for k, o in ipairs(program.outputs) do
    rule.outputs[k] = { o.name, dims(o), dtype = o.dtype, alias = o.alias, optional = o.optional,
                        add = o.sum_of and true }
    if o.sum_of then rule.axes.t, rule.cuts = "reduction", nil end
  end
  return rule, run
end

-- Formulas by the places of operands: the name of an input does not change the arithmetic.
local function canonical(tools, program)
  local where, nodes, kinds = {}, {}, {}
  for k, o in ipairs(program.inputs) do
    kinds[k] = dims(o)
    for p, name in ipairs(o.parts or { o.name }) do where[name] = fmt("i%d.%d", k, p) end
  end
  for _, out in ipairs(program.outputs) do
    for _, node in ipairs(out.nodes) do nodes[#nodes + 1] = node end
    kinds[#kinds + 1] = "-> " .. dims(out)
  end
  return fmt("map 1\n%s\n", concat(kinds, ", ")) .. tools.formula.canonical(nodes, function(node)
    return where[node.name] or "attr." .. node.name
  end)
end

local function operations(tools, program)
  local nodes = {}
  for _, out in ipairs(program.outputs) do table.move(out.nodes, 1, #out.nodes, #nodes + 1, nodes) end
  return #tools.formula.order(nodes)
end

return function(tools, program)
  local rule, run = rule_of(tools, program)
  local cpu, cuda, reduces = tools.kernel(tools.formula, program, tools.rows, tools.sums)
  return { rule = rule, cpu = cpu, cuda = cuda, reduces = reduces, formula = canonical(tools, program),
           interpret = run, program = program, operations = operations(tools, program) }
end
