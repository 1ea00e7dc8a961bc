-- SPDX-License-Identifier: Apache-2.0
-- The family of shared.lua: one parameter used twice in a block, values with several uses, two
-- classes of one hint, a block whose backward reads its own output.
return arch {
    name = "twice",
    fields = { { "dim", "int", min = 1, doc = "width" }, { "vocab", "int", min = 1, doc = "ids" } },
    build = function(m, b)
        local x = b:block("embed", "embed", "", function(g)
            return g.embed { g:tokens(), g:param { global = "emb", { m.vocab, m.dim } } }
        end)
        x = b:block("mid.0", "mid", "mid.0.", function(g, y)
            local w = g:param { "w", { m.dim, m.dim }, std = 0.1 }
            local a = g.linear { y, w, name = "a" }
            local c = g.linear { a, w, name = "c" }
            return g.add { g.add { a, c }, g.add { y, a }, name = "sum" }
        end, x)
        x = b:block("mid.1", "mid", "mid.1.", function(g, y)
            local w = g:param { "w", { 2 * m.dim, m.dim } }
            return g.swiglu { g.linear { y, w } }
        end, x)
        x = b:block("mid.2", "mid", "mid.2.", function(g, y)
            local w = g:param { "w", { m.dim }, init = "ones" }
            local h = g.rmsnorm { y, w, name = "h" }
            return g.gelu { g.gelu { h } }
        end, x)
        b:block("head", "head", "", function(g, y)
            local logits = g.linear { y, g:param { global = "emb", { m.vocab, m.dim } } }
            return g.cross_entropy { logits, g:targets() }
        end, x)
    end,
}
