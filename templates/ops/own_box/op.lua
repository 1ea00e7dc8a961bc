-- SPDX-License-Identifier: Apache-2.0
-- own_box: in a matrix; out the same numbers. The pass `split` puts it before a meet of a parameter's
-- boxes, because ranks read each other's values and never each other's weights.
return op.map {
    arithmetic = 1,
    doc = "y = x",
    role = "copy",
    y = "x",
    backward = false, -- no architecture calls it
    cases = function(r)
        return { t = r(1, 30), d = r(1, 70) }
    end,
}
