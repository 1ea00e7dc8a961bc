-- SPDX-License-Identifier: Apache-2.0
-- op_test_bounds.lua: how far a kernel's result may be from its reference's. Out: three tables.

-- Largest distance from the reference: a part of the value, a part of the largest value.
local bounds = {
    f64 = { 1e-13, 1e-13 }, f32 = { 1e-6, 2e-6 },
    bf16 = { 2.0 ^ -7, 1e-5 }, -- a value near the middle of two may round to either
    f16 = { 2.0 ^ -10, 1e-5 },
    e4m3 = { 0, 0 }, e5m2 = { 0, 0 }, -- divided by powers of two, then rounded once
}

local function capped(attrs) -- 1 - tanh^2, where tanh is nearly 1
    return (attrs.softcap or 0) > 0 and 4 or 1
end

-- Ops whose steps make small errors larger: by so much.
local grows = {
    newton_schulz = function() return 50 end, -- singular values near 0 by 3.4445 a step
    linear_cross_entropy = capped,
    linear_cross_entropy_alone = function(attrs)
        return capped(attrs) * (host.device and 2 or 1) -- a tensor core cuts the last bits of sums off
    end,
}

-- Ops that also round inside in bf16, so that the part of the largest value is as large.
local rounds_inside = {
    attention = "probabilities enter the product as bf16",
    attention_bwd = "probabilities and their gradients enter products as bf16",
    conv1d_bias = "the product is rounded before the bias is added",
    layernorm_bwd_add = "dx is rounded before dres is added",
    linear_bias = "the product is rounded before the bias is added",
    layernorm_bwd_add_frozen = "dx is rounded before dres is added",
    layernorm_bwd_add_scale = "dx is rounded before dres is added",
    layernorm_bwd_add_scale_frozen = "dx is rounded before dres is added",
    linear_cross_entropy = "dw is added chunk by chunk",
    linear_cross_entropy_alone = "dw is added chunk by chunk",
    linear_cross_entropy_frozen = "logits and their gradient are rounded",
    rmsnorm_bwd_add = "dx is rounded before dres is added",
    rmsnorm_bwd_add_frozen = "dx is rounded before dres is added",
    rmsnorm_bwd_add_scale = "dx is rounded before dres is added",
    rmsnorm_bwd_add_scale_frozen = "dx is rounded before dres is added",
}

-- What a GPU's sums of fp8 products may lack: a tensor core adds the products of a step aligned to the
-- largest, with 13 bits below it (seen on an H100: errors up to 2^-14 of the largest sum).
local function lost_by_fp8(inputs)
    local a, sa, b, sb = table.unpack(inputs)
    local function largest(value)
        local most = 0.0
        for i = 1, value.elems do most = math.max(most, math.abs(value.data[i])) end
        return most
    end
    return a.shape[2] * 2.0 ^ -13 * largest(a) * largest(b) * sa.data[1] * sb.data[1]
end

return { bounds, grows, rounds_inside, lost_by_fp8 }
