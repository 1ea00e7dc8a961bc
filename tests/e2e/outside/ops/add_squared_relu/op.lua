-- SPDX-License-Identifier: Apache-2.0
-- add_squared_relu: a user's fused op over a built-in one and another of the user's.
return op {
    doc = "y = r + max(x, 0)^2",
    inputs = { { "r", "t d" }, { "x", "t d" } },
    outputs = { { "y", "t d", dtype = "x" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return 3 * n.t * n.d end,
    expands = function(g, n)
        return { y = g.add { n.r, g.squared_relu { n.x } } }
    end,
    reference = function(n)
        for i = 1, n.t * n.d do
            local x = math.max(n.x[i], 0.0)
            n.y[i] = n.round("y", n.r[i] + n.round("y", x * x))
        end
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
