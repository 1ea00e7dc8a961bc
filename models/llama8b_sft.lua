-- SPDX-License-Identifier: Apache-2.0
-- Supervised fine-tuning of Llama 3.1 8B on eight devices of 80 GB: weights and tokenizer from
-- Hugging Face, conversations packed into sequences, loss on the assistant's tokens alone.
-- A leaf for each micro-batch keeps gradients cut over the ranks (models/llama8b.lua).
-- docs/finetune.md has the commands around it.
local llama = require "arch.llama"

return trainer {
    name = "llama8b_sft",
    model = llama {
        layers = 32, dim = 4096, heads = 32, kv_heads = 8, ffn = 14336,
        vocab = 128256, norm_eps = 1e-5,
        rope = { theta = 5e5, scaling = llama.scaling_3_1 },
    },
    seq = 4096, micro_batch = 1, global_batch = 64, leaves = 64,
    mesh = { shard = 8 },
    loss = { mask = true },
    documents = { end_id = 128001 }, -- <|end_of_text|>, behind each conversation
    optimizer = adamw { lr = 1e-5, betas = { 0.9, 0.95 }, weight_decay = 0.0, clip = 1.0 },
    lr = cosine { warmup = 30, steps = 1000, min_ratio = 0.1 },
}
