-- SPDX-License-Identifier: Apache-2.0
-- Random graphs of a seed: blocks in which any earlier value may be used again, parameters too.
local function source(seed)
    local state = seed * 2654435761 % 4294967296
    return function(n) -- 1..n
        state = (state * 1664525 + 1013904223) % 4294967296
        return state // 65536 % n + 1
    end
end

local function body(g, m, y, r)
    local values, params = { y }, {}
    local function any() return values[math.max(1, #values + 1 - r(4))] end
    local function param(name, dims, init)
        if #params > 0 and r(4) == 1 then
            local p = params[r(#params)]
            if #p.shape == #dims and p.shape[1] == dims[1] then return p end
        end
        local p = g:param { name .. #params, dims, init = init, std = 0.3 }
        params[#params + 1] = p
        return p
    end
    local d = m.dim
    local make = {
        function() return g.add { any(), any() } end,
        function() return g.add { any(), any() } end,
        function() return g.gelu { any() } end,
        function() return g.linear { any(), param("square", { d, d }) } end,
        function() return g.bias { g.linear { any(), param("square", { d, d }) },
                                   param("shift", { d }, "zeros") } end,
        function() return (g.rmsnorm { any(), param("gain", { d }, "ones") }) end,
        function() -- two gradients of one kernel: both parameters are its own
            local n = #values
            return (g.layernorm { any(), g:param { "scale" .. n, { d }, init = "ones" },
                                  g:param { "offset" .. n, { d }, init = "zeros" } })
        end,
        function() return g.swiglu { g.linear { any(), param("wide", { 2 * d, d }) } } end,
        function()
            local h = g.add { any(), any() }
            values[#values + 1] = h
            return (g.rmsnorm { h, param("gain", { d }, "ones") })
        end,
    }
    for _ = 1, 3 + r(9) do values[#values + 1] = make[r(#make)]() end
    local out = values[1] -- every value is used, so every parameter has a gradient
    for i = 2, #values do out = g.add { values[i], out } end
    return out
end

return arch {
    name = "family",
    fields = {
        { "dim", "int", min = 1, doc = "width" }, { "vocab", "int", min = 1, doc = "ids" },
        { "graph", "int", min = 0, doc = "seed of the graph" },
    },
    build = function(m, b)
        local r = source(m.graph)
        local x = b:block("embed", "embed", "", function(g)
            return g.embed { g:tokens(), g:param { global = "emb", { m.vocab, m.dim } } }
        end)
        for i = 1, r(3) do
            x = b:block("mid." .. i, "mid", "mid." .. i .. ".", function(g, y)
                return body(g, m, y, r)
            end, x)
        end
        b:block("head", "head", "", function(g, y)
            local h = body(g, m, y, r)
            local logits = g.linear { h, g:param { global = "emb", { m.vocab, m.dim } } }
            return g.cross_entropy { logits, g:targets() }
        end, x)
    end,
}
