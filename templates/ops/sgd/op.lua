-- SPDX-License-Identifier: Apache-2.0
-- sgd: in the summed gradient of a run of elements and their state; out the new state,
-- and the parameter in its own dtype. An RtUpdateKernel, outside the graph. The moment
-- is PyTorch's (no dampening: the learning rate multiplies the moment, not its inputs); the
-- decay is decoupled as in adamw, while PyTorch adds it to the gradient:
--   g = grad * scale; master = master * (1 - lr * decay)
--   m = m * momentum + g; master = master - lr * m
--   param = master, rounded
-- Without momentum there is no m: master = master - lr * g.
return op {
    arithmetic = 1,
    doc = "SGD with momentum and decoupled weight decay",
    role = "optimizer",
    fields = {
        { "momentum", "number", min = 0, below = 1, default = 0,
          doc = "decay rate of the moment; 0: no moment" },
    },
    moments = function(f) return f.momentum ~= 0 and 1 or 0 end,
    dtypes = { master = { "f32", "f64", "split", "bf16" }, moments = { "f32", "f64", "bf16" } },
    inputs = {
        { "param", "e" }, { "master", "e", class = "master" },
        { "moment1", "e", class = "moments" }, { "grad", "e", class = "grad" },
    },
    attrs = { momentum = "number" },
    outputs = {},
    axes = { e = "parallel" },
    flops = function(n) return 6 * n.e end,
    -- In place; n.lr, n.scale and n.decay belong to the step.
    reference = function(n)
        for i = 1, n.e do
            local m = n.grad[i] * n.scale
            if n.momentum ~= 0 then
                m = n.round("moment1", n.moment1[i] * n.momentum + m)
                n.moment1[i] = m
            end
            n.master[i] = n.round("master", n.master[i] * (1 - n.lr * n.decay) - n.lr * m)
            n.param[i] = n.round("param", n.master[i])
        end
    end,
    cases = function(r)
        return { e = r(1, 300), momentum = r(0, 2) == 0 and 0 or 0.9 }
    end,
}
