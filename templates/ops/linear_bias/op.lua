-- SPDX-License-Identifier: Apache-2.0
-- linear_bias: a linear and its bias while the product's tile is in cache. The product is
-- rounded to its dtype before the bias is added: the bits are those of the two ops.
return op {
    arithmetic = 1,
    doc = "y = x w^T + b",
    inputs = { { "x", "t k" }, { "w", "n k" }, { "b", "n" } },
    outputs = { { "y", "t n", dtype = "x" } },
    axes = { t = "parallel", n = "parallel", k = "reduction" },
    products = function(n) return { { "nt", n.t, n.n, n.k } } end,
    flops = function(n) return 2 * n.t * n.n * n.k + n.t * n.n end,
    expands = function(g, n)
        return { y = g.bias { g.linear { n.x, n.w }, n.b } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 0, n.n - 1 do
                local sum = 0.0
                for k = 1, n.k do
                    sum = sum + n.x[i * n.k + k] * n.w[j * n.k + k]
                end
                n.y[i * n.n + j + 1] = n.round("y", n.round("y", sum) + n.b[j + 1])
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 33), k = r(1, 40), n = r(1, 40) }
    end,
}
