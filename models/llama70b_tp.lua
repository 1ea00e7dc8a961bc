-- SPDX-License-Identifier: Apache-2.0
-- Llama 3.1 70B, 70,553,706,496 parameters, for four nodes of eight devices of 80 GB: two
-- neighbours share each layer's heads and features, and 16 such pairs share states and batch. A
-- step has one micro-batch a pair, as long as fits: by the plan 19.0 s on H100, and 20.1 s with
-- micro-batches of 1. "auto" would be 0.5 % faster than "block" and fill the devices. shard = 32
-- without parts needs 17.5 s where micro-batches of 2 will do; docs/parallelism.md has what
-- pairs are for.
local llama = require "arch.llama"

return trainer {
    name = "llama70b_tp",
    model = llama {
        layers = 80, dim = 8192, heads = 64, kv_heads = 8, ffn = 28672,
        vocab = 128256, norm_eps = 1e-5,
        rope = { theta = 5e5, scaling = llama.scaling_3_1 },
    },
    seq = 8192, micro_batch = 4, global_batch = 64, leaves = 16,
    mesh = { shard = 16, tensor = 2, node = 8 },
    parts = { tensor = 2 },
    recompute = "block",
    optimizer = adamw {
        lr = 1.5e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 2000, steps = 100000, min_ratio = 0.1 },
}
