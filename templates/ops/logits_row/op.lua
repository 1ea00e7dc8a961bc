-- SPDX-License-Identifier: Apache-2.0
-- logits_row: the logits of one token, to sample from. Used if all logits are in
-- memory; then the forward has made the loss already.
--
-- With `part`, logits has the rows of these parts of all tokens, and the parts that do not have the
-- row give -0.0: the sum over all parts is the row to the bit (see embed).
local function row_of(n, row) -- its place in logits, or nil
    if not n.part then return row end
    local rows = n.t // n.parts
    for k = 1, n.parts do
        local at = row - n.part[k] * rows
        if at >= 0 and at < rows then return (k - 1) * rows + at end
    end
end

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
    inputs = {
        { "logits", "t v" }, { "row", "1", class = "i32" },
        { "part", "parts", class = "i32", optional = true },
    },
    attrs = {
        softcap = { "number", 0, quiet = true },
        parts = { "int", 0, quiet = true }, -- in logits; 0: all of them
    },
    outputs = { { "next_logits", "v", dtype = "logits" } },
    axes = { v = "parallel" },
    cuts = {
        v = {},
        parts = {
            logits = { 1, "t" }, next_logits = "sum", attrs = { "parts" },
            when = function(n) return n.part end,
        },
    },
    check = function(n)
        if not n.part and n.parts ~= 0 then return "parts without part" end
        if n.part and n.t % n.parts ~= 0 then return "parts must have whole rows" end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    bytes = function(n) return 4 + 2 * n.elem_bytes * n.v end, -- the row that is read
    reference = function(n)
        local row = row_of(n, n.row[1])
        for j = 1, n.v do
            local y = row and capped(n.logits[row * n.v + j], n.softcap) or -0.0
            n.next_logits[j] = n.round("next_logits", y)
        end
    end,
    cases = function(r)
        return {
            t = r(1, 20), v = r(1, 90),
            inputs = function(n, r)
                if not n.parts then return { row = { r(0, n.t - 1) } } end
                local first, part = r(0, 2), {}
                for k = 1, n.parts do part[k] = first + k - 1 end
                local row = r(0, n.t * (first + n.parts + 1) - 1) -- of these parts, or of others
                n.t = n.t * n.parts
                return { row = { row }, part = part }
            end,
        }
    end,
    variants = { { softcap = 1.75 }, { parts = 4 }, { parts = 1, softcap = 1.75 } },
}
