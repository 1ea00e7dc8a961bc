-- SPDX-License-Identifier: Apache-2.0
-- embed: in token ids and the embedding matrix; out one of its rows per token. It is
-- the first op of every model, and its gradient, a scatter, is an op of its own.
return op {
    arithmetic = 1,
    doc = "y[i] = w[tokens[i]]",
    inputs = { { "tokens", "t", class = "i32" }, { "w", "v d" } },
    outputs = { { "y", "t d", dtype = "w" } },
    axes = { t = "parallel", d = "parallel" },
    cuts = { t = {}, d = {} },
    cost = "copy",
    flops = function(n) return 0 end,
    -- Only the rows that are read, not all of w.
    bytes = function(n) return 4 * n.t + 2 * 4 * n.t * n.d end,
    backward = function(g, n, d)
        return { w = g.embed_bwd { n.tokens, d.y, vocab = n.v } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local row = n.tokens[i + 1] * n.d
            for j = 1, n.d do
                n.y[i * n.d + j] = n.w[row + j]
            end
        end
    end,
    cases = function(r)
        return {
            t = r(1, 20), v = r(1, 11), d = r(1, 70),
            inputs = function(n, r)
                local tokens = {}
                for i = 1, n.t do tokens[i] = r(0, n.v - 1) end
                return { tokens = tokens }
            end,
        }
    end,
}
