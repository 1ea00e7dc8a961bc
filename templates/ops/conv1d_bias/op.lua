-- SPDX-License-Identifier: Apache-2.0
-- conv1d_bias: a conv1d and its bias while the product's tile is in cache. The product is
-- rounded to its dtype before the bias is added: the bits are those of the two ops.
return op {
    arithmetic = 1,
    doc = "y = x w + b",
    inputs = { { "x", "t k" }, { "w", "k n" }, { "b", "n" } },
    outputs = { { "y", "t n", dtype = "x" } },
    axes = { t = "parallel", n = "parallel", k = "reduction" },
    products = function(n) return { { "nn", n.t, n.n, n.k } } end,
    flops = function(n) return 2 * n.t * n.n * n.k + n.t * n.n end,
    expands = function(g, n)
        return { y = g.bias { g.conv1d { n.x, n.w }, n.b } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.n do
                local sum = 0.0
                for k = 0, n.k - 1 do
                    sum = sum + n.x[i * n.k + k + 1] * n.w[k * n.n + j]
                end
                n.y[i * n.n + j] = n.round("y", n.round("y", sum) + n.b[j])
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 33), k = r(1, 40), n = r(1, 40) }
    end,
}
