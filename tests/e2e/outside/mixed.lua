-- SPDX-License-Identifier: Apache-2.0
-- A description of the architecture of docs/ops.md's examples.
local mixed = require "arch.mixed"

return trainer {
    name = "mixed",
    model = mixed { layers = 2, dim = 48, heads = 4, ffn = 96, vocab = 256 },
    seq = 32, micro_batch = 2, global_batch = 8,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 5e-3, weight_decay = 0.1, clip = 1.0 },
    lr = constant { warmup = 2 },
}
