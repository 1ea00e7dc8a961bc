-- SPDX-License-Identifier: Apache-2.0
-- bias: in rows and one value per feature; out their sum, in place if the rows are not
-- needed again.
return op {
    arithmetic = 1,
    canonical = "bias",
    doc = "y = x + b, row by row",
    inputs = { { "x", "t n" }, { "b", "n" } },
    outputs = { { "y", "t n", dtype = "x", alias = "x" } },
    axes = { t = "parallel", n = "parallel" },
    flops = function(n) return n.t * n.n end,
    backward = function(g, n, d)
        return { x = d.y, b = g.colsum { d.y } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.n do
                local k = i * n.n + j
                n.y[k] = n.round("y", n.x[k] + n.b[j])
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 30), n = r(1, 70) }
    end,
}
