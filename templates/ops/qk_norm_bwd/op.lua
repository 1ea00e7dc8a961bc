-- SPDX-License-Identifier: Apache-2.0
-- qk_norm_bwd: in what qk_norm read, its 1/rms and the gradient of its rows; out the
-- gradients of rows and both weights. For each head as in rmsnorm_bwd; the gradient of
-- v passes through.
local function wide_q(n) return n.over_all and n.heads * n.head_dim or n.head_dim end
local function wide_k(n) return n.over_all and n.kv_heads * n.head_dim or n.head_dim end

-- As in qk_norm.
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
    doc = "gradient of qk_norm",
    inputs = {
        { "qkv", "t c" }, { "wq", "hd" }, { "wk", function(n) return { wide_k(n) } end },
        { "rstd", "t m", class = "acc" }, { "dy", "t c" },
    },
    attrs = {
        heads = "int", kv_heads = "int", head_dim = "int",
        over_all = { "bool", false, quiet = true },
        offset = { "number", 0, quiet = true },
    },
    outputs = {
        { "dx", "t c", dtype = "qkv" },
        { "dwq", "hd", dtype = "grad", add = true, optional = "frozen" },
        { "dwk", function(n) return { wide_k(n) } end, dtype = "grad", add = true,
          optional = "frozen" },
    },
    axes = { t = "reduction", c = "parallel", hd = "reduction" },
    cuts = {
        t = { dwq = "sum", dwk = "sum" },
        heads = {
            qkv = { 2, "heads", "kv_heads", "kv_heads" }, dy = { 2, "heads", "kv_heads", "kv_heads" },
            dx = { 2, "heads", "kv_heads", "kv_heads" }, rstd = { 2, "heads", "kv_heads" },
            dwq = "sum", dwk = "sum", attrs = { "heads", "kv_heads" },
            when = function(n) return not n.over_all end,
        },
    },
    check = function(n)
        if n.hd ~= wide_q(n) then
            return ("weights of %d for %s of %d"):format(
                n.hd, n.over_all and "rows of q" or "heads", wide_q(n))
        end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim
            or n.m ~= norms(n) then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
    end,
    -- Sums for both weights over every 32 rows; cpu.c has the same 32.
    workspace = function(n)
        return n.dwq and (n.t + 31) // 32 * 2 * wide_q(n) * n.acc_bytes or 0
    end,
    -- For CUDA over every 8; cuda.cu has the same 8.
    workspace_cuda = function(n)
        if not n.dwq then return 0 end
        if n.over_all then -- as many sums as rmsnorm_bwd
            local blocks = math.min((n.t + 7) // 8, math.max(264, (1 << 20) // n.hd))
            return blocks * (wide_q(n) + wide_k(n)) * n.acc_bytes
        end
        return (n.t + 7) // 8 * 2 * n.head_dim * n.acc_bytes
    end,
    flops = function(n) return (n.dwq and 11 or 9) * n.t * (n.heads + n.kv_heads) * n.head_dim end,
    reference = function(n)
        local dwq, dwk = {}, {}
        for j = 1, wide_q(n) do dwq[j] = 0.0 end
        for j = 1, wide_k(n) do dwk[j] = 0.0 end
        for i = 0, n.t - 1 do
            for c = 1, n.c do n.dx[i * n.c + c] = n.dy[i * n.c + c] end
            each_norm(n, function(h, first, cols, is_q)
                local at, mean = i * n.c + first, 0.0
                local rstd = n.rstd[i * norms(n) + h + 1]
                local w, dw = is_q and n.wq or n.wk, is_q and dwq or dwk
                for j = 1, cols do
                    mean = mean + n.dy[at + j] * (w[j] + n.offset) * n.qkv[at + j] * rstd / cols
                end
                for j = 1, cols do
                    local x = n.qkv[at + j] * rstd
                    local e = n.dy[at + j] * (w[j] + n.offset)
                    n.dx[at + j] = n.round("dx", rstd * (e - x * mean))
                    dw[j] = dw[j] + n.dy[at + j] * x
                end
            end)
        end
        for j = 1, wide_q(n) do n.dwq[j] = n.round("dwq", dwq[j]) end
        for j = 1, wide_k(n) do n.dwk[j] = n.round("dwk", dwk[j]) end
    end,
    cases = function(r)
        local kv, hd = r(1, 3), r(1, 40)
        local h = kv * r(1, 3)
        local t = r(1, 20)
        local over_all = (t + hd) % 4 == 3
        -- rows of q, and in f64 of k, that are more than the threads of a block keep in registers
        if over_all and t > 16 then t, kv, h, hd = t % 4 + 1, 3, 9, 920 + hd end
        return {
            t = t, c = (h + 2 * kv) * hd, hd = over_all and h * hd or hd,
            m = over_all and 2 or h + kv, heads = h, kv_heads = kv, head_dim = hd,
            over_all = over_all,
        }
    end,
    variants = { { offset = 1 } },
}
