//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- rope: y may be qkv. A block for each token; a thread turns parts of both halves of a head.
//@ local turns = rotary > 0 and rotary or head_dim -- elements of a head
//@ local half, turned = turns // 2, (heads + kv_heads) * head_dim
//@ local g = { width = width(half, qkv, width(head_dim, qkv)) }
//@ local lanes = half // g.width -- threads of a head
//@ local pairs = (heads + kv_heads) * lanes
//@ local threads = row_threads(pairs, 256)
//@ local v_width = width(c - turned, qkv, g.width)
//@ local starts_param = starts and "const int32_t *starts, " or ""
//@ local position = "blockIdx.x % " .. seq .. (starts and " - starts[blockIdx.x]" or "")
RT_GLOBAL(${threads})
${fn}(const ${qkv.type} *qkv, const ${table.type} *table, ${starts_param}${y.type} *y)
{
    const int position = ${position};
    const int64_t row = (int64_t)blockIdx.x * ${c}, angles = (int64_t)position * ${turns};
    for (int i = threadIdx.x; i < ${pairs}; i += ${threads}) {
        const int j = i % ${lanes} * ${g.width};
        const int64_t at = row + i / ${lanes} * ${head_dim} + j;
        ${acc} cosine[${g.width}], sine[${g.width}], x1[${g.width}], x2[${g.width}];
        ${load("cosine", table, "angles + j", g)};
        ${load("sine", table, "angles + " .. half .. " + j", g)};
        ${load("x1", qkv, "at", g)};
        ${load("x2", qkv, "at + " .. half, g)};
        for (int k = 0; k < ${g.width}; k++) {
            const ${acc} first = x1[k] * cosine[k] - x2[k] * sine[k];
            x2[k] = x2[k] * cosine[k] + x1[k] * sine[k];
            x1[k] = first;
        }
        ${store(y, "at", "x1", g)};
        ${store(y, "at + " .. half, "x2", g)};
    }
//@ if turns < head_dim then
//@   local rest = width(head_dim - turns, qkv, g.width)
//@   local parts = (head_dim - turns) // rest
    if (y != qkv) { /* the rest of each head as it is */
        for (int i = threadIdx.x; i < ${(heads + kv_heads) * parts}; i += ${threads}) {
            const int64_t at = row + i / ${parts} * ${head_dim} + ${turns} +
                               i % ${parts} * ${rest};
            rt_copy<${rest}>(y + at, qkv + at);
        }
    }
//@ end
    if (y != qkv) { /* v unchanged */
        for (int j = threadIdx.x * ${v_width}; j < ${c - turned}; j += ${threads * v_width})
            rt_copy<${v_width}>(y + row + ${turned} + j, qkv + row + ${turned} + j);
    }
}
//@ host
${kernel(fn, threads)}

/* y[${t}, ${c}]: q and k of qkv rotated by their position */
static void ${fn}(Rt *rt, const ${qkv.type} *qkv, const ${table.type} *table,
                  ${starts_param}${y.type} *y)
{
    rt_launch(rt, &${fn}_kernel, ${t}, 1,
              (void *[]){ &qkv, &table, ${starts and "&starts, " or ""}&y });
}
