-- SPDX-License-Identifier: Apache-2.0
-- gelu: in rows; out GELU of each element, in the tanh form that GPT-2 was trained
-- with.
return op {
    arithmetic = 1,
    canonical = "gelu",
    doc = "y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))",
    inputs = { { "x", "t d" } },
    outputs = { { "y", "t d", dtype = "x" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return 9 * n.t * n.d end,
    backward = function(g, n, d)
        return { x = g.gelu_bwd { n.x, d.y } }
    end,
    reference = function(n)
        local c = math.sqrt(2 / math.pi)
        for i = 1, n.t * n.d do
            local x = n.x[i]
            local e = math.exp(-2 * math.abs(c * (x + 0.044715 * x ^ 3)))
            local tanh = (1 - e) / (1 + e)
            if x < 0 then tanh = -tanh end
            n.y[i] = n.round("y", 0.5 * x * (1 + tanh))
        end
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
