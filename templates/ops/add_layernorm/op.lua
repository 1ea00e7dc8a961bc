-- SPDX-License-Identifier: Apache-2.0
-- add_layernorm: the residual sum and its norm in one pass over the rows. h is
-- rounded to its dtype before the norm reads it, so the bits are those of the two ops.
return op {
    arithmetic = 1,
    doc = "h = x + r; y, mean, rstd = layernorm(h, w, b)",
    inputs = { { "x", "t d" }, { "r", "t d" }, { "w", "d" }, { "b", "d" } },
    attrs = { eps = { "number", 1e-5 } },
    outputs = {
        { "h", "t d", dtype = "x", alias = "x" }, { "y", "t d", dtype = "x" },
        { "mean", "t", dtype = "acc" }, { "rstd", "t", dtype = "acc" },
    },
    axes = { t = "parallel", d = "reduction" },
    scale_of = { y = function(n) return n.t end },
    flops = function(n) return (1 + 8) * n.t * n.d end,
    expands = function(g, n)
        local h = g.add { n.x, n.r }
        local y, mean, rstd = g.layernorm { h, n.w, n.b, eps = n.eps }
        return { h = h, y = y, mean = mean, rstd = rstd }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local mean, var = 0.0, 0.0
            for j = 1, n.d do
                local k = i * n.d + j
                n.h[k] = n.round("h", n.x[k] + n.r[k])
                mean = mean + n.h[k] / n.d
            end
            mean = n.round("mean", mean)
            for j = 1, n.d do var = var + (n.h[i * n.d + j] - mean) ^ 2 / n.d end
            local rstd = n.round("rstd", 1 / math.sqrt(var + n.eps))
            n.mean[i + 1], n.rstd[i + 1] = mean, rstd
            for j = 1, n.d do
                local k = i * n.d + j
                n.y[k] = n.round("y", (n.h[k] - mean) * rstd * n.w[j] + n.b[j])
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 9), d = r(1, 90), eps = 1e-5 }
    end,
}
