-- ${file}: what `fsdpgen init` wrote, to be changed.
--
--     fsdpgen plan ${file}
--     fsdpgen ${file} -o build/${name}
--     make -C build/${name}
--     build/${name}/trainer --data FILE
--
-- say what it costs, write the trainer, build it, and train it on a text or on token files.
-- `fsdpgen docs` lists every field. A field marked (bits) changes the numbers that are computed; the
-- others change only speed and memory. The target is neither: on another processor or GPU the same
-- numbers may differ in their last bits.
local gpt2 = require "arch.gpt2"

return trainer {
    name = "${name}",

    -- The model (bits): LayerNorm, learned positions, biases, tanh-GELU.
    model = gpt2 {
        layers = 6,     -- transformer blocks
        dim = 320,      -- width of the residual stream
        heads = 8,      -- attention heads: a divisor of dim
        ffn = 1280,     -- width of the feed-forward
        vocab = 256,    -- token ids; 256: a byte is a token, and any text is data
        max_positions = 256, -- learned positions: seq at least
        tied = true,    -- the head reads the embedding
        norm_eps = 1e-5,
    },

    -- A step (bits): global_batch sequences of seq tokens, micro_batch at a time on each rank.
    seq = 256,
    micro_batch = 2,
    global_batch = 16,

    -- Storage (bits): weights and activations, sums of gradients. "bf16" takes half the memory.
    dtypes = { param = "${param}", reduce = "f32" },

    -- The update (bits). adamw, sgd, lion or muon; clip is the largest gradient norm.
    optimizer = adamw { lr = 2e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1, clip = 1.0 },

    -- The learning rate over the steps (bits): constant, linear, cosine, wsd or inverse_sqrt.
    lr = cosine { warmup = 20, steps = 400, min_ratio = 0.1 },

    -- Parameters that are treated in another way, by name (bits).
    -- groups = { { match = "*.bias", lr = 0.5 }, { match = "transformer.wpe.weight", frozen = true } },

    -- The seed of initial weights and data order (bits).
    seed = 1,

    -- Packed documents: attention ends at this token (bits).
    -- documents = { end_id = 0 },

    -- Ranks: shard of them hold one copy of the model, replicate copies are trained.
    mesh = { replicate = 1, shard = ${shard} },

    -- What is gathered and freed together: so many blocks.
    wrap = 1,

    -- Units that are gathered ahead of their use.
    prefetch = { forward = 1, backward = 1 },

    -- Activations that are computed again in the backward: "none", "cheap", "block" or "auto".
    recompute = "none",

    -- What the trainer is compiled for: this machine's cores, or GPUs by name.
    ${target}
}
