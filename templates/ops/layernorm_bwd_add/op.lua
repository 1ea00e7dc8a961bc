-- SPDX-License-Identifier: Apache-2.0
-- layernorm_bwd_add: the gradient of a norm, added to the gradient of the residual
-- connection around it. The norm's gradient is rounded before the sum: the bits
-- are those of the two ops.
return op {
    arithmetic = 1,
    doc = "dx, dw, db = layernorm_bwd(x, w, mean, rstd, dy); dx = dres + dx",
    inputs = {
        { "x", "t d" }, { "w", "d" }, { "mean", "t", class = "acc" },
        { "rstd", "t", class = "acc" }, { "dy", "t d" }, { "dres", "t d" },
    },
    outputs = {
        { "dx", "t d", dtype = "x", alias = "dres" },
        { "dw", "d", dtype = "grad", add = true, optional = "frozen" },
        { "db", "d", dtype = "grad", add = true, optional = "frozen" },
    },
    axes = { t = "reduction", d = "reduction" },
    -- Each block has sums over its rows: enough blocks for 132 multiprocessors, with several rows
    -- each.
    workspace_cuda = function(n)
        if not n.dw then return 0 end
        local blocks = math.min((n.t + 7) // 8, math.max(264, (1 << 20) // n.d))
        return blocks * 2 * n.d * n.acc_bytes
    end,
    scale_of = { dx = function(n) return n.t end },
    flops = function(n) return ((n.dw and 15 or 12) + 1) * n.t * n.d end,
    expands = function(g, n)
        local dx, dw, db = g.layernorm_bwd { n.x, n.w, n.mean, n.rstd, n.dy }
        return { dx = g.add { n.dres, dx }, dw = dw, db = db }
    end,
    reference = function(n)
        local dw, db = {}, {}
        for j = 1, n.d do dw[j], db[j] = 0.0, 0.0 end
        for i = 0, n.t - 1 do
            local mean, rstd, me, meh = n.mean[i + 1], n.rstd[i + 1], 0.0, 0.0
            for j = 1, n.d do
                local k = i * n.d + j
                local e = n.dy[k] * n.w[j]
                me = me + e / n.d
                meh = meh + e * (n.x[k] - mean) * rstd / n.d
            end
            for j = 1, n.d do
                local k = i * n.d + j
                local h = (n.x[k] - mean) * rstd
                local dx = n.round("dx", rstd * (n.dy[k] * n.w[j] - me - h * meh))
                n.dx[k] = n.round("dx", n.dres[k] + dx)
                dw[j] = dw[j] + n.dy[k] * h
                db[j] = db[j] + n.dy[k]
            end
        end
        for j = 1, n.d do
            n.dw[j], n.db[j] = n.round("dw", dw[j]), n.round("db", db[j])
        end
    end,
    cases = function(r)
        local long = r(0, 7) == 0 -- more than the threads of a block keep in registers
        local t, d = long and r(1, 3) or r(1, 70), long and r(8200, 8240) or r(1, 90)
        -- longer than rows that are fetched ahead in f32; of few cases, none of which has golden bits
        if not long and (t + d) % 11 == 3 then d = 2048 + d end
        return {
            t = t, d = d,
            -- a mean far from 0: what a block computes beyond a row's end is large then
            inputs = function(n, r)
                if (t + d) % 4 ~= 2 then return {} end
                local mean, x = {}, {}
                for i = 1, t do mean[i] = 100.0 end
                for i = 1, t * d do x[i] = 100 + r(-8, 8) / 2 end
                return { mean = mean, x = x }
            end,
        }
    end,
}
