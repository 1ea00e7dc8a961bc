-- SPDX-License-Identifier: Apache-2.0
-- fp8_transpose: in a matrix in fp8; out its transpose: GPUs multiply fp8 only along rows.
return op {
    arithmetic = 1,
    doc = "y = x^T",
    inputs = { { "x", "t k", class = "fp8" } },
    outputs = { { "y", "k t", dtype = "x" } },
    axes = { t = "parallel", k = "parallel" },
    cuts = { t = {}, k = {} },
    check = function(n)
        if n.t % 16 + n.k % 16 > 0 then
            return ("%d x %d are not multiples of 16"):format(n.t, n.k)
        end
    end,
    cost = "elementwise",
    flops = function(n) return 0 end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for k = 1, n.k do
                n.y[(k - 1) * n.t + i + 1] = n.x[i * n.k + k]
            end
        end
    end,
    cases = function(r) return { t = 16 * r(1, 6), k = 16 * r(1, 6) } end,
}
