-- SPDX-License-Identifier: Apache-2.0
-- formula_sums.lua: kernels of formulas that also add up rows which they make, for CUDA. In: helpers of
-- formula_kernel.lua; a program and its outputs, some with sum_of. Out: lines of a template.
--
-- The sums have the order, and so the bits, of templates/ops/colsum/cuda.cu: a block takes some
-- columns of every chunks-th group of 8 rows, a warp a row at a time; the warps' sums are added in
-- order, then the chunks'. What is added is rounded to the dtype that the rows would be stored in.

local fmt, concat = string.format, table.concat

-- The kernel's body, from the arrays to the stores, for one access.
local function element(h, formula, program, outputs, sums)
  local nodes, reads, stores = h.parts_of(formula, program, outputs)
  local c = h.writer(formula, "_k[k]")
  local arrays, before, body, after = {}, {}, {}, {}
  for _, x in ipairs(reads) do
    arrays[#arrays + 1] = x.name .. "_k[${_g.width}]"
    before[#before + 1] = fmt('${load("%s_k", %s, %s, _g)};', x.name, x.operand.name,
                              x.operand.feature and '"j"' or h.quoted(h.place(x)))
  end
  for _, v in ipairs(c.variables(nodes)) do
    body[#body + 1] = fmt("const ${acc} %s = %s;", v.name, v.text)
  end
  for _, x in ipairs(stores) do
    if not x.operand.sum_of then
      arrays[#arrays + 1] = x.name .. "_k[${_g.width}]"
      body[#body + 1] = fmt("%s_k[k] = %s;", x.name, c.text(x.node))
      after[#after + 1] = fmt('${store(%s, %s, "%s_k", _g)};', x.operand.name, h.quoted(h.place(x)),
                              x.name)
    end
  end
  for _, o in ipairs(sums) do body[#body + 1] = fmt("%s_sum[k] += %s;", o.name, c.text(o.nodes[1])) end
  local lines, sides = { "            ${acc} " .. concat(arrays, ", ") .. ";" },
                       h.parted(reads, stores)
  for _, o in ipairs(sides) do
    table.insert(lines, 1, fmt("            const int64_t %s_at = i * ${%d * d} + j;", o.name, #o.parts))
  end
  for _, line in ipairs(before) do lines[#lines + 1] = "            " .. line end
  lines[#lines + 1] = "            for (int k = 0; k < ${_g.width}; k++) {"
  for _, line in ipairs(body) do lines[#lines + 1] = "                " .. line end
  lines[#lines + 1] = "            }"
  for _, line in ipairs(after) do lines[#lines + 1] = "            " .. line end
  return lines, reads
end

-- The sums of a block's warps, in order; number: of the sum, from 0.
local function of_block(o, number)
  return {
    number > 0 and "    rt_block_sync();" or "",
    "    for (int k = 0; k < ${_g.width}; k++)",
    fmt("        shared[threadIdx.x / 32 * ${_cols} + mine + k] = %s_sum[k];", o.name),
    "    rt_block_sync();",
    "    if (${_some}first + threadIdx.x < ${d}) {",
    "        ${acc} of_warps = shared[threadIdx.x];",
    "        for (int warp = 1; warp < 8; warp++)",
    "            of_warps += shared[warp * ${_cols} + threadIdx.x];",
    fmt("        part[%s * ${d} + first + threadIdx.x] = of_warps;",
        number > 0 and fmt("((int64_t)blockIdx.y + ${%d * _chunks})", number)
        or "(int64_t)blockIdx.y"),
    "    }",
  }
end

local function sum_kernel(o)
  return {
    "", "/* The sums of the chunks in order. */", "RT_GLOBAL(1024)",
    fmt("${fn}_sum(const ${acc} *part, ${%s.type} *%s, float beta)", o.name, o.name), "{",
    "    RT_SHARED(${acc}, shared, 1024);",
    "    const ${acc} sum = rt_column_sum(part, ${_chunks}, ${d}, shared);",
    "    const int j = blockIdx.x * 32 + threadIdx.x;", "    if (threadIdx.x < 32 && j < ${d})",
    fmt('        ${st(%s, "j", "(beta == 0 ? 0 : " .. ld(%s, "j") .. ") + sum")};', o.name, o.name),
    "}",
  }
end

local function host(h, program, outputs, rows, sums)
  local names, shown = {}, {}
  for _, o in ipairs(program.inputs) do names[#names + 1] = "&" .. o.name end
  for _, o in ipairs(rows) do
    names[#names + 1] = "&" .. o.name
    shown[#shown + 1] = fmt("%s[${t}, ${%d * d}]", o.name, o.parts and #o.parts or 1)
  end
  for _, o in ipairs(sums) do shown[#shown + 1] = o.name .. "[${d}]" end
  local lines = {
    "//@ host", "${kernel(fn, 256)}", '${kernel(fn .. "_sum", 1024)}', "",
    fmt("/* %s%s; part: sums of ${_chunks} chunks */", concat(shown, ", "), program.about),
    fmt("static void ${fn}(Rt *rt, %s, float beta,", h.arguments(program, outputs)),
    "    char *workspace)", "{",
    "    ${acc} *part = (${acc} *)(void *)workspace;",
    "    rt_launch(rt, &${fn}_kernel, ${(d + _cols - 1) // _cols}, ${_chunks},",
    fmt("              (void *[]){ %s, &part });", concat(names, ", ")),
  }
  for k, o in ipairs(sums) do
    if k > 1 then lines[#lines + 1] = "    part += ${_chunks * d};" end
    lines[#lines + 1] = "    rt_launch(rt, &${fn}_sum_kernel, ${(d + 31) // 32}, 1,"
    lines[#lines + 1] = fmt("              (void *[]){ &part, &%s, &beta });", o.name)
  end
  lines[#lines + 1] = "}"
  return lines
end

local function cuda_kernel(h, formula, program, outputs)
  local rows, sums, declared = {}, {}, {}
  for _, o in ipairs(outputs) do table.insert(o.sum_of and sums or rows, o) end
  local lines, reads = element(h, formula, program, outputs, sums)
  local arguments = h.arguments(program, rows)
  for _, o in ipairs(sums) do declared[#declared + 1] = o.name .. "_sum[${_g.width}] = {}" end
  local out = {
    fmt('//@ local _g = { width = width(d, { dtype = "%s" }) }', sums[1].sum_of),
    fmt("//@ local _cols, _chunks = 32 * _g.width, workspace // (%d * d * acc_bytes)", #sums),
    '//@ local _some = _cols < 256 and "threadIdx.x < " .. _cols .. " && " or ""',
    "RT_GLOBAL(256)", fmt("${fn}(%s,", arguments), "    ${acc} *part)", "{",
  }
  h.append(out, h.unused(program, reads))
  h.append(out, {
    "    RT_SHARED(${acc}, shared, ${8 * _cols});",
    "    const int first = blockIdx.x * ${_cols}, mine = threadIdx.x % 32 * ${_g.width};",
    "    const int j = first + mine;",
    "    ${acc} " .. concat(declared, ", ") .. ";",
    "    if (j < ${d}) {",
    "        for (int64_t i = blockIdx.y * 8 + threadIdx.x / 32; i < ${t}; i += ${8 * _chunks}) {",
    "            const int64_t at = i * ${d} + j;",
  })
  h.append(out, lines)
  h.append(out, { "        }", "    }" })
  for k, o in ipairs(sums) do
    for _, line in ipairs(of_block(o, k - 1)) do
      if line ~= "" then out[#out + 1] = line end
    end
  end
  out[#out + 1] = "}"
  h.append(out, sum_kernel(sums[1]))
  h.append(out, host(h, program, outputs, rows, sums))
  return out
end

return function(helpers)
  return function(formula, program, outputs)
    return cuda_kernel(helpers, formula, program, outputs)
  end
end
