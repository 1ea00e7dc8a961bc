-- SPDX-License-Identifier: Apache-2.0
-- Columns, heads and rows that move: see cuts.lua.
local cuts = require "cuts"

return trainer {
    name = "structure",
    model = cuts { dim = 12, heads = 3, vocab = 256, layers = 2 },
    seq = 16, micro_batch = 2, global_batch = 8,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 3e-3 },
    lr = constant {},
}
