-- SPDX-License-Identifier: Apache-2.0
-- Llama 3.1 70B, 70,553,706,496 parameters, for 64 devices of 80 GB. Every activation
-- is kept for the backward, which is what bounds seq here. A leaf for each micro-batch:
-- leaves is 256, where the default would stop at 8.
local llama = require "arch.llama"

return trainer {
    name = "llama70b",
    model = llama {
        layers = 80, dim = 8192, heads = 64, kv_heads = 8, ffn = 28672,
        vocab = 128256, norm_eps = 1e-5,
        rope = { theta = 5e5, scaling = llama.scaling_3_1 },
    },
    seq = 1024, micro_batch = 1, global_batch = 256, leaves = 256,
    mesh = { shard = 64 },
    optimizer = adamw {
        lr = 1.5e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
