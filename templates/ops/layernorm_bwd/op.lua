-- SPDX-License-Identifier: Apache-2.0
-- layernorm_bwd: in what layernorm read, its statistics and the gradient of its rows;
-- out the gradients of rows, weight and bias. With h = (x - mean) * rstd and e = dy *
-- w: dx = rstd * (e - mean(e) - h * mean(e * h)).
return op {
    arithmetic = 1,
    doc = "gradient of layernorm",
    inputs = {
        { "x", "t d" }, { "w", "d" }, { "mean", "t", class = "acc" },
        { "rstd", "t", class = "acc" }, { "dy", "t d" },
    },
    outputs = {
        { "dx", "t d", dtype = "x" },
        { "dw", "d", dtype = "grad", add = true, optional = "frozen" },
        { "db", "d", dtype = "grad", add = true, optional = "frozen" },
    },
    axes = { t = "reduction", d = "reduction" },
    cuts = { t = { dw = "sum", db = "sum" } },
    -- Each block has sums over its rows: enough blocks for 132 multiprocessors, with several rows
    -- each.
    workspace_cuda = function(n)
        if not n.dw then return 0 end
        local blocks = math.min((n.t + 7) // 8, math.max(264, (1 << 20) // n.d))
        return blocks * 2 * n.d * n.acc_bytes
    end,
    flops = function(n) return (n.dw and 15 or 12) * n.t * n.d end,
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
                n.dx[k] = n.round("dx", rstd * (n.dy[k] * n.w[j] - me - h * meh))
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
        return { t = t, d = d }
    end,
}
