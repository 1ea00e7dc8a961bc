-- SPDX-License-Identifier: Apache-2.0
-- The description that the mistakes of list.txt are made in.
local llama = require "arch.llama"

return trainer {
    name = "mine",
    model = llama {
        layers = 2, dim = 64, heads = 4, kv_heads = 2, ffn = 128, vocab = 256,
    },
    seq = 64, micro_batch = 2, global_batch = 16,
    mesh = { shard = 1 },
    optimizer = adamw { lr = 1e-3, clip = 1.0 },
    lr = cosine { warmup = 2, steps = 6 },
}
