-- SPDX-License-Identifier: Apache-2.0
-- rmsnorm_bwd_add: the gradient of a norm, added to the gradient of the residual
-- connection around it. The norm's gradient is rounded before the sum: the bits
-- are those of the two ops.
return op {
    arithmetic = 1,
    doc = "dx, dw = rmsnorm_bwd(x, w, rstd, dy); dx = dres + dx",
    inputs = {
        { "x", "t d" }, { "w", "d" }, { "rstd", "t", class = "acc" }, { "dy", "t d" },
        { "dres", "t d" },
    },
    attrs = { offset = { "number", 0, quiet = true } },
    outputs = {
        { "dx", "t d", dtype = "x", alias = "dres" },
        { "dw", "d", dtype = "grad", add = true, optional = "frozen" },
    },
    axes = { t = "reduction", d = "reduction" },
    -- Each block has sums over its rows: enough blocks for 132 multiprocessors, with several rows
    -- each.
    workspace_cuda = function(n)
        if not n.dw then return 0 end
        local blocks = math.min((n.t + 7) // 8, math.max(264, (1 << 20) // n.d))
        return blocks * n.d * n.acc_bytes
    end,
    scale_of = { dx = function(n) return n.t end },
    flops = function(n) return ((n.dw and 11 or 9) + 1) * n.t * n.d end,
    expands = function(g, n)
        local dx, dw = g.rmsnorm_bwd { n.x, n.w, n.rstd, n.dy, offset = n.offset }
        return { dx = g.add { n.dres, dx }, dw = dw }
    end,
    reference = function(n)
        local dw = {}
        for j = 1, n.d do dw[j] = 0.0 end
        for i = 0, n.t - 1 do
            local rstd, mean = n.rstd[i + 1], 0.0
            for j = 1, n.d do
                local k = i * n.d + j
                mean = mean + n.dy[k] * (n.w[j] + n.offset) * n.x[k] * rstd / n.d
            end
            for j = 1, n.d do
                local k = i * n.d + j
                local h = n.x[k] * rstd
                local dx = n.round("dx", rstd * (n.dy[k] * (n.w[j] + n.offset) - h * mean))
                n.dx[k] = n.round("dx", n.dres[k] + dx)
                dw[j] = dw[j] + n.dy[k] * h
            end
        end
        for j = 1, n.d do n.dw[j] = n.round("dw", dw[j]) end
    end,
    cases = function(r)
        local long = r(0, 7) == 0 -- more than the threads of a block keep in registers
        local t, d = long and r(1, 3) or r(1, 70), long and r(8200, 8240) or r(1, 90)
        -- longer than rows that are fetched ahead in f32; of few cases, none of which has golden bits
        if not long and (t + d) % 29 == 3 then d = 2048 + d end
        return { t = t, d = d }
    end,
    variants = { { offset = 1 } },
}
