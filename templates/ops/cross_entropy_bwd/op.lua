-- SPDX-License-Identifier: Apache-2.0
-- cross_entropy_bwd: in what cross_entropy read and its lse; out the gradient of the
-- logits, in their place if nothing needs them again. For the scale and the attributes see
-- cross_entropy. With p = exp(logits - lse) and the target's distribution q,
-- dlogits = p (1 + 2 z lse) - q; zeros where the target is masked.
--
-- With `part`, logits have the classes of these parts, v / parts each: part p has classes from
-- p v / parts, of `vocab` in all. Classes from `vocab` on are padding: their gradient is 0.
local function class_of(n, j) -- of column j, from 0; nil: padding
    if not n.part then return j end
    local each = n.v // n.parts
    local class = n.part[j // each + 1] * each + j % each
    return class < n.vocab and class or nil
end

local function capped(x, softcap) -- the logit, and its slope
    if softcap == 0 then return x, 1.0 end
    local e = math.exp(-2 * math.abs(x / softcap))
    local t = (x < 0 and -1 or 1) * (1 - e) / (1 + e)
    return softcap * t, 1 - t * t
end

return op {
    scaled = true,
    arithmetic = 1,
    canonical = "cross_entropy_bwd",
    doc = "dlogits = exp(logits - lse) - onehot(target)",
    inputs = {
        { "logits", "t v" }, { "targets", "t", class = "i32" },
        { "lse", "t", class = "acc" }, { "part", "parts", class = "i32", optional = true },
    },
    attrs = {
        masked = { "bool", from = "loss_masked" },
        z = { "number", from = "loss_z" },
        smoothing = { "number", from = "label_smoothing" },
        softcap = { "number", 0, quiet = true }, -- logits x become softcap tanh(x / softcap)
        parts = { "int", 0, quiet = true }, -- in logits; 0: logits are of all classes
        vocab = { "int", 0, quiet = true }, -- with parts: classes of all of them
    },
    outputs = { { "dlogits", "t v", dtype = "logits", alias = "logits" } },
    axes = { t = "parallel", v = "parallel" },
    cuts = {
        t = {},
        parts = {
            logits = { 2, "v" }, dlogits = { 2, "v" }, attrs = { "parts" },
            when = function(n) return n.part end, pads = true,
        },
    },
    in_parts = { logits = 2, ops = function(g, n, part, parts, size)
        return { dlogits = g.cross_entropy_bwd {
            n.logits, n.targets, n.lse, part, parts = parts, vocab = size, masked = n.masked,
            z = n.z, smoothing = n.smoothing, softcap = n.softcap,
        } }
    end },
    check = function(n)
        if not n.part and (n.parts ~= 0 or n.vocab ~= 0) then return "parts without part" end
        if n.part and n.v % n.parts ~= 0 then return "parts must have whole columns" end
        if n.part and n.vocab < 1 then return "vocab must be at least 1" end
    end,
    flops = function(n)
        return ((n.z > 0 or n.smoothing > 0) and 5 or 3) * n.t * n.v
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            local target, lse = n.targets[i + 1], n.lse[i + 1]
            for j = 1, n.v do
                local k, dlogit, class = i * n.v + j, 0.0, class_of(n, j - 1)
                if target >= 0 and class then
                    local q = n.smoothing / (n.part and n.vocab or n.v)
                        + (target == class and 1 - n.smoothing or 0)
                    local y, slope = capped(n.logits[k], n.softcap)
                    dlogit = (math.exp(y - lse) * (1 + 2 * n.z * lse) - q) * slope
                end
                n.dlogits[k] = n.round("dlogits", dlogit * (n.loss_scale or 1))
            end
        end
    end,
    cases = function(r)
        local long = r(0, 5) == 0 -- more than a block of rt_row_body.h
        local masked = r(0, 1) == 1
        return {
            t = r(1, 20), v = long and r(1020, 1060) or r(1, 90), masked = masked,
            z = r(0, 1) * r(1, 9) / 100, smoothing = r(0, 1) * r(1, 9) / 10,
            inputs = function(n, r, make)
                if n.parts then return make.part_of_classes(n, masked) end
                local targets = {}
                for i = 1, n.t do
                    targets[i] = masked and r(0, 2) == 0 and -1 or r(0, n.v - 1)
                end
                return { targets = targets }
            end,
        }
    end,
    variants = { { softcap = 1.75 }, { parts = 4 }, { parts = 1, softcap = 1.75 }, { parts = 1 } },
}
