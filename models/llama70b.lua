-- SPDX-License-Identifier: Apache-2.0
-- Llama 3.1 70B, 70,553,706,496 parameters, for eight nodes of eight devices of 80 GB. A step
-- has one micro-batch a rank, which is long enough that its products take longer than what it
-- communicates. Of its activations those are computed again that do not fit.
local llama = require "arch.llama"

return trainer {
    name = "llama70b",
    model = llama {
        layers = 80, dim = 8192, heads = 64, kv_heads = 8, ffn = 28672,
        vocab = 128256, norm_eps = 1e-5,
        rope = { theta = 5e5, scaling = llama.scaling_3_1 },
    },
    seq = 8192, micro_batch = 1, global_batch = 64, leaves = 64,
    mesh = { shard = 64, node = 8 },
    recompute = "auto",
    optimizer = adamw {
        lr = 1.5e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
