-- SPDX-License-Identifier: Apache-2.0
-- Gemma 2 2B, 2,614,341,888 parameters: every second layer sees all tokens, the others 4096;
-- scores and logits are capped.
local llama = require "arch.llama"

return trainer {
    name = "gemma2_2b",
    model = llama {
        layers = 26, dim = 2304, heads = 8, kv_heads = 4, head_dim = 256, ffn = 9216,
        vocab = 256000, norm_eps = 1e-6, tied = true, window = 4096, global_every = 2,
        sandwich_norm = true, norm_less_one = true, geglu = true, scale_embedding = true,
        attention_softcap = 50, logits_softcap = 30,
    },
    seq = 8192, micro_batch = 1, global_batch = 64,
    mesh = { shard = 4 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
