-- SPDX-License-Identifier: Apache-2.0
-- layernorm: in rows, weight and bias; out the normalised rows, and mean and
-- 1/deviation of each, for the backward.
return op {
    arithmetic = 1,
    doc = "y = (x - mean) * rstd * w + b, rstd = 1 / sqrt(variance + eps), row by row",
    inputs = { { "x", "t d" }, { "w", "d" }, { "b", "d" } },
    attrs = { eps = { "number", 1e-5 } },
    outputs = {
        { "y", "t d", dtype = "x" }, { "mean", "t", dtype = "acc" },
        { "rstd", "t", dtype = "acc" },
    },
    axes = { t = "parallel", d = "reduction" },
    cuts = { t = {} },
    scale_of = { y = function(n) return n.t end },
    check_cuda = function(n) -- a block holds a row in registers
        local most = n.acc_bytes == 8 and 10240 or 20480
        if n.d > most then
            return ("rows of %d elements, but its kernel for GPUs takes at most %d"):format(n.d, most)
        end
    end,
    flops = function(n) return 8 * n.t * n.d end,
    backward = function(g, n, d)
        local dx, dw, db = g.layernorm_bwd { n.x, n.w, n.mean, n.rstd, d.y }
        return { x = dx, w = dw, b = db }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local mean, var = 0.0, 0.0
            for j = 1, n.d do mean = mean + n.x[i * n.d + j] / n.d end
            mean = n.round("mean", mean)
            for j = 1, n.d do var = var + (n.x[i * n.d + j] - mean) ^ 2 / n.d end
            local rstd = n.round("rstd", 1 / math.sqrt(var + n.eps))
            n.mean[i + 1], n.rstd[i + 1] = mean, rstd
            for j = 1, n.d do
                local k = i * n.d + j
                n.y[k] = n.round("y", (n.x[k] - mean) * rstd * n.w[j] + n.b[j])
            end
        end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more than a block of rt_row_body.h
        return { t = r(1, 9), d = long and r(1020, 1060) or r(1, 90), eps = 1e-5 }
    end,
}
