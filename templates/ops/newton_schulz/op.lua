-- SPDX-License-Identifier: Apache-2.0
-- newton_schulz: in a matrix; out almost the nearest orthogonal matrix: its singular values
-- become close to 1, its singular vectors stay. X is divided by its norm (at least by
-- eps), then `steps` times, with G = X X^T of the shorter side:
--   X = (a I + b G + c G^2) X          wide; tall: X (a I + b G + c G^2), G = X^T X
-- In the dtype of sums, whatever the weights': f32, or f64 for f64. It is not part of the
-- graph: an optimizer (muon) applies it to one whole matrix at a time.
return op {
    arithmetic = 1,
    doc = "Newton-Schulz: y has the singular vectors of x, and singular values near 1",
    inputs = { { "x", "m n", class = "acc" } },
    attrs = { steps = "int", a = "number", b = "number", c = "number", eps = "number" },
    outputs = { { "y", "m n", dtype = "acc", alias = "x" } },
    axes = { m = "parallel", n = "parallel" },
    check = function(n)
        if n.steps < 1 then return "steps must be at least 1" end
    end,
    workspace = function(n) -- X of every other step, G, the polynomial of G, a sum per row
        local s = math.min(n.m, n.n)
        local function up(bytes) return (bytes + 63) // 64 * 64 end
        return up(n.m * n.n * n.acc_bytes) + 2 * up(s * s * n.acc_bytes) + up(n.m * 8)
    end,
    products = function(n)
        local s, l = math.min(n.m, n.n), math.max(n.m, n.n)
        return { { "nt", s, s, l, n.steps }, { "nt", s, s, s, n.steps }, { "nn", s, l, s, n.steps } }
    end,
    flops = function(n)
        local s = math.min(n.m, n.n)
        return n.steps * (4 * s * n.m * n.n + 2 * s * s * s + 3 * s * s) + 3 * n.m * n.n
    end,
    reference = function(n)
        local m, cols, wide = n.m, n.n, n.m <= n.n
        local s, l = math.min(m, cols), math.max(m, cols)
        local function at(i, k) -- of X with the shorter side first
            return wide and i * cols + k + 1 or k * cols + i + 1
        end
        local x, sum = {}, 0.0
        for k = 1, m * cols do sum = sum + n.x[k] * n.x[k] end
        local scale = 1 / math.max(math.sqrt(sum), n.eps)
        for k = 1, m * cols do x[k] = n.x[k] * scale end
        for _ = 1, n.steps do
            local g, p, next_x = {}, {}, {}
            for i = 0, s - 1 do
                for j = 0, s - 1 do
                    local dot = 0.0
                    for k = 0, l - 1 do dot = dot + x[at(i, k)] * x[at(j, k)] end
                    g[i * s + j] = dot
                end
            end
            for i = 0, s - 1 do
                for j = 0, s - 1 do
                    local dot = 0.0
                    for k = 0, s - 1 do dot = dot + g[i * s + k] * g[k * s + j] end
                    p[i * s + j] = n.b * g[i * s + j] + n.c * dot + (i == j and n.a or 0)
                end
            end
            for i = 0, s - 1 do
                for k = 0, l - 1 do
                    local dot = 0.0
                    for j = 0, s - 1 do dot = dot + p[i * s + j] * x[at(j, k)] end
                    next_x[at(i, k)] = dot
                end
            end
            x = next_x
        end
        for k = 1, m * cols do n.y[k] = n.round("y", x[k]) end
    end,
    cases = function(r)
        local m, n = r(1, 40), r(1, 40)
        if r(0, 2) == 0 then m, n = r(1, 6), r(257, 600) end -- more than a block's threads
        if r(0, 1) == 0 then m, n = n, m end
        return {
            m = m, n = n, steps = r(1, 5), a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7,
        }
    end,
}
