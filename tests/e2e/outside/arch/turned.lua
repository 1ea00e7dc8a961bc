-- SPDX-License-Identifier: Apache-2.0
-- For tests/e2e/parts.sh and tests/cudasim/parts.sh: a matrix whose columns parts divide, in two sections,
-- reads what is divided by tokens, so values turn from one dim to the other, and gradients back. Another one
-- reads what the first one's parts add up to, so it is a sum to columns.
local function matrix(g, name, rows, columns, cut)
    return g:param { name, { rows, columns }, init = "normal", std = 0.1, decay = true, cut = cut }
end

local function norm(g, m, x, name)
    local w = g:param { "norm.weight", { m.dim }, init = "ones", decay = false }
    return g.rmsnorm { x, w, eps = 1e-6, name = name }
end

local function build(m, b)
    local x = b:block("embed", "embed", "embed.", function(g)
        return g.embed { g:tokens(), matrix(g, "weight", m.vocab, m.dim, "rows"), name = "x" }
    end)
    x = b:block("layer", "layer", "layer.", function(g, y)
        local half = m.dim // 2
        local function columns(name) return matrix(g, name, m.dim, m.dim, { "columns", sections = { half, half } }) end
        local first = g.linear { norm(g, m, y, "h"), columns "weight", name = "first" }
        local h = g.linear { first, columns "second.weight", name = "out" }
        return g.add { y, h, name = "residual" }
    end, x)
    b:block("head", "head", "head.", function(g, y)
        local w = matrix(g, "weight", m.vocab, m.dim, "rows")
        local logits = g.linear { norm(g, m, y, "h"), w, name = "logits" }
        return g.cross_entropy { logits, g:targets(), name = "loss" }
    end, x)
end

return arch {
    name = "turned",
    doc = "a block whose parts have columns of what is divided by tokens",
    fields = {
        { "dim", "int", min = 2, doc = "width of the residual stream" },
        { "vocab", "int", min = 2, doc = "token ids" },
    },
    build = build,
}
