-- SPDX-License-Identifier: Apache-2.0
local chained = require "arch.chained"

return trainer {
    name = "chained",
    model = chained { dim = 32, ffn = 48, vocab = 256 },
    seq = 16, micro_batch = 1, global_batch = 4,
    optimizer = adamw { lr = 3e-3 },
    lr = constant {},
}
