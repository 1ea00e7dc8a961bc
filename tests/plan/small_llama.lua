-- SPDX-License-Identifier: Apache-2.0
-- A llama small enough for the interpreter, whose mathematics are naive Lua loops.
local llama = require "arch.llama"

return trainer {
    name = "small_llama",
    model = llama { layers = 3, dim = 12, heads = 2, kv_heads = 1, ffn = 10, vocab = 23 },
    seq = 5, micro_batch = 1, global_batch = 8,
    dtypes = { param = "f32" },
    loss = { chunk_tokens = 3 },
    optimizer = adamw { lr = 2e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0 },
}
