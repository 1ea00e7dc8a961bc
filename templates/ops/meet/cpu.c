//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- meet: reads what every part has, writes what part `part` needs. A sum is a balanced tree over
//@ -- the parts, in ${acc}, rounded once. The rest are copies of rows that are consecutive in both.
//@ -- Gradients are added to those of earlier micro-batches: beta is 1.
//@ local function cut(text) -- its dim, the whole of it, and its sections: where they begin, in all
//@     local dim, list = string.match(text, "^cut:(%d+):([%d+]+)$") -- parts and in one, and a piece
//@     local c = { dim = math.tointeger(tonumber(dim)), whole = 0 }
//@     for size in string.gmatch(list or "", "%d+") do
//@         size = math.tointeger(tonumber(size))
//@         c[#c + 1] = { base = c.whole, at = c.whole // parts, piece = size // parts }
//@         c.whole = c.whole + size
//@     end
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
//@ local item = y.bytes // y.elems
//@ local narrow = (y.dtype == "bf16" or y.dtype == "f16") and y.dtype
//@ local function tree(first, last)
//@     local middle = (first + last) // 2
//@     if first < last then return "(" .. tree(first, middle) .. " + " .. tree(middle + 1, last) .. ")" end
//@     return narrow and "rt_f32_from_" .. narrow .. "(x[" .. first .. "][at + i])" or "x[" .. first .. "][at + i]"
//@ end
//@ -- Sums to all of a value, or to its pieces.
//@ local function sums()
//@ local pieces = need or { { base = 0, at = 0, piece = shape[1] }, dim = 1, whole = shape[1] }
//@ local outer, inner = elems(1, pieces.dim - 1), elems(pieces.dim + 1, #shape)
//@ local held = need and need.whole // parts or pieces.whole
    const ${y.type} *x[${parts}];

    for (int q = 0; q < ${parts}; q++)
        x[q] = from[q];
//@ for _, s in ipairs(pieces) do
    for (int64_t o = 0; o < ${outer}; o++) {
        const int64_t at = o * ${pieces.whole * inner} + ${s.base * inner}${need and " + part * INT64_C(" .. s.piece * inner .. ")" or ""};
        ${y.type} *const out = y + o * ${held * inner} + ${s.at * inner};
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < ${s.piece * inner}; i++) {
            const ${acc} sum = ${tree(0, parts - 1)};
//@ if narrow then
            out[i] = rt_${narrow}_from_f32(beta != 0 ? rt_f32_from_${narrow}(out[i]) + sum : sum);
//@ else
            out[i] = beta != 0 ? out[i] + sum : sum;
//@ end
        }
    }
//@ end
//@ end
//@ -- "base + 12 + q * 64": what is 0 left out.
//@ local function plus(base, ...)
//@     for _, term in ipairs { ... } do
//@         local by, size = term[1], term[2]
//@         if size ~= 0 and by then base = base .. " + " .. (by == 1 and size or by .. " * " .. size) end
//@     end
//@     return base
//@ end
//@ -- Copies or adds `count` rows of `run` elements; rows are a stride apart. Only floats are added.
//@ local dtypes = { f64 = "RT_F64", bf16 = "RT_BF16", f16 = "RT_F16" }
//@ local function rows(indent, y_at, y_stride, x_at, x_stride, run, count)
//@ local args = { y_at, item * y_stride, x_at, item * x_stride, item * run, count,
//@                dtypes[y.dtype] or "RT_F32", "beta" }
//@ for i, v in ipairs(args) do args[i] = tostring(v) end
//@ local lines = call(indent .. "rt_meet_rows(", args, ");")
${lines}
//@ end
//@ local function pieces()
//@ local outer, inner = elems(1, need.dim - 1), elems(need.dim + 1, #shape)
    const ${x.type} *const x = from[0];

//@ for _, s in ipairs(need) do
//@ rows("    ", plus("y", { 1, s.at * inner }), need.whole // parts * inner,
//@      plus("x", { 1, s.base * inner }, { "(int64_t)part", s.piece * inner }), need.whole * inner, s.piece * inner, outer)
//@ end
//@ end
//@ local function gathers()
//@ local outer, inner = elems(1, have.dim - 1), elems(have.dim + 1, #shape)
    for (int64_t q = 0; q < ${parts}; q++) {
        const ${x.type} *const x = from[q];

//@ for _, s in ipairs(have) do
//@ rows("        ", plus("y", { 1, s.base * inner }, { "q", s.piece * inner }), have.whole * inner,
//@      plus("x", { 1, s.at * inner }), have.whole // parts * inner, s.piece * inner, outer)
//@ end
    }
//@ end
//@ -- One dim is cut differently than before; what is before both of them is a loop.
//@ local function turns()
//@ local first, second = math.min(have.dim, need.dim), math.max(have.dim, need.dim)
//@ local outer, middle, inner = elems(1, first - 1), elems(first + 1, second - 1), elems(second + 1, #shape)
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
//@ local y_row, x_row = need.whole // parts * inner, need.whole * inner
//@ rows("        ", plus("y", { outer > 1 and "o", have.whole * middle * y_row }, { 1, a.base * middle * y_row + b.at * inner }, { "q", a.piece * middle * y_row }), y_row,
//@      plus("x", { outer > 1 and "o", have.whole // parts * middle * x_row }, { 1, a.at * middle * x_row + b.base * inner }, { "part", b.piece * inner }), x_row, b.piece * inner, a.piece * middle)
//@ else
//@ local y_row, x_row = have.whole * inner, have.whole // parts * inner
//@ rows("        ", plus("y", { outer > 1 and "o", need.whole // parts * middle * y_row }, { 1, b.at * middle * y_row + a.base * inner }, { "q", a.piece * inner }), y_row,
//@      plus("x", { outer > 1 and "o", need.whole * middle * x_row }, { 1, b.base * middle * x_row + a.at * inner }, { "(int64_t)part", b.piece * middle * x_row }), x_row, a.piece * inner, b.piece * middle)
//@ end
//@ end
//@ end
    }
//@ end
static void ${fn}(int part, const void *const *from, void *to, float beta)
{
    ${y.type} *const y = to;
//@ if from == "partial" then
//@ sums()
//@ elseif not have then
//@ pieces()
//@ elseif not need then
//@ gathers()
//@ else
//@ turns()
//@ end
    (void)part, (void)beta;
}
