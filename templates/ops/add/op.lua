-- SPDX-License-Identifier: Apache-2.0
-- add: in two activations of one shape; out their sum. The residual connection, and
-- what the grad pass inserts if a value has two uses. A formula, so that it joins chains.
return op.map {
    arithmetic = 1,
    canonical = "add",
    doc = "y = a + b",
    role = "sum",
    y = "a + b",
    alias = "a",
    cases = function(r)
        return { t = r(1, 30), d = r(1, 70) }
    end,
}
