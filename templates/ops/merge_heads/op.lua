-- SPDX-License-Identifier: Apache-2.0
-- merge_heads: in a row for each head and token, the sequences of a head behind each other; out
-- a row of heads for each token: [b, h, s, hd] becomes [b, s, h, hd]. The gradient is
-- split_heads.
return op {
    arithmetic = 1,
    doc = "head h of y[b * seq + s] = x[(b * heads + h) * seq + s]",
    inputs = { { "x", "r hd" } },
    attrs = { heads = "int", seq = { "int", from = "seq" } },
    outputs = {
        { "y", function(n) return { n.r // n.heads, n.heads * n.hd } end, dtype = "x" },
    },
    axes = { r = "parallel", hd = "parallel" },
    check = function(n)
        if n.heads < 1 or n.seq < 1 or n.r % (n.heads * n.seq) ~= 0 then
            return ("%d rows are not whole sequences of %d positions for %d heads"):format(
                n.r, n.seq, n.heads)
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    backward = function(g, n, d)
        return { x = g.split_heads { d.y, heads = n.heads, seq = n.seq } }
    end,
    reference = function(n)
        local c = n.heads * n.hd
        for i = 0, n.r // n.heads - 1 do
            local b, s = i // n.seq, i % n.seq
            for h = 0, n.heads - 1 do
                local row = (b * n.heads + h) * n.seq + s
                for j = 1, n.hd do n.y[i * c + h * n.hd + j] = n.x[row * n.hd + j] end
            end
        end
    end,
    cases = function(r)
        local heads, seq = r(1, 5), r(1, 9)
        return { r = r(1, 3) * seq * heads, seq = seq, heads = heads, hd = r(1, 40) }
    end,
}
