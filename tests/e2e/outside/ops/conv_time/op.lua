-- SPDX-License-Identifier: Apache-2.0
-- conv_time: in rows and a weight of some taps for each column; out the causal convolution over
-- time: each token sees itself and the tokens before it in its own sequence.
return op {
    doc = "y[i] = sum over k of w[k] * x[i - k], within a sequence",
    inputs = { { "x", "t d" }, { "w", "k d" } },
    attrs = { seq = { "int", from = "seq" } },
    outputs = { { "y", "t d", dtype = "x" } },
    axes = { t = "parallel", d = "parallel", k = "reduction" },
    check = function(n)
        if n.seq < 1 or n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d positions"):format(n.t, n.seq)
        end
    end,
    flops = function(n) return 2 * n.t * n.d * n.k end,
    backward = function(g, n, d)
        local dx, dw = g.conv_time_bwd { n.x, n.w, d.y, seq = n.seq }
        return { x = dx, w = dw }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.d do
                local sum = 0.0
                for k = 0, math.min(n.k - 1, i % n.seq) do
                    sum = sum + n.w[k * n.d + j] * n.x[(i - k) * n.d + j]
                end
                n.y[i * n.d + j] = n.round("y", sum)
            end
        end
    end,
    cases = function(r)
        local seq = r(1, 9)
        return { t = r(1, 4) * seq, seq = seq, d = r(1, 40), k = r(1, 5) }
    end,
}
