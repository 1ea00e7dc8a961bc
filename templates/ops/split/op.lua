-- SPDX-License-Identifier: Apache-2.0
-- split: in rows; out their first `at` columns, and the others. The gradient joins those of
-- both, or pads the one there is.
return op {
    arithmetic = 1,
    doc = "left[i], right[i] = the first `at` columns of x[i], and the others",
    inputs = { { "x", "t c" } },
    attrs = { at = "int" },
    outputs = {
        { "left", "t at", dtype = "x" },
        { "right", function(n) return { n.t, n.c - n.at } end, dtype = "x" },
    },
    axes = { t = "parallel", c = "parallel" },
    cuts = { t = { right = 1 } },
    check = function(n)
        if n.at < 1 or n.at >= n.c then
            return ("rows of %d are not split at column %d"):format(n.c, n.at)
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    backward = function(g, n, d)
        if not d.right then return { x = g.pad { d.left, cols = n.c } } end
        if not d.left then return { x = g.pad { d.right, first = n.at, cols = n.c } } end
        return { x = g.concat { d.left, d.right } }
    end,
    reference = function(n)
        local rest = n.c - n.at
        for i = 0, n.t - 1 do
            for j = 1, n.at do n.left[i * n.at + j] = n.x[i * n.c + j] end
            for j = 1, rest do n.right[i * rest + j] = n.x[i * n.c + n.at + j] end
        end
    end,
    cases = function(r)
        local at, each = r(1, 9), r(1, 8) -- also at multiples of a vector
        return { t = r(1, 20), at = at * each, c = (at + r(1, 9)) * each }
    end,
}
