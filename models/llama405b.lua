-- SPDX-License-Identifier: Apache-2.0
-- Llama 3.1 405B, 405,853,388,800 parameters, for 64 nodes of eight devices of 141 GB. A leaf
-- for each rank: leaves is 512, where the default would stop at 8. "auto" would be 2 % faster than
-- "block" and fill the devices.
local llama = require "arch.llama"

return trainer {
    name = "llama405b",
    model = llama {
        layers = 126, dim = 16384, heads = 128, kv_heads = 8, ffn = 53248,
        vocab = 128256, norm_eps = 1e-5,
        rope = { theta = 5e5, scaling = llama.scaling_3_1 },
    },
    seq = 8192, micro_batch = 1, global_batch = 512, leaves = 512,
    mesh = { shard = 512, node = 8 },
    recompute = "block",
    optimizer = adamw {
        lr = 8e-5, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 8000, steps = 1200000, min_ratio = 0.01 },
}
