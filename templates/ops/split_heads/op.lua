-- SPDX-License-Identifier: Apache-2.0
-- split_heads: in rows of heads, a row for each token; out a row for each head and token, the
-- sequences of a head behind each other: [b, s, h, hd] becomes [b, h, s, hd]. The gradient is
-- merge_heads.
return op {
    arithmetic = 1,
    doc = "y[(b * heads + h) * seq + s] = head h of x[b * seq + s]",
    inputs = { { "x", "t c" } },
    attrs = { heads = "int", seq = { "int", from = "seq" } },
    outputs = {
        { "y", function(n) return { n.t * n.heads, n.c // n.heads } end, dtype = "x" },
    },
    axes = { t = "parallel", c = "parallel" },
    check = function(n)
        if n.heads < 1 or n.c % n.heads ~= 0 then
            return ("%d heads do not divide rows of %d"):format(n.heads, n.c)
        elseif n.seq < 1 or n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d positions"):format(n.t, n.seq)
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    backward = function(g, n, d)
        return { x = g.merge_heads { d.y, heads = n.heads, seq = n.seq } }
    end,
    reference = function(n)
        local hd = n.c // n.heads
        for i = 0, n.t - 1 do
            local b, s = i // n.seq, i % n.seq
            for h = 0, n.heads - 1 do
                local row = (b * n.heads + h) * n.seq + s
                for j = 1, hd do n.y[row * hd + j] = n.x[i * n.c + h * hd + j] end
            end
        end
    end,
    cases = function(r)
        local heads, seq = r(1, 5), r(1, 9)
        return { t = r(1, 3) * seq, seq = seq, heads = heads, c = heads * r(1, 40) }
    end,
}
