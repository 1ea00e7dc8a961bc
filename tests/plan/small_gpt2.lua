-- SPDX-License-Identifier: Apache-2.0
-- A GPT-2 small enough for the interpreter, whose mathematics are naive Lua loops.
local gpt2 = require "arch.gpt2"

return trainer {
    name = "small_gpt2",
    model = gpt2 { layers = 2, dim = 10, heads = 2, vocab = 19, max_positions = 7 },
    seq = 5, micro_batch = 1, global_batch = 8,
    dtypes = { param = "f32" },
    loss = { chunk_tokens = 3 },
    optimizer = adamw { lr = 2e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0 },
}
