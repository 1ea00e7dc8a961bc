-- SPDX-License-Identifier: Apache-2.0
-- The small GPT-2 that the tests train; odd sizes, and fewer tokens than positions.
local gpt2 = require "arch.gpt2"

return trainer {
    name = "tiny_gpt2",
    model = gpt2 { layers = 3, dim = 42, heads = 3, vocab = 263, max_positions = 23 },
    seq = 19, micro_batch = 2, global_batch = 16,
    dtypes = { param = "f32" },
    loss = { chunk_tokens = 11 },
    optimizer = adamw { lr = 2e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0 },
    lr = cosine { warmup = 3, steps = 20, min_ratio = 0.1 },
}
