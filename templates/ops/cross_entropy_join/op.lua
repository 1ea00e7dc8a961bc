-- SPDX-License-Identifier: Apache-2.0
-- cross_entropy_join: in what cross_entropy_part gives of all parts, and targets; out what
-- cross_entropy makes of all logits: the sum of the tokens' losses, and the logarithm of each
-- row's sum of exponentials. The largest logit is that of all parts; their sums are rescaled to it
-- and added in the order of parts, so the result is a function of the number of parts alone.
return op {
    arithmetic = 1,
    doc = "loss = sum over tokens of (lse - logits[target]), of all parts' stats",
    inputs = { { "stats", "p t c", class = "acc" }, { "targets", "t", class = "i32" } },
    attrs = {
        masked = { "bool", from = "loss_masked" },
        smoothing = { "number", from = "label_smoothing" },
        vocab = "int", -- classes of all parts
        z = { "number", from = "loss_z" },
    },
    outputs = { { "loss", "1", dtype = "f64" }, { "lse", "t", dtype = "acc" } },
    axes = { t = "parallel", p = "reduction" },
    cuts = { t = { loss = "sum", context = true } },
    check = function(n)
        if n.z < 0 then return "z must not be negative" end
        if n.c ~= (n.smoothing > 0 and 4 or 3) then return "stats are 3 numbers, with smoothing 4" end
    end,
    workspace_cuda = function(n) return n.t * n.acc_bytes end, -- the loss of each token
    flops = function(n) return 4 * n.p * n.t end,
    reference = function(n)
        local function stat(k, i, s) return n.stats[(k * n.t + i) * n.c + s] end
        n.loss[1] = 0.0
        for i = 0, n.t - 1 do
            local top, sum, target, all = -math.huge, 0.0, 0.0, 0.0
            for k = 0, n.p - 1 do top = math.max(top, stat(k, i, 1)) end
            for k = 0, n.p - 1 do
                sum = sum + stat(k, i, 2) * math.exp(stat(k, i, 1) - top)
                target = target + stat(k, i, 3)
                all = all + (n.smoothing > 0 and stat(k, i, 4) or 0.0)
            end
            if n.targets[i + 1] >= 0 then
                local lse = n.round("lse", top + math.log(sum))
                local expected = (1 - n.smoothing) * target + n.smoothing / n.vocab * all
                n.lse[i + 1] = lse
                n.loss[1] = n.loss[1] + n.round("lse", lse - expected + n.z * lse * lse)
            end
        end
    end,
    cases = function(r)
        local masked, smooth = r(0, 1) == 1, r(0, 1)
        return {
            p = r(1, 8), t = r(1, 20), c = 3 + smooth, vocab = r(1, 90), masked = masked,
            z = r(0, 1) * r(1, 9) / 100, smoothing = smooth * r(1, 9) / 10,
            inputs = function(n, r)
                local stats, targets = {}, {}
                for i = 1, n.t do
                    targets[i] = masked and r(0, 2) == 0 and -1 or r(0, n.vocab - 1)
                end
                for k = 1, n.p * n.t do -- multiples of 1/64 are numbers of every dtype
                    stats[#stats + 1] = r(-512, 512) / 64
                    stats[#stats + 1] = 1 + r(0, 255) / 64
                    for _ = 3, n.c do stats[#stats + 1] = r(-512, 512) / 64 end
                end
                return { stats = stats, targets = targets }
            end,
        }
    end,
}
