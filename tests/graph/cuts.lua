-- SPDX-License-Identifier: Apache-2.0
-- cuts: blocks around the ops that move columns, heads and rows: split, overlapping slices of one
-- value, two to four parts that are joined, heads apart and together, and, with documents, the
-- first row of each token's document.
local function matrix(g, name, rows, cols)
    return g:param { name, { rows, cols }, init = "normal", std = 0.2, decay = true }
end

local function vector(g, name, n)
    return g:param { name, { n }, init = "ones", decay = false }
end

local function layer(g, m, x)
    local h = g.rmsnorm { x, vector(g, "norm.weight", m.dim), eps = 1e-6 }
    local wide = g.linear { h, matrix(g, "up.weight", 3 * m.dim, m.dim) }
    local left, rest = g.split { wide, at = m.dim }
    local a = g.slice { rest, cols = m.dim }
    local b = g.slice { rest, first = m.dim // 2, cols = m.dim }
    local _, c = g.split { rest, at = 2 * m.dim - 3 } -- the other part has no use
    local heads = g.split_heads { left, heads = m.heads }
    heads = g.rmsnorm { heads, vector(g, "heads.weight", m.dim // m.heads), eps = 1e-6 }
    local merged = g.merge_heads { heads, heads = m.heads }
    local starts = g:starts()
    if starts then a = g.gather_rows { a, starts, seq = m.seq } end
    local joined = g.concat { merged, g.add { a, b }, g.pad { c, first = 2, cols = 8 }, h }
    return g.add { x, g.linear { joined, matrix(g, "down.weight", m.dim, 3 * m.dim + 8) } }
end

return arch {
    name = "cuts",
    fields = {
        { "dim", "int", min = 2, doc = "width" }, { "heads", "int", min = 1, doc = "heads" },
        { "vocab", "int", min = 2, doc = "ids" }, { "layers", "int", min = 1, doc = "blocks" },
    },
    build = function(m, b)
        local x = b:block("embed", "embed", "", function(g)
            return g.embed { g:tokens(), matrix(g, "tokens.weight", m.vocab, m.dim) }
        end)
        for i = 0, m.layers - 1 do
            x = b:block(("layers.%d"):format(i), "layer", ("layers.%d."):format(i),
                function(g, y) return layer(g, m, y) end, x)
        end
        b:block("head", "head", "", function(g, y)
            local both = g.concat { y, y } -- one value twice
            return g.cross_entropy {
                g.linear { both, matrix(g, "head.weight", m.vocab, 2 * m.dim) }, g:targets(),
            }
        end, x)
    end,
}
