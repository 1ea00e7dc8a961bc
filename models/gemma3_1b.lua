-- SPDX-License-Identifier: Apache-2.0
-- Gemma 3 1B, 999,885,952 parameters: every sixth layer sees all tokens, the others 512, with
-- another base of rotary positions.
local llama = require "arch.llama"

return trainer {
    name = "gemma3_1b",
    model = llama {
        layers = 26, dim = 1152, heads = 4, kv_heads = 1, head_dim = 256, ffn = 6912,
        vocab = 262144, rope = { theta = 1e6, local_theta = 1e4 }, norm_eps = 1e-6,
        tied = true, qk_norm = true, window = 512, global_every = 6,
        sandwich_norm = true, norm_less_one = true, geglu = true, scale_embedding = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
