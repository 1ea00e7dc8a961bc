-- SPDX-License-Identifier: Apache-2.0
-- Qwen3 4B, 4,022,468,096 parameters (see models/qwen3_0.6b.lua).
local llama = require "arch.llama"

return trainer {
    name = "qwen3_4b",
    model = llama {
        layers = 36, dim = 2560, heads = 32, kv_heads = 8, head_dim = 128, ffn = 9728,
        vocab = 151936, rope = { theta = 1e6 }, norm_eps = 1e-6, tied = true,
        qk_norm = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 4 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
