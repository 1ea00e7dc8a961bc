-- SPDX-License-Identifier: Apache-2.0
-- template.lua: the template engine of op kernels and of the trainer's files.
--
-- In: a template (C, a Makefile, Markdown: any text) and an environment table. Out: the
-- text. Why our own engine: a template reads like what it emits, and one template line is
-- one Lua line, so every error has the template's file and line.
--
--   //@ for i, p in ipairs(params) do     a control line: Lua, runs, prints nothing
--       x += ${p.name}[${i - 1}];         any other line: printed; ${expr} is Lua
--   //@ end
--   //@ prepare: rt_gemm_prepare(&${fn}_gemm);
--                                         a C statement passed to the caller, in order;
--                                         a kernel's runs once, in math_prepare()
--   //@ host                              what follows is host code; the text before it
--                                         is device code (cuda.cu of an op)
--   //@ local function row(p)             text inside a Lua function is printed when the
--       ${p.name}                         function is called: a template's parts
--   //@ end
--
-- ${expr} must be a string, or a whole number. nil is refused, and so is a fraction: write
-- lit(x) (a literal of the kernel's compute type) or real(x) (a double that reads back the
-- same). To print "${" itself write ${"${"}. Blanks at the ends of lines are dropped.
--
-- An environment holds what the caller put there, the functions of `base` below (no
-- `pairs`: output must not depend on a table's order), put(text), and, for kernels
-- (env.acc is "float" or "double"; an operand is {name, type, dtype, elems, shape}):
--   ld(x, "i")        C expression: x[i] converted to acc
--   st(y, "i", "v")   C statement without ';': y[i] = v rounded to y's dtype
--   rnd(y, "v")       C expression: v rounded to y's dtype, as acc
--   lit(n)            literal of type acc: lit(1e-5) -> 1e-05f
--   gemm(name, op, m, n, k, from, to)
--                     a `static const RtGemm name` of dense row-major matrices: op "NT",
--                     "NN" or "TN", from and to: the operands whose dtypes A, B and C
--                     have. Its output tiles are chosen here. On CUDA: an RtMatmul
--   kernel(name, threads, shared_bytes)
--                     CUDA: the `static RtKernel` of a kernel in this file, for rt_launch;
--                     it is prepared at start
--   capped_rows(...), capped_minus(...)
--                    see template_capped.lua; on CUDA also the functions of template_cuda.lua
-- They rest on runtime/rt_math.h: rt_f32_from_bf16(rt_bf16), rt_bf16_from_f32(float).

local template = {}

-- C sets these: load(text, name) compiles a chunk, or returns nil and a message; enter(chunk, env)
-- gives one its globals. The sandbox has no `load`.
template.load, template.enter = nil, nil
-- C sets these to the results of template_span.lua, template_cuda.lua and template_capped.lua.
template.span, template.cuda, template.capped = nil, nil, nil

local fmt, rep, sub = string.format, string.rep, string.sub
local find, byte = string.find, string.byte
local concat, math_type = table.concat, math.type

-- ---- values to text -------------------------------------------------------------------

local function str(v, expr, level) -- level: whose mistake it is, as error() counts
  local kind = math_type(v)
  if kind == "integer" then return fmt("%d", v) end
  if kind == "float" then
    if v == math.floor(v) and v > -2^53 and v < 2^53 then return fmt("%.0f", v) end
    error(fmt("${%s} is the fraction %.17g: use lit(...) or real(...)", expr, v), level or 2)
  end
  if type(v) == "string" then return v end
  error(fmt("${%s} is %s, not text or a whole number", expr, type(v) == "nil" and "nil"
            or "a " .. type(v)), level or 2)
end

-- A double literal that reads back exactly, as a double: 1 becomes 1.0. who: calls it for a template.
local function real(v, who)
  if not math_type(v) or v ~= v or v == math.huge or v == -math.huge then
    error((who or "real") .. ": not a finite number: " .. tostring(v), who and 3 or 2)
  end
  if v == math.floor(v) and v > -1e15 and v < 1e15 then return fmt("%.1f", v) end
  local s = fmt("%.17g", v)
  for digits = 1, 16 do -- the shortest text that reads back the same
    local short = fmt("%." .. digits .. "g", v)
    if tonumber(short) == v then s = short break end
  end
  return find(s, "[.e]") and s or s .. ".0"
end

local escapes = {
  ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r",
  ["?"] = "\\?", -- trigraphs
}

-- A C string literal. Bytes outside printable ASCII become three octal digits, which, unlike \x,
-- cannot absorb the next character.
local function cstr(s)
  return '"' .. string.gsub(s, '[\0-\31"\\?\127-\255]', function(c)
    return escapes[c] or fmt("\\%03o", byte(c))
  end) .. '"'
end

-- Text that is safe inside a C comment.
local function ctext(s)
  s = string.gsub(s, "[\0-\31\127-\255]", "?")
  s = string.gsub(s, "%*/", "* /")
  s = string.gsub(s, "/%*", "/ *")
  return (string.gsub(s, "%?%?", "? ?"))
end

local function left(s, width)  -- pads to the right: a left-aligned column
  s = str(s, "left(...)")
  return #s < width and s .. rep(" ", width - #s) or s
end

local function right(s, width) -- pads to the left: a column of numbers
  s = str(s, "right(...)")
  return #s < width and rep(" ", width - #s) .. s or s
end

local function plural(n, word) -- "1 gather", "2 gathers"
  return str(n, "plural(...)") .. " " .. word .. (n == 1 and "" or "s")
end

-- The largest f(row) over rows.
local function widest(rows, f)
  local w = 0
  for i = 1, #rows do w = math.max(w, #str(f(rows[i], i), "widest(...)")) end
  return w
end

-- A call or a declaration: head, the items with commas, tail. Broken at 90 columns and aligned
-- under the head's opening parenthesis or, if an item would not fit there, after it.
local function call(head, items, tail)
  local widest_item = 0
  for i = 1, #items do widest_item = math.max(widest_item, #items[i] + 1) end
  local under = #head + widest_item <= 90
  local indent = under and rep(" ", #head) or string.match(head, "^ *") .. rep(" ", 8)
  local lines, line = {}, head
  for i = 1, #items do
    local piece = items[i] .. (i < #items and "," or tail)
    local gap = i > 1 and line ~= indent and " " or ""
    if i > 1 and #line + #gap + #piece > 90 or i == 1 and not under then
      lines[#lines + 1] = line
      line, gap = indent, ""
    end
    line = line .. gap .. piece
  end
  if #items == 0 then line = head .. tail end
  lines[#lines + 1] = line
  return concat(lines, "\n")
end

-- A section heading of a C file, 90 columns wide.
local function section(title)
  return "/* ---- " .. title .. " " .. rep("-", 78 - #title) .. " */"
end

-- Code with its reason: after its last line at a column, or nearer, or above it, whichever fits in
-- 90 columns.
local function note(code, reason, column)
  if not reason or reason == "" then return code end
  local above, last = string.match("\n" .. code, "^(.*\n)([^\n]*)$")
  local comment = "/* " .. ctext(reason) .. " */"
  local room = 90 - #comment - 1
  if #last > room then
    return string.match(code, "^ *") .. comment .. "\n" .. code
  end
  return sub(above, 2) .. left(last, math.min(column or 0, room)) .. " " .. comment
end

-- Where the parenthesis that opens at `i` closes; nil if it does not.
local function closing(text, i)
  local depth = 0
  for at, c in string.gmatch(sub(text, i), "()([()])") do
    depth = depth + (c == "(" and 1 or -1)
    if depth == 0 then return i + at - 1 end
  end
end

-- Breaks and aligns function headings like `call`, because a template cannot know the length of its
-- kernel's name.
local function align_headings(text)
  local out, n, i = {}, 0, 1
  while true do
    -- at the start of a line: a heading, not a statement or a table
    local from, paren = find(text, "\n%a[%w_ *]*%(", i)
    if not from then break end
    local to = closing(text, paren)
    if to and sub(text, to + 1, to + 2) == "\n{" then
      local items = {}
      for item in string.gmatch(sub(text, paren + 1, to - 1), "[^,]+") do
        items[#items + 1] = string.match(string.gsub(item, "%s+", " "), "^ ?(.-) ?$")
      end
      n = n + 1
      out[n] = sub(text, i, from) .. call(sub(text, from + 1, paren), items, ")")
      i = to + 1
    else
      n = n + 1
      out[n] = sub(text, i, paren)
      i = paren + 1
    end
  end
  out[n + 1] = sub(text, i)
  return concat(out)
end

-- Splits at commas outside parentheses and brackets.
local function split_items(text)
  local items, depth, from = {}, 0, 1
  for at, c in string.gmatch(text, "()([][(),])") do
    if c == "(" or c == "[" then depth = depth + 1
    elseif c ~= "," then depth = depth - 1
    elseif depth == 0 then
      items[#items + 1] = sub(text, from, at - 1)
      from = at + 1
    end
  end
  items[#items + 1] = sub(text, from)
  for i, item in ipairs(items) do
    items[i] = string.match(string.gsub(item, "%s+", " "), "^ ?(.-) ?$")
  end
  return items
end

-- Breaks statements that are calls, `f(...);` or `x = f(...);`, and start with a line of more than
-- 90 columns, for the same reason.
local function align_calls(text)
  local out, i = {}, 1
  while true do
    local from, to = find(text, "[^\n]+", i)
    if not from then break end
    local line = sub(text, from, to)
    local head = #line > 90 and (string.match(line, "^ +[%a_][%w_]*%(")
                                 or string.match(line, "^ +[%a_][%w_]* = [%a_][%w_]*%("))
    local last = head and closing(text, from + #head - 1)
    if last and sub(text, last + 1, last + 1) == ";" then
      line = call(head, split_items(sub(text, from + #head, last - 1)), ");")
      to = last + 1
    end
    out[#out + 1] = sub(text, i, from - 1) .. line
    i = to + 1
  end
  out[#out + 1] = sub(text, i)
  return concat(out)
end

-- A kernel that other files call, too: its text (on CUDA: its launcher's) without `static`, and its
-- prototype.
local function kernel_shared(k)
  return (string.gsub("\n" .. (k.host or k.text), "\nstatic[inline ]* (void " .. k.fn .. "%()", "\n%1"))
end

-- Its heading, `void fn(...)`; nil if the op's template has none.
local function kernel_heading(k)
  return string.match(align_headings(kernel_shared(k)), "\n(void " .. k.fn .. "%b())")
end

local function kernel_prototype(k)
  return kernel_heading(k) .. ";"
end

local base = {
  ipairs = ipairs, tostring = tostring, tonumber = tonumber, type = type, error = error,
  assert = assert, select = select,
  cstr = cstr, ctext = ctext, real = real, left = left, right = right, widest = widest,
  plural = plural,
  call = call, note = note, section = section, align_headings = align_headings, align_calls = align_calls,
  kernel_prototype = kernel_prototype,
  kernel_shared = kernel_shared,
}

function base.span_function(s, result) return template.span(base, s, result) end

-- ---- kernels: operands to C -----------------------------------------------------------

local function operand(x, who)
  if type(x) ~= "table" or not x.type then
    error(who .. ": the first argument must be an operand, got " .. type(x), 4)
  end
  return x
end

-- Output tiles of a matrix product (runtime/rt_gemm.h). They are part of the numerics, so they are
-- chosen from the shape alone. Every tile packs its own slices of A and B, which costs in
-- proportion to 1/tile_m + 1/tile_n; this takes the cheapest cut that gives 8 threads two tiles
-- each, or one each if the product is small. All libraries handle these widths well (measured on
-- Zen 4, tests/bench/RESULTS.md: from 192 columns on within 5 % of the whole matrix in oneDNN, and
-- within 10 % in the built-in kernels; 96 and 64 cost up to 20 %). Rows are a multiple of 12, the
-- height of the built-in register block.
local tile_widths = { 768, 384, 192, 128, 64 }
local function gemm_tiles(m, n)
  local wanted = m * n >= 2^20 and 16 or 8
  local best_m, best_n, best = m, n, math.huge
  for _, width in ipairs(tile_widths) do
    local across = (n + width - 1) // width
    local tile_n = math.min(n, ((n + across - 1) // across + 31) // 32 * 32)
    local down = math.max((wanted + across - 1) // across, (m + 511) // 512)
    local tile_m = math.min(m, math.max(24, ((m + down - 1) // down + 11) // 12 * 12))
    local cost = 1 / tile_m + 1 / tile_n
    if cost < best then best_m, best_n, best = tile_m, tile_n, cost end
  end
  return best_m, best_n
end

local rt_dtype = { f32 = "RT_F32", f64 = "RT_F64", bf16 = "RT_BF16", f16 = "RT_F16" }
-- The fields of a product of dense matrices; tiles: only products on the CPU have them.
local function product_fields(op, m, n, k, from, to, tile_m, tile_n)
  local tiles = tile_m and fmt(".tile_m = %d, .tile_n = %d, ", tile_m, tile_n) or ""
  return fmt("    .op = RT_%s, .m = %d, .n = %d, .k = %d, .lda = %d, .ldb = %d, .ldc = %d,\n"
             .. "    %s.in_dtype = %s, .out_dtype = %s,\n",
             op, m, n, k, op == "TN" and m or k, op == "NT" and k or n, n, tiles,
             rt_dtype[from] or error("gemm: no products of " .. from, 3),
             rt_dtype[to] or error("gemm: no products into " .. to, 3))
end

local function gemm_table(name, op, m, n, k, from, to)
  local tile_m, tile_n = gemm_tiles(m, n)
  return fmt("static const RtGemm %s = { /* %d x %d tiles */\n%s};",
             name, (m + tile_m - 1) // tile_m, (n + tile_n - 1) // tile_n,
             product_fields(op, m, n, k, from.dtype, to.dtype, tile_m, tile_n))
end

-- An element of a table of products, RtGemm with tiles, else RtMatmul; p: form, m, n, k, from, to,
-- align (of all operands).
function base.product(p, tiled)
  local tile_m, tile_n
  if tiled then tile_m, tile_n = gemm_tiles(p.m, p.n) end
  local fields = product_fields(p.form, p.m, p.n, p.k, p.from, p.to, tile_m, tile_n)
  local align = "    .a_align_bytes = %d, .b_align_bytes = %d, .c_align_bytes = %d,\n"
  if not tiled then fields = fields .. fmt(align, p.align, p.align, p.align) end
  return "{\n" .. string.gsub(fields, "    (%C+)", "        %1") .. "    }"
end

-- Rows of the machine's register block (runtime/rt_simd.h) for n rows: its own number, or a smaller
-- one, down to half, that divides n.
local function block_rows(n)
  local function rows(most)
    for r = most, most // 2, -1 do
      if n % r == 0 then return r end
    end
    return most
  end
  return fmt("(RT_BLOCK_ROWS == 12 ? %d : RT_BLOCK_ROWS == 8 ? %d : RT_BLOCK_ROWS == 6 ? %d : %d)",
             rows(12), rows(8), rows(6), rows(4))
end

-- Optimizer state is rounded differently from other values of its dtype: bf16 state by the noise of
-- rt_noise, the weight of an f32 master so that the remainder fits 16 bits. Adds `noise(from, to)`,
-- the statements that draw the noise for elements [from, to) of the run, at most 4096 elements; ""
-- if no noise is needed. moments 0: the optimizer keeps none.
local noise_names = { master = "noise", moment1 = "noise1", moment2 = "noise2" }
local function optimizer_ways(env)
  local ways, noisy = {}, {}
  local master = env.master
  if not env.optimizer then return ways end
  for _, name in ipairs { "master", "moment1", "moment2" } do
    local x = env[name]
    if x and x.dtype == "bf16" then
      local bits = noise_names[name] .. (env.cuda and "[k / 2] >> k %% 2 * 16" or "[i - from]")
      ways[x] = { "rt_f32_from_bf16(%s)", fmt("rt_bf16_noisy(%%s, %s)", bits),
                  fmt("rt_f32_noisy(%%s, %s)", bits) }
      noisy[#noisy + 1] = name
    elseif x and x.dtype == "split" then
      ways[x] = { "%s", "rt_split_rest(%s)" }
    end
  end
  if master and (master.dtype == "f32" or master.dtype == "split")
     and env.param.dtype == "bf16" then
    ways[env.param] = { "rt_f32_from_bf16(%s)", "rt_bf16_from_master(%s)" }
  end
  -- Pointers to the kernel's operands: weights that are not their own master, the master, the
  -- moments, the gradient.
  function env.pointers(moments)
    local lines = {}
    local function add(const, name, field)
      lines[#lines + 1] = fmt("    %s%s *%s = run->%s;\n", const, env[name].type, name, field)
    end
    if env.param.dtype ~= master.dtype then add("", "param", "weights") end
    add("", "master", "master")
    for i = 1, moments do add("", "moment" .. i, "moment" .. i) end
    add("const ", "grad", "grad")
    return concat(lines)
  end
  function env.noise(from, to, moments)
    local lines, arrays, drawn = {}, {}, {}
    local words = env.cuda and "    uint32_t " or "        uint16_t "
    for _, name in ipairs(noisy) do
      if moments ~= 0 or name == "master" then drawn[#drawn + 1] = name end
    end
    for i, name in ipairs(drawn) do arrays[i] = noise_names[name] .. (env.cuda and "[4]" or "[4096]") end
    if #drawn > 0 then lines[1] = words .. concat(arrays, ", ") .. ";\n" end
    for _, name in ipairs(drawn) do
      lines[#lines + 1] = env.cuda
        and fmt("    rt_noise(u, RT_NOISE_%s, (element + at) / 8, stream, %s);\n",
                string.upper(name), noise_names[name]) or call("        rt_noise(", {
        "u", "run", "RT_NOISE_" .. string.upper(name), from, to .. " - " .. from,
        noise_names[name] }, ");") .. "\n"
    end
    return concat(lines)
  end
  return ways
end

-- Adds ld, st, rnd, lit and gemm for the compute type env.acc; gives operands their names.
function template.kernel_helpers(env)
  local acc = env.acc
  assert(acc == "float" or acc == "double", "kernel_helpers: acc must be float or double")
  for name, v in pairs(env) do -- in any order: each entry only learns its own name
    if type(v) == "table" and v.type and v.dtype and not v.name then v.name = name end
  end
  local from = { -- operand type -> how its values are converted to acc, and back
    rt_bf16 = acc == "float" and { "rt_f32_from_bf16(%s)", "rt_bf16_from_f32(%s)" }
              or { "(double)rt_f32_from_bf16(%s)", "rt_bf16_from_f32((float)(%s))" },
    rt_f16 = acc == "float" and { "rt_f32_from_f16(%s)", "rt_f16_from_f32(%s)" }
             or { "(double)rt_f32_from_f16(%s)", "rt_f16_from_f32((float)(%s))" },
    float = acc == "float" and { "%s", "%s" } or { "(double)%s", "(float)(%s)" },
    double = acc == "double" and { "%s", "%s" } or { "(float)%s", "(double)(%s)" },
    int32_t = { "%s", "%s" },
  }
  local ways = optimizer_ways(env)
  local function way(x, who)
    return ways[operand(x, who)] or from[x.type]
      or error(who .. ": unknown type " .. tostring(x.type), 3)
  end
  function env.ld(x, index)
    local w = way(x, "ld")
    index = str(index, "index", 3)
    if x.dtype == "split" then -- beside the weight whose remainder it is
      return fmt("rt_f32_from_split(%s[%s], %s[%s])", env.param.name, index, x.name, index)
    end
    return fmt(w[1], fmt("%s[%s]", x.name, index))
  end
  function env.st(y, index, value)
    return fmt("%s[%s] = ", y.name, str(index, "index", 3))
      .. fmt(way(y, "st")[2], str(value, "value", 3))
  end
  function env.rnd(y, value)
    local w = way(y, "rnd")
    value = str(value, "value", 3)
    if w[3] then return fmt(w[3], value) end
    if y.dtype == "split" then return fmt("(%s)", value) end
    if w[2] == "%s" then return fmt("(%s)", value) end
    return fmt(w[1], fmt(w[2], value))
  end
  function env.lit(n)
    local s = real(n, "lit") .. (acc == "float" and "f" or "")
    return n < 0 and "(" .. s .. ")" or s
  end
  env.gemm = gemm_table
  env.block_rows = block_rows
  if env.cuda then template.cuda(env) end
  if template.capped then template.capped(env, template.render) end
  return env
end

-- ---- templates to Lua -----------------------------------------------------------------

-- The end of the expression that starts at `i`: the '}' that closes it.
local function expr_end(line, i, where)
  local depth, n = 0, #line
  local start = i
  while i <= n do
    local c = sub(line, i, i)
    if c == '"' or c == "'" then
      local j = i + 1
      while j <= n and sub(line, j, j) ~= c do
        if sub(line, j, j) == "\\" then j = j + 1 end
        j = j + 1
      end
      i = j
    elseif c == "{" then
      depth = depth + 1
    elseif c == "}" then
      if depth == 0 then
        if not find(sub(line, start, i - 1), "%S") then
          error(where() .. "${} is empty", 0)
        end
        return i
      end
      depth = depth - 1
    end
    i = i + 1
  end
  error(where() .. "${ without its }", 0)
end

local function quote(s) -- a Lua string literal on one line
  s = string.gsub(s, '[\\"%c]', function(c) return fmt("\\%03d", byte(c)) end)
  return '"' .. s .. '"'
end

-- One text line -> one Lua expression.
local function text_line(line, ending, where)
  local parts, n, i = {}, 0, 1
  while true do
    local from = find(line, "${", i, true)
    if not from then break end
    local to = expr_end(line, from + 2, where)
    local expr = sub(line, from + 2, to - 1)
    if from > i then n = n + 1 parts[n] = quote(sub(line, i, from - 1)) end
    n = n + 1
    parts[n] = "_str((" .. expr .. ")," .. quote(expr) .. ")"
    i = to + 1
  end
  n = n + 1
  parts[n] = quote(sub(line, i) .. ending)
  return concat(parts, "..")
end

-- Lua source with the same line numbers.
function template.translate(text, file)
  local out, n, line_number = {}, 0, 0
  local function where() return fmt("%s:%d: ", file, line_number) end
  local i, size = 1, #text
  while i <= size do
    local nl = find(text, "\n", i, true)
    local line = sub(text, i, (nl or size + 1) - 1)
    line_number = line_number + 1
    local _, e = find(line, "^[ \t]*//@")
    n = n + 1
    if not e then
      out[n] = ";_put(" .. text_line(line, "\n", where) .. ")"
    else
      local code = sub(line, e + 1)
      local _, p = find(code, "^[ \t]*prepare:[ \t]*")
      if not p then _, p = find(code, "^[ \t]*setup:[ \t]*") end
      if find(code, "^[ \t]*host[ \t]*$") then code = ";_host()" end
      if p then
        out[n] = ";_prepare(" .. text_line(sub(code, p + 1), "", where) .. ")"
      else
        out[n] = code
      end
    end
    i = (nl or size) + 1
  end
  return "local _put,_prepare,_str,_host=_put,_prepare,_str,_host " .. concat(out, "\n")
end

-- Compiled templates by their text, because a kernel's template is rendered for many shapes.
local compiled = {}

local function compile(text, file)
  local source = compiled[text]
  if not source or source.file ~= file then
    local chunk, message = template.load(template.translate(text, file), "@" .. file)
    if not chunk then error(message, 0) end
    source = { file = file, chunk = chunk }
    compiled[text] = source
  end
  return source.chunk
end

local function copy(from)
  local to = {}
  for k, v in pairs(from) do to[k] = v end
  return to
end

-- Renders. Returns the text and the array of prepared statements, whose field `host` is the text
-- after `//@ host`, if any. Errors are strings that begin with "file:line: ".
function template.render(text, file, env)
  local chunk = compile(text, file)
  local out, n, prepared, host_from = {}, 0, {}, nil
  local all = {}
  for k, v in pairs(base) do all[k] = v end
  -- of its own, so that no template changes another's, or the engine's
  all.string, all.table, all.math = copy(string), copy(table), copy(math)
  for k, v in pairs(env) do all[k] = v end
  all._str = str
  all._put = function(s) n = n + 1 out[n] = s end
  all._prepare = function(s) prepared[#prepared + 1] = s end
  all._host = function()
    if host_from then error("//@ host twice", 2) end
    host_from = n
  end
  if env.kernel then
    all.kernel = function(name, ...)
      all._prepare(fmt("rt_kernel_prepare(&%s_kernel);", name))
      return env.kernel(name, ...)
    end
  end
  all.put = function(s) n = n + 1 out[n] = str(s, "put") end
  template.enter(chunk, all)
  chunk()
  if host_from then
    prepared.host = template.clean(concat(out, "", host_from + 1))
    out = table.move(out, 1, host_from, 1, {})
  end
  return template.clean(concat(out)), prepared
end

-- Removes blanks at the ends of lines.
function template.clean(text)
  if not find(text, "[ \t]\n") then return text end
  local out, n, i = {}, 0, 1
  for at, next_line in string.gmatch(text, "()[ \t]+\n()") do
    n = n + 1
    out[n] = sub(text, i, at - 1)
    i = next_line - 1
  end
  out[n + 1] = sub(text, i)
  return concat(out)
end

template.base = base
template.kernel_heading = kernel_heading
return template
