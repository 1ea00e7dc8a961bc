-- SPDX-License-Identifier: Apache-2.0
-- A family whose build is a case's text: model, builder and three good blocks are at hand.
local function embed(g, m)
    return g.embed { g:tokens(), g:param { "emb.weight", { m.vocab, m.dim } }, name = "x" }
end

local function layer(g, m, x)
    local h = g.rmsnorm { x, g:param { "norm.weight", { m.dim }, init = "ones" } }
    return g.add { x, g.linear { h, g:param { "fc.weight", { m.dim, m.dim } } } }
end

local function head(g, m, x)
    local logits = g.linear { x, g:param { "head.weight", { m.vocab, m.dim } } }
    return g.cross_entropy { logits, g:targets() }
end

local function build(m, b)
-- BODY
end

return arch {
    name = "family",
    fields = { { "dim", "int", min = 1, doc = "width" }, { "vocab", "int", min = 1, doc = "ids" },
               { "rope", "table", default = {}, doc = "rotation", fields = {
                   { "theta", "number", default = 1e4, doc = "base" } } } },
    build = build,
}
