-- SPDX-License-Identifier: Apache-2.0
-- scale: in an activation; out the same, times a constant. A user's op: tests/graph.
return op {
    doc = "y = by * x",
    inputs = { { "x", "t d" } },
    attrs = { by = "number" },
    outputs = { { "y", "t d", dtype = "x", alias = "x" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return n.t * n.d end,
    backward = function(g, n, d) return { x = g.scale { d.y, by = n.by } } end,
    reference = function(n)
        for i = 1, n.t * n.d do n.y[i] = n.round("y", n.by * n.x[i]) end
    end,
}
