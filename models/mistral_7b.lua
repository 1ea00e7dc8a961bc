-- SPDX-License-Identifier: Apache-2.0
-- Mistral 7B v0.1, 7,241,732,096 parameters: a token sees 4096, itself included.
-- A leaf for each micro-batch keeps gradients cut over the ranks (models/llama8b.lua).
local llama = require "arch.llama"

return trainer {
    name = "mistral_7b",
    model = llama {
        layers = 32, dim = 4096, heads = 32, kv_heads = 8, ffn = 14336,
        vocab = 32000, window = 4096, norm_eps = 1e-5,
    },
    seq = 8192, micro_batch = 1, global_batch = 64, leaves = 64,
    mesh = { shard = 8 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
