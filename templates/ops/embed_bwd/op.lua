-- SPDX-License-Identifier: Apache-2.0
-- embed_bwd: in token ids and the gradient of their rows; out the gradient of the
-- embedding matrix. Rows are added in token order, so that the sum for a token that occurs twice
-- is well defined; it is rounded to the gradient's dtype once.
--
-- With `part`, dw has the rows of these parts of the table, as w of embed; ids of other parts
-- add nothing.
local function row_of(n, id) -- the place of the id's row in dw, or nil
    if not n.part then return id end
    local rows = n.vocab // n.parts
    for k = 1, n.parts do
        local row = id - n.part[k] * rows
        if row >= 0 and row < rows then return (k - 1) * rows + row end
    end
end

return op {
    arithmetic = 1,
    doc = "dw[tokens[i]] += dy[i], in order of i",
    inputs = {
        { "tokens", "t", class = "i32" }, { "dy", "t d" },
        { "part", "parts", class = "i32", optional = true },
    },
    attrs = { vocab = "int", parts = { "int", 0, quiet = true } }, -- in dw; parts 0: it is the table's
    outputs = {
        { "dw", function(n) return { n.vocab, n.d } end, dtype = "grad", add = true },
    },
    axes = { t = "reduction", d = "parallel" },
    cuts = {
        t = { dw = "sum" }, d = { dw = 2 },
        parts = {
            dw = 1, attrs = { "parts", "vocab" },
            when = function(n) return n.part end, pads = true,
        },
    },
    in_parts = { dw = 1, ops = function(g, n, part, parts, _, padded)
        return { dw = g.embed_bwd { n.tokens, n.dy, part, parts = parts, vocab = padded } }
    end },
    check = function(n)
        if not n.part and n.parts ~= 0 then return "parts without part" end
        if n.part and n.vocab % n.parts ~= 0 then return "parts must have whole rows" end
        if n.vocab < 1 then return "vocab must be at least 1" end
    end,
    workspace = function(n) -- if sums are wider than the gradient: chains of equal tokens
        return n.grad_bytes < n.acc_bytes and 4 * (n.vocab + n.t) or 0
    end,
    workspace_cuda = function(n) return 8 * n.t end, -- tokens in sorted order, and their ids
    -- Ids in order; rows of dy, and those of dw, read and written; all of dw, cleared as with beta = 0.
    bytes_cuda = function(n)
        local rows = n.t * n.d * (n.elem_bytes + 2 * n.grad_bytes)
        return 12 * n.t + rows + n.vocab * n.d * n.grad_bytes
    end,
    flops = function(n) return n.t * n.d end,
    reference = function(n)
        local sum = {}
        for i = 0, n.t - 1 do
            local row = row_of(n, n.tokens[i + 1])
            for j = row and row * n.d + 1 or 1, row and (row + 1) * n.d or 0 do
                sum[j] = (sum[j] or n.dw[j]) + n.dy[i * n.d + j - row * n.d]
            end
        end
        for k, v in next, sum do n.dw[k] = n.round("dw", v) end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more tokens than a block sorts, and many of one id
        return {
            t = long and r(257, 520) or r(1, 20), d = r(1, long and 20 or 70),
            vocab = r(1, 11),
            inputs = function(n, r, make)
                if n.parts then return make.part_of_rows(n, "vocab") end
                local tokens = {}
                for i = 1, n.t do tokens[i] = r(0, n.vocab - 1) end
                return { tokens = tokens }
            end,
        }
    end,
    variants = { { parts = 4 }, { parts = 1 } },
}
