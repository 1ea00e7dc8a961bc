-- SPDX-License-Identifier: Apache-2.0
-- conv1d_dx: in the gradient of a conv1d's output and its weight; out the gradient of
-- its rows.
return op {
    arithmetic = 1,
    doc = "dx = dy w^T",
    inputs = { { "dy", "t n" }, { "w", "k n" } },
    attrs = { dtype = { "string", "dy", quiet = true } }, -- of dx; parts give summands (parts.dtype)
    outputs = { { "dx", "t k", dtype = "dtype" } },
    axes = { t = "parallel", k = "parallel", n = "reduction" },
    cuts = { t = {}, k = {}, n = { dx = "sum" } },
    products = function(n) return { { "nt", n.t, n.k, n.n } } end,
    flops = function(n) return 2 * n.t * n.n * n.k end,
    fp8 = function(g, n, grain)
        if n.t % grain + n.k % grain + n.n % grain > 0 then return end
        local sa, sb = g.fp8_scale { n.dy, to = "e5m2" }, g.fp8_scale { n.w }
        local a = g.fp8_rows { n.dy, sa, to = "e5m2" }
        local b = g.fp8_rows { n.w, sb }
        return { dx = g.fp8_product { a, sa, b, sb } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for k = 0, n.k - 1 do
                local sum = 0.0
                for j = 1, n.n do
                    sum = sum + n.dy[i * n.n + j] * n.w[k * n.n + j]
                end
                n.dx[i * n.k + k + 1] = n.round("dx", sum)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 33), k = r(1, 40), n = r(1, 40) }
    end,
    variants = { { dtype = "acc" } },
}
