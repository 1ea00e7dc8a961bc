-- SPDX-License-Identifier: Apache-2.0
-- adamw: in the summed gradient of a run of elements and their state; out the new
-- state, and the parameter in its own dtype. Its kernel has the form of the runtime's
-- RtUpdateKernel; it is not part of the graph. PyTorch's order: decay first, then moments, then
-- the step:
--   g = grad * scale; master = master * (1 - lr * decay)
--   m = m + (g - m) * (1 - beta1); v = v * beta2 + (1 - beta2) * g * g
--   master = master - lr/bias1 * m / (sqrt(v) / sqrt(bias2) + eps)
--   param = master, rounded
return op {
    arithmetic = 1,
    doc = "AdamW with decoupled weight decay; bias1 = 1 - beta1^t, bias2 = 1 - beta2^t",
    role = "optimizer",
    default = true,
    fields = {
        { "betas", "list", count = 2, item = { "beta", "number", min = 0, below = 1 },
          default = { 0.9, 0.95 }, feeds = { "beta1", "beta2" },
          doc = "decay rates of the two moments" },
        { "eps", "number", above = 0, max = 1, default = 1e-8, doc = "added to the square root" },
    },
    moments = 2,
    dtypes = { master = { "f32", "f64", "split", "bf16" }, moments = { "f32", "f64", "bf16" } },
    inputs = {
        { "param", "e" }, { "master", "e", class = "master" },
        { "moment1", "e", class = "moments" }, { "moment2", "e", class = "moments" },
        { "grad", "e", class = "grad" },
    },
    attrs = { beta1 = "number", beta2 = "number", eps = "number" },
    outputs = {},
    axes = { e = "parallel" },
    flops = function(n) return 15 * n.e end,
    -- In place; n.lr, n.scale, n.decay, n.bias1 and n.bias2 belong to the step.
    reference = function(n)
        for i = 1, n.e do
            local g = n.grad[i] * n.scale
            local p = n.master[i] * (1 - n.lr * n.decay)
            local m = n.moment1[i] + (g - n.moment1[i]) * (1 - n.beta1)
            local v = n.moment2[i] * n.beta2 + (1 - n.beta2) * g * g
            m, v = n.round("moment1", m), n.round("moment2", v)
            p = p - n.lr / n.bias1 * m / (math.sqrt(v) / math.sqrt(n.bias2) + n.eps)
            n.moment1[i], n.moment2[i] = m, v
            n.master[i] = n.round("master", p)
            n.param[i] = n.round("param", n.master[i])
        end
    end,
    cases = function(r)
        return { e = r(1, 300), beta1 = 0.9, beta2 = 0.95, eps = 1e-8 }
    end,
}
