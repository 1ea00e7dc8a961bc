-- SPDX-License-Identifier: Apache-2.0
-- qk_norm_bwd: in what qk_norm read, its 1/rms and the gradient of its rows; out the
-- gradients of rows and both weights. For each head as in rmsnorm_bwd; the gradient of
-- v passes through.
return op {
    arithmetic = 1,
    doc = "gradient of qk_norm",
    inputs = {
        { "qkv", "t c" }, { "wq", "hd" }, { "wk", "hd" },
        { "rstd", "t m", class = "acc" }, { "dy", "t c" },
    },
    attrs = { heads = "int", kv_heads = "int", head_dim = "int" },
    outputs = {
        { "dx", "t c", dtype = "qkv" },
        { "dwq", "hd", dtype = "grad", add = true, optional = "frozen" },
        { "dwk", "hd", dtype = "grad", add = true, optional = "frozen" },
    },
    axes = { t = "reduction", c = "parallel", hd = "reduction" },
    check = function(n)
        if n.hd ~= n.head_dim then
            return ("weights of %d for heads of %d"):format(n.hd, n.head_dim)
        end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim
            or n.m ~= n.heads + n.kv_heads then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
    end,
    -- Sums for both weights over every 32 rows; cpu.c has the same 32.
    workspace = function(n)
        return n.dwq and (n.t + 31) // 32 * 2 * n.head_dim * n.acc_bytes or 0
    end,
    -- For CUDA over every 8; cuda.cu has the same 8.
    workspace_cuda = function(n)
        return n.dwq and (n.t + 7) // 8 * 2 * n.head_dim * n.acc_bytes or 0
    end,
    flops = function(n) return (n.dwq and 11 or 9) * n.t * (n.heads + n.kv_heads) * n.head_dim end,
    reference = function(n)
        local hd, normed = n.head_dim, n.heads + n.kv_heads
        local dwq, dwk = {}, {}
        for j = 1, hd do dwq[j], dwk[j] = 0.0, 0.0 end
        for i = 0, n.t - 1 do
            for c = 1, n.c do n.dx[i * n.c + c] = n.dy[i * n.c + c] end
            for h = 0, normed - 1 do
                local at, mean = i * n.c + h * hd, 0.0
                local rstd = n.rstd[i * normed + h + 1]
                local w, dw = n.wq, dwq
                if h >= n.heads then w, dw = n.wk, dwk end
                for j = 1, hd do
                    mean = mean + n.dy[at + j] * w[j] * n.qkv[at + j] * rstd / hd
                end
                for j = 1, hd do
                    local x = n.qkv[at + j] * rstd
                    n.dx[at + j] = n.round("dx", rstd * (n.dy[at + j] * w[j] - x * mean))
                    dw[j] = dw[j] + n.dy[at + j] * x
                end
            end
        end
        for j = 1, hd do
            n.dwq[j], n.dwk[j] = n.round("dwq", dwq[j]), n.round("dwk", dwk[j])
        end
    end,
    cases = function(r)
        local kv, hd = r(1, 3), r(1, 40)
        local h = kv * r(1, 3)
        return {
            t = r(1, 20), c = (h + 2 * kv) * hd, hd = hd, m = h + kv,
            heads = h, kv_heads = kv, head_dim = hd,
        }
    end,
}
