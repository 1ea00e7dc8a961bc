-- SPDX-License-Identifier: Apache-2.0
-- fp8_product: in two tensors in fp8 with their scales, each with one row for each row or column of
-- the result; out their product times both scales, rounded once.
-- Sums are f32 (f64 where weights are); on a GPU a tensor core drops bits below 2^-13 of the largest
-- product of a step. The scales are powers of two, so multiplying the sum by them and the elements
-- by them are the same.
return op {
    arithmetic = 1,
    doc = "y = (a b^T) sa sb",
    inputs = {
        { "a", "m k", class = "fp8" }, { "sa", "1", class = "acc" },
        { "b", "n k", class = "fp8" }, { "sb", "1", class = "acc" },
    },
    attrs = {
        dtype = { "string", "param", quiet = true }, -- of y; parts give summands (parts.dtype)
        fast = { "bool", false }, -- a GPU may sum in fewer bits: in the forward
    },
    outputs = { { "y", "m n", dtype = "dtype" } },
    axes = { m = "parallel", n = "parallel", k = "reduction" },
    cuts = { m = {}, n = {}, k = { y = "sum" } },
    check = function(n)
        if n.m % 16 + n.n % 16 + n.k % 16 > 0 then
            return ("%d x %d x %d are not multiples of 16"):format(n.m, n.n, n.k)
        end
    end,
    workspace = function(n) return n.acc_bytes * (n.m + n.n) * n.k end, -- decoded operands
    workspace_cuda = function() return 0 end,
    products = function(n) return { { "nt", n.m, n.n, n.k } } end,
    flops = function(n) return 2 * n.m * n.n * n.k end,
    reference = function(n)
        for i = 0, n.m - 1 do
            for j = 0, n.n - 1 do
                local sum = 0.0
                for k = 1, n.k do
                    sum = sum + n.a[i * n.k + k] * n.b[j * n.k + k]
                end
                n.y[i * n.n + j + 1] = n.round("y", sum * n.sa[1] * n.sb[1])
            end
        end
    end,
    cases = function(r)
        return {
            m = 16 * r(1, 3), k = 16 * r(1, 3), n = 16 * r(1, 3),
            inputs = function(n, r)
                return { sa = { 2.0 ^ r(-9, 1) }, sb = { 2.0 ^ r(-9, 1) } }
            end,
        }
    end,
    variants = { { dtype = "acc" } },
}
