-- SPDX-License-Identifier: Apache-2.0
-- For tests/e2e/parts.sh: positions from a table that no weight makes, of which parts of tokens and of features
-- have pieces; and a chain of as many formulas as one kernel can have, so that a value that the backward makes
-- again, the sum of the first product and its bias, stays outside of it.
local function matrix(g, name, rows, columns, cut)
    return g:param { name, { rows, columns }, init = "normal", std = 0.1, decay = true, cut = cut }
end

local function norm(g, m, x)
    return g.rmsnorm { x, g:param { "norm.weight", { m.dim }, init = "ones", decay = false }, eps = 1e-6 }
end

local function build(m, b)
    local x = b:block("embed", "embed", "embed.", function(g)
        return g.embed { g:tokens(), matrix(g, "weight", m.vocab, m.dim) }
    end)
    x = b:block("layer", "layer", "layer.", function(g, y)
        local table = g.rope_table {
            seq = m.seq, head_dim = m.dim, theta = 1e4, factor = 1.0, low_freq_factor = 1.0, high_freq_factor = 4.0,
            original = 0,
        }
        local h = norm(g, m, g.add { y, table, name = "placed" })
        h = g.linear { h, matrix(g, "up.weight", m.ffn, m.dim, "rows") }
        h = g.shifted { h, g:param { "up.bias", { m.ffn }, init = "zeros", decay = false, cut = "rows" } }
        h = g.cubed { h }
        for _ = 1, 7 do h = g.bent { h } end
        return g.add { y, g.linear { h, matrix(g, "down.weight", m.dim, m.ffn, "columns") } }
    end, x)
    b:block("head", "head", "head.", function(g, y)
        return (g.cross_entropy { g.linear { norm(g, m, y), matrix(g, "weight", m.vocab, m.dim) }, g:targets() })
    end, x)
end

return arch {
    name = "chained",
    doc = "a block with positions from a table and a chain of formulas",
    fields = {
        { "dim", "int", min = 2, doc = "width of the residual stream" },
        { "ffn", "int", min = 2, doc = "width of the chain" },
        { "vocab", "int", min = 2, doc = "token ids" },
    },
    build = build,
}
