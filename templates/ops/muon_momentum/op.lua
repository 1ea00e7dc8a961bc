-- SPDX-License-Identifier: Apache-2.0
-- muon_momentum: in the summed gradient of a run of a matrix's elements and their moment;
-- out the new moment, and what newton_schulz makes the direction from. An RtUpdateKernel,
-- outside the graph. PyTorch's order (torch.optim.Muon):
--   g = grad * scale; m = m + (g - m) * (1 - momentum)
--   direction = m, or with nesterov m + (g - m) * (1 - momentum)
return op {
    arithmetic = 1,
    doc = "the moment of Muon, before newton_schulz",
    role = "optimizer",
    inputs = {
        { "moment1", "e", class = "moments" }, { "grad", "e", class = "grad" },
        { "direction", "e", class = "acc" },
    },
    attrs = { momentum = "number", nesterov = "bool" },
    outputs = {},
    axes = { e = "parallel" },
    flops = function(n) return 7 * n.e end,
    -- In place; n.scale belongs to the step.
    reference = function(n)
        for i = 1, n.e do
            local g = n.grad[i] * n.scale
            local m = n.moment1[i] + (g - n.moment1[i]) * (1 - n.momentum)
            m = n.round("moment1", m)
            n.moment1[i] = m
            n.direction[i] = n.nesterov and m + (g - m) * (1 - n.momentum) or m
        end
    end,
    cases = function(r)
        return { e = r(1, 300), momentum = 0.95, nesterov = r(0, 1) == 0 }
    end,
}
