local llama = require "arch.llama"
return trainer {
    name = "tiny",
    model = llama {
        layers = 2, dim = 64, heads = 4, kv_heads = 2, ffn = 128, vocab = 256,
    },
    seq = 64, micro_batch = 2, global_batch = 16,
    dtypes = { param = "f32" },
    mesh = { shard = 2 },
    optimizer = adamw { lr = 1e-3 },
    lr = cosine { warmup = 10, steps = 100 },
}
