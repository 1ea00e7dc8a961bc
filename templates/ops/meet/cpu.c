//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- meet: reads what every part has, writes what part `part` needs. A sum is a balanced tree over
//@ -- the parts, in ${acc}, rounded once; so is the largest, or NaN if a part has one. The rest are
//@ -- copies of rows that are consecutive in both.
//@ -- Gradients are added to those of earlier micro-batches: beta is 1.
//@
//@ -- A cut dim, the whole of it, and its sections: where they begin in the whole (base) and in a
//@ -- part (at), and the size of a part's piece.
//@ local function cut(text)
//@     local dim, list = string.match(text, "^cut:(%d+):([%d+]+)%-?%d*$")
//@     local c = { dim = math.tointeger(tonumber(dim)), whole = 0 }
//@     for size in string.gmatch(list or "", "%d+") do
//@         size = math.tointeger(tonumber(size))
//@         c[#c + 1] = { base = c.whole, at = c.whole // parts, piece = size // parts }
//@         c.whole = c.whole + size
//@     end
//@     c.held = c.whole // parts
//@     return dim and c
//@ end
//@ local have, need = cut(from), cut(to)
//@ local shape = { table.unpack(x.shape) } -- of the whole
//@ if have then shape[have.dim] = have.whole end
//@ local function elems(first, last)
//@     local n = 1
//@     for d = first, last do n = n * shape[d] end
//@     return n
//@ end
//@ local function text(v) return v.name .. "[" .. table.concat(v.shape, ", ") .. "]" end
//@
//@ -- "at + 12 + q * 64", of terms that are text, numbers, { text, by }, or none; zeros are left out.
//@ local function sum_of(...)
//@     local list = {}
//@     for k = 1, select("#", ...) do
//@         local term = select(k, ...) or 0
//@         local times, by = table.unpack(type(term) == "table" and term or { tostring(term), 1 })
//@         if times ~= "0" and by ~= 0 then
//@             list[#list + 1] = by == 1 and times or times .. " * " .. by
//@         end
//@     end
//@     return #list > 0 and table.concat(list, " + ") or "0"
//@ end
//@
//@ -- The tree over parts first .. last of x[part][at]; a line has a few of them.
//@ local joins = from == "partial" or from == "largest"
//@ local most = joins and string.match(ld(x, "at"), "[(]") and 2 or 4
//@ local function tree(first, last, at, indent)
//@     if first == last then return ld({ name = "x[" .. first .. "]", dtype = x.dtype, type = x.type }, at) end
//@     local middle = (first + last) // 2
//@     if from == "largest" then
//@         return fn .. "_larger(" .. tree(first, middle, at) .. ", " .. tree(middle + 1, last, at) .. ")"
//@     end
//@     local function half(a, b)
//@         return a == b and tree(a, b, at) or "(" .. tree(a, b, at, indent .. " ") .. ")"
//@     end
//@     local gap = last - first >= most and "\n" .. indent or " "
//@     return half(first, middle) .. " +" .. gap .. half(middle + 1, last)
//@ end
//@
//@ -- Sums to all of a value, or to its pieces.
//@ local function sums()
//@ local all = { { base = 0, at = 0, piece = shape[1] }, dim = 1, whole = shape[1], held = shape[1] }
//@ local pieces = need or all
//@ local outer, inner = elems(1, pieces.dim - 1), elems(pieces.dim + 1, #shape)
//@ local indent, from_all = outer > 1 and "            " or "        ", {}
//@ for q = 0, parts - 1 do from_all[q + 1] = "from[" .. q .. "]" end
${call("    const " .. x.type .. " *const x[" .. parts .. "] = { ", from_all, " };")}
    ${y.type} *const y = to;

//@ for _, s in ipairs(pieces) do
//@ local piece = s.piece * inner
//@ local at = sum_of(outer > 1 and { "o", pieces.whole * inner }, s.base * inner, need and { "(int64_t)part", piece }, "i")
//@ local k = sum_of(outer > 1 and { "o", pieces.held * inner }, s.at * inner, "i")
#pragma omp parallel for schedule(static)
//@ if outer > 1 then
    for (int64_t o = 0; o < ${outer}; o++)
        for (int64_t i = 0; i < ${piece}; i++) {
//@ else
    for (int64_t i = 0; i < ${piece}; i++) {
//@ end
//@ if at ~= "i" then
${indent}const int64_t at = ${at};
//@ at = "at"
//@ end
//@ if k ~= "i" then
${indent}const int64_t k = ${k};
//@ k = "k"
//@ end
//@ local head = "const " .. acc .. " " .. (from == "partial" and "sum" or "largest") .. " = "
${indent}${head}${tree(0, parts - 1, at, indent .. string.rep(" ", #head))};
//@ if from == "largest" then
${indent}${st(y, k, "largest")};
//@ else
${indent}${st(y, k, "beta != 0 ? " .. ld(y, k) .. " + sum : sum")};
//@ end
//@ if outer > 1 then
        }
//@ else
    }
//@ end
//@ end
//@ end
//@
//@ -- Copies `count` rows of `run` elements, which lie a stride apart.
//@ local function rows(indent, y_at, y_stride, x_at, x_stride, run, count, inner)
//@ if count == 1 and inner > 1 then -- one long row: threads share it
//@     count, run, y_stride, x_stride = run // inner, inner, inner, inner
//@ end
//@ local function line(y_row, x_row)
//@     return call(fn .. "_row(", { sum_of("y", y_at, y_row), sum_of("x", x_at, x_row), tostring(run), "beta" }, ");")
//@ end
//@ if count > 1 then
#pragma omp parallel for schedule(static)
${indent}for (int64_t i = 0; i < ${count}; i++)
${(string.gsub(indent .. "    " .. line({ "i", y_stride }, { "i", x_stride }), "\n", "\n    " .. indent))}
//@ else
${(string.gsub(indent .. line(), "\n", "\n" .. indent))}
//@ end
//@ end
//@ local function pieces()
//@ local outer, inner = elems(1, need.dim - 1), elems(need.dim + 1, #shape)
    const ${x.type} *const x = from[0];
    ${y.type} *const y = to;

//@ for _, s in ipairs(need) do
//@ rows("    ", sum_of(s.at * inner), need.held * inner,
//@      sum_of(s.base * inner, { "(int64_t)part", s.piece * inner }), need.whole * inner,
//@      s.piece * inner, outer, inner)
//@ end
//@ end
//@ local function gathers()
//@ local outer, inner = elems(1, have.dim - 1), elems(have.dim + 1, #shape)
    ${y.type} *const y = to;

    for (int64_t q = 0; q < ${parts}; q++) {
        const ${x.type} *const x = from[q];

//@ for _, s in ipairs(have) do
//@ rows("        ", sum_of(s.base * inner, { "q", s.piece * inner }), have.whole * inner,
//@      sum_of(s.at * inner), have.held * inner, s.piece * inner, outer, inner)
//@ end
    }
//@ end
//@ -- One dim is cut differently than before; what is before both of them is a loop.
//@ local function turns()
//@ local first, second = math.min(have.dim, need.dim), math.max(have.dim, need.dim)
//@ local outer, middle, inner = elems(1, first - 1), elems(first + 1, second - 1), elems(second + 1, #shape)
    ${y.type} *const y = to;

//@ if outer > 1 then
    for (int64_t k = 0; k < ${parts * outer}; k++) {
        const int64_t q = k / ${outer}, o = k % ${outer};
//@ else
    for (int64_t q = 0; q < ${parts}; q++) {
//@ end
        const ${x.type} *const x = from[q];

//@ for _, a in ipairs(have) do
//@ for _, b in ipairs(need) do
//@ if have.dim < need.dim then
//@ local y_row, x_row = need.held * inner, need.whole * inner
//@ rows("        ", sum_of(outer > 1 and { "o", have.whole * middle * y_row },
//@                         a.base * middle * y_row + b.at * inner, { "q", a.piece * middle * y_row }), y_row,
//@      sum_of(outer > 1 and { "o", have.held * middle * x_row },
//@             a.at * middle * x_row + b.base * inner, { "(int64_t)part", b.piece * inner }), x_row,
//@      b.piece * inner, a.piece * middle, inner)
//@ else
//@ local y_row, x_row = have.whole * inner, have.held * inner
//@ rows("        ", sum_of(outer > 1 and { "o", need.held * middle * y_row },
//@                         b.at * middle * y_row + a.base * inner, { "q", a.piece * inner }), y_row,
//@      sum_of(outer > 1 and { "o", need.whole * middle * x_row },
//@             b.base * middle * x_row + a.at * inner, { "(int64_t)part", b.piece * middle * x_row }), x_row,
//@      a.piece * inner, b.piece * middle, inner)
//@ end
//@ end
//@ end
    }
//@ end
//@ if from == "largest" then
/* The larger of two, NaN if one is. */
RT_ALWAYS ${acc} ${fn}_larger(${acc} a, ${acc} b)
{
    return a > b || a != a ? a : b;
}

//@ end
//@ local fp8 = y.dtype == "e4m3" or y.dtype == "e5m2" -- no gradient
//@ if not joins then
/* n elements: copied${fp8 and "" or ", or added if beta is 1"}. */
${call("RT_ALWAYS void " .. fn .. "_row(", { y.type .. " *restrict y", "const " .. x.type .. " *restrict x", "int64_t n", "float beta" }, ")")}
{
//@ if fp8 then
    (void)beta;
    memcpy(y, x, (size_t)n * sizeof *y);
//@ else
    if (beta == 0) {
        memcpy(y, x, (size_t)n * sizeof *y);
        return;
    }
    for (int64_t j = 0; j < n; j++)
        ${st(y, "j", ld(y, "j") .. " + " .. ld(x, "j"))};
//@ end
}

//@ end
//@ if joins then
/* ${text(y)}: ${need and "part's piece of " or ""}the ${from == "partial" and "sum" or "largest"} of x[${table.concat(x.shape, ", ")}] over ${parts} parts */
//@ elseif not have then
/* ${text(y)}: part's piece of ${text(x)} */
//@ elseif not need then
/* ${text(y)}: all of the value of which each of ${parts} parts has a piece, ${text(x)} */
//@ else
/* ${text(y)}: part's piece along dim ${need.dim} of the value of which each of ${parts} parts has a piece along
 * dim ${have.dim}, ${text(x)} */
//@ end
static void ${fn}(int part, const void *const *from, void *to, float beta)
{
//@ if joins then
//@ sums()
//@ elseif not have then
//@ pieces()
//@ elseif not need then
//@ gathers()
//@ else
//@ turns()
//@ end
//@ if not need then
    (void)part;
//@ end
//@ if from == "largest" then
    (void)beta;
//@ end
}
