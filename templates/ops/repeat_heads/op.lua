-- SPDX-License-Identifier: Apache-2.0
-- repeat_heads: in rows [heads q | kv_heads k | kv_heads v]; out rows [heads q | copies k | copies v]: each
-- head of k and v stands copies / kv_heads times, one after the other, so each query head still finds
-- its own. Attention's rule calls it where parts of a sequence are more than key and value heads
-- (`repeats`: gen/lua/op_cuts.lua). The gradient of a head is the sum of its copies'.
return op {
    arithmetic = 1,
    doc = "q heads as they are, each k and v head copies / kv_heads times",
    inputs = { { "qkv", "t c" } },
    attrs = { heads = "int", kv_heads = "int", copies = "int" },
    outputs = {
        { "y", function(n)
            return { n.t, n.c // (n.heads + 2 * n.kv_heads) * (n.heads + 2 * n.copies) }
        end, dtype = "qkv" },
    },
    axes = { t = "parallel", c = "parallel" },
    cuts = {
        t = { y = 1 },
        heads = {
            qkv = { 2, "heads", "kv_heads", "kv_heads" }, y = { 2, "heads", "copies", "copies" },
            attrs = { "heads", "kv_heads", "copies" },
        },
    },
    check = function(n)
        if n.heads < 1 or n.kv_heads < 1 or n.c % (n.heads + 2 * n.kv_heads) ~= 0 then
            return ("rows of %d are not %d heads and 2 * %d kv_heads"):format(n.c, n.heads, n.kv_heads)
        end
        if n.copies < 1 or n.copies % n.kv_heads ~= 0 then
            return ("%d kv_heads do not divide %d copies"):format(n.kv_heads, n.copies)
        end
    end,
    cost = "copy",
    flops = function(n) return 0 end,
    backward = function(g, n, d)
        return {
            qkv = g.repeat_heads_bwd { d.y, heads = n.heads, kv_heads = n.kv_heads, copies = n.copies },
        }
    end,
    reference = function(n)
        local hd, times = n.c // (n.heads + 2 * n.kv_heads), n.copies // n.kv_heads
        local wide = (n.heads + 2 * n.copies) * hd
        for i = 0, n.t - 1 do
            for h = 0, n.heads + 2 * n.copies - 1 do
                local from = h < n.heads and h or n.heads + (h - n.heads) // times
                for j = 1, hd do n.y[i * wide + h * hd + j] = n.qkv[i * n.c + from * hd + j] end
            end
        end
    end,
    cases = function(r)
        local kv, hd = r(1, 4), r(1, 3) == 1 and 8 * r(1, 4) or r(1, 30) -- also of whole vectors
        local h = kv * r(1, 4)
        return { t = r(1, 9), c = (h + 2 * kv) * hd, heads = h, kv_heads = kv, copies = kv * r(1, 4) }
    end,
}
