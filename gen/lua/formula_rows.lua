-- SPDX-License-Identifier: Apache-2.0
-- formula_rows.lua: kernels of formulas with sums over a row, or the largest of it. In: helpers of
-- formula_kernel.lua; a program and its outputs. Out: lines of a template, for the CPU and for CUDA.
--
-- A row is read for the sums that need no other sum, again for the sums that need those, and so on, and
-- last for the outputs. A sum has one order, for every dtype and target:
-- lane l of 32 adds elements l, l + 32, l + 64, ... to 0, then a tree adds lanes 16, 8, 4, 2 and 1
-- apart. On CUDA a lane is a thread of a warp. The largest takes the same order, from the least
-- finite f32; it is NaN if an element is.

local fmt = string.format

local first_value = { rsum = "0", rmax = "${lit(-3.4028234663852886e38)}" }

local function joined(op, a, b)
  if op == "rsum" then return fmt("%s += %s;", a, b) end
  return fmt("%s = %s > %s || %s != %s ? %s : %s;", a, a, b, a, a, a, b)
end

-- The program's nodes by pass: passes[s] = { reductions, scalars }, values of the row that are known
-- after pass s.
local function stages(formula, nodes)
  local order, stage, fixed, passes = formula.order(nodes), {}, {}, {}
  for _, node in ipairs(order) do
    local reduction = formula.reductions[node.op]
    local s, all = 0, node.op ~= "in"
    for _, child in ipairs(node) do
      s = math.max(s, stage[child])
      all = all and fixed[child]
    end
    stage[node], fixed[node] = reduction and s + 1 or s, reduction and true or all
    if reduction then
      passes[s + 1] = passes[s + 1] or { reductions = {}, scalars = {} }
      table.insert(passes[s + 1].reductions, node)
    end
  end
  local wanted = {}
  local function want(node)
    if fixed[node] and stage[node] > 0 and not formula.reductions[node.op] and not wanted[node] then
      wanted[node] = true
      table.insert(passes[stage[node]].scalars, node)
    end
  end
  for _, node in ipairs(order) do
    if not fixed[node] or formula.reductions[node.op] then
      for _, child in ipairs(node) do want(child) end
    end
  end
  for _, node in ipairs(nodes) do want(node) end
  return passes
end

-- What differs between targets: lane(r), the variable of a lane's sum; open and close of a loop
-- over a row's elements j.
local targets = {
  cpu = {
    lane = function(r) return r .. "_l[j - j0]" end,
    declare = function(r, op)
      if op == "rsum" then return { fmt("        ${acc} %s_l[32] = {0};", r) } end
      return { fmt("        ${acc} %s_l[32];", r), "        for (int k = 0; k < 32; k++)",
               fmt("            %s_l[k] = %s;", r, first_value[op]) }
    end,
    open = { "        for (int64_t j0 = 0; j0 < ${d}; j0 += 32) {",
             "            const int64_t j1 = j0 + 32 < ${d} ? j0 + 32 : ${d};", "#pragma omp simd",
             "            for (int64_t j = j0; j < j1; j++) {" },
    indent = "                ", close = { "            }", "        }" },
    finish = function(r, op)
      return { "        for (int half = 16; half > 0; half /= 2)",
               "            for (int k = 0; k < half; k++)",
               "                " .. joined(op, r .. "_l[k]", r .. "_l[k + half]"),
               fmt("        const ${acc} %s = %s_l[0];", r, r) }
    end,
    last = { "#pragma omp simd", "        for (int64_t j = 0; j < ${d}; j++) {" },
    row = "        ",
  },
  cuda = {
    lane = function(r) return r .. "_l" end,
    declare = function(r, op) return { fmt("    ${acc} %s_l = %s;", r, first_value[op]) } end,
    open = { "    for (int j = lane; j < ${d}; j += 32) {" },
    indent = "        ", close = { "    }" },
    finish = function(r, op)
      if op == "rsum" then return { fmt("    const ${acc} %s = rt_warp_sum(%s_l);", r, r) } end
      return { fmt("    const ${acc} %s = rt_shuffle(rt_warp_max_or_nan(%s_l), 0);", r, r) }
    end,
    last = { "    for (int j = lane; j < ${d}; j += 32) {" },
    row = "    ",
  },
}

local t -- formula_kernel.lua's helpers

-- Reads what some nodes need of an element, and the variables under them.
local function element(formula, reads, c, nodes, indent)
  local used, out = {}, {}
  for _, node in ipairs(formula.order(nodes, c.names)) do used[node.name or ""] = node.op == "in" end
  for _, x in ipairs(reads) do
    if used[x.name] then
      out[#out + 1] = fmt("%sconst ${acc} %s_j = ${ld(%s, %s)};", indent, x.name, x.operand.name,
                          t.quoted(t.plus(t.place(x), "j")))
    end
  end
  for _, v in ipairs(c.variables(nodes)) do
    out[#out + 1] = fmt("%sconst ${acc} %s = %s;", indent, v.name, v.text)
  end
  return out
end

-- The passes of a row, from its reductions to its outputs.
local function row(formula, program, outputs, target)
  local nodes, reads, stores = t.parts_of(formula, program, outputs)
  local known, out, count = t.writer(formula, "_j"), {}, 0
  for _, pass in ipairs(stages(formula, nodes)) do
    local of, names, c = {}, {}, t.writer(formula, "_j", known.names)
    for k, node in ipairs(pass.reductions) do
      count = count + 1
      of[k], names[k] = node[1], fmt("r%d", count)
      t.append(out, target.declare(names[k], node.op))
    end
    t.append(out, target.open)
    t.append(out, element(formula, reads, c, of, target.indent))
    for k, node in ipairs(pass.reductions) do
      local text, value = c.text(of[k]), names[k] .. "_j"
      if node.op == "rmax" then
        out[#out + 1] = fmt("%sconst ${acc} %s = %s;", target.indent, value, text)
        text = value
      end
      out[#out + 1] = target.indent .. joined(node.op, target.lane(names[k]), text)
    end
    t.append(out, target.close)
    for k, node in ipairs(pass.reductions) do
      t.append(out, target.finish(names[k], node.op))
      known.names[node] = names[k]
    end
    for _, v in ipairs(known.variables(pass.scalars, "s", true)) do
      out[#out + 1] = fmt("%sconst ${acc} %s = %s;", target.row, v.name, v.text)
    end
  end
  local c, indent = t.writer(formula, "_j", known.names), target.row .. "    "
  t.append(out, target.last)
  t.append(out, element(formula, reads, c, nodes, indent))
  for _, x in ipairs(stores) do
    out[#out + 1] = fmt("%s${st(%s, %s, %s)};", indent, x.operand.name,
                        t.quoted(t.plus(t.place(x), "j")), t.quoted(c.text(x.node)))
  end
  out[#out + 1] = target.row .. "}"
  return out, reads, stores
end

-- Where the row begins in each operand.
local function begins(reads, stores, indent)
  local sides, rows = t.parted(reads, stores)
  local out = {}
  if rows then out[1] = indent .. "const int64_t at = i * ${d};" end
  for _, o in ipairs(sides) do
    out[#out + 1] = fmt("%sconst int64_t %s_at = i * ${%d * d};", indent, o.name, #o.parts)
  end
  return out
end

local function cpu(formula, program, outputs)
  local passes, reads, stores = row(formula, program, outputs, targets.cpu)
  local out = { fmt("static void ${fn}(%s)", t.arguments(program, outputs)), "{" }
  t.append(out, t.unused(program, reads))
  t.append(out, { "#pragma omp parallel for schedule(static)",
                "    for (int64_t i = 0; i < ${t}; i++) {" })
  t.append(out, begins(reads, stores, "        "))
  t.append(out, passes)
  t.append(out, { "    }", "}" })
  return out
end

local function cuda(formula, program, outputs)
  local passes, reads, stores = row(formula, program, outputs, targets.cuda)
  local out = { "RT_GLOBAL(256)", fmt("${fn}(%s)", t.arguments(program, outputs)), "{" }
  t.append(out, t.unused(program, reads))
  t.append(out, { "    const int64_t i = (int64_t)blockIdx.x * 8 + threadIdx.x / 32; /* a warp each */",
                "    const int lane = threadIdx.x % 32;", "//@ if t % 8 ~= 0 then",
                "    if (i >= ${t})", "        return;", "//@ end" })
  t.append(out, begins(reads, stores, "    "))
  t.append(out, passes)
  out[#out + 1] = "}"
  t.append(out, t.launcher(program, outputs, "256", "${(t + 7) // 8}, 1"))
  return out
end

return function(helpers)
  t = helpers
  return cpu, cuda
end
