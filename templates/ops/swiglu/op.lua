-- SPDX-License-Identifier: Apache-2.0
-- swiglu: in rows [f gate | f up]; out silu(gate) * up.
return op {
    arithmetic = 1,
    canonical = "swiglu",
    doc = "y = gate * sigmoid(gate) * up",
    inputs = { { "gu", "t 2*f" } },
    outputs = { { "y", "t f", dtype = "gu" } },
    axes = { t = "parallel", f = "parallel" },
    flops = function(n) return 5 * n.t * n.f end,
    backward = function(g, n, d)
        return { gu = g.swiglu_bwd { n.gu, d.y } }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.f do
                local gate, up = n.gu[i * 2 * n.f + j], n.gu[i * 2 * n.f + n.f + j]
                n.y[i * n.f + j] = n.round("y", gate / (1 + math.exp(-gate)) * up)
            end
        end
    end,
    cases = function(r)
        return { t = r(1, 20), f = r(1, 70) }
    end,
}
