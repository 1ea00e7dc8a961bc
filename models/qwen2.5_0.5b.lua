-- SPDX-License-Identifier: Apache-2.0
-- Qwen2.5 0.5B, 494,032,768 parameters: biases on q, k and v, tied head.
local llama = require "arch.llama"

return trainer {
    name = "qwen2.5_0.5b",
    model = llama {
        layers = 24, dim = 896, heads = 14, kv_heads = 2, ffn = 4864,
        vocab = 151936, rope = { theta = 1e6 }, norm_eps = 1e-6, tied = true,
        qkv_bias = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
