-- SPDX-License-Identifier: Apache-2.0
-- bias: in rows and one value per feature; out their sum, in place if the rows are not
-- needed again.
return op.map {
    arithmetic = 1,
    canonical = "bias",
    doc = "y = x + b, row by row",
    y = "x + b[d]",
    alias = "x",
    cases = function(r)
        return { t = r(1, 30), d = r(1, 70) }
    end,
}
