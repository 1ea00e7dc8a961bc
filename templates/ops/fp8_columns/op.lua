-- SPDX-License-Identifier: Apache-2.0
-- fp8_columns: in a tensor and its scale; out the transpose of what fp8_rows makes of them: GPUs
-- multiply fp8 only along rows.
-- The division by a power of two is exact, so an element is rounded once; f64, which is for
-- tests, is rounded to f32 first.
return op {
    arithmetic = 1,
    doc = "q = (x / s)^T, rounded to a form of fp8",
    inputs = { { "x", "t k" }, { "s", "1", class = "acc" } },
    attrs = { to = { "string", "e4m3" } },
    outputs = { { "q", "k t", dtype = "to" } },
    axes = { t = "parallel", k = "parallel" },
    cuts = { t = {}, k = {} },
    check = function(n)
        if n.to ~= "e4m3" and n.to ~= "e5m2" then
            return ('to is "%s", not "e4m3" or "e5m2"'):format(n.to)
        elseif n.t % 16 + n.k % 16 > 0 then
            return ("%d x %d are not multiples of 16"):format(n.t, n.k)
        end
    end,
    cost = "elementwise",
    flops = function(n) return n.t * n.k end,
    encoded = function(g, n)
        return n.to == "e4m3" and { q = g.fp8_transpose { n.codes } } or nil
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for k = 1, n.k do
                local v = n.x[i * n.k + k] / n.s[1]
                n.q[(k - 1) * n.t + i + 1] = n.round("q", v)
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
