-- SPDX-License-Identifier: Apache-2.0
-- logits_row: the logits of one token, to sample from. Used if all logits are in
-- memory; then the forward has made the loss already.
local function capped(x, softcap) -- the logit, and its slope
    if softcap == 0 then return x, 1.0 end
    local e = math.exp(-2 * math.abs(x / softcap))
    local t = (x < 0 and -1 or 1) * (1 - e) / (1 + e)
    return softcap * t, 1 - t * t
end

return op {
    evaluates = "cross_entropy",
    arithmetic = 1,
    doc = "next_logits = logits[row]",
    inputs = { { "logits", "t v" }, { "row", "1", class = "i32" } },
    attrs = { softcap = { "number", 0, quiet = true } },
    outputs = { { "next_logits", "v", dtype = "logits" } },
    axes = { v = "parallel" },
    cuts = { v = {} },
    cost = "copy",
    flops = function(n) return 0 end,
    bytes = function(n) return 4 + 2 * 4 * n.v end, -- the row that is read
    reference = function(n)
        for j = 1, n.v do 
            local y = capped(n.logits[n.row[1] * n.v + j], n.softcap)
            n.next_logits[j] = n.round("next_logits", y)
        end
    end,
    cases = function(r)
        return {
            t = r(1, 20), v = r(1, 90),
            inputs = function(n, r) return { row = { r(0, n.t - 1) } } end,
        }
    end,
    variants = { { softcap = 1.75 } },
}
