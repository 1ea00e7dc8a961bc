-- SPDX-License-Identifier: Apache-2.0
-- fp8_both: fp8_rows and fp8_columns of one tensor, which is read once.
return op {
    same_bits = true,
    arithmetic = 1,
    doc = "q = x / s and its transpose, rounded to a form of fp8",
    inputs = { { "x", "t k" }, { "s", "1", class = "acc" } },
    attrs = { to = { "string", "e4m3" } },
    outputs = { { "q", "t k", dtype = "to" }, { "qt", "k t", dtype = "to" } },
    axes = { t = "parallel", k = "parallel" },
    flops = function(n) return 2 * n.t * n.k end,
    expands = function(g, n)
        return {
            q = g.fp8_rows { n.x, n.s, to = n.to }, qt = g.fp8_columns { n.x, n.s, to = n.to },
        }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for k = 1, n.k do
                local v = n.round("q", n.x[i * n.k + k] / n.s[1])
                n.q[i * n.k + k], n.qt[(k - 1) * n.t + i + 1] = v, v
            end
        end
    end,
    cases = function(r)
        local to = r(0, 1) == 0 and "e4m3" or "e5m2"
        return {
            t = 16 * r(1, 6), k = 16 * r(1, 6), to = to,
            inputs = function(n, r) -- up to the largest value, and a little beyond
                local scale, x = 2.0 ^ r(-9, 0), {}
                for i = 1, n.t * n.k do
                    x[i] = scale * r(-240, 240) * 2.0 ^ r(-12, to == "e5m2" and 8 or 1)
                end
                return { x = x, s = { scale } }
            end,
        }
    end,
}
