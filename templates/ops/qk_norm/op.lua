-- SPDX-License-Identifier: Apache-2.0
-- qk_norm: in rows [heads q | kv_heads k | kv_heads v] and a weight for q heads and
-- one for k heads; out the rows with each q and k head divided by its rms (Qwen 3), v
-- unchanged, and 1/rms of each head for the backward.
return op {
    arithmetic = 1,
    doc = "rmsnorm of each q head with wq and of each k head with wk",
    inputs = { { "qkv", "t c" }, { "wq", "hd" }, { "wk", "hd" } },
    attrs = {
        heads = "int", kv_heads = "int", head_dim = "int", eps = { "number", 1e-6 },
    },
    outputs = {
        { "y", "t c", dtype = "qkv", alias = "qkv" },
        { "rstd", function(n) return { n.t, n.heads + n.kv_heads } end, dtype = "acc" },
    },
    axes = { t = "parallel", c = "parallel", hd = "reduction" },
    check = function(n)
        if n.hd ~= n.head_dim then
            return ("weights of %d for heads of %d"):format(n.hd, n.head_dim)
        end
        if n.c ~= (n.heads + 2 * n.kv_heads) * n.head_dim then
            return ("rows of %d are not (heads + 2 kv_heads) * head_dim = %d"):format(
                n.c, (n.heads + 2 * n.kv_heads) * n.head_dim)
        end
    end,
    flops = function(n) return 4 * n.t * (n.heads + n.kv_heads) * n.head_dim end,
    backward = function(g, n, d)
        local dx, dwq, dwk = g.qk_norm_bwd {
            n.qkv, n.wq, n.wk, n.rstd, d.y,
            heads = n.heads, kv_heads = n.kv_heads, head_dim = n.head_dim,
        }
        return { qkv = dx, wq = dwq, wk = dwk }
    end,
    reference = function(n)
        local hd, normed = n.head_dim, n.heads + n.kv_heads
        for i = 0, n.t - 1 do
            for c = 1, n.c do n.y[i * n.c + c] = n.qkv[i * n.c + c] end
            for h = 0, normed - 1 do
                local at, sum = i * n.c + h * hd, 0.0
                local w = h < n.heads and n.wq or n.wk
                for j = 1, hd do sum = sum + n.qkv[at + j] ^ 2 end
                local rstd = n.round("rstd", 1 / math.sqrt(sum / hd + n.eps))
                n.rstd[i * normed + h + 1] = rstd
                for j = 1, hd do
                    n.y[at + j] = n.round("y", n.qkv[at + j] * rstd * w[j])
                end
            end
        end
    end,
    cases = function(r)
        local kv, hd = r(1, 3), r(1, 40)
        local h = kv * r(1, 3)
        return {
            t = r(1, 20), c = (h + 2 * kv) * hd, hd = hd,
            heads = h, kv_heads = kv, head_dim = hd, eps = 1e-6,
        }
    end,
}
