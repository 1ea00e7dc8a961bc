-- SPDX-License-Identifier: Apache-2.0
-- A random graph: --set model.graph=N chooses which.
local family = require "family"

return trainer {
    name = "random",
    model = family { dim = 5, vocab = 256, graph = 0 },
    seq = 3, micro_batch = 2, global_batch = 8,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 1e-3 },
    lr = constant {},
}
