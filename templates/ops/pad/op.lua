-- SPDX-License-Identifier: Apache-2.0
-- pad: in rows; out rows of `cols` columns, which have those of x from column `first` on, and
-- zeros beside them. The gradient of slice, and slice is its own.
return op {
    arithmetic = 1,
    doc = "y[i] = zeros, with x[i] from column first on",
    inputs = { { "x", "t c" } },
    attrs = { first = { "int", 0 }, cols = "int" },
    outputs = { { "y", "t cols", dtype = "x" } },
    axes = { t = "parallel", c = "parallel" },
    cuts = { t = {} },
    check = function(n)
        if n.first < 0 or n.first + n.c > n.cols then
            return ("%d columns from column %d on in rows of %d"):format(n.c, n.first, n.cols)
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    backward = function(g, n, d)
        return { x = g.slice { d.y, first = n.first, cols = n.c } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.cols do n.y[i * n.cols + j] = 0.0 end
            for j = 1, n.c do n.y[i * n.cols + n.first + j] = n.x[i * n.c + j] end
        end
    end,
    cases = function(r)
        local first, c, each = r(0, 5), r(1, 20), r(1, 8)
        return {
            t = r(1, 20), first = first * each, c = c * each,
            cols = (first + c + r(0, 3)) * each,
        }
    end,
}
