-- SPDX-License-Identifier: Apache-2.0
-- cross_entropy_part: in logits of some parts of the classes, and targets; out what each part of
-- a row contributes to its loss: the largest logit, the sum of exponentials relative to it,
-- the target's logit if it is one of the part's classes, else 0; and with smoothing the sum of
-- the logits. cross_entropy_join makes the loss of all parts' numbers.
--
-- Logits have v / parts columns of each part: part p has classes from p v / parts, of `vocab` in
-- all. Columns for classes from `vocab` on are padding, which no number includes. Masked tokens give zeros.
local function capped(x, softcap) -- the logit
    if softcap == 0 then return x end
    local e = math.exp(-2 * math.abs(x / softcap))
    return softcap * (x < 0 and -1 or 1) * (1 - e) / (1 + e)
end

return op {
    arithmetic = 1,
    doc = "stats = max(logits), sum(exp(logits - max)), logits[target], of a part of the classes",
    inputs = {
        { "logits", "t v" }, { "targets", "t", class = "i32" }, { "part", "parts", class = "i32" },
    },
    attrs = {
        parts = "int", -- in logits
        smoothing = { "number", from = "label_smoothing" },
        softcap = { "number", 0, quiet = true }, -- logits x become softcap tanh(x / softcap)
        vocab = "int", -- classes of all parts
    },
    outputs = {
        { "stats", function(n) return { n.parts, n.t, n.smoothing > 0 and 4 or 3 } end, dtype = "acc" },
    },
    axes = { t = "parallel", v = "reduction" },
    cuts = {
        t = { stats = 2, context = true },
        parts = { logits = { 2, "v" }, stats = 1, attrs = { "parts" }, pads = true },
    },
    check = function(n)
        if n.v % n.parts ~= 0 then return "parts must have whole columns" end
        if n.vocab < 1 then return "vocab must be at least 1" end
        if n.softcap < 0 then return "softcap must not be negative" end
        if n.smoothing < 0 or n.smoothing >= 1 then
            return "smoothing must be at least 0 and less than 1"
        end
    end,
    flops = function(n) return (n.smoothing > 0 and 4 or 3) * n.t * n.v end,
    reference = function(n)
        local each, count = n.v // n.parts, n.smoothing > 0 and 4 or 3
        local function row(i, k)
            local first, top, sum, all = n.part[k + 1] * each, -math.huge, 0.0, 0.0
            local cols = math.min(each, n.vocab - first)
            local target = n.targets[i + 1] - first
            local function logit(j) return capped(n.logits[i * n.v + k * each + j], n.softcap) end
            for j = 1, cols do top = math.max(top, logit(j)) end
            for j = 1, cols do
                sum = sum + (logit(j) == -math.huge and 0 or math.exp(logit(j) - top))
                all = all + logit(j)
            end
            return { top, sum, target >= 0 and target < cols and logit(target + 1) or 0.0, all }
        end
        for k = 0, n.parts - 1 do
            for i = 0, n.t - 1 do
                local stats = n.targets[i + 1] >= 0 and row(i, k) or { 0.0, 0.0, 0.0, 0.0 }
                for s = 1, count do
                    n.stats[(k * n.t + i) * count + s] = n.round("stats", stats[s])
                end
            end
        end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more than a block of rt_row_body.h
        local masked, parts = r(0, 1) == 1, r(0, 1) * 3 + 1
        return {
            t = r(1, 20), v = long and r(1020, 1060) or r(1, 90), parts = parts,
            smoothing = r(0, 1) * r(1, 9) / 10,
            inputs = function(n, r, make) return make.part_of_classes(n, masked) end,
        }
    end,
    variants = { { softcap = 1.75 } },
}
