-- SPDX-License-Identifier: Apache-2.0
-- template_cuda.lua: helpers for the templates of CUDA kernels (templates/ops/NAME/cuda.cu), in
-- addition to template.lua's: how elements are distributed over threads. A thread accesses
-- `width` of them at once: 16 bytes if the length (a constant) and the dtype of x allow it.
--
-- In: the environment of a kernel. Out: these functions in it, and acc_bytes.
--
--   gemm(name, op, m, n, k, from, to, more)
--                   a `static RtMatmul name`, for rt_matmul; more: { lda = n }, if
--                   rows are not dense; of fp8, for rt_matmul_fp8: { b = operand B, fast = true
--                   where sums may have fewer bits than f32 }; { a_at = bytes }, b_at, c_at: the
--                   distance of the pointer to A, B or C from the start of an operand or of the
--                   workspace; if calls differ, a number that divides all of them. Without it, the
--                   pointer is an operand. The product states the alignment that follows
--   kernel(name, threads, shared_bytes)
--                   the `static RtKernel` of a kernel in this file
--   grid(cols, x)     one access per thread: threads of a block, blocks, whole (no
--                     thread is beyond cols)
--   row(cols, x, n, most)   a row held by a block, or by n of its threads: threads, warps,
--                     part (elements of a thread), whole; most: elements of an access
--   long_row(cols, x) a row too long for that: threads, warps
--   each_access(g)    the head of a loop over a thread's accesses to a row: its element `first` is column j
--   load("v", x, "at", g), store(y, "at", "v", g)
--                     calls (without ';') of rt_load, or rt_row_load for a row
--   ahead(g, x, blocks)  may blocks that take rows in turn fetch the next one during a row's sums?
--   first_rows(g, rows, each)
--                     before such a loop: what holds a block's next row, and the loads of its first one;
--                     rows: { { "v", x }, ... }, arrays and the operands that they get rows of; each:
--                     { { "r", rstd }, ... }, names of operands that have a number for each row
--   take_rows(g, blocks, t, rows, each)
--                     in it, for row i at `at` of t: the rows as numbers; the next ones' loads begin. The
--                     numbers in next_r of `each` were read before, and are then the next row's
--   inside(g, "k", e) e, or 0 if the row has no k-th element
--   width(n, x, most) elements of such an access; row_threads(n, most): threads that
--                   share n accesses evenly;
--                   row_lanes(cols, x): lanes of a warp that share a short row
--   access(what, x, g)  rt_row_what of a row, with its template arguments
--   oldest_key(fn, starts, window, chunk)
--                   the function that says which keys of attention a query sees
--   end_query(fn, starts, window, threads, chunk)
--                   the one that says which queries see a key, for blocks of so many threads
--   padded(fn, w, rows, cols, all, acc)
--                   the kernel FN_pad, which copies a matrix and puts rows of zeros below it until
--                   there are `all`; its blocks are all x grid(cols, w).blocks
--   tag(x)          the type by which rt_rows.h knows x's dtype
--   scale_kernel(fn, s, to, blocks)
--                   of the role "scale", or of `scale_of`: the kernel FN_scale, of 1024 threads, which
--                   finds s by the largest of each of so many blocks
--
-- They rest on runtime/cuda/rt_rows.h.

local fmt, concat = string.format, table.concat

local rt_dtype = { f32 = "RT_F32", f64 = "RT_F64", bf16 = "RT_BF16", f16 = "RT_F16",
                   e4m3 = "RT_E4M3", e5m2 = "RT_E5M2" }

-- Of an address `at` bytes, or a multiple of that, behind the start of a buffer; buffers begin at
-- multiples of `most`.
local function alignment(at, most)
  while (at or 0) % most ~= 0 do most = most // 2 end
  return most
end

local function matmul_table(env, name, op, m, n, k, from, to, more)
  more = more or {}
  local function align(at) return alignment(at or env.operand_at, env.buffer_align) end
  return fmt("static RtMatmul %s = {\n"
             .. "    .op = RT_%s, .m = %d, .n = %d, .k = %d, .lda = %d, .ldb = %d, .ldc = %d,\n"
             .. "    .in_dtype = %s, .out_dtype = %s,%s\n"
             .. "    .a_align_bytes = %d, .b_align_bytes = %d, .c_align_bytes = %d,\n};",
             name, op, m, n, k, more.lda or op == "TN" and m or k,
             more.ldb or op == "NT" and k or n, more.ldc or n,
             rt_dtype[from.dtype] or error("gemm: no products of " .. from.dtype, 2),
             rt_dtype[to.dtype] or error("gemm: no products into " .. to.dtype, 2),
             more.b and fmt(" .b_dtype = %s,%s", rt_dtype[more.b.dtype],
                               more.fast and " .fast = true," or "") or "",
             align(more.a_at), align(more.b_at), align(more.c_at))
end

local function kernel_table(name, threads, shared_bytes)
  local shared = (shared_bytes or 0) > 0 and fmt(", .shared_bytes = %d", shared_bytes) or ""
  return fmt('static RtKernel %s_kernel = {\n    .name = "%s",\n    .threads = %d%s,\n};',
             name, name, threads, shared)
end

local item_bytes = { f16 = 2, bf16 = 2, f32 = 4, f64 = 8, i32 = 4, e4m3 = 1, e5m2 = 1 }
local tags = { f16 = "RtF16", bf16 = "RtBf16", f32 = "RtF32", f64 = "RtF64" }

-- Elements per access: it divides the length, has at most 16 bytes, and at most `most` elements.
local function width(length, x, most)
  local n = math.min(16 // item_bytes[x.dtype], most or 16)
  while length % n ~= 0 do n = n // 2 end
  return n
end

-- Threads per block, at most `most`, that share `items` accesses evenly.
local function row_threads(items, most)
  local each = (items + most - 1) // most
  return ((items + each - 1) // each + 31) // 32 * 32
end

-- Lanes of a warp for a short row: a power of two.
local function row_lanes(cols, x)
  local lanes, items = 1, cols // width(cols, x)
  while lanes < items and lanes < 32 do lanes = 2 * lanes end
  return lanes
end

local function grid(cols, x)
  local n = width(cols, x)
  local threads = math.min(256, row_threads(cols // n, 256))
  local blocks = (cols // n + threads - 1) // threads
  return { width = n, threads = threads, blocks = blocks,
           whole = cols == blocks * threads * n }
end

-- most: elements of an access, where rows begin at odd places.
local function row(cols, x, threads, most)
  local n = width(cols, x, most)
  threads = threads or row_threads(cols // n, cols > 4096 and 512 or 256)
  local each = (cols // n + threads - 1) // threads
  return { cols = cols, width = n, threads = threads, warps = threads // 32,
           part = each * n, whole = cols == each * threads * n }
end

-- A thread keeps its part of the next row unconverted, in 8 registers for each operand. Blocks fetch it
-- where no fewer of them are on a multiprocessor, of 132, than without. A kernel then has at most 128
-- registers, or 96 if parts are short, and 80 or more without (ptxas of CUDA 13.0, norms' backward).
local function ahead(g, x, blocks)
  local registers, all = g.part > 8 and 128 or 96, 65536
  local together = (blocks + 131) // 132
  local alone = 2 * g.threads * 80 > all and g.threads * registers <= all
  return g.part * item_bytes[x.dtype] <= 32 and (alone or together * g.threads * registers <= all)
end

-- stride: elements between rows, cols by default.
local function long_row(cols, x, stride)
  local n = width(stride or cols, x)
  local threads = math.min(1024, ((cols + n - 1) // n + 31) // 32 * 32)
  return { cols = cols, width = n, threads = threads, warps = threads // 32 }
end

local function each_access(g)
  local inside = g.whole and "" or fmt("\n            if (j >= %d)\n                break;", g.cols)
  return "        RT_UNROLL\n"
    .. fmt("        for (int first = 0; first < %d; first += %d) {\n", g.part, g.width)
    .. fmt("            const int j = rt_row_col<%d, %d>(first);", g.threads, g.width) .. inside
end

local function access(what, x, g, acc)
  return fmt("rt_%s<%s>", g.cols and "row_" .. what or what, concat({
    tags[x.dtype] or error(what .. ": no accesses of " .. tostring(x.dtype), 3),
    g.cols or g.width, g.cols and g.threads, g.cols and g.width, acc }, ", "))
end

local function place(x, at)
  return at == "0" and x.name or x.name .. " + " .. at
end

local function oldest_key(fn, starts, window, chunk)
  local starts_in = starts and "const int32_t *starts, " or ""
  local first = starts and "starts[last]" -- of the document, or of the chunk
  if chunk > 0 then
    first = starts and "last - (last - starts[last]) % " .. chunk or fmt("last / %d * %d", chunk, chunk)
  end
  local body
  if first and window > 0 then
    body = fmt("    const int start = %s, seen = last + 1 - %d;\n", first, window)
      .. "    return start > seen ? start : seen;"
  elseif first then
    body = fmt("    return %s;", first)
  else
    body = fmt("    return last + 1 > %d ? last + 1 - %d : 0;", window, window)
  end
  return "/* The first key that a query sees; queries beyond the sequence use the last one's. */\n"
    .. fmt("RT_DEVICE int %s_oldest(%sint query)\n{\n", fn, starts_in)
    .. "    const int last = query < SEQ ? query : SEQ - 1;\n" .. body .. "\n}"
end

local function end_query(fn, starts, window, threads, chunk)
  local what = "/* The first query that does not see any key up to `key`" .. (starts
    and "; starts never decrease. */\n" or ". */\n")
  if not starts and chunk > 0 then
    local ends = fmt("    const int end = (key / %d + 1) * %d;\n", chunk, chunk)
    if window > 0 then -- the window may end before the chunk
      ends = fmt("    const int chunk = (key / %d + 1) * %d, seen = key + %d;\n", chunk, chunk, window)
        .. "    const int end = chunk < seen ? chunk : seen;\n"
    end
    return what .. fmt("RT_DEVICE int %s_end(int key)\n{\n", fn) .. ends
      .. "    return end < SEQ ? end : SEQ;\n}"
  elseif not starts then
    return what .. fmt("RT_DEVICE int %s_end(int key)\n{\n", fn)
      .. fmt("    return key + %d < SEQ ? key + %d : SEQ;\n}", window, window)
  end
  return what .. fmt("RT_DEVICE int %s_end(const int32_t *starts, int key, int *part)\n{\n", fn)
    .. fmt("    int n = 0;\n    for (int query = threadIdx.x; query < SEQ; query += %d)\n", threads)
    .. fmt("        n += %s_oldest(starts, query) <= key;\n", fn)
    .. fmt("    return rt_block_sum<%d>(n, part);\n}", threads)
end

local function padded(fn, w, rows, cols, all, acc)
  local g = grid(cols, w)
  local inside = g.whole and "" or fmt("    if (j >= %d)\n        return;\n", cols)
  return fmt("/* to[%d, %d]: %s, and zeros below. */\n", all, cols, w.name)
    .. fmt("RT_GLOBAL(%d)\n%s_pad(const %s *%s, %s *to)\n{\n", g.threads, fn, w.type, w.name, w.type)
    .. fmt("    const int j = (blockIdx.y * %d + threadIdx.x) * %d;\n", g.threads, g.width)
    .. fmt("    const int64_t at = (int64_t)blockIdx.x * %d + j;\n", cols) .. inside
    .. fmt("    %s v[%d] = {};\n    if (blockIdx.x < %d)\n", acc, g.width, rows)
    .. fmt("        %s(v, %s + at);\n    %s(to + at, v);\n}", access("load", w, g), w.name,
           access("store", w, g))
end

local function scale_kernel(fn, s, to, blocks)
  return fmt("/* s by the largest of each of %d blocks. */\n", blocks)
    .. fmt("RT_GLOBAL(1024)\n%s_scale(const int32_t *largest, %s *s)\n{\n", fn, s.type)
    .. "    RT_SHARED(int32_t, part, 32);\n"
    .. fmt("    const float scale = rt_fp8_scale_of<1024>(largest, %d, RT_%s_TOP, part);\n", blocks,
           to:upper())
    .. "    if (threadIdx.x == 0)\n        *s = scale;\n}"
end

local function fetch(x, at, g)
  return fmt("%s(next_%s, %s);", access("fetch", x, g), x.name, place(x, at))
end

local function first_rows(g, rows, each)
  local out, numbers = {}, {}
  for _, r in ipairs(rows) do
    local x = r[2]
    out[#out + 1] = fmt("    RtPack<%s, %d> next_%s[%d];", x.type, g.width, x.name, g.part // g.width)
  end
  for i, n in ipairs(each) do numbers[i] = fmt("next_%s = %s[blockIdx.x]", n[1], n[2].name) end
  out[#out + 1] = fmt("    %s %s;", each[1][2].type, concat(numbers, ", "))
  for _, r in ipairs(rows) do out[#out + 1] = "    " .. fetch(r[2], "(int64_t)blockIdx.x * " .. g.cols, g) end
  return concat(out, "\n")
end

local function take_rows(g, blocks, t, rows, each)
  local out = {}
  local function put(...) out[#out + 1] = "        " .. fmt(...) end
  for _, r in ipairs(rows) do put("%s(%s, next_%s);", access("unpack", r[2], g), r[1], r[2].name) end
  put("if (i + %d < %d) {", blocks, t)
  put("    const int64_t next = at + %d;", blocks * g.cols)
  for _, n in ipairs(each) do put("    next_%s = %s[i + %d];", n[1], n[2].name, blocks) end
  for _, r in ipairs(rows) do put("    %s", fetch(r[2], "next", g)) end
  put("}")
  return concat(out, "\n")
end

local helpers = {
  kernel = kernel_table,
  width = width, row_threads = row_threads, row_lanes = row_lanes, grid = grid, row = row,
  long_row = long_row, each_access = each_access, access = access, oldest_key = oldest_key,
  ahead = ahead, first_rows = first_rows, take_rows = take_rows,
  end_query = end_query, padded = padded, scale_kernel = scale_kernel,
  tag = function(x) return tags[x.dtype] end,
  load = function(v, x, at, g) return fmt("%s(%s, %s)", access("load", x, g), v, place(x, at)) end,
  store = function(y, at, v, g) return fmt("%s(%s, %s)", access("store", y, g), place(y, at), v) end,
  inside = function(g, k, e)
    if g.whole then return e end
    return fmt("rt_row_col<%d, %d>(%s) < %d ? %s : 0", g.threads, g.width, k, g.cols, e)
  end,
}

return function(env)
  env.acc_bytes = env.acc == "double" and 8 or 4
  env.gemm = function(...) return matmul_table(env, ...) end
  for name, f in pairs(helpers) do -- in any order; an operand or a dim keeps its name
    if env[name] == nil then env[name] = f end
  end
end
