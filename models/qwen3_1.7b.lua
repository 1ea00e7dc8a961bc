-- SPDX-License-Identifier: Apache-2.0
-- Qwen3 1.7B, 1,720,574,976 parameters (see models/qwen3_0.6b.lua).
local llama = require "arch.llama"

return trainer {
    name = "qwen3_1.7b",
    model = llama {
        layers = 28, dim = 2048, heads = 16, kv_heads = 8, head_dim = 128, ffn = 6144,
        vocab = 151936, rope = { theta = 1e6 }, norm_eps = 1e-6, tied = true,
        qk_norm = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
