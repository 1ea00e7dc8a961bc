-- SPDX-License-Identifier: Apache-2.0
-- conv1d: in rows and a weight with one row per input feature; out their product.
-- GPT-2's checkpoints store weights this way (a width-1 convolution), so nothing is
-- transposed here.
return op {
    arithmetic = 1,
    doc = "y = x w",
    inputs = { { "x", "t k" }, { "w", "k n" } },
    attrs = { dtype = { "string", "x", quiet = true } }, -- of y; parts give summands (parts.dtype)
    outputs = { { "y", "t n", dtype = "dtype" } },
    axes = { t = "parallel", n = "parallel", k = "reduction" },
    cuts = { t = {}, n = {}, k = { y = "sum" } },
    products = function(n) return { { "nn", n.t, n.n, n.k } } end,
    flops = function(n) return 2 * n.t * n.n * n.k end,
    backward = function(g, n, d)
        return { x = g.conv1d_dx { d.y, n.w }, w = g.conv1d_dw { n.x, d.y } }
    end,
    fp8 = function(g, n, grain)
        if n.t % grain + n.k % grain + n.n % grain > 0 then return end
        local sa, sb = g.fp8_scale { n.x }, g.fp8_scale { n.w }
        local a = g.fp8_rows { n.x, sa }
        local b = g.fp8_columns { n.w, sb }
        return { y = g.fp8_product { a, sa, b, sb, fast = true } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.n do
                local sum = 0.0
                for k = 0, n.k - 1 do
                    sum = sum + n.x[i * n.k + k + 1] * n.w[k * n.n + j]
                end
                n.y[i * n.n + j] = n.round("y", sum)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 33), k = r(1, 40), n = r(1, 40) }
    end,
    variants = { { dtype = "acc" } },
}
