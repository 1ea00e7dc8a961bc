-- SPDX-License-Identifier: Apache-2.0
-- mixed: what people try, in one small network: a block whose attention and feed-forward run
-- beside each other, a gate on the attention's output, a convolution over time before it, and
-- squared ReLU. docs/ops.md explains it.

local function matrix(g, name, rows, cols, std)
    return g:param { name, { rows, cols }, init = "normal", std = std or 0.05, decay = true }
end

local function vector(g, name, n)
    return g:param { name, { n }, init = "ones", decay = false }
end

-- A convolution over time of m.taps tokens, one filter for each column.
local function convolved(g, m, x)
    local taps = g:param { "conv.weight", { m.taps, m.dim }, init = "normal", std = 0.5,
                           decay = false }
    return g.add { x, g.conv_time { x, taps } }
end

-- Attention whose output a gate opens or closes: q, k, v and the gate are one product.
local function gated_attention(g, m, x)
    local head_dim = m.dim // m.heads
    local product = g.linear { x, matrix(g, "attn.qkvg.weight", 4 * m.dim, m.dim) }
    local qkv, opening = g.split { product, at = 3 * m.dim }
    local o = g.attention {
        qkv, g:starts(), heads = m.heads, kv_heads = m.heads, head_dim = head_dim, seq = m.seq,
        scale = head_dim ^ -0.5,
    }
    return g.linear { g.gate { o, opening }, matrix(g, "attn.out.weight", m.dim, m.dim) }
end

local function feed_forward(g, m, x)
    local h = g.squared_relu { g.linear { x, matrix(g, "mlp.up.weight", m.ffn, m.dim) } }
    return g.linear { h, matrix(g, "mlp.down.weight", m.dim, m.ffn) }
end

-- A parallel block: both halves read one norm, and the residual takes the sum of both.
local function layer(g, m, x)
    local h = g.rmsnorm { x, vector(g, "norm.weight", m.dim), eps = 1e-6 }
    h = convolved(g, m, h)
    return g.add { x, g.add { gated_attention(g, m, h), feed_forward(g, m, h) } }
end

local function build(m, b)
    local x = b:block("embed", "embed", "", function(g)
        return g.embed { g:tokens(), matrix(g, "tokens.weight", m.vocab, m.dim) }
    end)
    for i = 0, m.layers - 1 do
        x = b:block(("layers.%d"):format(i), "layer", ("layers.%d."):format(i),
            function(g, y) return layer(g, m, y) end, x)
    end
    b:block("head", "head", "", function(g, y)
        local h = g.rmsnorm { y, vector(g, "norm.weight", m.dim), eps = 1e-6 }
        local logits = g.linear { h, matrix(g, "head.weight", m.vocab, m.dim) }
        return g.cross_entropy { logits, g:targets() }
    end, x)
end

return arch {
    name = "mixed",
    doc = "parallel blocks with gated attention, a convolution over time and squared ReLU",
    fields = {
        { "layers", "int", min = 1, doc = "blocks" },
        { "dim", "int", min = 1, doc = "width of the residual stream" },
        { "heads", "int", min = 1, doc = "attention heads" },
        { "ffn", "int", min = 1, doc = "width of the feed-forward" },
        { "taps", "int", min = 1, default = 4, doc = "tokens that the convolution sees" },
        { "vocab", "int", min = 2, doc = "token ids" },
    },
    check = function(m, fail)
        if m.dim % m.heads ~= 0 then
            fail("dim", ("%d is not divisible by heads (%d)"):format(m.dim, m.heads))
        end
    end,
    build = build,
}
