-- SPDX-License-Identifier: Apache-2.0
-- muon: in the direction of a run of a matrix's elements, which newton_schulz made from
-- the whole matrix, and their state; out the new state, and the parameter in its own
-- dtype. An RtUpdateKernel, outside the graph. Jordan et al., Muon: An optimizer for
-- hidden layers; lr_adjust is of the matrix's shape (PyTorch's adjust_lr_fn):
--   master = master * (1 - lr * decay) - lr * lr_adjust * direction
--   param = master, rounded
-- muon_momentum comes before newton_schulz; adamw updates the parameters that are not matrices.
return op {
    arithmetic = 1,
    doc = "Muon with decoupled weight decay: the step of what newton_schulz made",
    role = "optimizer",
    fields = {
        { "momentum", "number", min = 0, below = 1, default = 0.95,
          feeds = "momentum.momentum", doc = "decay rate of the moment" },
        { "nesterov", "bool", default = true, feeds = "momentum.nesterov",
          doc = "Nesterov momentum: the update mixes the gradient into the moment once more" },
        { "ns_steps", "int", min = 1, max = 99, default = 5, feeds = "matrix.steps",
          doc = "Newton-Schulz steps that make a matrix orthogonal" },
        { "ns_coefficients", "list", count = 3,
          item = { "coefficient", "number", min = -1e3, max = 1e3 },
          default = { 3.4445, -4.775, 2.0315 },
          feeds = { "matrix.a", "matrix.b", "matrix.c" },
          doc = "coefficients of X, X X^T X and (X X^T)^2 X in each of these steps" },
        { "eps", "number", above = 0, max = 1, default = 1e-7, feeds = "matrix.eps",
          doc = "lower bound of the norm by which a matrix is divided" },
        { "adjust_lr", "string", values = { "match_rms_adamw", "original" },
          default = "match_rms_adamw", feeds = false,
          doc = "factor of lr for an m x n matrix: 0.2 sqrt(max(m, n)), which makes updates as "
              .. "large as adamw's; or sqrt(max(1, m / n))" },
    },
    moments = 1,
    dtypes = { master = { "f32", "f64", "split", "bf16" }, moments = { "f32", "f64", "bf16" } },
    lr_adjust = function(f, m, n)
        if f.adjust_lr == "match_rms_adamw" then return 0.2 * math.sqrt(math.max(m, n)) end
        return math.sqrt(math.max(1, m / n))
    end,
    uses = { momentum = "muon_momentum", matrix = "newton_schulz", others = "adamw" },
    inputs = {
        { "param", "e" }, { "master", "e", class = "master" },
        { "direction", "e", class = "acc" },
    },
    outputs = {},
    axes = { e = "parallel" },
    flops = function(n) return 3 * n.e end,
    -- In place; n.lr, n.lr_adjust and n.decay belong to the step.
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
