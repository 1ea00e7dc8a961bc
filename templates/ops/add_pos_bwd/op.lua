-- SPDX-License-Identifier: Apache-2.0
-- add_pos_bwd: in the gradient of the sum; out the gradient of the position rows,
-- summed over the sequences of the micro-batch in order. Rows beyond seq have none.
return op {
    doc = "dw[p] = sum over sequences of dy[sequence * seq + p]",
    inputs = { { "dy", "t d" } },
    attrs = { seq = "int", positions = "int" },
    outputs = {
        { "dw", function(n) return { n.positions, n.d } end, dtype = "grad", add = true },
    },
    axes = { t = "reduction", d = "parallel" },
    check = function(n)
        if n.seq < 1 or n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d positions"):format(n.t, n.seq)
        elseif n.seq > n.positions then
            return ("sequences of %d positions, but a table of %d")
                :format(n.seq, n.positions)
        end
    end,
    flops = function(n) return n.t * n.d end,
    reference = function(n)
        for p = 0, n.seq - 1 do
            for j = 1, n.d do
                local sum = 0.0
                for i = p, n.t - 1, n.seq do
                    sum = sum + n.dy[i * n.d + j]
                end
                n.dw[p * n.d + j] = n.round("dw", sum)
            end
        end
    end,
    cases = function(r)
        local s = r(1, 9)
        return { t = r(1, 3) * s, seq = s, positions = s + r(0, 3), d = r(1, 70) }
    end,
}
