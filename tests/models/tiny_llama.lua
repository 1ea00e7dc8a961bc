-- SPDX-License-Identifier: Apache-2.0
-- The small llama that the tests train. No size divides another, so pads, tails and tiles are
-- all met; variants come by --set model.tied=true and the like.
local llama = require "arch.llama"

return trainer {
    name = "tiny_llama",
    model = llama {
        layers = 3, dim = 36, heads = 3, head_dim = 14, ffn = 50, vocab = 259,
        norm_eps = 1e-5,
    },
    seq = 19, micro_batch = 2, global_batch = 16,
    dtypes = { param = "f32" },
    loss = { chunk_tokens = 11 },
    optimizer = adamw { lr = 2e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0 },
    lr = cosine { warmup = 3, steps = 20, min_ratio = 0.1 },
}
