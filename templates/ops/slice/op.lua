-- SPDX-License-Identifier: Apache-2.0
-- slice: in rows; out `cols` columns of each, from column `first` on. The gradient is those
-- columns in rows of zeros; the gradients of several slices of one value are added.
return op {
    arithmetic = 1,
    doc = "y[i] = columns first .. first + cols - 1 of x[i]",
    inputs = { { "x", "t c" } },
    attrs = { first = { "int", 0 }, cols = "int" },
    outputs = { { "y", "t cols", dtype = "x" } },
    axes = { t = "parallel", c = "parallel" },
    cuts = { t = {} },
    check = function(n)
        if n.first < 0 or n.cols < 1 or n.first + n.cols > n.c then
            return ("%d columns from column %d on of rows of %d"):format(n.cols, n.first, n.c)
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    -- The columns that are read, not all of x.
    bytes = function(n) return 2 * n.elem_bytes * n.t * n.cols end,
    backward = function(g, n, d)
        return { x = g.pad { d.y, first = n.first, cols = n.c } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.cols do n.y[i * n.cols + j] = n.x[i * n.c + n.first + j] end
        end
    end,
    cases = function(r)
        local first, cols, each = r(0, 5), r(1, 20), r(1, 8) -- also at multiples of a vector
        return {
            t = r(1, 20), first = first * each, cols = cols * each,
            c = (first + cols + r(0, 3)) * each,
        }
    end,
}
