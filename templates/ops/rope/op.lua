-- SPDX-License-Identifier: Apache-2.0
-- rope: in rows [heads q | kv_heads k | kv_heads v] and the table of rope_table; out
-- the rows with q and k rotated by their position, and v unchanged. Positions count from
-- the start of the sequence or, with starts, of the token's document. Halves are rotated
-- against each other, as in Hugging Face's checkpoints.
return op {
    arithmetic = 1,
    canonical = "rope",
    doc = "halves of q and k heads: (x1 cos - x2 sin, x2 cos + x1 sin)",
    inputs = {
        { "qkv", "t c" }, { "table", "s hd", class = "acc" },
        { "starts", "t", class = "i32", optional = true },
    },
    attrs = { heads = "int", kv_heads = "int", head_dim = "int", seq = "int" },
    outputs = { { "y", "t c", dtype = "qkv", alias = "qkv" } },
    axes = { t = "parallel", c = "parallel" },
    check = function(n)
        if n.head_dim < 2 or n.head_dim % 2 ~= 0 then return "head_dim must be even" end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
        if n.hd ~= n.head_dim or n.s ~= n.seq then
            return ("the table is for %d positions of %d, not %d of %d"):format(
                n.s, n.hd, n.seq, n.head_dim)
        end
        if n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d"):format(n.t, n.seq)
        end
    end,
    flops = function(n) return 3 * n.t * (n.heads + n.kv_heads) * n.head_dim end,
    backward = function(g, n, d)
        return {
            qkv = g.rope_bwd {
                d.y, n.table, n.starts, heads = n.heads, kv_heads = n.kv_heads,
                head_dim = n.head_dim, seq = n.seq,
            },
        }
    end,
    reference = function(n)
        local half = n.head_dim // 2
        for i = 0, n.t - 1 do
            for c = 1, n.c do n.y[i * n.c + c] = n.qkv[i * n.c + c] end
            local position = i % n.seq - (n.starts and n.starts[i + 1] or 0)
            local row = position * n.head_dim
            for h = 0, n.heads + n.kv_heads - 1 do
                for j = 1, half do
                    local at = i * n.c + h * n.head_dim + j
                    local cos, sin = n.table[row + j], n.table[row + half + j]
                    local x1, x2 = n.qkv[at], n.qkv[at + half]
                    n.y[at] = n.round("y", x1 * cos - x2 * sin)
                    n.y[at + half] = n.round("y", x2 * cos + x1 * sin)
                end
            end
        end
    end,
    cases = function(r)
        local kv, hd, s = r(1, 3), 2 * r(1, 20), r(1, 9)
        local h = kv * r(1, 3)
        return {
            t = s * r(1, 3), c = (h + 2 * kv) * hd, s = s, hd = hd,
            heads = h, kv_heads = kv, head_dim = hd, seq = s,
            inputs = function(n, r, make)
                return { starts = r(0, 1) == 1 and make.starts(n.t, n.seq) or nil }
            end,
        }
    end,
}
