-- SPDX-License-Identifier: Apache-2.0
-- attention: in rows [heads q | kv_heads k | kv_heads v] of whole sequences; out each
-- query's mix of values, and the logarithm of its softmax's sum for the backward.
-- Causal; query i sees keys i-window+1..i of its sequence (all up to i when window is
-- 0), and none before its document, whose first index starts gives; with a chunk only keys of
-- its own. Chunks are counted from the first token of a document, so packing changes nothing.
-- sinks: a logit of each head, as of one more key that all queries see and whose value is zero; lse
-- has its term.
-- Flops count whole sequences. Head h reads kv head h // (heads / kv_heads).
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

-- qkv with so many key and value heads. Copies are consecutive, so each query head reads its own.
local function repeated(g, n, copies)
    return g.repeat_heads { n.qkv, heads = n.heads, kv_heads = n.kv_heads, copies = copies }
end

-- Of a case; one that is longer than the sequence becomes one that no int holds.
local function drawn_window(r, seq)
    local window = r(0, 1) * r(1, 45)
    return window > seq and 1 << 31 or window
end

return op {
    arithmetic = 1,
    doc = "o = softmax(q k^T * scale) v, causal; lse = log(sum(exp(q k^T * scale)))",
    inputs = {
        { "qkv", "t c" }, { "starts", "t", class = "i32", optional = true },
        { "sinks", "h", optional = true },
    },
    attrs = {
        heads = "int", kv_heads = "int", head_dim = "int", seq = "int",
        window = { "int", 0 }, scale = "number",
        key_chunk = { "int", 0, quiet = true }, -- a query sees keys of its own chunk of so many; 0: of all
        softcap = { "number", 0, quiet = true }, -- scores s become softcap tanh(s / softcap)
    },
    outputs = {
        { "o", function(n) return { n.t, n.heads * n.head_dim } end, dtype = "qkv" },
        { "lse", function(n) return { n.t, n.heads } end, dtype = "acc" },
    },
    axes = { t = "parallel", c = "reduction" },
    cuts = {
        t = { o = 1, lse = 1, ordered = true }, -- whole sequences
        heads = {
            qkv = { 2, "heads", "kv_heads", "kv_heads" }, sinks = 1, o = 2, lse = 2,
            attrs = { "heads", "kv_heads" }, repeats = { kv_heads = repeated },
        },
    },
    check = function(n)
        if n.kv_heads < 1 or n.heads % n.kv_heads ~= 0 then
            return ("%d kv_heads do not divide %d heads"):format(n.kv_heads, n.heads)
        end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
        if n.sinks and n.h ~= n.heads then
            return ("%d sinks are not one for each of %d heads"):format(n.h, n.heads)
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
        local gradients = 2 * group * pad * pad -- bytes, of the least slice that attention_bwd takes; both rules refuse it
        if gradients > 8 << 30 then
            return ("its backward stores the gradients of all scores, which grow with the square of the "
                .. "sequence: %.2f GiB for %d heads over %d tokens, and the limit is 8 GiB"):format(
                gradients / (1 << 30), group, n.seq)
        end
    end,
    workspace_cudnn = function() return 1 << 20 end, -- what the library may need
    cost = "attention",
    flops = function(n) -- two products over the visible pairs
        return 4 * n.heads * n.head_dim * visible_pairs(n) * (n.t // n.seq)
    end,
    backward = function(g, n, d)
        return {
            qkv = g.attention_bwd {
                n.qkv, n.o, n.lse, d.o, n.starts, heads = n.heads, kv_heads = n.kv_heads,
                head_dim = n.head_dim, seq = n.seq, window = n.window, scale = n.scale,
                softcap = n.softcap, key_chunk = n.key_chunk, sinks = n.sinks ~= nil,
            },
            sinks = n.sinks and g.colsum {
                g.attention_sinks_bwd { n.o, n.lse, d.o, n.sinks, heads = n.heads },
            },
        }
    end,
    reference = function(n)
        local hd, group = n.head_dim, n.heads // n.kv_heads
        for i = 0, n.t - 1 do
            local first = i - i % n.seq + (n.starts and n.starts[i + 1] or 0)
            if n.key_chunk > 0 then first = i - (i - first) % n.key_chunk end
            if n.window > 0 then first = math.max(first, i - n.window + 1) end
            for h = 0, n.heads - 1 do
                local q, kv = i * n.c + h * hd, (n.heads + h // group) * hd
                local sink = n.sinks and n.sinks[h + 1] or -math.huge
                local score, top = {}, sink
                for k = first, i do
                    local dot = 0.0
                    for j = 1, hd do
                        dot = dot + n.qkv[q + j] * n.qkv[k * n.c + kv + j]
                    end
                    score[k] = dot * n.scale
                    if n.softcap > 0 then score[k] = n.softcap * tanh(score[k] / n.softcap) end
                    top = math.max(top, score[k])
                end
                local sum = math.exp(sink - top)
                for k = first, i do sum = sum + math.exp(score[k] - top) end
                local lse = top + math.log(sum)
                n.lse[i * n.heads + h + 1] = n.round("lse", lse)
                for j = 1, hd do
                    local o = 0.0
                    for k = first, i do
                        o = o + math.exp(score[k] - lse)
                            * n.qkv[k * n.c + kv + n.kv_heads * hd + j]
                    end
                    n.o[(i * n.heads + h) * hd + j] = n.round("o", o)
                end
            end
        end
    end,
    cases = function(r)
        local kv, hd, s, way = r(1, 2), r(1, 40), r(1, 40), r(1, 6)
        if way < 3 then kv, hd, s = 1, r(1, 5), r(90, 140) end -- several blocks
        if way == 3 then kv, hd, s = 1, 8 * r(1, 3), r(90, 140) end -- of whole vectors
        if way == 4 then kv, hd, s = 1, 8 * r(5, 33) - r(0, 1), r(1, 24) end -- long heads
        if way > 4 and s % 5 == 1 then kv, hd, s = 1, 8 * (1 + hd % 3), 128 end -- of whole tiles
        local h = kv * r(1, 3)
        return {
            t = s * r(1, 2), c = (h + 2 * kv) * hd, h = h,
            heads = h, kv_heads = kv, head_dim = hd,
            seq = s, window = drawn_window(r, s), scale = (r(1, 6) == 1 and -1 or 1) / math.sqrt(hd),
            inputs = function(n, r, make)
                return { starts = r(0, 1) == 1 and make.starts(n.t, n.seq) or nil,
                         sinks = n.sinks and make.sinks(n.heads) }
            end,
        }
    end,
    variants = {
        { softcap = 0.75 }, { key_chunk = 7 }, { key_chunk = 33 }, { sinks = true },
        { sinks = true, softcap = 0.75, key_chunk = 33 },
    },
}
