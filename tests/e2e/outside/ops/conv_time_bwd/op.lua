-- SPDX-License-Identifier: Apache-2.0
-- conv_time_bwd: in what conv_time read and the gradient of its output; out the gradients of both.
-- That of the weight is one of a parameter: it has the dtype of gradients, and may be added to.
return op {
    doc = "dx[i] = sum over k of w[k] * dy[i + k]; dw[k] = sum over i of x[i - k] * dy[i]",
    inputs = { { "x", "t d" }, { "w", "k d" }, { "dy", "t d" } },
    attrs = { seq = { "int", from = "seq" } },
    outputs = {
        { "dx", "t d", dtype = "x" }, { "dw", "k d", dtype = "grad", add = true },
    },
    axes = { t = "reduction", d = "parallel", k = "parallel" },
    flops = function(n) return 4 * n.t * n.d * n.k end,
    reference = function(n)
        local dx, dw = {}, {}
        for i = 1, n.t * n.d do dx[i] = 0.0 end
        for i = 1, n.k * n.d do dw[i] = 0.0 end
        for i = 0, n.t - 1 do
            for k = 0, math.min(n.k - 1, i % n.seq) do
                for j = 1, n.d do
                    local dy, at = n.dy[i * n.d + j], (i - k) * n.d + j
                    dx[at] = dx[at] + n.w[k * n.d + j] * dy
                    dw[k * n.d + j] = dw[k * n.d + j] + n.x[at] * dy
                end
            end
        end
        for i = 1, n.t * n.d do n.dx[i] = n.round("dx", dx[i]) end
        for i = 1, n.k * n.d do n.dw[i] = n.round("dw", dw[i]) end
    end,
    cases = function(r)
        local seq = r(1, 9)
        return { t = r(1, 4) * seq, seq = seq, d = r(1, 40), k = r(1, 5) }
    end,
}
