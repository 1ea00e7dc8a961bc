-- SPDX-License-Identifier: Apache-2.0
-- scale_add: a scaled sum in one pass. A user's fused op: tests/graph.
return op {
    doc = "y = by * x + r",
    inputs = { { "x", "t d" }, { "r", "t d" } },
    attrs = { by = "number" },
    outputs = { { "y", "t d", dtype = "x", alias = "r" } },
    expands = function(g, n) return { y = g.add { g.scale { n.x, by = n.by }, n.r } } end,
    reference = function(n)
        for i = 1, n.t * n.d do n.y[i] = n.round("y", n.round("y", n.by * n.x[i]) + n.r[i]) end
    end,
}
