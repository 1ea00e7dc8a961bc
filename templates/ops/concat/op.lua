-- SPDX-License-Identifier: Apache-2.0
-- concat: in two to four values with equal rows; out their columns beside each other. The
-- gradient of each is its columns.
return op {
    arithmetic = 1,
    doc = "y[i] = a[i], b[i] and, where they are given, c[i], d[i]",
    inputs = {
        { "a", "t na" }, { "b", "t nb" }, { "c", "t nc", optional = true },
        { "d", "t nd", optional = true },
    },
    outputs = {
        { "y", function(n) return { n.t, n.na + n.nb + (n.nc or 0) + (n.nd or 0) } end,
          dtype = "a" },
    },
    axes = { t = "parallel", na = "parallel", nb = "parallel" },
    cuts = { t = { y = 1 } },
    check = function(n)
        if n.d and not n.c then return "d is given without c; put them side by side" end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    backward = function(g, n, d)
        local at, gradients = 0, {}
        for _, part in ipairs { "a", "b", "c", "d" } do
            local cols = n["n" .. part]
            if n[part] then
                gradients[part] = g.slice { d.y, first = at, cols = cols }
                at = at + cols
            end
        end
        return gradients
    end,
    reference = function(n)
        local k = 0
        for i = 0, n.t - 1 do
            for _, part in ipairs { "a", "b", "c", "d" } do
                local cols = n["n" .. part]
                for j = 1, n[part] and cols or 0 do
                    k = k + 1
                    n.y[k] = n[part][i * cols + j]
                end
            end
        end
    end,
    cases = function(r)
        local each = r(1, 8) -- also at multiples of a vector
        local function cols() return r(1, 9) * each end
        local function of(n, width)
            local values = {}
            for i = 1, n.t * width do values[i] = r(-8, 8) / 4 end
            return values
        end
        local parts = r(2, 4)
        return {
            t = r(1, 20), na = cols(), nb = cols(), nc = cols(), nd = cols(),
            inputs = function(n)
                return {
                    c = parts >= 3 and of(n, n.nc) or nil,
                    d = parts >= 4 and of(n, n.nd) or nil,
                }
            end,
        }
    end,
}
