-- SPDX-License-Identifier: Apache-2.0
-- linear_cross_entropy: the last product, the loss and both gradients, `chunk` tokens
-- at a time, so that [tokens, vocab] logits are never in memory. The joint graph makes it
-- possible: forward and backward of the loss are one kernel, which belongs to the
-- backward.
--
-- Each chunk adds its product to dw, in order, so the chunk is part of the numerics. A
-- frozen head has no dw; if only the head trains there is no dx.
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
    scaled = true,
    arithmetic = 1,
    doc = "loss, dx, dw of cross_entropy(x w^T), chunk tokens at a time",
    inputs = { { "x", "t d" }, { "w", "v d" }, { "targets", "t", class = "i32" } },
    attrs = {
        chunk = { "int", from = "loss_chunk_tokens" },
        masked = { "bool", from = "loss_masked" },
        z = { "number", from = "loss_z" },
        smoothing = { "number", from = "label_smoothing" },
        softcap = { "number", 0, quiet = true }, -- logits x become softcap tanh(x / softcap)
    },
    outputs = {
        { "loss", "1", dtype = "f64" }, { "dx", "t d", dtype = "x", optional = "alone" },
        { "dw", "v d", dtype = "grad", add = true, optional = "frozen" },
    },
    axes = { t = "reduction", v = "reduction", d = "reduction" },
    check = function(n)
        if n.chunk < 1 then return "chunk must be at least 1" end
        if n.softcap < 0 then return "softcap must not be negative" end
    end,
    workspace = function(n) -- one chunk's logits, and the lse and the loss of each of its rows
        local rows = math.min(n.chunk, n.t)
        return (n.elem_bytes * rows * n.v + 63) // 64 * 64 + 2 * n.acc_bytes * rows
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
        local list, rows = {}, math.min(n.chunk, n.t)
        for _, part in ipairs { { rows, n.t // rows }, { n.t % rows, 1 } } do
            local m, times = part[1], part[2]
            if m > 0 then
                list[#list + 1] = { "nt", m, n.v, n.d, times }
                if n.dx then list[#list + 1] = { "nn", m, n.d, n.v, times } end
                if n.dw then list[#list + 1] = { "tn", n.v, n.d, m, times } end
            end
        end
        return list
    end,
    products_cuda = function(n) -- of padded rows of logits; dw has no padding
        local list, rows = {}, math.min(n.chunk, n.t)
        local all, odd = padded(n)
        for _, part in ipairs { { rows, n.t // rows }, { n.t % rows, 1 } } do
            local m, times = part[1], part[2]
            local dw = n.dw and m > 0
            if m > 0 then list[#list + 1] = { "nt", m, all, n.d, times } end
            if m > 0 and n.dx then list[#list + 1] = { "nn", m, n.d, all, times } end
            if dw and n.v > odd then list[#list + 1] = { "tn", n.v - odd, n.d, m, times } end
            if dw and odd > 0 then list[#list + 1] = { "tn", odd, n.d, m, times } end
        end
        return list
    end,
    -- logits: read for their sum, read and written for their gradient; a copy of w with zeros below
    bytes_cuda = function(n)
        local _, odd = padded(n)
        return 3 * n.elem_bytes * n.t * n.v + (odd > 0 and 2 * n.elem_bytes * n.v * n.d or 0)
    end,
    flops = function(n)
        local forward = n.smoothing > 0 and 5 or 4
        local backward = (n.z > 0 or n.smoothing > 0) and 5 or 3
        local products = 1 + (n.dx and 1 or 0) + (n.dw and 1 or 0)
        return products * 2 * n.t * n.v * n.d + (forward + backward) * n.t * n.v
    end,
    expands = function(g, n)
        local logits = g.linear { n.x, n.w }
        local loss, lse = g.cross_entropy {
            logits, n.targets, masked = n.masked, z = n.z, smoothing = n.smoothing,
            softcap = n.softcap,
        }
        local dlogits = g.cross_entropy_bwd {
            logits, n.targets, lse, masked = n.masked, z = n.z, smoothing = n.smoothing,
            softcap = n.softcap,
        }
        return {
            loss = loss,
            dx = g.linear_dx { dlogits, n.w },
            dw = g.linear_dw { dlogits, n.x },
        }
    end,
    reference = function(n)
        local dx, dw, logit, slope = {}, {}, {}, {}
        for k = 1, n.t * n.d do dx[k] = 0.0 end
        for k = 1, n.v * n.d do dw[k] = 0.0 end
        n.loss[1] = 0.0
        local function token(i, target)
            local top, sum, mean = -math.huge, 0.0, 0.0
            for j = 0, n.v - 1 do
                local dot = 0.0
                for k = 1, n.d do dot = dot + n.x[i * n.d + k] * n.w[j * n.d + k] end
                -- logits have the dtype of x
                logit[j], slope[j] = capped(n.round("dx", dot), n.softcap)
                top = math.max(top, logit[j])
                mean = mean + logit[j] / n.v
            end
            for j = 0, n.v - 1 do sum = sum + math.exp(logit[j] - top) end
            local lse = top + math.log(sum)
            n.loss[1] = n.loss[1] + lse + n.z * lse * lse
                - (1 - n.smoothing) * logit[target] - n.smoothing * mean
            for j = 0, n.v - 1 do
                local q = n.smoothing / n.v + (j == target and 1 - n.smoothing or 0)
                local p = math.exp(logit[j] - lse)
                local dlogit = (p * (1 + 2 * n.z * lse) - q) * slope[j]
                dlogit = n.round("dx", dlogit * (n.loss_scale or 1))
                for k = 1, n.d do
                    dx[i * n.d + k] = dx[i * n.d + k] + dlogit * n.w[j * n.d + k]
                    dw[j * n.d + k] = dw[j * n.d + k] + dlogit * n.x[i * n.d + k]
                end
            end
        end
        for i = 0, n.t - 1 do
            if n.targets[i + 1] >= 0 then token(i, n.targets[i + 1]) end
        end
        for k = 1, n.t * n.d do n.dx[k] = n.round("dx", dx[k]) end
        for k = 1, n.v * n.d do n.dw[k] = n.round("dw", dw[k]) end
    end,
    cases = function(r)
        local masked = r(0, 1) == 1
        return {
            t = r(1, 33), d = r(1, 40), v = r(1, 60), chunk = r(1, 40), masked = masked,
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
