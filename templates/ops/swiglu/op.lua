-- SPDX-License-Identifier: Apache-2.0
-- swiglu: in rows [f gate | f up]; out silu(gate) * up. act = "gelu": tanh-GELU of the gate
-- in place of silu (Gemma).
return op {
    arithmetic = 1,
    canonical = "swiglu",
    doc = "y = gate * sigmoid(gate) * up",
    inputs = { { "gu", "t 2*f" } },
    attrs = { act = { "string", "silu", quiet = true } },
    check = function(n)
        if n.act ~= "silu" and n.act ~= "gelu" then
            return ('act is "%s", not "silu" or "gelu"'):format(n.act)
        end
    end,
    outputs = { { "y", "t f", dtype = "gu" } },
    axes = { t = "parallel", f = "parallel" },
    cuts = { t = {}, f = {} },
    scale_of = { y = function(n) return n.t * ((n.f + 255) // 256) end },
    flops = function(n) return 5 * n.t * n.f end,
    backward = function(g, n, d)
        return { gu = g.swiglu_bwd { n.gu, d.y, act = n.act } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.f do
                local gate, up = n.gu[i * 2 * n.f + j], n.gu[i * 2 * n.f + n.f + j]
                local u = gate -- of the sigmoid; that of 2 u is (1 + tanh(u)) / 2
                if n.act == "gelu" then
                    u = 2 * math.sqrt(2 / math.pi) * (gate + 0.044715 * gate ^ 3)
                end
                n.y[i * n.f + j] = n.round("y", gate / (1 + math.exp(-u)) * up)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 20), f = r(1, 70) }
    end,
    variants = { { act = "gelu" } },
}
