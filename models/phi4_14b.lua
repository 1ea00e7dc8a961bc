-- SPDX-License-Identifier: Apache-2.0
-- Phi-4, 14,659,507,200 parameters: its checkpoints hold q, k and v in one tensor, gate and
-- up in another. A leaf for each micro-batch keeps gradients cut over the ranks
-- (models/llama8b.lua).
local llama = require "arch.llama"

return trainer {
    name = "phi4_14b",
    model = llama {
        layers = 40, dim = 5120, heads = 40, kv_heads = 10, ffn = 17920, vocab = 100352,
        rope = { theta = 2.5e5 }, norm_eps = 1e-5, fused_names = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64, leaves = 64,
    mesh = { shard = 8 },
    recompute = "auto",
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
