-- SPDX-License-Identifier: Apache-2.0
-- A byte-level llama of three million parameters. On two cores it learns to spell and to
-- punctuate English in about two minutes. Any text is its data: a byte is a token.
local llama = require "arch.llama"

return trainer {
    name = "demo",
    model = llama {
        layers = 4, dim = 256, heads = 8, kv_heads = 4, ffn = 704, vocab = 256,
        tied = true,
    },
    seq = 256, micro_batch = 2, global_batch = 16,
    dtypes = { param = "f32" },
    mesh = { shard = 2 },
    optimizer = adamw {
        lr = 3e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0,
    },
    lr = cosine { warmup = 10, steps = 200, min_ratio = 0.1 },
}
