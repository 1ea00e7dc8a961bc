-- SPDX-License-Identifier: Apache-2.0
-- One block whose products are long in K: the gradient of a 768 x 768 weight sums over 8192
-- tokens, which libraries split among threads; ffn and vocab are odd.
local llama = require "arch.llama"

return trainer {
    name = "wide_llama",
    model = llama {
        layers = 1, dim = 768, heads = 12, kv_heads = 2, head_dim = 64, ffn = 333,
        vocab = 257,
    },
    seq = 64, micro_batch = 128, global_batch = 256,
    dtypes = { param = "f32" },
    optimizer = adamw { lr = 1e-3 },
    lr = constant {},
}
