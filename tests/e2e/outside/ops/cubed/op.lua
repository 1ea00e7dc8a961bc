-- SPDX-License-Identifier: Apache-2.0
-- cubed: its gradient reads dy before x.
return op.map {
    doc = "y = x^3 + x",
    y = "x * x * x + x",
    backward = function(g, n, d) return { x = g.cubed_bwd { d.y, n.x } } end,
}
