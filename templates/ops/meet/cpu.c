//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- meet: reads what every part has, writes what part `part` needs. A sum is a balanced tree over
//@ -- the parts, in ${acc}, rounded once. The rest are copies of rows that are consecutive in both.
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
        ${y.type} *const out = (${y.type} *)to + o * ${held * inner} + ${s.at * inner};
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
//@ -- Copies: `rows` rows of `run` elements, from `from` and to `to`, each a stride apart.
//@ local function rows(source, to_at, to_stride, from_at, from_stride, run, count)
    rt_meet_rows((char *)to + ${item} * (${to_at}), ${item * to_stride},
                 (const char *)${source} + ${item} * (${from_at}), ${item * from_stride},
                 ${item * run}, ${count});
//@ end
//@ local function pieces()
//@ local outer, inner = elems(1, need.dim - 1), elems(need.dim + 1, #shape)
//@ for _, s in ipairs(need) do
//@ rows("from[0]", s.at * inner, need.whole // parts * inner,
//@      s.base * inner .. " + part * INT64_C(" .. s.piece * inner .. ")", need.whole * inner, s.piece * inner, outer)
//@ end
//@ end
//@ local function gathers()
//@ local outer, inner = elems(1, have.dim - 1), elems(have.dim + 1, #shape)
    for (int q = 0; q < ${parts}; q++) {
//@ for _, s in ipairs(have) do
//@ rows("from[q]", s.base * inner .. " + q * INT64_C(" .. s.piece * inner .. ")", have.whole * inner,
//@      s.at * inner, have.whole // parts * inner, s.piece * inner, outer)
//@ end
    }
//@ end
//@ local function turns()
//@ local first, second = math.min(have.dim, need.dim), math.max(have.dim, need.dim)
//@ local outer, middle, inner = elems(1, first - 1), elems(first + 1, second - 1), elems(second + 1, #shape)
    for (int64_t k = 0; k < ${parts * outer}; k++) {
        const int64_t q = k / ${outer}, o = k % ${outer};
//@ for _, a in ipairs(have) do
//@ for _, b in ipairs(need) do
//@ local mine = (b.base * inner) .. " + part * INT64_C(" .. b.piece * inner .. ")"
//@ local theirs = (a.base * inner) .. " + q * " .. a.piece * inner
//@ if have.dim < need.dim then
//@ local to_row, from_row = need.whole // parts * inner, need.whole * inner
//@ rows("from[q]", "(o * " .. have.whole .. " + " .. a.base .. " + q * " .. a.piece .. ") * " .. middle * to_row .. " + " .. b.at * inner, to_row,
//@      "(o * " .. have.whole // parts .. " + " .. a.at .. ") * " .. middle * from_row .. " + " .. mine, from_row, b.piece * inner, a.piece * middle)
//@ else
//@ local to_row, from_row = have.whole * inner, have.whole // parts * inner
//@ rows("from[q]", "(o * " .. need.whole // parts .. " + " .. b.at .. ") * " .. middle * to_row .. " + " .. theirs, to_row,
//@      "(o * " .. need.whole .. " + " .. b.base .. " + part * INT64_C(" .. b.piece .. ")) * " .. middle * from_row .. " + " .. a.at * inner, from_row, a.piece * inner, b.piece * middle)
//@ end
//@ end
//@ end
    }
//@ end
static void ${fn}(int part, const void *const *from, void *to, float beta)
{
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
