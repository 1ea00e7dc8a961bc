-- SPDX-License-Identifier: Apache-2.0
-- relu_net: a user's architecture, outside fsdpgen's tree, on a user's op. Residual blocks of a
-- norm and a feed-forward with squared_relu; between two of them a block of another kind, whose
-- only non-linear step is the user's op. It learns which byte follows which.

local function matrix(g, name, rows, cols, std)
    return g:param { name, { rows, cols }, init = "normal", std = std, decay = true }
end

local function build(m, b)
    local x = b:block("embed", "embed", "net.", function(g)
        return g.embed { g:tokens(), matrix(g, "tokens.weight", m.vocab, m.dim, 0.1) }
    end)
    for i = 0, m.layers - 1 do
        x = b:block(("layers.%d"):format(i), "layer", ("net.layers.%d."):format(i),
            function(g, y)
                local w = g:param { "norm.weight", { m.dim }, init = "ones", decay = false }
                local h = g.rmsnorm { y, w, eps = 1e-6 }
                h = g.linear { h, matrix(g, "up.weight", m.ffn, m.dim, 0.1) }
                h = g.squared_relu { h }
                h = g.linear { h, matrix(g, "down.weight", m.dim, m.ffn, 0.1) }
                return g.add { y, h }
            end, x)
        if i < m.layers - 1 then
            x = b:block(("between.%d"):format(i), "between", ("net.between.%d."):format(i),
                function(g, y)
                    local h = g.linear { y, matrix(g, "weight", m.dim, m.dim, 0.1) }
                    return g.add { y, g.squared_relu { h } }
                end, x)
        end
    end
    b:block("head", "head", "net.", function(g, y)
        local logits = g.linear { y, matrix(g, "head.weight", m.vocab, m.dim, 0.1) }
        local loss = g.cross_entropy { logits, g:targets() }
        return loss
    end, x)
end

return arch {
    name = "relu_net",
    doc = "residual blocks around a user's op",
    fields = {
        { "layers", "int", min = 1, doc = "blocks" },
        { "dim", "int", min = 1, doc = "width of the residual stream" },
        { "ffn", "int", min = 1, doc = "width of the feed-forward" },
        { "vocab", "int", min = 2, doc = "token ids" },
    },
    build = build,
}
