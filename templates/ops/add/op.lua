-- SPDX-License-Identifier: Apache-2.0
-- add: in two activations of one shape; out their sum. The residual connection, and
-- what the grad pass inserts if a value has two uses.
return op {
    arithmetic = 1,
    canonical = "add",
    doc = "y = a + b",
    role = "sum",
    inputs = { { "a", "t d" }, { "b", "t d" } },
    outputs = { { "y", "t d", dtype = "a", alias = "a" } },
    axes = { t = "parallel", d = "parallel" },
    flops = function(n) return n.t * n.d end,
    backward = function(g, n, d)
        return { a = d.y, b = d.y }
    end,
    reference = function(n)
        for i = 1, n.t * n.d do
            n.y[i] = n.round("y", n.a[i] + n.b[i])
        end
    end,
    cases = function(r)
        return { t = r(1, 30), d = r(1, 70) }
    end,
}
