-- SPDX-License-Identifier: Apache-2.0
-- lion: in the summed gradient of a run of elements and their state; out the new state,
-- and the parameter in its own dtype. An RtUpdateKernel, outside the graph. Chen et al.,
-- Symbolic Discovery of Optimization Algorithms, algorithm 2; sign(0) = 0:
--   g = grad * scale; master = master * (1 - lr * decay)
--   c = m * beta1 + g * (1 - beta1); master = master - lr * sign(c)
--   m = m * beta2 + g * (1 - beta2)
--   param = master, rounded
return op {
    arithmetic = 1,
    doc = "Lion with decoupled weight decay: the sign of a moment",
    role = "optimizer",
    fields = {
        { "betas", "list", count = 2, item = { "beta", "number", min = 0, below = 1 },
          default = { 0.9, 0.99 }, feeds = { "beta1", "beta2" },
          doc = "decay rates of the moment: in the update, and in the stored moment" },
    },
    moments = 1,
    dtypes = { master = { "f32", "f64", "split", "bf16" }, moments = { "f32", "f64", "bf16" } },
    inputs = {
        { "param", "e" }, { "master", "e", class = "master" },
        { "moment1", "e", class = "moments" }, { "grad", "e", class = "grad" },
    },
    attrs = { beta1 = "number", beta2 = "number" },
    outputs = {},
    axes = { e = "parallel" },
    flops = function(n) return 11 * n.e end,
    -- In place; n.lr, n.scale and n.decay belong to the step.
    reference = function(n)
        for i = 1, n.e do
            local g, m = n.grad[i] * n.scale, n.moment1[i]
            local c = m * n.beta1 + g * (1 - n.beta1)
            local sign = c > 0 and 1 or c < 0 and -1 or 0
            n.moment1[i] = n.round("moment1", m * n.beta2 + g * (1 - n.beta2))
            n.master[i] =
                n.round("master", n.master[i] * (1 - n.lr * n.decay) - n.lr * sign)
            n.param[i] = n.round("param", n.master[i])
        end
    end,
    cases = function(r)
        return { e = r(1, 300), beta1 = 0.9, beta2 = 0.99 }
    end,
}
