-- SPDX-License-Identifier: Apache-2.0
-- rmsprop: a user's optimizer. In the summed gradient of a run of elements and their state;
-- out the new state, and the parameter in its own dtype:
--   g = grad * scale; master = master * (1 - lr * decay)
--   v = v * alpha + (1 - alpha) * g * g; master = master - lr * g / (sqrt(v) + eps)
return op {
    doc = "RMSprop with decoupled weight decay",
    role = "optimizer",
    fields = {
        { "alpha", "number", min = 0, below = 1, default = 0.99, doc = "decay of the moment" },
        { "eps", "number", above = 0, max = 1, default = 1e-8, doc = "added to the root" },
    },
    moments = 1,
    inputs = {
        { "param", "e" }, { "master", "e", class = "master" },
        { "moment1", "e", class = "moments" }, { "grad", "e", class = "grad" },
    },
    attrs = { alpha = "number", eps = "number" },
    outputs = {},
    axes = { e = "parallel" },
    flops = function(n) return 11 * n.e end,
    reference = function(n)
        for i = 1, n.e do
            local g = n.grad[i] * n.scale
            local v = n.round("moment1", n.moment1[i] * n.alpha + (1 - n.alpha) * g * g)
            local p = n.master[i] * (1 - n.lr * n.decay)
            n.moment1[i] = v
            n.master[i] = n.round("master", p - n.lr * g / (math.sqrt(v) + n.eps))
            n.param[i] = n.round("param", n.master[i])
        end
    end,
    cases = function(r)
        return { e = r(1, 300), alpha = 0.99, eps = 1e-8 }
    end,
}
