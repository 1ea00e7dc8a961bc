-- SPDX-License-Identifier: Apache-2.0
-- add_rmsnorm: the residual sum and its norm in one pass over the rows. h is
-- rounded to its dtype before the norm reads it, so the bits are those of the two ops.
return op {
    arithmetic = 1,
    doc = "h = x + r; y, rstd = rmsnorm(h, w)",
    inputs = { { "x", "t d" }, { "r", "t d" }, { "w", "d" } },
    attrs = { eps = { "number", 1e-5 }, offset = { "number", 0, quiet = true } },
    outputs = {
        { "h", "t d", dtype = "x", alias = "x" }, { "y", "t d", dtype = "x" },
        { "rstd", "t", dtype = "acc" },
    },
    axes = { t = "parallel", d = "reduction" },
    scale_of = { y = function(n) return n.t end },
    flops = function(n) return (1 + 4) * n.t * n.d end,
    expands = function(g, n)
        local h = g.add { n.x, n.r }
        local y, rstd = g.rmsnorm { h, n.w, eps = n.eps, offset = n.offset }
        return { h = h, y = y, rstd = rstd }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local sum = 0.0
            for j = 1, n.d do
                local k = i * n.d + j
                n.h[k] = n.round("h", n.x[k] + n.r[k])
                sum = sum + n.h[k] ^ 2
            end
            local rstd = n.round("rstd", 1 / math.sqrt(sum / n.d + n.eps))
            n.rstd[i + 1] = rstd
            for j = 1, n.d do
                n.y[i * n.d + j] = n.round("y", n.h[i * n.d + j] * rstd * (n.w[j] + n.offset))
            end
        end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more than a block of rt_row_body.h
        return { t = r(1, 9), d = long and r(1020, 1060) or r(1, 90), eps = 1e-5 }
    end,
    variants = { { offset = 1 } },
}
