-- SPDX-License-Identifier: Apache-2.0
-- add_pos: in activations and learned position rows; out their sum. Row i of the
-- micro-batch stands at position i mod s of its sequence.
return op {
    doc = "y[i] = x[i] + w[i mod s]",
    inputs = { { "x", "t d" }, { "w", "s d" } },
    outputs = { { "y", "t d", dtype = "x", alias = "x" } },
    axes = { t = "parallel", d = "parallel" },
    check = function(n)
        if n.t % n.s ~= 0 then
            return ("%d rows are not whole sequences of %d positions"):format(n.t, n.s)
        end
    end,
    flops = function(n) return n.t * n.d end,
    backward = function(g, n, d)
        return { x = d.y, w = g.add_pos_bwd { d.y, seq = n.s } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.d do
                local k = i * n.d + j
                n.y[k] = n.round("y", n.x[k] + n.w[(i % n.s) * n.d + j])
            end
        end
    end,
    cases = function(r)
        local s = r(1, 9)
        return { t = r(1, 3) * s, s = s, d = r(1, 70) }
    end,
}
