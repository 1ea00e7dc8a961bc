-- SPDX-License-Identifier: Apache-2.0
-- Qwen3 32B, 32,762,123,264 parameters (see models/qwen3_0.6b.lua).
-- A leaf for each micro-batch keeps gradients cut over the ranks (models/llama8b.lua).
local llama = require "arch.llama"

return trainer {
    name = "qwen3_32b",
    model = llama {
        layers = 64, dim = 5120, heads = 64, kv_heads = 8, head_dim = 128, ffn = 25600,
        vocab = 151936, rope = { theta = 1e6 }, norm_eps = 1e-6, tied = false,
        qk_norm = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64, leaves = 64,
    mesh = { shard = 16, node = 8 },
    recompute = "auto",
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
