-- SPDX-License-Identifier: Apache-2.0
-- A user's description of an architecture whose ops are formulas.
local formula_net = require "arch.formula_net"

return trainer {
    name = "formula_net",
    model = formula_net { layers = 3, dim = 48, ffn = 72, vocab = 256 },
    seq = 33, micro_batch = 3, global_batch = 12,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 5e-3, weight_decay = 0.1, clip = 1.0 },
    lr = constant { warmup = 2 },
}
