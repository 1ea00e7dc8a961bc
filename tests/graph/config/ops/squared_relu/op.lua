-- SPDX-License-Identifier: Apache-2.0
-- squared_relu: a user's op, unknown to the generator. In rows; out max(x, 0)^2.
return op {
    doc = "y = max(x, 0)^2",
    inputs = { { "x", "t d" } },
    outputs = { { "y", "t d", dtype = "x" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return 2 * n.t * n.d end,
    backward = function(g, n, d)
        return { x = g.squared_relu_bwd { n.x, d.y } }
    end,
    reference = function(n)
        for i = 1, n.t * n.d do
            local x = math.max(n.x[i], 0.0)
            n.y[i] = n.round("y", x * x)
        end
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
