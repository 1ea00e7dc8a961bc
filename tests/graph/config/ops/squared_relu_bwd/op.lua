-- SPDX-License-Identifier: Apache-2.0
-- squared_relu_bwd: in what squared_relu read and the gradient of its output; out the
-- gradient of the rows.
return op {
    doc = "dx = dy * 2 max(x, 0)",
    inputs = { { "x", "t d" }, { "dy", "t d" } },
    outputs = { { "dx", "t d", dtype = "x" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return 3 * n.t * n.d end,
    reference = function(n)
        for i = 1, n.t * n.d do
            n.dx[i] = n.round("dx", n.dy[i] * 2.0 * math.max(n.x[i], 0.0))
        end
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
