-- SPDX-License-Identifier: Apache-2.0
-- conv1d_dw: in a conv1d's rows and the gradient of its output; out the gradient of
-- its weight, over all rows of the micro-batch.
return op {
    arithmetic = 1,
    doc = "dw = x^T dy",
    inputs = { { "x", "t k" }, { "dy", "t n" } },
    outputs = { { "dw", "k n", dtype = "grad", add = true } },
    axes = { n = "parallel", k = "parallel", t = "reduction" },
    cuts = { n = {}, k = {}, t = { dw = "sum" } },
    products = function(n) return { { "tn", n.k, n.n, n.t } } end,
    flops = function(n) return 2 * n.t * n.n * n.k end,
    fp8 = function(g, n, grain)
        if n.t % grain + n.k % grain + n.n % grain > 0 then return end
        local sa, sb = g.fp8_scale { n.x }, g.fp8_scale { n.dy, to = "e5m2" }
        local a = g.fp8_columns { n.x, sa }
        local b = g.fp8_columns { n.dy, sb, to = "e5m2" }
        return { dw = g.fp8_product_dw { a, sa, b, sb } }
    end,
    reference = function(n)
        for k = 1, n.k do
            for j = 1, n.n do
                local sum = 0.0
                for i = 0, n.t - 1 do
                    sum = sum + n.x[i * n.k + k] * n.dy[i * n.n + j]
                end
                n.dw[(k - 1) * n.n + j] = n.round("dw", sum)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 33), k = r(1, 40), n = r(1, 40) }
    end,
}
