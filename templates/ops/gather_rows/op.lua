-- SPDX-License-Identifier: Apache-2.0
-- gather_rows: in rows, and the number of one for each row of the result; out those rows. With
-- seq, numbers count from the start of the row's own sequence, as g:starts() does.
return op {
    arithmetic = 1,
    doc = "y[i] = x[index[i]]; with seq, of the sequence of row i",
    inputs = { { "x", "r d" }, { "index", "n", class = "i32" } },
    attrs = { seq = { "int", 0 } },
    outputs = { { "y", "n d", dtype = "x" } },
    axes = { n = "parallel", d = "parallel" },
    cuts = { d = {} },
    check = function(n)
        if n.seq < 0 or n.seq > 0 and (n.r ~= n.n or n.r % n.seq ~= 0) then
            return ("%d rows by %d numbers are not whole sequences of %d positions"):format(
                n.r, n.n, n.seq)
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    -- The rows that are read, not all of x.
    bytes = function(n) return 4 * n.n + 2 * n.elem_bytes * n.n * n.d end,
    backward = function(g, n, d)
        return { x = g.gather_rows_bwd { n.index, d.y, rows = n.r, seq = n.seq } }
    end,
    reference = function(n)
        for i = 0, n.n - 1 do
            local row = n.index[i + 1] + (n.seq > 0 and i // n.seq * n.seq or 0)
            for j = 1, n.d do n.y[i * n.d + j] = n.x[row * n.d + j] end
        end
    end,
    cases = function(r)
        local seq = r(0, 1) * r(1, 9)
        local rows = seq > 0 and r(1, 3) * seq or r(1, 20)
        return {
            r = rows, n = seq > 0 and rows or r(1, 20), d = r(1, 70), seq = seq,
            inputs = function(n, r)
                local index = {}
                for i = 1, n.n do index[i] = r(0, (n.seq > 0 and n.seq or n.r) - 1) end
                return { index = index }
            end,
        }
    end,
}
