-- SPDX-License-Identifier: Apache-2.0
-- own_box: in a matrix; out the same numbers. The pass `split` puts it before a meet of a parameter's
-- boxes, because ranks read each other's values and never each other's weights.
return op {
    arithmetic = 1,
    doc = "y = x",
    role = "copy",
    inputs = { { "x", "t d", class = "any" } },
    outputs = { { "y", "t d", dtype = "x" } },
    axes = { t = "parallel", d = "parallel" },
    cuts = { t = {}, d = {} },
    cost = "copy",
    flops = function(n) return 0 end,
    reference = function(n)
        for i = 1, n.t * n.d do n.y[i] = n.x[i] end
    end,
    cases = function(r)
        return { t = r(1, 30), d = r(1, 70) }
    end,
}
