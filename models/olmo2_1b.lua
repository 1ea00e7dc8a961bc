-- SPDX-License-Identifier: Apache-2.0
-- OLMo 2 1B, 1,484,916,736 parameters: norms after attention and feed-forward, and of all q
-- and all k heads together.
local llama = require "arch.llama"

return trainer {
    name = "olmo2_1b",
    model = llama {
        layers = 16, dim = 2048, heads = 16, ffn = 8192, vocab = 100352,
        rope = { theta = 5e5 }, norm_eps = 1e-6, qk_norm_all = true, post_norm = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
