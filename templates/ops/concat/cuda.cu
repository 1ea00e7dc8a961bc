//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- concat: a block for each row; an access divides the rows of all parts.
//@ local parts, at, cols = { a, b, c, d }, 0, y.elems // t
//@ local w, names, list = width(cols, y), {}, {}
//@ for i, part in ipairs(parts) do
//@     w = width(part.elems // t, y, w)
//@     names[i] = "&" .. part.name
//@     list[i] = "const " .. part.type .. " *" .. part.name
//@ end
//@ local signature = table.concat(list, ", ")
//@ local threads = row_threads(cols // w, 256)
RT_GLOBAL(${threads})
${fn}(${signature}, ${y.type} *y)
{
    const int64_t to = (int64_t)blockIdx.x * ${cols};
    for (int j = threadIdx.x * ${w}; j < ${cols}; j += ${threads * w}) {
//@ for i, part in ipairs(parts) do
//@     local n = part.elems // t
//@     local from = ("%s + (int64_t)blockIdx.x * %d + j - %d"):format(part.name, n, at)
//@     at = at + n
        ${i > 1 and "else " or ""}${i < #parts and "if (j < " .. at .. ")" or ""}
            rt_copy<${w}>(y + to + j, ${from});
//@ end
    }
}
//@ host
${kernel(fn, threads)}

/* y[${t}, ${cols}]: columns of ${table.concat(names, ", "):gsub("&", "")} */
static void ${fn}(Rt *rt, ${signature}, ${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1, (void *[]){ ${table.concat(names, ", ")}, &y });
}
