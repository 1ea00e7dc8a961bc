-- SPDX-License-Identifier: Apache-2.0
-- rmsnorm: in rows and a weight; out the normalised rows, and 1/rms of each for the
-- backward.
return op {
    arithmetic = 1,
    doc = "y = x * rstd * w, rstd = 1 / sqrt(mean(x^2) + eps), row by row",
    inputs = { { "x", "t d" }, { "w", "d" } },
    attrs = {
        eps = { "number", 1e-5 },
        offset = { "number", 0, quiet = true }, -- of the weight: Gemma keeps it less 1
    },
    outputs = { { "y", "t d", dtype = "x" }, { "rstd", "t", dtype = "acc" } },
    axes = { t = "parallel", d = "reduction" },
    cuts = { t = {} },
    scale_of = { y = function(n) return n.t end },
    check_cuda = function(n) -- a block holds a row in registers
        local most = n.acc_bytes == 8 and 14336 or 32768
        if n.d > most then
            return ("rows of %d elements, but its kernel for GPUs takes at most %d"):format(n.d, most)
        end
    end,
    flops = function(n) return 4 * n.t * n.d end,
    backward = function(g, n, d)
        local dx, dw = g.rmsnorm_bwd { n.x, n.w, n.rstd, d.y, offset = n.offset }
        return { x = dx, w = dw }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local sum = 0.0
            for j = 1, n.d do
                sum = sum + n.x[i * n.d + j] ^ 2
            end
            local rstd = n.round("rstd", 1 / math.sqrt(sum / n.d + n.eps))
            n.rstd[i + 1] = rstd
            for j = 1, n.d do
                n.y[i * n.d + j] = n.round("y", n.x[i * n.d + j] * rstd * (n.w[j] + n.offset))
            end
        end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more than a block of rt_row_body.h
        return { t = r(1, 9), d = long and r(1020, 1060) or r(1, 90), eps = 1e-5 }
    end,
    variants = { { offset = 1 } },
}
