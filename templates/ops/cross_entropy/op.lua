-- SPDX-License-Identifier: Apache-2.0
-- cross_entropy: in logits and target ids; out the sum of the tokens' losses, and the
-- logarithm of each row's sum of exponentials for the backward. A token's loss is
-- rounded to the accumulation dtype; the sum is f64, in token order. It is not divided
-- by the number of tokens: the optimizer includes that in the gradient's scale. The loss
-- is the last op, so its gradient is 1.
--
-- A token's loss, as PyTorch defines each part: with smoothing s the target is (1 - s) of
-- the token and s / v of every token; z adds z lse^2. If targets may be masked, id -1
-- means none: loss 0, lse 0.
local function capped(x, softcap) -- the logit, and its slope
    if softcap == 0 then return x, 1.0 end
    local e = math.exp(-2 * math.abs(x / softcap))
    local t = (x < 0 and -1 or 1) * (1 - e) / (1 + e)
    return softcap * t, 1 - t * t
end

return op {
    arithmetic = 1,
    doc = "loss = sum over tokens of (lse - logits[target]), lse = log(sum(exp(logits)))",
    inputs = { { "logits", "t v" }, { "targets", "t", class = "i32" } },
    attrs = {
        masked = { "bool", from = "loss_masked" },
        z = { "number", from = "loss_z" },
        smoothing = { "number", from = "label_smoothing" },
        softcap = { "number", 0, quiet = true }, -- logits x become softcap tanh(x / softcap)
    },
    outputs = { { "loss", "1", dtype = "f64" }, { "lse", "t", dtype = "acc" } },
    axes = { t = "parallel", v = "reduction" },
    cuts = { t = { loss = "sum" } },
    -- Where each part has logits of some classes, their exchange is three or four numbers a token.
    in_parts = { logits = 2, ops = function(g, n, part, parts, size)
        local stats = g.cross_entropy_part {
            n.logits, n.targets, part, parts = parts, vocab = size,
            smoothing = n.smoothing, softcap = n.softcap,
        }
        local loss, lse = g.cross_entropy_join {
            stats, n.targets, vocab = size, masked = n.masked, z = n.z, smoothing = n.smoothing,
        }
        return { loss = loss, lse = lse }
    end },
    check = function(n)
        if n.z < 0 then return "z must not be negative" end
        if n.softcap < 0 then return "softcap must not be negative" end
        if n.smoothing < 0 or n.smoothing >= 1 then
            return "smoothing must be at least 0 and less than 1"
        end
    end,
    workspace_cuda = function(n) return n.t * n.acc_bytes end, -- the loss of each token
    flops = function(n) return (n.smoothing > 0 and 5 or 4) * n.t * n.v end,
    backward = function(g, n, d)
        return {
            logits = g.cross_entropy_bwd {
                n.logits, n.targets, n.lse, masked = n.masked, z = n.z,
                smoothing = n.smoothing, softcap = n.softcap,
            },
        }
    end,
    reference = function(n)
        n.loss[1] = 0.0
        for i = 0, n.t - 1 do
            local target = n.targets[i + 1]
            if target >= 0 then
                local top, sum, mean = -math.huge, 0.0, 0.0
                local function logit(j) return capped(n.logits[i * n.v + j], n.softcap) end
                for j = 1, n.v do top = math.max(top, logit(j)) end
                for j = 1, n.v do
                    sum = sum + math.exp(logit(j) - top)
                    mean = mean + logit(j) / n.v
                end
                local lse = n.round("lse", top + math.log(sum))
                local expected = (1 - n.smoothing) * logit(target + 1)
                    + n.smoothing * mean
                n.lse[i + 1] = lse
                n.loss[1] = n.loss[1] + n.round("lse", lse - expected + n.z * lse * lse)
            end
        end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more than a block of rt_row_body.h
        local masked = r(0, 1) == 1
        return {
            t = r(1, 20), v = long and r(1020, 1060) or r(1, 90), masked = masked,
            z = r(0, 1) * r(1, 9) / 100, smoothing = r(0, 1) * r(1, 9) / 10,
            inputs = function(n, r)
                local targets = {}
                for i = 1, n.t do
                    targets[i] = masked and r(0, 2) == 0 and -1 or r(0, n.v - 1)
                end
                return { targets = targets }
            end,
        }
    end,
    variants = { { softcap = 1.75 } },
}
