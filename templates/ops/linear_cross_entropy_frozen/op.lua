-- SPDX-License-Identifier: Apache-2.0
-- linear_cross_entropy_frozen: linear_cross_entropy where the head is frozen: no dw, and
-- still no [tokens, vocab] logits in memory. Tokens do not meet, so `chunk` is no part of
-- the numbers.
return op {
    scaled = true,
    templates = "linear_cross_entropy",
    doc = "loss, dx of cross_entropy(x w^T), chunk tokens at a time",
    inputs = { { "x", "t d" }, { "w", "v d" }, { "targets", "t", class = "i32" } },
    attrs = {
        chunk = { "int", from = "loss_chunk_tokens" },
        masked = { "bool", from = "loss_masked" },
        z = { "number", from = "loss_z" },
        smoothing = { "number", from = "label_smoothing" },
    },
    outputs = {
        { "loss", "1", dtype = "f64" }, { "dx", "t d", dtype = "x" },
    },
    axes = { t = "reduction", v = "reduction", d = "reduction" },
    check = function(n)
        if n.chunk < 1 then return "chunk must be at least 1" end
    end,
    workspace = function(n) -- one chunk's logits, and the lse and the loss of each of its rows
        local rows = math.min(n.chunk, n.t)
        return (n.elem_bytes * rows * n.v + 63) // 64 * 64 + 2 * n.acc_bytes * rows
    end,
    workspace_cuda = function(n) -- logits in rows padded to 16 bytes, the loss of each token
        local row_bytes = (n.elem_bytes * n.v + 15) // 16 * 16
        return (math.min(n.chunk, n.t) * row_bytes + 63) // 64 * 64 + n.acc_bytes * n.t
    end,
    flops = function(n)
        local forward = n.smoothing > 0 and 5 or 4
        local backward = (n.z > 0 or n.smoothing > 0) and 5 or 3
        return 2 * 2 * n.t * n.v * n.d + (forward + backward) * n.t * n.v
    end,
    expands = function(g, n)
        local logits = g.linear { n.x, n.w }
        local loss, lse = g.cross_entropy {
            logits, n.targets, masked = n.masked, z = n.z, smoothing = n.smoothing,
        }
        local dlogits = g.cross_entropy_bwd {
            logits, n.targets, lse, masked = n.masked, z = n.z, smoothing = n.smoothing,
        }
        return {
            loss = loss,
            dx = g.linear_dx { dlogits, n.w },
        }
    end,
    cases = function(r)
        local masked = r(0, 1) == 1
        return {
            t = r(1, 33), d = r(1, 40), v = r(1, 60), chunk = r(1, 40), masked = masked,
            z = r(0, 1) * r(1, 9) / 100, smoothing = r(0, 1) * r(1, 9) / 10,
            inputs = function(n, r)
                local targets = {}
                for i = 1, n.t do
                    targets[i] = masked and r(0, 2) == 0 and -1 or r(0, n.v - 1)
                end
                return { targets = targets }
            end,
        }
    end,
}
