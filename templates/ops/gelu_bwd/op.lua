-- SPDX-License-Identifier: Apache-2.0
-- gelu_bwd: in what gelu read and the gradient of its output; out the gradient of the
-- rows.
return op {
    arithmetic = 1,
    canonical = "gelu_bwd",
    doc = "gradient of gelu",
    inputs = { { "x", "t d" }, { "dy", "t d" } },
    outputs = { { "dx", "t d", dtype = "x", alias = "dy" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return 16 * n.t * n.d end,
    reference = function(n)
        local c = math.sqrt(2 / math.pi)
        for i = 1, n.t * n.d do
            local x = n.x[i]
            local e = math.exp(-2 * math.abs(c * (x + 0.044715 * x ^ 3)))
            local tanh = (1 - e) / (1 + e)
            if x < 0 then tanh = -tanh end
            local slope = c * (1 + 3 * 0.044715 * x ^ 2)
            n.dx[i] = n.round("dx",
                n.dy[i] * (0.5 * (1 + tanh) + 0.5 * x * (1 - tanh ^ 2) * slope))
        end
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
