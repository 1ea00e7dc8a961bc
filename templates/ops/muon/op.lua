-- SPDX-License-Identifier: Apache-2.0
-- muon: in the direction of a run of a matrix's elements, which newton_schulz has made of
-- the whole matrix, and their state; out the new state, and the parameter in its own
-- dtype. An RtUpdateKernel: no op of the graph. Jordan et al., Muon: An optimizer for
-- hidden layers; lr_adjust is of the matrix's shape (PyTorch's adjust_lr_fn):
--   master = master * (1 - lr * decay) - lr * lr_adjust * direction
--   param = master, rounded
-- muon_momentum comes before newton_schulz; adamw takes what is no matrix.
return op {
    arithmetic = 1,
    doc = "Muon with decoupled weight decay: the step of what newton_schulz made",
    role = "optimizer",
    uses = { momentum = "muon_momentum", matrix = "newton_schulz", others = "adamw" },
    inputs = {
        { "param", "e" }, { "master", "e", class = "master" },
        { "direction", "e", class = "acc" },
    },
    outputs = {},
    axes = { e = "parallel" },
    flops = function(n) return 3 * n.e end,
    -- In place; n.lr, n.lr_adjust, n.decay are the step's.
    reference = function(n)
        for i = 1, n.e do
            local p = n.master[i] * (1 - n.lr * n.decay)
            n.master[i] = n.round("master", p - n.lr * n.lr_adjust * n.direction[i])
            n.param[i] = n.round("param", n.master[i])
        end
    end,
    cases = function(r)
        return { e = r(1, 300) }
    end,
}
