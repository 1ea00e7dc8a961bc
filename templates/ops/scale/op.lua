-- SPDX-License-Identifier: Apache-2.0
-- scale: in an activation; out it times a constant, rounded. Granite's and Gemma's
-- multipliers of embeddings and residual branches. rounded: the constant is first rounded to
-- x's dtype, as transformers does for Gemma.
return op {
    arithmetic = 1,
    doc = "y = x * by",
    inputs = { { "x", "t d" } },
    attrs = { by = "number", rounded = { "bool", false, quiet = true } },
    outputs = { { "y", "t d", dtype = "x", alias = "x" } },
    axes = { t = "parallel", d = "parallel" },
    cuts = { t = {}, d = { pads = true } },
    flops = function(n) return n.t * n.d end,
    backward = function(g, n, d)
        return { x = g.scale { d.y, by = n.by, rounded = n.rounded } }
    end,
    reference = function(n)
        local by = n.rounded and n.round("y", n.by) or n.by
        for i = 1, n.t * n.d do
            n.y[i] = n.round("y", n.x[i] * by)
        end
    end,
    cases = function(r)
        return { t = r(1, 30), d = r(1, 70), by = r(-40, 40) / 16 }
    end,
    variants = { { by = 33.94112549695428, rounded = true } },
}
