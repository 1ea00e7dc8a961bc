-- SPDX-License-Identifier: Apache-2.0
-- Llama 3.1 8B, 8,030,261,248 parameters, for eight devices of 80 GB. A leaf for each
-- micro-batch: with the default of 8, a rank adds 8 micro-batches into whole gradients
-- before they are reduced, which takes 16 GiB more and does not fit.
local llama = require "arch.llama"

return trainer {
    name = "llama8b",
    model = llama {
        layers = 32, dim = 4096, heads = 32, kv_heads = 8, ffn = 14336,
        vocab = 128256, norm_eps = 1e-5,
        rope = { theta = 5e5, scaling = llama.scaling_3_1 },
    },
    seq = 8192, micro_batch = 1, global_batch = 64, leaves = 64,
    mesh = { replicate = 1, shard = 8 },
    optimizer = adamw {
        lr = 3e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
