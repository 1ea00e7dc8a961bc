-- SPDX-License-Identifier: Apache-2.0
-- cross_entropy_bwd: in what cross_entropy read and its lse; out the gradient of the
-- logits, over them where nothing needs them again. Unscaled: see cross_entropy.
return op {
    doc = "dlogits = exp(logits - lse) - onehot(target)",
    inputs = {
        { "logits", "t v" }, { "targets", "t", class = "i32" },
        { "lse", "t", class = "acc" },
    },
    outputs = { { "dlogits", "t v", dtype = "logits", alias = "logits" } },
    axes = { t = "parallel", v = "parallel" },
    flops = function(n) return 3 * n.t * n.v end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for j = 1, n.v do
                local k = i * n.v + j
                local hot = n.targets[i + 1] + 1 == j and 1 or 0
                local p = math.exp(n.logits[k] - n.lse[i + 1])
                n.dlogits[k] = n.round("dlogits", p - hot)
            end
        end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more than a block of rt_row_body.h
        return {
            t = r(1, 20), v = long and r(1020, 1060) or r(1, 90),
            inputs = function(n, r)
                local targets = {}
                for i = 1, n.t do targets[i] = r(0, n.v - 1) end
                return { targets = targets }
            end,
        }
    end,
}
