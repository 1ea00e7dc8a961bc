-- SPDX-License-Identifier: Apache-2.0
-- SmolLM3 3B, 3,075,098,624 parameters: every fourth layer has no rotary positions.
local llama = require "arch.llama"

return trainer {
    name = "smollm3_3b",
    model = llama {
        layers = 36, dim = 2048, heads = 16, kv_heads = 4, ffn = 11008, vocab = 128256,
        rope = { theta = 5e6 }, norm_eps = 1e-6, tied = true, nope_every = 4,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 4 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
