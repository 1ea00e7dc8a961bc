-- SPDX-License-Identifier: Apache-2.0
-- repeat_heads_bwd: in the gradient of repeated rows; out the gradient of the original rows. The
-- gradients of a head's copies are added in their order, in the accumulation dtype, and rounded once.
return op {
    arithmetic = 1,
    doc = "q heads as they are, of each k and v head the sum of its copies",
    inputs = { { "dy", "t c" } },
    attrs = { heads = "int", kv_heads = "int", copies = "int" },
    outputs = {
        { "dqkv", function(n)
            return { n.t, n.c // (n.heads + 2 * n.copies) * (n.heads + 2 * n.kv_heads) }
        end, dtype = "dy" },
    },
    axes = { t = "parallel", c = "parallel" },
    cuts = {
        t = { dqkv = 1 },
        heads = {
            dy = { 2, "heads", "copies", "copies" }, dqkv = { 2, "heads", "kv_heads", "kv_heads" },
            attrs = { "heads", "kv_heads", "copies" },
        },
    },
    check = function(n)
        if n.heads < 1 or n.copies < 1 or n.c % (n.heads + 2 * n.copies) ~= 0 then
            return ("rows of %d are not %d heads and 2 * %d copies"):format(n.c, n.heads, n.copies)
        end
        if n.kv_heads < 1 or n.copies % n.kv_heads ~= 0 then
            return ("%d kv_heads do not divide %d copies"):format(n.kv_heads, n.copies)
        end
    end,
    cost = "copy",
    flops = function(n)
        return 2 * n.t * (n.copies - n.kv_heads) * (n.c // (n.heads + 2 * n.copies))
    end,
    reference = function(n)
        local hd, times = n.c // (n.heads + 2 * n.copies), n.copies // n.kv_heads
        local q, wide = n.heads * hd, (n.heads + 2 * n.kv_heads) * hd
        for i = 0, n.t - 1 do
            for j = 1, q do n.dqkv[i * wide + j] = n.dy[i * n.c + j] end
            for h = 0, 2 * n.kv_heads - 1 do
                for j = 1, hd do
                    local at = i * n.c + q + h * times * hd + j
                    local sum = n.dy[at]
                    for k = 1, times - 1 do sum = sum + n.dy[at + k * hd] end
                    n.dqkv[i * wide + q + h * hd + j] = n.round("dqkv", sum)
                end
            end
        end
    end,
    cases = function(r)
        local kv, hd = r(1, 4), r(1, 3) == 1 and 8 * r(1, 4) or r(1, 30) -- also of whole vectors
        local h, copies = kv * r(1, 4), kv * r(1, 4)
        return { t = r(1, 9), c = (h + 2 * copies) * hd, heads = h, kv_heads = kv, copies = copies }
    end,
}
