-- SPDX-License-Identifier: Apache-2.0
-- gate: in rows and the rows that open or close them; out their product behind a sigmoid.
return op {
    doc = "y = x * sigmoid(g)",
    inputs = { { "x", "t d" }, { "g", "t d" } },
    outputs = { { "y", "t d", dtype = "x" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return 5 * n.t * n.d end,
    backward = function(g, n, d)
        local dx, dg = g.gate_bwd { n.x, n.g, d.y }
        return { x = dx, g = dg }
    end,
    reference = function(n)
        for i = 1, n.t * n.d do
            n.y[i] = n.round("y", n.x[i] / (1 + math.exp(-n.g[i])))
        end
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
