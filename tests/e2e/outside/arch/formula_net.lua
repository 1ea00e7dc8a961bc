-- SPDX-License-Identifier: Apache-2.0
-- formula_net: a user's architecture on ops of one line each: ops/relu2 and ops/gated.

local function matrix(g, name, rows, cols)
    return g:param { name, { rows, cols }, init = "normal", std = 0.1, decay = true }
end

local function layer(m)
    return function(g, y)
        local norm = g:param { "norm.weight", { m.dim }, init = "ones", decay = false }
        local scale = g:param { "scale.weight", { m.dim }, init = "ones", decay = false }
        local h = g.rmsnorm { y, norm, eps = 1e-6 }
        local up = g.relu2 { g.linear { h, matrix(g, "up.weight", m.ffn, m.dim) } }
        local down = g.linear { up, matrix(g, "down.weight", m.dim, m.ffn) }
        local gate = g.linear { h, matrix(g, "gate.weight", m.dim, m.dim) }
        return g.gated { y, down, gate, scale }
    end
end

local function build(m, b)
    local x = b:block("embed", "embed", "net.", function(g)
        return g.embed { g:tokens(), matrix(g, "tokens.weight", m.vocab, m.dim) }
    end)
    for i = 0, m.layers - 1 do
        x = b:block(("layers.%d"):format(i), "layer", ("net.layers.%d."):format(i), layer(m), x)
    end
    b:block("head", "head", "net.", function(g, y)
        local logits = g.linear { y, matrix(g, "head.weight", m.vocab, m.dim) }
        local loss = g.cross_entropy { logits, g:targets() }
        return loss
    end, x)
end

return arch {
    name = "formula_net",
    doc = "residual blocks of ops that are formulas",
    fields = {
        { "layers", "int", min = 1, doc = "blocks" },
        { "dim", "int", min = 1, doc = "width of the residual stream" },
        { "ffn", "int", min = 1, doc = "width of the feed-forward" },
        { "vocab", "int", min = 2, doc = "token ids" },
    },
    build = build,
}
