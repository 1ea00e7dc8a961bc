-- SPDX-License-Identifier: Apache-2.0
-- What the shipped models do not have: see twice.lua.
local twice = require "twice"

return trainer {
    name = "shared",
    model = twice { dim = 8, vocab = 16 },
    seq = 4, micro_batch = 2, global_batch = 4,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 1e-3 },
    lr = constant {},
}
