-- SPDX-License-Identifier: Apache-2.0
-- colsum: in the gradient of biased rows; out the gradient of the bias: the sum over
-- rows.
return op {
    arithmetic = 1,
    doc = "db = sum of dy over rows",
    role = "column_sum",
    inputs = { { "dy", "t n" } },
    outputs = { { "db", "n", dtype = "grad", add = true } },
    axes = { t = "reduction", n = "parallel" },
    cuts = { t = { db = "sum" }, n = {} },
    -- Each chunk of rows has sums: enough chunks for 132 multiprocessors, with 32 rows each.
    workspace_cuda = function(n)
        local chunks = math.min((n.t + 31) // 32, math.max(1, (1 << 18) // n.n), 1024)
        return chunks * n.n * n.acc_bytes
    end,
    flops = function(n) return n.t * n.n end,
    reference = function(n)
        for j = 1, n.n do
            local sum = 0.0
            for i = 0, n.t - 1 do
                sum = sum + n.dy[i * n.n + j]
            end
            n.db[j] = n.round("db", sum)
        end
    end,
    cases = function(r)
        return { t = r(1, 70), n = r(1, 90) }
    end,
}
