//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- concat: rows of y are rows of its parts.
//@ local parts, at = { a, b, c, d }, 0
//@ local list = {}
//@ for i, part in ipairs(parts) do list[i] = "const " .. part.type .. " *restrict " .. part.name end
//@ local cols = y.elems // t
static void ${fn}(${table.concat(list, ",\n" .. string.rep(" ", 13 + #fn))},
             ${string.rep(" ", #fn)}${y.type} *restrict y)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < ${t}; i++) {
//@ for _, part in ipairs(parts) do
//@     local n = part.elems // t
        memcpy(y + i * ${cols}${at > 0 and " + " .. at or ""}, ${part.name} + i * ${n}, ${n} * sizeof *y);
//@     at = at + n
//@ end
    }
}
