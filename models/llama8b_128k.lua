-- SPDX-License-Identifier: Apache-2.0
-- Llama 3.1 8B, 8,030,261,248 parameters, with sequences of 131,072 tokens, for eight devices of
-- 80 GB that share each of them. "auto" computes cheap ops of 28 of 32 layers again: by the
-- plan 93 s a step on H100. "block" would need 114 s, and 30 GiB of the 79 that this fills. A single
-- leaf, as there is one data rank; leaves = 8 is for up to 8 such groups, and takes 97 s.
local llama = require "arch.llama"

return trainer {
    name = "llama8b_128k",
    model = llama {
        layers = 32, dim = 4096, heads = 32, kv_heads = 8, ffn = 14336,
        vocab = 128256, norm_eps = 1e-5,
        rope = { theta = 5e5, scaling = llama.scaling_3_1 },
    },
    seq = 131072, micro_batch = 1, global_batch = 8, leaves = 1,
    mesh = { context = 8 },
    parts = { context = 8 },
    recompute = "auto",
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
