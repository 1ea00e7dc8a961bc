-- SPDX-License-Identifier: Apache-2.0
local turned = require "arch.turned"

return trainer {
    name = "turned",
    model = turned { dim = 96, vocab = 256 },
    seq = 32, micro_batch = 2, global_batch = 8,
    optimizer = adamw { lr = 3e-3 },
    lr = constant {},
}
