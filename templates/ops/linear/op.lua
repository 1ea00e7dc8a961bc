-- SPDX-License-Identifier: Apache-2.0
-- linear: in rows and a weight with one row per output feature; out their
-- product.
return op {
    arithmetic = 1,
    doc = "y = x w^T",
    inputs = { { "x", "t k" }, { "w", "n k" } },
    attrs = { dtype = { "string", "x", quiet = true } }, -- of y; parts give summands (parts.dtype)
    outputs = { { "y", "t n", dtype = "dtype" } },
    axes = { t = "parallel", n = "parallel", k = "reduction" },
    cuts = { t = {}, n = { pads = true }, k = { y = "sum" } },
    products = function(n) return { { "nt", n.t, n.n, n.k } } end,
    flops = function(n) return 2 * n.t * n.n * n.k end,
    backward = function(g, n, d)
        return { x = g.linear_dx { d.y, n.w }, w = g.linear_dw { d.y, n.x } }
    end,
    fp8 = function(g, n, grain)
        if n.t % grain + n.k % grain + n.n % grain > 0 then return end
        local sa, sb = g.fp8_scale { n.x }, g.fp8_scale { n.w }
        local a = g.fp8_rows { n.x, sa }
        local b = g.fp8_rows { n.w, sb }
        return { y = g.fp8_product { a, sa, b, sb, fast = true } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 0, n.n - 1 do
                local sum = 0.0
                for k = 1, n.k do
                    sum = sum + n.x[i * n.k + k] * n.w[j * n.k + k]
                end
                n.y[i * n.n + j + 1] = n.round("y", sum)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 33), k = r(1, 40), n = r(1, 40) }
    end,
    variants = { { dtype = "acc" } },
}
