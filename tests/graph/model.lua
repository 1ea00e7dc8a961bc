-- SPDX-License-Identifier: Apache-2.0
-- What the wrong architectures and op rules are tried with.
local family = require "family"

return trainer {
    name = "case",
    model = family { dim = 8, vocab = 16 },
    seq = 4, micro_batch = 2, global_batch = 4,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 1e-3 },
    lr = constant {},
}
