-- SPDX-License-Identifier: Apache-2.0
-- Granite 3.1 2B, 2,533,531,648 parameters: multipliers of embeddings, scores, residual
-- branches and logits.
local llama = require "arch.llama"

return trainer {
    name = "granite3.1_2b",
    model = llama {
        layers = 40, dim = 2048, heads = 32, kv_heads = 8, ffn = 8192, vocab = 49155,
        rope = { theta = 5e6 }, norm_eps = 1e-5, tied = true,
        embedding_multiplier = 12, attention_multiplier = 0.015625,
        residual_multiplier = 0.22, logits_scaling = 8,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
