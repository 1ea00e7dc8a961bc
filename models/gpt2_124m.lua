-- SPDX-License-Identifier: Apache-2.0
-- GPT-2 small, 124,439,808 parameters, with the recipe that reproduces it: half a
-- million tokens a step, ten billion tokens. Eight leaves: at most eight ranks, and fewer
-- partial sums to keep than the 64 of the default.
local gpt2 = require "arch.gpt2"

return trainer {
    name = "gpt2_124m",
    model = gpt2 {
        layers = 12, dim = 768, heads = 12, vocab = 50257, max_positions = 1024,
    },
    seq = 1024, micro_batch = 4, global_batch = 512, leaves = 8,
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 6e-4, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 700, steps = 19560, min_ratio = 0.0 },
}
