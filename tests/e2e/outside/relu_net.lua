-- SPDX-License-Identifier: Apache-2.0
-- A user's description of a user's architecture with a user's op.
local relu_net = require "arch.relu_net"

return trainer {
    name = "relu_net",
    model = relu_net { layers = 3, dim = 45, ffn = 70, vocab = 256 },
    seq = 33, micro_batch = 3, global_batch = 12,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 5e-3, weight_decay = 0.1, clip = 1.0 },
    lr = constant { warmup = 2 },
}
