-- SPDX-License-Identifier: Apache-2.0
-- op_test_bounds.lua: how far a kernel's result may be from its reference's. Out: three tables.

-- Largest distance from the reference: a part of the value, a part of the largest value.
local bounds = {
    f64 = { 1e-13, 1e-13 }, f32 = { 1e-6, 2e-6 },
    bf16 = { 2.0 ^ -7, 1e-5 }, -- a value near the middle of two may round to either
    f16 = { 2.0 ^ -10, 1e-5 },
    e4m3 = { 0, 0 }, e5m2 = { 0, 0 }, -- divided by powers of two, then rounded once
}

-- Ops whose steps make small errors larger: by so much.
local grows = {
    newton_schulz = 50, -- singular values near 0 by 3.4445 a step
    linear_cross_entropy = 4, -- with a softcap 1 - tanh^2, where tanh is nearly 1
}

-- Ops that also round inside in bf16, so that the part of the largest value is as large.
local rounds_inside = {
    attention = "probabilities enter the product as bf16",
    attention_bwd = "probabilities and their gradients enter products as bf16",
    conv1d_bias = "the product is rounded before the bias is added",
    layernorm_bwd_add = "dx is rounded before dres is added",
    linear_bias = "the product is rounded before the bias is added",
    layernorm_bwd_add_frozen = "dx is rounded before dres is added",
    linear_cross_entropy = "dw is added chunk by chunk",
    linear_cross_entropy_alone = "dw is added chunk by chunk",
    linear_cross_entropy_frozen = "logits and their gradient are rounded",
    rmsnorm_bwd_add = "dx is rounded before dres is added",
    rmsnorm_bwd_add_frozen = "dx is rounded before dres is added",
}

return { bounds, grows, rounds_inside }
