-- SPDX-License-Identifier: Apache-2.0
-- attention_bwd: in what attention read and wrote, and the gradient of its output; out
-- the gradient of the rows [heads q | kv_heads k | kv_heads v]. Probabilities are
-- computed again from lse. With p = exp(s - lse), dp = do v^T and delta = sum(do * o):
-- ds = p * (dp - delta) * scale. This holds with sinks, too: their term is in lse.
local function tanh(x) -- of a small number as exact as of a large one
    local e = math.exp(-2 * math.abs(x))
    if e > 0.9 then return x * (1 - x * x / 3 + 2 * x ^ 4 / 15 - 17 * x ^ 6 / 315 + 62 * x ^ 8 / 2835) end
    return (x < 0 and -1 or 1) * (1 - e) / (1 + e)
end

-- (query, key) pairs of a sequence, without documents: those of whole chunks and of the rest.
local function visible_pairs(n)
    local function of(tokens)
        local w = n.window > 0 and math.min(n.window, tokens) or tokens
        return w * (w + 1) // 2 + (tokens - w) * w
    end
    local chunk = n.key_chunk > 0 and math.min(n.key_chunk, n.seq) or n.seq
    return n.seq // chunk * of(chunk) + of(n.seq % chunk)
end

-- Of a case; one that is longer than the sequence becomes one that no int holds.
local function drawn_window(r, seq)
    local window = r(0, 1) * r(1, 45)
    return window > seq and 1 << 31 or window
end

return op {
    arithmetic = 1,
    doc = "gradient of attention",
    inputs = {
        { "qkv", "t c" }, { "o", "t e" }, { "lse", "t h", class = "acc" },
        { "d_o", "t e" }, { "starts", "t", class = "i32", optional = true },
    },
    attrs = {
        heads = "int", kv_heads = "int", head_dim = "int", seq = "int",
        window = { "int", 0 }, scale = "number",
        key_chunk = { "int", 0, quiet = true }, -- a query sees keys of its own chunk of so many; 0: of all
        softcap = { "number", 0, quiet = true }, -- scores s become softcap tanh(s / softcap)
        sinks = { "bool", false, quiet = true }, -- the forward had sinks: the same kernels run both
    },
    outputs = { { "dqkv", "t c", dtype = "qkv" } },
    axes = { t = "reduction", c = "reduction" },
    cuts = {
        t = { ordered = true }, -- whole sequences
        heads = {
            qkv = { 2, "heads", "kv_heads", "kv_heads" }, o = 2, lse = 2, d_o = 2,
            dqkv = { 2, "heads", "kv_heads", "kv_heads" }, attrs = { "heads", "kv_heads" },
        },
    },
    check = function(n)
        if n.kv_heads < 1 or n.heads % n.kv_heads ~= 0 then
            return ("%d kv_heads do not divide %d heads"):format(n.kv_heads, n.heads)
        end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim or n.h ~= n.heads
            or n.e ~= n.heads * n.head_dim then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
        if n.seq < 1 or n.t % n.seq ~= 0 then
            return ("%d rows are not whole sequences of %d"):format(n.t, n.seq)
        end
        if n.window < 0 then return "window must not be negative" end
        if n.key_chunk < 0 then return "key_chunk must not be negative" end
        if n.softcap < 0 then return "softcap must not be negative" end
    end,
    slow_cudnn = function(n)
        if n.head_dim <= 64 then
            return ("heads are %d wide, and with heads of 64 it was faster on an H100 and an H200"):format(
                n.head_dim)
        end
    end,
    site_cudnn = function(n)
        local mask = n.window > 0 and n.window < n.seq and ("window of %d"):format(n.window) or "causal"
        return ("%s over %d tokens, %d heads of %d, %d wide"):format(mask, n.seq, n.heads, n.kv_heads, n.head_dim)
    end,
    check_cudnn = function(n)
        if n.starts then return "it does not support documents" end
        if n.softcap > 0 then return "it does not support softcap" end
        if n.sinks then return "it does not support sinks" end
        if n.key_chunk > 0 and n.key_chunk < n.seq then return "it does not support chunks" end
        if n.head_dim % 8 ~= 0 or n.head_dim > 128 then
            return ("heads are %d wide, not a multiple of 8 up to 128"):format(n.head_dim)
        end
        local group, pad = n.heads // n.kv_heads, (n.seq + 127) // 128 * 128
        local gradients = 2 * group * pad * pad -- bytes, of the least slice: one kv head of one sequence
        if gradients > 8 << 30 then
            return ("its backward stores the gradients of all scores, which grow with the square of the "
                .. "sequence: %.2f GiB for %d heads over %d tokens, and the limit is 8 GiB"):format(
                gradients / (1 << 30), group, n.seq)
        end
    end,
    workspace = function(n) -- dk and dv of every kv head, unrounded, in whole blocks of keys
        local rows, wide = (n.seq + 95) // 96 * 96, (n.head_dim + 15) // 16 * 16
        return 2 * (n.t // n.seq) * n.kv_heads * rows * wide * n.acc_bytes
    end,
    workspace_cuda = function(n) -- two numbers per query, in whole blocks of queries
        return 2 * n.heads * (n.t // n.seq) * ((n.seq + 63) // 64 * 64) * n.acc_bytes
    end,
    -- For a slice, as cudnn.cu cuts it: a number per query, the scores' gradients of all pairs in
    -- whole blocks of 128, dk and dv of each head that shares them; and what the library may need
    -- in addition.
    workspace_cudnn = function(n)
        local sequences, kv = n.t // n.seq, n.kv_heads
        local group, pad = n.heads // n.kv_heads, (n.seq + 127) // 128 * 128
        local function bytes()
            local shared = group > 1 and 4 * n.seq * n.head_dim or 0
            return sequences * kv * group * (2 * pad * pad + shared + 4 * n.seq) + (1 << 20)
        end
        while sequences > 1 and bytes() > 512 << 20 do
            repeat sequences = sequences - 1 until n.t // n.seq % sequences == 0
        end
        while kv > 1 and bytes() > 512 << 20 do
            repeat kv = kv - 1 until n.kv_heads % kv == 0
        end
        return bytes()
    end,
    cost = "attention_bwd",
    flops = function(n) -- five products over the visible pairs
        return 10 * n.heads * n.head_dim * visible_pairs(n) * (n.t // n.seq)
    end,
    reference = function(n)
        local hd, group, c = n.head_dim, n.heads // n.kv_heads, n.c
        local dqkv = {}
        for k = 1, n.t * c do dqkv[k] = 0.0 end
        for i = 0, n.t - 1 do
            local first = i - i % n.seq + (n.starts and n.starts[i + 1] or 0)
            if n.key_chunk > 0 then first = i - (i - first) % n.key_chunk end
            if n.window > 0 then first = math.max(first, i - n.window + 1) end
            for h = 0, n.heads - 1 do
                local q, o = i * c + h * hd, (i * n.heads + h) * hd
                local at_k = (n.heads + h // group) * hd
                local at_v = at_k + n.kv_heads * hd
                local delta = 0.0
                for j = 1, hd do delta = delta + n.o[o + j] * n.d_o[o + j] end
                for k = first, i do
                    local key, val, dot, dp = k * c + at_k, k * c + at_v, 0.0, 0.0
                    for j = 1, hd do
                        dot = dot + n.qkv[q + j] * n.qkv[key + j]
                        dp = dp + n.d_o[o + j] * n.qkv[val + j]
                    end
                    local score, slope = dot * n.scale, 1.0
                    if n.softcap > 0 then
                        local t = tanh(score / n.softcap)
                        score, slope = n.softcap * t, 1 - t * t
                    end
                    local p = math.exp(score - n.lse[i * n.heads + h + 1])
                    local ds = p * (dp - delta) * slope * n.scale
                    for j = 1, hd do
                        dqkv[q + j] = dqkv[q + j] + ds * n.qkv[key + j]
                        dqkv[key + j] = dqkv[key + j] + ds * n.qkv[q + j]
                        dqkv[val + j] = dqkv[val + j] + p * n.d_o[o + j]
                    end
                end
            end
        end
        for k = 1, n.t * c do n.dqkv[k] = n.round("dqkv", dqkv[k]) end
    end,
    cases = function(r)
        local kv, hd, s, way = r(1, 2), r(1, 40), r(1, 40), r(1, 6)
        if way < 3 then kv, hd, s = 1, r(1, 5), r(90, 140) end -- several blocks
        if way == 3 then kv, hd, s = 1, 8 * r(1, 3), r(90, 140) end -- of whole vectors
        if way == 4 then kv, hd, s = 1, 8 * r(5, 33) - r(0, 1), r(1, 24) end -- long heads
        if way > 4 and s % 5 == 1 then kv, hd, s = 1, 8 * (1 + hd % 3), 128 end -- of whole tiles
        local h = kv * r(1, 3)
        return {
            t = s * r(1, 2), c = (h + 2 * kv) * hd, e = h * hd, h = h,
            heads = h, kv_heads = kv, head_dim = hd,
            seq = s, window = drawn_window(r, s), scale = (r(1, 6) == 1 and -1 or 1) / math.sqrt(hd),
            inputs = function(n, r, make)
                return { starts = r(0, 1) == 1 and make.starts(n.t, n.seq) or nil }
            end,
        }
    end,
    variants = { { softcap = 0.75 }, { key_chunk = 7 }, { key_chunk = 33 } },
}
