-- SPDX-License-Identifier: Apache-2.0
-- linear_loss: the loss of linear_cross_entropy without its gradients, with
-- the same bits, `chunk` tokens at a time; and the logits of one token, to sample from.
--
-- With `part`, x has the rows of these parts of all tokens, and the parts that do not have the token
-- give -0.0 (see logits_row).
local function row_of(n, row) -- its place in x, or nil
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

-- In cuda.cu rows of logits and the number of rows of w are padded to 16 bytes: to how many, and how
-- many of the last 16 bytes' are the vocabulary's (0: all).
local function padded(n)
    local each = 16 // n.elem_bytes
    return (n.v + each - 1) // each * each, n.v % each
end

return op {
    evaluates = "linear_cross_entropy",
    arithmetic = 1,
    doc = "loss of cross_entropy(x w^T), without gradients; logits of token row",
    inputs = {
        { "x", "t d" }, { "w", "v d" }, { "targets", "t", class = "i32" },
        { "row", "1", class = "i32" }, { "part", "parts", class = "i32", optional = true },
    },
    attrs = {
        chunk = "int", masked = "bool", z = "number", smoothing = "number",
        softcap = { "number", 0, quiet = true },
        parts = { "int", 0, quiet = true }, -- in x; 0: all of them
    },
    outputs = { { "loss", "1", dtype = "f64" }, { "next_logits", "v", dtype = "x" } },
    axes = { t = "reduction", v = "parallel", d = "reduction" },
    cuts = {
        parts = {
            x = { 1, "t" }, targets = { 1, "t" }, loss = "sum", next_logits = "sum",
            attrs = { "parts" }, when = function(n) return n.part end,
        },
    },
    check = function(n)
        if n.chunk < 1 then return "chunk must be at least 1" end
        if not n.part and n.parts ~= 0 then return "parts without part" end
        if n.part and n.t % n.parts ~= 0 then return "parts must have whole rows" end
        if n.softcap < 0 then return "softcap must not be negative" end
    end,
    workspace = function(n) -- one chunk's logits, and the loss of each of its rows
        local rows = math.min(n.chunk, n.t)
        return (n.elem_bytes * rows * n.v + 63) // 64 * 64 + n.acc_bytes * rows
    end,
    -- logits in padded rows, the loss of each token; if there is padding, w with zeros below
    workspace_cuda = function(n)
        local all, odd = padded(n)
        local logits_bytes = n.elem_bytes * math.min(n.chunk, n.t) * all
        local bytes = (logits_bytes + 63) // 64 * 64 + n.acc_bytes * n.t
        if odd == 0 then return bytes end
        return (bytes + 63) // 64 * 64 + n.elem_bytes * all * n.d
    end,
    products = function(n) -- of whole chunks, then of the rest
        local rows = math.min(n.chunk, n.t)
        local whole = { "nt", rows, n.v, n.d, n.t // rows }
        if n.t % rows == 0 then return { whole } end
        return { whole, { "nt", n.t % rows, n.v, n.d } }
    end,
    products_cuda = function(n) -- of padded rows of logits
        local rows, all = math.min(n.chunk, n.t), padded(n)
        local whole = { "nt", rows, all, n.d, n.t // rows }
        if n.t % rows == 0 then return { whole } end
        return { whole, { "nt", n.t % rows, all, n.d } }
    end,
    -- logits, read for their sum; a copy of w with zeros below
    bytes_cuda = function(n)
        local _, odd = padded(n)
        return n.elem_bytes * n.t * n.v + (odd > 0 and 2 * n.elem_bytes * n.v * n.d or 0)
    end,
    flops = function(n)
        return 2 * n.t * n.v * n.d + (n.smoothing > 0 and 5 or 4) * n.t * n.v
    end,
    reference = function(n)
        local logit, row = {}, row_of(n, n.row[1])
        for j = 1, n.v do n.next_logits[j] = -0.0 end
        n.loss[1] = 0.0
        for i = 0, n.t - 1 do
            local top, sum, mean, target = -math.huge, 0.0, 0.0, n.targets[i + 1]
            for j = 0, n.v - 1 do
                local dot = 0.0
                for k = 1, n.d do dot = dot + n.x[i * n.d + k] * n.w[j * n.d + k] end
                logit[j] = capped(n.round("next_logits", dot), n.softcap)
                top = math.max(top, logit[j])
                mean = mean + logit[j] / n.v
                if i == row then n.next_logits[j + 1] = n.round("next_logits", logit[j]) end
            end
            if target >= 0 then
                for j = 0, n.v - 1 do sum = sum + math.exp(logit[j] - top) end
                local lse = top + math.log(sum)
                n.loss[1] = n.loss[1] + lse + n.z * lse * lse
                    - (1 - n.smoothing) * logit[target] - n.smoothing * mean
            end
        end
    end,
    cases = function(r)
        local masked = r(0, 1) == 1
        return {
            t = r(1, 33), d = r(1, 40), v = r(1, 60), chunk = r(1, 40), masked = masked,
            z = r(0, 1) * r(1, 9) / 100, smoothing = r(0, 1) * r(1, 9) / 10,
            inputs = function(n, r)
                local targets = {}
                local first, each = n.parts and r(0, 2), n.t
                n.t = n.t * (n.parts or 1)
                for i = 1, n.t do
                    targets[i] = masked and r(0, 2) == 0 and -1 or r(0, n.v - 1)
                end
                if not n.parts then return { targets = targets, row = { r(0, n.t - 1) } } end
                local part = {}
                for k = 1, n.parts do part[k] = first + k - 1 end
                local row = r(0, each * (first + n.parts + 1) - 1) -- of these parts, or of others
                return { targets = targets, row = { row }, part = part }
            end,
        }
    end,
    variants = { { softcap = 1.75 }, { parts = 4 }, { parts = 1, softcap = 1.75 } },
}
