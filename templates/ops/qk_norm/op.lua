-- SPDX-License-Identifier: Apache-2.0
-- qk_norm: in rows [heads q | kv_heads k | kv_heads v] and a weight for q heads and
-- one for k heads; out the rows with each q and k head divided by its rms (Qwen 3), v
-- unchanged, and 1/rms of each head for the backward. over_all: one norm spans all q
-- heads, and one all k heads (OLMo 2).
local function wide_q(n) return n.over_all and n.heads * n.head_dim or n.head_dim end
local function wide_k(n) return n.over_all and n.kv_heads * n.head_dim or n.head_dim end

-- Norms of a row: how many there are, and f(number, first column, columns, weight) of each.
local function norms(n)
    return n.over_all and 2 or n.heads + n.kv_heads
end

local function each_norm(n, f)
    for h = 0, norms(n) - 1 do
        local is_q = h < (n.over_all and 1 or n.heads)
        f(h, h * wide_q(n), is_q and wide_q(n) or wide_k(n), is_q)
    end
end

return op {
    arithmetic = 1,
    doc = "rmsnorm of each q head with wq and of each k head with wk",
    inputs = {
        { "qkv", "t c" }, { "wq", "hd" }, { "wk", function(n) return { wide_k(n) } end },
    },
    attrs = {
        heads = "int", kv_heads = "int", head_dim = "int", eps = { "number", 1e-6 },
        over_all = { "bool", false, quiet = true },
        offset = { "number", 0, quiet = true }, -- of both weights, as in rmsnorm
    },
    outputs = {
        { "y", "t c", dtype = "qkv", alias = "qkv" },
        { "rstd", function(n) return { n.t, norms(n) } end, dtype = "acc" },
    },
    axes = { t = "parallel", c = "parallel", hd = "reduction" },
    cuts = {
        t = { rstd = 1 },
        heads = {
            qkv = { 2, "heads", "kv_heads", "kv_heads" }, y = { 2, "heads", "kv_heads", "kv_heads" },
            rstd = { 2, "heads", "kv_heads" }, attrs = { "heads", "kv_heads" },
            when = function(n) return not n.over_all end,
        },
    },
    check = function(n)
        if n.hd ~= wide_q(n) then
            return ("weights of %d for %s of %d"):format(
                n.hd, n.over_all and "rows of q" or "heads", wide_q(n))
        end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
    end,
    -- A block holds a row in registers, or sums of both weights for a head in its gradient's shared
    -- memory, which has 48 KiB.
    check_cuda = function(n)
        local most = n.over_all and (n.acc_bytes == 8 and 14336 or 32768) or 6144 // n.acc_bytes
        if wide_q(n) > most then
            return ("%s of %d elements, but its kernel for GPUs takes at most %d"):format(
                n.over_all and "rows of q" or "heads", wide_q(n), most)
        end
    end,
    flops = function(n) return 4 * n.t * (n.heads + n.kv_heads) * n.head_dim end,
    backward = function(g, n, d)
        local dx, dwq, dwk = g.qk_norm_bwd {
            n.qkv, n.wq, n.wk, n.rstd, d.y,
            heads = n.heads, kv_heads = n.kv_heads, head_dim = n.head_dim,
            over_all = n.over_all, offset = n.offset,
        }
        return { qkv = dx, wq = dwq, wk = dwk }
    end,
    reference = function(n)
        for i = 0, n.t - 1 do
            for c = 1, n.c do n.y[i * n.c + c] = n.qkv[i * n.c + c] end
            each_norm(n, function(h, first, cols, is_q)
                local at, sum, w = i * n.c + first, 0.0, is_q and n.wq or n.wk
                for j = 1, cols do sum = sum + n.qkv[at + j] ^ 2 end
                local rstd = n.round("rstd", 1 / math.sqrt(sum / cols + n.eps))
                n.rstd[i * norms(n) + h + 1] = rstd
                for j = 1, cols do
                    n.y[at + j] = n.round("y", n.qkv[at + j] * rstd * (w[j] + n.offset))
                end
            end)
        end
    end,
    cases = function(r)
        local kv, hd = r(1, 3), r(1, 40)
        local h = kv * r(1, 3)
        local t = r(1, 20)
        local over_all = (t + hd) % 4 == 3
        return {
            t = t, c = (h + 2 * kv) * hd, hd = over_all and h * hd or hd,
            heads = h, kv_heads = kv, head_dim = hd, eps = 1e-6, over_all = over_all,
        }
    end,
    variants = { { offset = 1 } },
}
