-- SPDX-License-Identifier: Apache-2.0
-- scale: in an activation; out it times a constant, rounded. Granite's and Gemma's
-- multipliers of embeddings and residual branches.
return op {
    arithmetic = 1,
    doc = "y = x * by",
    inputs = { { "x", "t d" } },
    attrs = { by = "number" },
    outputs = { { "y", "t d", dtype = "x", alias = "x" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return n.t * n.d end,
    backward = function(g, n, d)
        return { x = g.scale { d.y, by = n.by } }
    end,
    reference = function(n)
        for i = 1, n.t * n.d do
            n.y[i] = n.round("y", n.x[i] * n.by)
        end
    end,
    cases = function(r)
        return { t = r(1, 30), d = r(1, 70), by = r(-40, 40) / 16 }
    end,
}
