//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- meet: a thread writes adjacent elements of what part `part` needs; those it reads are adjacent,
//@ -- too. A sum is a balanced tree over the parts, in ${acc}, rounded once; so is the largest, or NaN
//@ -- if a part has one. The rest are copies.
//@ -- Gradients are added to those of earlier micro-batches: beta is 1.
//@ -- Where a part needs only some of what each other one has, and it is not consecutive there, a kernel
//@ -- packs it for the part's rank, and another form of the first kernel reads such pieces.
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
//@ -- Columns are the last dim that is cut and all after it, rows the dims before. Of these a dim
//@ -- may be cut, too: `first`, with `middle` rows for each of its indices.
//@ local last = have and need and (have.dim > need.dim and have or need) or have or need
//@ local first = have and need and (have.dim < need.dim and have or need)
//@ local inner = last and elems(last.dim + 1, #shape) or 1
//@ local middle = first and elems(first.dim + 1, last.dim - 1) or 1
//@ local function scaled(c) return c == last and inner or 1 end
//@ local y_cols = last and (need == last and last.held or last.whole) * inner or y.elems
//@ local y_first = first and (need == first and first.held or first.whole)
//@ -- An access lies within a section.
//@ local g = { width = 16 // math.max(x.bytes // x.elems, y.bytes // y.elems) }
//@ while y.elems % g.width > 0 do g.width = g.width // 2 end
//@ for _, s in ipairs(last or {}) do
//@     while s.piece * inner % g.width > 0 do g.width = g.width // 2 end
//@ end
//@ local threads = 256
//@ local blocks = (y.elems // g.width + threads - 1) // threads
//@ local long = math.max(x.elems, y.elems) >= 2^30
//@ local int, wide = long and "int64_t" or "int", long and "(int64_t)" or ""
//@ local rows = first or y.elems > y_cols -- of `first` a part may need one
//@ -- Where index j of the whole, or of the piece, of a cut dim is in the other. What is packed has only what
//@ -- the part needs.
//@ local function take(c, j, packed, lines)
//@     local name, by = c == last and "x_col" or "x_index", scaled(c)
//@     if c == need then
//@         if packed then return j end
//@         if #c > 1 then return fn .. "_whole(part, " .. j .. ")" end
//@         return "part * " .. wide .. c[1].piece * by .. " + " .. j
//@     elseif #c > 1 then
//@         lines[1] = "    int q;"
//@         lines[2] = "    const " .. int .. " " .. name .. " = " .. fn .. "_piece(" .. j .. ", &q);"
//@         return name
//@     end
//@     lines[1] = "    const int q = " .. (long and "(int)(" .. j .. " / " .. c[1].piece * by .. ")" or j .. " / " .. c[1].piece * by) .. ";"
//@     return j .. " % " .. c[1].piece * by
//@ end
//@ -- Where the element is that `at` of y is made from, and lines that this takes.
//@ local function place_of(packed)
//@     local lines = {}
//@     if not last or packed and not have then return "at", lines end
//@     local x_cols = ((have == last or packed) and last.held or last.whole) * inner
//@     local x_first = first and ((have == first or packed) and first.held or first.whole)
//@     local place = take(last, rows and "col" or "at", packed, lines)
//@     local row = "row"
//@     if first then
//@         local index = middle > 1 and "row / " .. middle or "row"
//@         if first.dim > 1 then index = index .. " % " .. y_first end
//@         if index ~= "row" then index = "(" .. index .. ")" end
//@         row = take(first, index, packed, lines)
//@         if first.dim > 1 then row = "row / " .. middle * y_first .. " * " .. x_first .. " + " .. row end
//@         if middle > 1 then row = "(" .. row .. ") * " .. middle .. " + row % " .. middle end
//@         if row ~= "x_index" then row = "(" .. row .. ")" end
//@     end
//@     return rows and row .. " * " .. x_cols .. " + " .. place or place, lines
//@ end
//@ -- Where what a part needs is consecutive in what each has, it is sent from there.
//@ local consecutive = from ~= "whole" and need and #need == 1 and elems(1, need.dim - 1) == 1
//@ local packs = from ~= "whole" and need and not consecutive
//@ local piece = x.elems // parts -- if a part does not need all
//@ local piece_blocks = (piece // g.width + threads - 1) // threads
//@ if from ~= "whole" then
/* What each part has. */
struct ${fn}_from {
    const ${x.type} *of[${parts}];
};

//@ end
//@ local joins = from == "partial" or from == "largest"
//@ if joins then
/* The ${from == "partial" and "sum" or "largest"} of `n` parts from `first` on. */
template <int first, int n>
RT_DEVICE void ${fn}_tree(${acc} *sum, const ${fn}_from &from, ${int} at)
{
    if constexpr (n == 1) {
        ${access("load", x, g)}(sum, from.of[first] + at);
    } else {
        ${acc} other[${g.width}];
        ${fn}_tree<first, n / 2>(sum, from, at);
        ${fn}_tree<first + n / 2, n / 2>(other, from, at);
        for (int k = 0; k < ${g.width}; k++)
//@ if from == "largest" then
            sum[k] = sum[k] > other[k] || sum[k] != sum[k] ? sum[k] : other[k];
//@ else
            sum[k] += other[k];
//@ end
    }
}

//@ end
//@ if need and #need > 1 then
/* Where a part's ${need == last and "column" or "index"} is in the whole. */
RT_DEVICE ${int} ${fn}_whole(int part, ${int} j)
{
//@ for i, s in ipairs(need) do
//@ local by, shift = scaled(need), s.base > s.at and (s.base - s.at) * scaled(need) .. " + " or ""
//@ if i < #need then
    if (j < ${(s.at + s.piece) * by})
        return ${shift}part * ${wide}${s.piece * by} + j;
//@ else
    return ${shift}part * ${wide}${s.piece * by} + j;
//@ end
//@ end
}

//@ end
//@ if have and #have > 1 then
/* Which part has ${have == last and "a column" or "an index"} of the whole, and where. */
RT_DEVICE ${int} ${fn}_piece(${int} j, int *q)
{
//@ for i, s in ipairs(have) do
//@ local by = scaled(have)
//@ local after = s.base > 0 and "(j - " .. s.base * by .. ")" or "j"
//@ local indent = i < #have and "        " or "    "
//@ if i < #have then
    if (j < ${have[i + 1].base * by}) {
//@ end
${indent}*q = ${long and "(int)(" .. after .. " / " .. s.piece * by .. ")" or after .. " / " .. s.piece * by};
${indent}return ${s.at > 0 and s.at * by .. " + " or ""}${after} % ${s.piece * by};
//@ if i < #have then
    }
//@ end
//@ end
}

//@ end
//@ local function print_kernel(name, packed)
//@ local place, lines = place_of(packed)
RT_GLOBAL(${threads})
${name}(const ${from == "whole" and x.type .. " *x" or fn .. "_from from"}, int part, ${y.type} *y, float beta)
{
    const ${int} at = (${wide}blockIdx.x * ${threads} + threadIdx.x) * ${g.width};
//@ if y.elems ~= blocks * threads * g.width then
    if (at >= ${y.elems})
        return;
//@ end
//@ if last and rows and place ~= "at" then
    const ${int} row = at / ${y_cols}, col = at % ${y_cols};
//@ end
//@ for _, line in ipairs(lines) do
${line}
//@ end
//@ if joins then
    ${acc} sum[${g.width}];
    ${fn}_tree<0, ${parts}>(sum, from, ${place});
    if (beta != 0) {
        ${acc} old[${g.width}];
        ${load("old", y, "at", g)};
        for (int k = 0; k < ${g.width}; k++)
            sum[k] += old[k];
    }
    ${store(y, "at", "sum", g)};
//@ else
//@ if have then -- an index in a register would put of[] into local memory
    const ${x.type} *of_part = from.of[0];
    RT_UNROLL
    for (int k = 1; k < ${parts}; k++)
        of_part = k == q ? from.of[k] : of_part;
//@ if place ~= "at" then
    of_part += ${place};
//@ end
//@ else
    const ${x.type} *of_part = x + ${place};
//@ end
//@ if y.dtype == "i32" or y.dtype == "e4m3" or y.dtype == "e5m2" then -- no gradient
    rt_copy<${g.width}>(y + at, of_part);
//@ else
    if (beta != 0) {
        ${acc} sum[${g.width}], old[${g.width}];
        ${access("load", x, g)}(sum, of_part);
        ${load("old", y, "at", g)};
        for (int k = 0; k < ${g.width}; k++)
            sum[k] += old[k];
        ${store(y, "at", "sum", g)};
    } else {
        rt_copy<${g.width}>(y + at, of_part);
    }
//@ end
//@ end
}
//@ end
//@ print_kernel(fn, false)
//@ if packs then
//@ -- Dims behind the needed one, of which x may have a piece.
//@ local behind = elems(need.dim + 1, #shape) // (have and have.dim > need.dim and parts or 1)
//@ local cols, by = need.held * behind, need == last and 1 or behind
//@ local column = need[2] and fn .. "_whole(part, " .. (by == 1 and "col)" or "col / " .. by .. ") * " .. by .. " + col % " .. by)
//@     or "part * " .. wide .. need[1].piece * behind .. " + col"

/* What each part needs of what x has, part after part. */
RT_GLOBAL(${threads})
${fn}_pack(const ${x.type} *x, ${x.type} *to)
{
    const int part = blockIdx.y;
    const ${int} at = (${wide}blockIdx.x * ${threads} + threadIdx.x) * ${g.width};
//@ if piece ~= piece_blocks * threads * g.width then
    if (at >= ${piece})
        return;
//@ end
    const ${int} row = at / ${cols}, col = at % ${cols};
    rt_copy<${g.width}>(to + (int64_t)part * ${piece} + at, x + row * ${wide}${need.whole * behind} + ${column});
}

/* From what was packed. */
//@ print_kernel(fn .. "_packed", true)
//@ end
//@ host
${kernel(fn, threads)}
//@ if packs then
${kernel(fn .. "_pack", threads)}
${kernel(fn .. "_packed", threads)}
//@ end

static const RtMeet ${fn}_meet = {
    .kernel = &${fn}_kernel,
    .blocks = ${blocks},
//@ if from ~= "whole" then
    .bytes = ${x.bytes},
//@ end
//@ if packs or consecutive then
    .piece_bytes = ${piece * (x.bytes // x.elems)},
//@ end
//@ if packs then
    .pack = &${fn}_pack_kernel,
    .packed = &${fn}_packed_kernel,
    .pack_blocks = ${piece_blocks},
//@ end
};

static void ${fn}(RtParts *parts, const RtAlong *along, float beta, int n)
{
    rt_meet_on_device(parts, along, &${fn}_meet, beta, n);
}
