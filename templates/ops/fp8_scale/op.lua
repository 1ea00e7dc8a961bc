-- SPDX-License-Identifier: Apache-2.0
-- fp8_scale: in a tensor; out its scale in a form of fp8, a power of two (runtime/rt_fp8.h): the
-- smallest by which no element is larger than the form's largest value. The largest element is
-- found as an integer, so its order does not matter; if one is not finite, the scale is NaN.
return op {
    arithmetic = 1,
    role = "scale",
    doc = "s = the smallest power of two >= max |x| / (largest value of the form)",
    inputs = { { "x", "t k" } },
    attrs = { to = { "string", "e4m3" } },
    outputs = { { "s", "1", dtype = "acc" } },
    axes = { t = "reduction", k = "reduction" },
    cuts = { t = { s = "max" }, k = { s = "max" } },
    check = function(n)
        if n.to ~= "e4m3" and n.to ~= "e5m2" then
            return ('to is "%s", not "e4m3" or "e5m2"'):format(n.to)
        end
    end,
    workspace = function() return 0 end,
    workspace_cuda = function(n) -- the largest of each block
        return 4 * math.min(1024, (n.t * n.k + 4095) // 4096)
    end,
    flops = function(n) return n.t * n.k end,
    encoded = function(g, n) return n.to == "e4m3" and { s = n.scale } or nil end,
    reference = function(n)
        local top = n.to == "e4m3" and 448 or 57344
        local largest, scale = 0.0, 2.0 ^ -126
        for i = 1, n.t * n.k do
            if not (math.abs(n.x[i]) < 2.0 ^ 128) then largest = 0 / 0 break end
            largest = math.max(largest, math.abs(n.x[i]))
        end
        while largest > top * scale do scale = 2 * scale end
        n.s[1] = largest == largest and scale or largest
    end,
    cases = function(r)
        local size = 2.0 ^ r(-12, 12)
        return {
            t = r(1, 33), k = r(1, 40), to = r(0, 1) == 0 and "e4m3" or "e5m2",
            inputs = function(n, r)
                local x, most = {}, r(0, 3) > 0 and 64 or 28 -- or exactly the form's largest
                for i = 1, n.t * n.k do x[i] = size * r(-most, most) / 32 end
                x[r(1, #x)] = size * most / 32
                return { x = x }
            end,
        }
    end,
}
