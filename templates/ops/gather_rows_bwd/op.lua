-- SPDX-License-Identifier: Apache-2.0
-- gather_rows_bwd: in numbers of rows, and the gradient of what was gathered; out the gradient
-- of the rows. Where several were one row, they are added in their order, and rounded once; a
-- row that nothing took has zeros.
return op {
    arithmetic = 1,
    doc = "dx[r] = the sum of dy[i] with index[i] = r, in order of i",
    inputs = { { "index", "n", class = "i32" }, { "dy", "n d" } },
    attrs = { rows = "int", seq = { "int", 0 } },
    outputs = { { "dx", "rows d", dtype = "dy" } },
    axes = { n = "reduction", d = "parallel" },
    cuts = { d = {} },
    check = function(n)
        if n.rows < 1 then return "rows must be at least 1" end
    end,
    workspace = function(n) return 4 * (n.rows + n.n) end, -- chains of equal numbers
    workspace_cuda = function(n) return 8 * n.n end, -- in sorted order, with their rows
    flops = function(n) return n.n * n.d end,
    reference = function(n)
        local sum = {}
        for k = 1, n.rows * n.d do sum[k] = 0.0 end
        for i = 0, n.n - 1 do
            local row = n.index[i + 1] + (n.seq > 0 and i // n.seq * n.seq or 0)
            for j = 1, n.d do
                sum[row * n.d + j] = sum[row * n.d + j] + n.dy[i * n.d + j]
            end
        end
        for k = 1, n.rows * n.d do n.dx[k] = n.round("dx", sum[k]) end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more numbers than a block sorts, and many of one row
        local seq = r(0, 1) * r(1, 9)
        local count = (seq > 0 and seq or 1) * (long and r(60, 70) or r(1, 9))
        return {
            n = count, rows = seq > 0 and count or r(1, 11), seq = seq,
            d = r(1, long and 20 or 70),
            inputs = function(n, r)
                local index = {}
                for i = 1, n.n do index[i] = r(0, (n.seq > 0 and n.seq or n.rows) - 1) end
                return { index = index }
            end,
        }
    end,
}
