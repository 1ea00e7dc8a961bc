-- SPDX-License-Identifier: Apache-2.0
-- rope_bwd: in the gradient of rotated rows and the table of rope_table; out the
-- gradient of the original rows. The inverse of a rotation is its transpose, so the sines
-- change sign.
return op {
    arithmetic = 1,
    canonical = "rope_bwd",
    doc = "halves of q and k heads: (d1 cos + d2 sin, d2 cos - d1 sin)",
    inputs = {
        { "dy", "t c" }, { "table", "p hd", class = "acc" },
        { "starts", "t", class = "i32", optional = true },
    },
    attrs = {
        heads = "int", kv_heads = "int", head_dim = "int", seq = "int",
        rotary = { "int", 0, quiet = true },
    },
    outputs = { { "dx", "t c", dtype = "dy", alias = "dy" } },
    axes = { t = "parallel", c = "parallel" },
    cuts = {
        t = { ordered = true }, -- whole sequences
        heads = {
            dy = { 2, "heads", "kv_heads", "kv_heads" }, dx = { 2, "heads", "kv_heads", "kv_heads" },
            attrs = { "heads", "kv_heads" },
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
        if n.hd ~= turned or n.p ~= n.seq then
            return ("the table is for %d positions of %d, not %d of %d"):format(
                n.p, n.hd, n.seq, turned)
        end
        if n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d"):format(n.t, n.seq)
        end
    end,
    scale_of = { dx = function(n) return n.t end },
    flops = function(n) return 3 * n.t * (n.heads + n.kv_heads) * n.hd end,
    reference = function(n)
        local half = n.hd // 2
        for i = 0, n.t - 1 do
            for c = 1, n.c do n.dx[i * n.c + c] = n.dy[i * n.c + c] end
            local position = i % n.seq - (n.starts and n.starts[i + 1] or 0)
            local row = position * n.hd
            for h = 0, n.heads + n.kv_heads - 1 do
                for j = 1, half do
                    local at = i * n.c + h * n.head_dim + j
                    local cos, sin = n.table[row + j], n.table[row + half + j]
                    local d1, d2 = n.dy[at], n.dy[at + half]
                    n.dx[at] = n.round("dx", d1 * cos + d2 * sin)
                    n.dx[at + half] = n.round("dx", d2 * cos - d1 * sin)
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
            t = s * r(1, 3), c = (h + 2 * kv) * hd, p = s, hd = turned,
            heads = h, kv_heads = kv, head_dim = hd, seq = s,
            rotary = partly and turned or 0,
            inputs = function(n, r, make)
                return { starts = r(0, 1) == 1 and make.starts(n.t, n.seq) or nil }
            end,
        }
    end,
}
