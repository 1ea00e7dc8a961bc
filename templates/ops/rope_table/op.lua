-- SPDX-License-Identifier: Apache-2.0
-- rope_table: out cosines and sines of rotary positions; no input, so it runs once at
-- start. A row is a position: head_dim/2 cosines, then head_dim/2 sines. Llama 3's
-- scaling stretches the slow frequencies by `factor` and blends between the two
-- wavelengths that `original` (the context of pretraining) divided by the two
-- frequency factors gives; original = 0 leaves all unchanged.
return op {
    arithmetic = 1,
    doc = "table[p] = cos(p f), sin(p f) for f = theta^(-2i/head_dim), Llama 3 scaling",
    inputs = {},
    attrs = {
        seq = "int", head_dim = "int", theta = "number", factor = { "number", 1 },
        low_freq_factor = { "number", 1 }, high_freq_factor = { "number", 4 },
        original = { "int", 0 },
    },
    outputs = {
        { "table", function(n) return { n.seq, n.head_dim } end, dtype = "acc" },
    },
    check = function(n)
        if n.head_dim < 2 or n.head_dim % 2 ~= 0 then return "head_dim must be even" end
        if n.seq > 1 << 20 then -- beyond this rt_sin and rt_cos are inexact
            return ("%d positions, but angles are exact up to 2^20"):format(n.seq)
        end
        if n.theta <= 0 then return "theta must be positive" end
        if n.factor <= 0 then return "factor must be positive" end
        if n.original < 0 then return "original must not be negative" end
        if n.original > 0 and n.high_freq_factor <= n.low_freq_factor then
            return "high_freq_factor must be above low_freq_factor"
        end
        if n.original > 0 and n.low_freq_factor <= 0 then
            return "low_freq_factor must be positive"
        end
    end,
    flops = function(n) return 2 * n.seq * n.head_dim end,
    reference = function(n)
        local half = n.head_dim // 2
        for i = 0, half - 1 do
            local f = math.exp(-(2 * i / n.head_dim) * math.log(n.theta))
            if n.original > 0 then
                local turns = n.original * f / (2 * math.pi) -- in the original context
                if turns < n.low_freq_factor then
                    f = f / n.factor
                elseif turns <= n.high_freq_factor then
                    local smooth = (turns - n.low_freq_factor)
                        / (n.high_freq_factor - n.low_freq_factor)
                    f = (1 - smooth) * f / n.factor + smooth * f
                end
            end
            for p = 0, n.seq - 1 do
                n.table[p * n.head_dim + i + 1] = n.round("table", math.cos(p * f))
                n.table[p * n.head_dim + half + i + 1] = n.round("table", math.sin(p * f))
            end
        end
    end,
    cases = function(r)
        local scaled = r(0, 1) == 1
        return {
            seq = r(1, 300), head_dim = 2 * r(1, 40), theta = 1e4 * r(1, 50),
            factor = scaled and r(2, 32) or 1, low_freq_factor = 1,
            high_freq_factor = r(2, 4), original = scaled and 8192 or 0,
        }
    end,
}
