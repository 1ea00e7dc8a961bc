-- SPDX-License-Identifier: Apache-2.0
-- swiglu_bwd: in what swiglu read and the gradient of its output; out the gradient of
-- the rows [f gate | f up], in their place if nothing needs them again.
return op {
    arithmetic = 1,
    canonical = "swiglu_bwd",
    doc = "gradient of swiglu: dgate = dy up s (1 + gate (1 - s)), dup = dy gate s",
    inputs = { { "gu", "t 2*f" }, { "dy", "t f" } },
    attrs = { act = { "string", "silu", quiet = true } },
    outputs = { { "dgu", "t 2*f", dtype = "gu", alias = "gu" } },
    axes = { t = "parallel", f = "parallel" },
    cuts = { t = {}, f = {} },
    scale_of = { dgu = function(n) return n.t * ((n.f + 255) // 256) end },
    flops = function(n) return 11 * n.t * n.f end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.f do
                local at, dy = i * 2 * n.f + j, n.dy[i * n.f + j]
                local gate, up = n.gu[at], n.gu[at + n.f]
                local u, slope = gate, 1.0
                if n.act == "gelu" then
                    local c = 2 * math.sqrt(2 / math.pi)
                    u, slope = c * (gate + 0.044715 * gate ^ 3), c * (1 + 3 * 0.044715 * gate ^ 2)
                end
                local s = 1 / (1 + math.exp(-u))
                n.dgu[at] = n.round("dgu", dy * up * s * (1 + gate * slope * (1 - s)))
                n.dgu[at + n.f] = n.round("dgu", dy * gate * s)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 20), f = r(1, 70) }
    end,
    variants = { { act = "gelu" } },
}
