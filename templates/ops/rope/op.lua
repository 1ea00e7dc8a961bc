-- SPDX-License-Identifier: Apache-2.0
-- rope: in rows [heads q | kv_heads k | kv_heads v] and the table of rope_table; out
-- the rows with q and k rotated by their position, and v unchanged. Positions count from
-- the start of the sequence or, with starts, of the token's document. Halves are rotated
-- against each other, as in Hugging Face's checkpoints. rotary: only that many first
-- elements of a head turn (Phi); 0: all.

-- qkv with so many key and value heads, as attention reads it then.
local function repeated(g, n, copies)
    return g.repeat_heads { n.qkv, heads = n.heads, kv_heads = n.kv_heads, copies = copies }
end

return op {
    arithmetic = 1,
    canonical = "rope",
    doc = "halves of q and k heads: (x1 cos - x2 sin, x2 cos + x1 sin)",
    inputs = {
        { "qkv", "t c" }, { "table", "s hd", class = "acc" },
        { "starts", "t", class = "i32", optional = true },
    },
    attrs = {
        heads = "int", kv_heads = "int", head_dim = "int", seq = "int",
        rotary = { "int", 0, quiet = true },
    },
    outputs = { { "y", "t c", dtype = "qkv", alias = "qkv" } },
    axes = { t = "parallel", c = "parallel" },
    cuts = {
        t = { ordered = true }, -- whole sequences
        heads = {
            qkv = { 2, "heads", "kv_heads", "kv_heads" }, y = { 2, "heads", "kv_heads", "kv_heads" },
            attrs = { "heads", "kv_heads" }, repeats = { kv_heads = repeated },
        },
    },
    check = function(n)
        local turned = n.rotary > 0 and n.rotary or n.head_dim
        if turned < 2 or turned % 2 ~= 0 or turned > n.head_dim then
            return n.rotary == 0 and "head_dim must be even"
                or ("rotary must be even and at most head_dim (%d)"):format(n.head_dim)
        end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
        if n.hd ~= turned or n.s ~= n.seq then
            return ("the table is for %d positions of %d, not %d of %d"):format(
                n.s, n.hd, n.seq, turned)
        end
        if n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d"):format(n.t, n.seq)
        end
    end,
    flops = function(n) return 3 * n.t * (n.heads + n.kv_heads) * n.hd end,
    backward = function(g, n, d)
        return {
            qkv = g.rope_bwd {
                d.y, n.table, n.starts, heads = n.heads, kv_heads = n.kv_heads,
                head_dim = n.head_dim, seq = n.seq, rotary = n.rotary,
            },
        }
    end,
    reference = function(n)
        local half = n.hd // 2
        for i = 0, n.t - 1 do
            for c = 1, n.c do n.y[i * n.c + c] = n.qkv[i * n.c + c] end
            local position = i % n.seq - (n.starts and n.starts[i + 1] or 0)
            local row = position * n.hd
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
        local partly = hd > 2 and (h + s) % 3 == 2
        local turned = partly and 2 * (1 + s % (hd // 2 - 1)) or hd
        return {
            t = s * r(1, 3), c = (h + 2 * kv) * hd, s = s, hd = turned,
            heads = h, kv_heads = kv, head_dim = hd, seq = s,
            rotary = partly and turned or 0,
            inputs = function(n, r, make)
                return { starts = r(0, 1) == 1 and make.starts(n.t, n.seq) or nil }
            end,
        }
    end,
}
