-- SPDX-License-Identifier: Apache-2.0
-- A user's architecture with a user's op: once where the fused op applies, once where the scaled
-- value has a second user.
return arch {
    name = "family",
    fields = { { "dim", "int", min = 1, doc = "width" }, { "vocab", "int", min = 1, doc = "ids" } },
    build = function(m, b)
        local x = b:block("embed", "embed", "", function(g)
            return g.embed { g:tokens(), g:param { "emb", { m.vocab, m.dim } } }
        end)
        x = b:block("layers.0", "layer", "layers.0.", function(g, y)
            local h = g.linear { y, g:param { "fc", { m.dim, m.dim } } }
            local kept = g.scale { h, by = 0.25, name = "kept" }
            y = g.add { y, g.scale { h, by = 0.5 } }
            return g.add { g.add { y, kept }, g.gelu { kept } }
        end, x)
        b:block("head", "head", "", function(g, y)
            local logits = g.linear { y, g:param { "head", { m.vocab, m.dim } } }
            return g.cross_entropy { logits, g:targets() }
        end, x)
    end,
}
