-- SPDX-License-Identifier: Apache-2.0
-- gate_bwd: in what gate read and the gradient of its output; out the gradients of both.
return op {
    doc = "dx = dy * s, dg = dy * x * s * (1 - s), s = sigmoid(g)",
    inputs = { { "x", "t d" }, { "g", "t d" }, { "dy", "t d" } },
    outputs = { { "dx", "t d", dtype = "x" }, { "dg", "t d", dtype = "g" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return 8 * n.t * n.d end,
    reference = function(n)
        for i = 1, n.t * n.d do
            local s = 1 / (1 + math.exp(-n.g[i]))
            n.dx[i] = n.round("dx", n.dy[i] * s)
            n.dg[i] = n.round("dg", n.dy[i] * n.x[i] * (s * (1 - s)))
        end
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
