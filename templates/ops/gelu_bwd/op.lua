-- SPDX-License-Identifier: Apache-2.0
-- gelu_bwd: in what gelu read and the gradient of its output; out the gradient of the
-- rows. With s = sigmoid(u), u = 2 c (x + a x^3): dx = dy (s + x s (1 - s) u').
local u = "1.5957691216057308 * (x + 0.044715 * square(x) * x)" -- 2 c is 2 sqrt(2 / pi)
local slope = "(1.5957691216057308 * (1 + 0.13414499999999999 * square(x)))" -- 3 a
local s = "sigmoid(" .. u .. ")"
return op.map {
    arithmetic = 1,
    canonical = "gelu_bwd",
    doc = "gradient of gelu",
    dx = "dy * (" .. s .. " + x * " .. s .. " * (1 - " .. s .. ") * " .. slope .. ")",
    inputs = { "x", "dy" },
    alias = "dy",
    backward = false,
    flops = function(n) return 16 * n.t * n.d end,
    cases = function(r)
        return { t = r(1, 20), d = r(1, 70) }
    end,
}
