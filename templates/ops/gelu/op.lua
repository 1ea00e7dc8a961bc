-- SPDX-License-Identifier: Apache-2.0
-- gelu: in rows; out GELU of each element, in the tanh form that GPT-2 was trained with:
-- x/2 (1 + tanh(u)) is x sigmoid(2 u), which does not cancel where x is below 0. The
-- gradient is an op of its own, whose bits are older than derived ones.
return op.map {
    arithmetic = 1,
    canonical = "gelu",
    doc = "y = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))",
    y = "gelu(x)",
    flops = function(n) return 9 * n.t * n.d end,
    backward = function(g, n, d)
        return { x = g.gelu_bwd { n.x, d.y } }
    end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
