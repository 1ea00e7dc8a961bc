-- SPDX-License-Identifier: Apache-2.0
-- cross_entropy: in logits and target ids; out the sum of the tokens' losses, and the
-- logarithm of each row's sum of exponentials for the backward. A token's loss is
-- rounded to the accumulation dtype; the sum is f64, in token order. No division by
-- the number of tokens: that joins the gradient's scale in the optimizer. Nothing
-- follows: the gradient of the loss is 1.
return op {
    doc = "loss = sum over tokens of (lse - logits[target]), lse = log(sum(exp(logits)))",
    inputs = { { "logits", "t v" }, { "targets", "t", class = "i32" } },
    outputs = { { "loss", "1", dtype = "f64" }, { "lse", "t", dtype = "acc" } },
    axes = { t = "parallel", v = "reduction" },
    flops = function(n) return 4 * n.t * n.v end,
    backward = function(g, n, d)
        return { logits = g.cross_entropy_bwd { n.logits, n.targets, n.lse } }
    end,
    reference = function(n)
        n.loss[1] = 0.0
        for i = 0, n.t - 1 do
            local top, sum = -math.huge, 0.0
            for j = 1, n.v do top = math.max(top, n.logits[i * n.v + j]) end
            for j = 1, n.v do sum = sum + math.exp(n.logits[i * n.v + j] - top) end
            local lse = n.round("lse", top + math.log(sum))
            n.lse[i + 1] = lse
            n.loss[1] = n.loss[1]
                + n.round("lse", lse - n.logits[i * n.v + n.targets[i + 1] + 1])
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
