-- SPDX-License-Identifier: Apache-2.0
-- The text model of Gemma 3 4B, 3,880,263,168 parameters: as the 1B, and rotary positions of
-- the layers that see all tokens are stretched by 8.
local llama = require "arch.llama"

return trainer {
    name = "gemma3_4b",
    model = llama {
        layers = 34, dim = 2560, heads = 8, kv_heads = 4, head_dim = 256, ffn = 10240,
        vocab = 262208, norm_eps = 1e-6, tied = true, qk_norm = true,
        rope = { theta = 1e6, local_theta = 1e4, scaling = llama.scaling_gemma_3 },
        window = 1024, global_every = 6,
        sandwich_norm = true, norm_less_one = true, geglu = true, scale_embedding = true,
    },
    seq = 4096, micro_batch = 1, global_batch = 64,
    mesh = { shard = 4 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
