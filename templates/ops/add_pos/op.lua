-- SPDX-License-Identifier: Apache-2.0
-- add_pos: in activations and learned position rows; out their sum. Row i of the
-- micro-batch has position i mod seq in its sequence or, with starts, its position in its
-- document. The table may have more rows than there are positions.
return op {
    arithmetic = 1,
    canonical = "add_pos",
    doc = "y[i] = x[i] + w[i mod seq]",
    inputs = {
        { "x", "t d" }, { "w", "p d" }, { "starts", "t", class = "i32", optional = true },
    },
    attrs = { seq = "int" },
    outputs = { { "y", "t d", dtype = "x", alias = "x" } },
    axes = { t = "parallel", d = "parallel" },
    cuts = { t = { ordered = true }, d = {} },
    check = function(n)
        if n.seq < 1 or n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d positions"):format(n.t, n.seq)
        elseif n.seq > n.p then
            return ("sequences of %d positions, but a table of %d"):format(n.seq, n.p)
        end
    end,
    flops = function(n) return n.t * n.d end,
    backward = function(g, n, d)
        return {
            x = d.y, w = g.add_pos_bwd { d.y, n.starts, seq = n.seq, positions = n.p },
        }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local position = i % n.seq - (n.starts and n.starts[i + 1] or 0)
            for j = 1, n.d do
                local k = i * n.d + j
                n.y[k] = n.round("y", n.x[k] + n.w[position * n.d + j])
            end
        end
    end,
    cases = function(r)
        local s = r(1, 9)
        return {
            t = r(1, 3) * s, seq = s, p = s + r(0, 3), d = r(1, 70),
            inputs = function(n, r, make)
                return { starts = r(0, 1) == 1 and make.starts(n.t, n.seq) or nil }
            end,
        }
    end,
}
