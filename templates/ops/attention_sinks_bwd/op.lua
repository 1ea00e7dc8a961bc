-- SPDX-License-Identifier: Apache-2.0
-- attention_sinks_bwd: in what attention wrote, the gradient of its output, and its sinks; out each
-- query's share of the sinks' gradient, whose sum over queries is that gradient. With delta =
-- sum(d_o * o) of a head, a sink's share of the softmax, p = exp(sink - lse), has the gradient
-- -delta, because its value is zero.
return op {
    arithmetic = 1,
    doc = "each query's share of the gradient of attention's sinks: -exp(sink - lse) * sum(d_o * o)",
    inputs = {
        { "o", "t e" }, { "lse", "t h", class = "acc" }, { "d_o", "t e" }, { "sinks", "h" },
    },
    attrs = { heads = "int" },
    outputs = { { "shares", "t h", dtype = "acc" } },
    axes = { t = "parallel", h = "parallel", e = "reduction" },
    cuts = {
        t = {},
        heads = { o = 2, lse = 2, d_o = 2, sinks = 1, shares = 2, attrs = { "heads" } },
    },
    check = function(n)
        if n.h ~= n.heads then return ("lse has %d heads, not %d"):format(n.h, n.heads) end
        if n.e % n.h ~= 0 then return ("%d heads do not divide rows of %d"):format(n.h, n.e) end
    end,
    flops = function(n) return n.t * (2 * n.e + 3 * n.h) end,
    reference = function(n)
        local wide = n.e // n.h
        for k = 0, n.t * n.h - 1 do
            local delta = 0.0
            for j = 1, wide do delta = delta + n.o[k * wide + j] * n.d_o[k * wide + j] end
            local share = math.exp(n.sinks[k % n.h + 1] - n.lse[k + 1])
            n.shares[k + 1] = n.round("shares", -share * delta)
        end
    end,
    cases = function(r)
        local h = r(1, 9)
        return { t = r(1, 40), h = h, heads = h, e = h * (r(1, 4) == 1 and 8 * r(1, 9) or r(1, 70)) }
    end,
}
