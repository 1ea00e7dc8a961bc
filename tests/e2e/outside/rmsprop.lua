-- SPDX-License-Identifier: Apache-2.0
-- A user's description of a user's architecture with a user's op and a user's optimizer.
local relu_net = require "arch.relu_net"

return trainer {
    name = "rmsprop",
    model = relu_net { layers = 3, dim = 45, ffn = 70, vocab = 256 },
    seq = 33, micro_batch = 3, global_batch = 12,
    dtypes = { param = "f32" },
    optimizer = rmsprop { lr = 2e-3, alpha = 0.95, weight_decay = 0.1, clip = 1.0 },
    lr = constant { warmup = 2 },
}
