-- SPDX-License-Identifier: Apache-2.0
-- Llama 3.2 1B, 1,235,814,400 parameters, tied head.
local llama = require "arch.llama"

return trainer {
    name = "llama3.2_1b",
    model = llama {
        layers = 16, dim = 2048, heads = 32, kv_heads = 8, ffn = 8192,
        vocab = 128256, norm_eps = 1e-5, tied = true,
        rope = { theta = 5e5, scaling = llama.scaling_3_2 },
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 4 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
