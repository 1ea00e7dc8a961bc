-- SPDX-License-Identifier: Apache-2.0
-- embed: in token ids and the embedding matrix; out one of its rows per token. It is
-- the first op of every model, and its gradient, a scatter, is an op of its own.
--
-- With `part`, w has the rows of these parts of the table, v / parts rows each: part p has ids from
-- p v / parts. Ids of other parts give rows of -0.0, not 0.0: x + -0.0 is x to the bit for every x, so
-- the sum over all parts is the row that one of them has, also where that is -0.0.
local function row_of(n, id) -- the place of the id's row in w, or nil
    if not n.part then return id end
    local rows = n.v // n.parts
    for k = 1, n.parts do
        local row = id - n.part[k] * rows
        if row >= 0 and row < rows then return (k - 1) * rows + row end
    end
end

return op {
    arithmetic = 1,
    doc = "y[i] = w[tokens[i]]",
    inputs = {
        { "tokens", "t", class = "i32" }, { "w", "v d" },
        { "part", "parts", class = "i32", optional = true },
    },
    attrs = { parts = { "int", 0, quiet = true } }, -- in w; 0: w is the table
    outputs = { { "y", "t d", dtype = "w" } },
    axes = { t = "parallel", d = "parallel" },
    cuts = {
        t = {}, d = {},
        parts = {
            w = { 1, "v" }, y = "sum", attrs = { "parts" },
            when = function(n) return n.part end, pads = true,
        },
    },
    in_parts = { w = 1, ops = function(g, n, part, parts)
        return { y = g.embed { n.tokens, n.w, part, parts = parts } }
    end },
    check = function(n)
        if not n.part and n.parts ~= 0 then return "parts without part" end
        if n.part and n.v % n.parts ~= 0 then return "parts must have whole rows" end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    -- Only the rows that are read, not all of w.
    bytes = function(n) return 4 * n.t + 2 * n.elem_bytes * n.t * n.d end,
    backward = function(g, n, d)
        return { w = g.embed_bwd { n.tokens, d.y, n.part, parts = n.parts, vocab = n.v } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local row = row_of(n, n.tokens[i + 1])
            for j = 1, n.d do
                n.y[i * n.d + j] = row and n.w[row * n.d + j] or -0.0
            end
        end
    end,
    cases = function(r)
        return {
            t = r(1, 20), v = r(1, 11), d = r(1, 70),
            inputs = function(n, r, make)
                if n.parts then return make.part_of_rows(n, "v") end
                local tokens = {}
                for i = 1, n.t do tokens[i] = r(0, n.v - 1) end
                return { tokens = tokens }
            end,
        }
    end,
    variants = { { parts = 4 }, { parts = 1 } },
}
