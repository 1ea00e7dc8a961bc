-- SPDX-License-Identifier: Apache-2.0
-- linear_dw: in the gradient of a linear's output and its rows; out the gradient of
-- its weight, over all rows of the micro-batch.
return op {
    arithmetic = 1,
    doc = "dw = dy^T x",
    inputs = { { "dy", "t n" }, { "x", "t k" } },
    outputs = { { "dw", "n k", dtype = "grad", add = true } },
    axes = { n = "parallel", k = "parallel", t = "reduction" },
    cuts = { n = { pads = true }, k = {}, t = { dw = "sum" } },
    products = function(n) return { { "tn", n.n, n.k, n.t } } end,
    flops = function(n) return 2 * n.t * n.n * n.k end,
    fp8 = function(g, n, grain)
        if n.t % grain + n.k % grain + n.n % grain > 0 then return end
        local sa, sb = g.fp8_scale { n.dy, to = "e5m2" }, g.fp8_scale { n.x }
        local a = g.fp8_columns { n.dy, sa, to = "e5m2" }
        local b = g.fp8_columns { n.x, sb }
        return { dw = g.fp8_product_dw { a, sa, b, sb } }
    end,
    reference = function(n)
        for j = 1, n.n do
            for k = 1, n.k do
                local sum = 0.0
                for i = 0, n.t - 1 do
                    sum = sum + n.dy[i * n.n + j] * n.x[i * n.k + k]
                end
                n.dw[(j - 1) * n.k + k] = n.round("dw", sum)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 33), k = r(1, 40), n = r(1, 40) }
    end,
}
