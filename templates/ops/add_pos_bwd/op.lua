-- SPDX-License-Identifier: Apache-2.0
-- add_pos_bwd: in the gradient of the sum; out the gradient of the position rows,
-- summed in order over the tokens at that position: one in each sequence, or in each
-- document that is long enough. Rows beyond seq have none.
return op {
    arithmetic = 1,
    doc = "dw[p] = sum over sequences of dy[sequence * seq + p]",
    inputs = { { "dy", "t d" }, { "starts", "t", class = "i32", optional = true } },
    attrs = { seq = "int", positions = "int" },
    outputs = {
        { "dw", function(n) return { n.positions, n.d } end, dtype = "grad", add = true },
    },
    axes = { t = "reduction", d = "parallel" },
    cuts = { t = { dw = "sum", ordered = true }, d = { dw = 2 } },
    check = function(n)
        if n.seq < 1 or n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d positions"):format(n.t, n.seq)
        elseif n.seq > n.positions then
            return ("sequences of %d positions, but a table of %d")
                :format(n.seq, n.positions)
        end
    end,
    workspace = function(n) -- a sum per position
        return n.starts and n.seq * n.d * n.acc_bytes or 0
    end,
    workspace_cuda = function(n) -- tokens sorted by position, and their positions
        return n.starts and 8 * n.t or 0
    end,
    flops = function(n) return n.t * n.d end,
    reference = function(n)
        local sum = {}
        for k = 1, n.seq * n.d do sum[k] = 0.0 end
        for i = 0, n.t - 1 do
            local position = i % n.seq - (n.starts and n.starts[i + 1] or 0)
            for j = 1, n.d do
                local k = position * n.d + j
                sum[k] = sum[k] + n.dy[i * n.d + j]
            end
        end
        for k = 1, n.seq * n.d do n.dw[k] = n.round("dw", sum[k]) end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more tokens than a block sorts
        local s = long and r(90, 140) or r(1, 9)
        return {
            t = (long and 3 or r(1, 3)) * s, seq = s, positions = s + r(0, 3),
            d = r(1, long and 20 or 70),
            inputs = function(n, r, make)
                return { starts = r(0, 1) == 1 and make.starts(n.t, n.seq) or nil }
            end,
        }
    end,
}
