-- SPDX-License-Identifier: Apache-2.0
-- GPT-2: LayerNorm before each half of a block, learned positions, biases, tanh-GELU. In: the
-- fields below. Out: blocks embed, layers.0 .. layers.N-1, head, whose parameters carry
-- Hugging Face's names and layout: its Conv1D weights are [in, out], and conv1d reads them
-- so, without a transpose. c_attn holds q, k and v in one tensor there too. `cut` says how
-- parts.tensor divides a parameter.

local function norm(g, m, name, x, value)
    local w = g:param { name .. ".weight", { m.dim }, init = "ones", decay = false }
    local b = g:param { name .. ".bias", { m.dim }, init = "zeros", decay = false }
    local y = g.layernorm { x, w, b, eps = m.norm_eps, name = value }
    return y
end

-- cut: of its columns, with the bias; nil: of its rows, and the bias follows the sum.
---@param cut? fsdpgen.mark
local function conv1d(g, name, x, from, to, std, value, cut)
    local w = g:param { name .. ".weight", { from, to }, init = "normal", std = std,
                        decay = true,
                        cut = cut and { "columns", unit = cut.unit, sections = cut.sections,
                                        of = cut.of } or "rows" }
    local b = g:param { name .. ".bias", { to }, init = "zeros", decay = false,
                        cut = cut and { "rows", unit = cut.unit, sections = cut.sections,
                                        of = cut.of } }
    return g.bias { g.conv1d { x, w, name = value .. "_product" }, b, name = value }
end

local function embedding(g, m)
    if not m.tied then
        return g:param { "wte.weight", { m.vocab, m.dim }, init = "normal",
                         std = m.init_std, decay = true,
                         cut = { "rows", pad = true, of = "vocab" } }
    end
    -- The head reads it too: one parameter under one global name.
    return g:param { global = "transformer.wte.weight", { m.vocab, m.dim },
                     init = "normal", std = m.init_std, decay = true,
                     cut = { "rows", pad = true, of = "vocab" } }
end

local function embed(g, m)
    local x = g.embed { g:tokens(), embedding(g, m), name = "token" }
    local positions = g:param { "wpe.weight", { m.max_positions, m.dim }, init = "normal",
                                std = m.init_std, decay = true }
    return g.add_pos { x, positions, g:starts(), seq = m.seq, name = "x" }
end

-- A cut marks where a unit smaller than the block may end: each piece has one matrix.
local function layer(g, m, x)
    -- As in the original: matrices that write to the residual start smaller, so that it does not
    -- grow.
    local residual_std = m.init_std / math.sqrt(2.0 * m.layers)
    local head_dim = m.dim // m.heads
    g:cut "qkv"
    local h = norm(g, m, "ln_1", x, "attn_norm")
    local qkv = conv1d(g, "attn.c_attn", h, m.dim, 3 * m.dim, m.init_std, "qkv",
                       { unit = head_dim, sections = { m.dim, m.dim, m.dim }, of = "heads" })
    g:cut "attention"
    local o = g.attention {
        qkv, g:starts(), heads = m.heads, kv_heads = m.heads, head_dim = head_dim,
        seq = m.seq, window = 0, scale = 1.0 / math.sqrt(head_dim), name = "attn",
    }
    o = conv1d(g, "attn.c_proj", o, m.dim, m.dim, residual_std, "attn_out")
    x = g.add { x, o, name = "attn_residual" }
    g:cut "mlp_up"
    h = norm(g, m, "ln_2", x, "ffn_norm")
    local up = conv1d(g, "mlp.c_fc", h, m.dim, m.ffn, m.init_std, "ffn_up", { of = "ffn" })
    local act = g.gelu { up, name = "ffn_act" }
    g:cut "mlp_down"
    local down = conv1d(g, "mlp.c_proj", act, m.ffn, m.dim, residual_std, "ffn_out")
    return g.add { x, down, name = "ffn_residual" }
end

local function head(g, m, x)
    local h = norm(g, m, "transformer.ln_f", x, "final_norm")
    local w
    if m.tied then
        w = embedding(g, m)
    else
        w = g:param { "lm_head.weight", { m.vocab, m.dim }, init = "normal",
                      std = m.init_std, decay = true,
                      cut = { "rows", pad = true, of = "vocab" } }
    end
    local logits = g.linear { h, w, name = "logits" }
    local loss = g.cross_entropy { logits, g:targets(), name = "loss" }
    return loss
end

---@param m fsdpgen.gpt2.m
local function check(m, fail)
    if m.dim % m.heads ~= 0 then
        fail("heads", ("%d does not divide dim (%d)"):format(m.heads, m.dim),
             ("use a divisor of %d"):format(m.dim))
    end
    if m.seq > m.max_positions then
        fail("max_positions", ("%d is less than seq (%d)"):format(m.max_positions, m.seq),
             "shorten seq, or give the position table more rows")
    end
end

-- config.json as transformers writes it.
---@param m fsdpgen.gpt2.m
---@param t fsdpgen.config
local function config(m, t)
    return {
        { "architectures", { "GPT2LMHeadModel" } },
        { "model_type", "gpt2" },
        { "torch_dtype", t.dtype },
        { "n_embd", m.dim },
        { "n_layer", m.layers },
        { "n_head", m.heads },
        { "n_inner", m.ffn },
        { "n_positions", m.max_positions },
        { "vocab_size", m.vocab },
        { "activation_function", "gelu_new" },
        { "layer_norm_epsilon", m.norm_eps },
        { "tie_word_embeddings", m.tied },
        { "initializer_range", m.init_std },
        { "attn_pdrop", 0.0 },
        { "embd_pdrop", 0.0 },
        { "resid_pdrop", 0.0 },
        { "bos_token_id", {} },
        { "eos_token_id", t.document_end or {} },
    }
end

---@param m fsdpgen.gpt2.m
---@param b fsdpgen.b
local function build(m, b)
    local x = b:block("embed", "embed", "transformer.", function(g)
        return embed(g, m)
    end)
    for i = 0, m.layers - 1 do
        x = b:block(("layers.%d"):format(i), "layer", ("transformer.h.%d."):format(i),
                    function(g, y) return layer(g, m, y) end, x)
    end
    b:block("head", "head", "", function(g, y) return head(g, m, y) end, x)
end

return arch {
    name = "gpt2",
    doc = "GPT-2: LayerNorm, learned positions, tanh-GELU, biases",
    fields = {
        { "layers", "int", min = 1, doc = "transformer blocks" },
        { "dim", "int", min = 1, doc = "width of the residual stream" },
        { "heads", "int", min = 1, doc = "attention heads; divides dim" },
        { "ffn", "int", min = 1, default = function(m) return 4 * m.dim end,
          default_text = "4 dim", doc = "width of the feed-forward" },
        { "vocab", "int", min = 2, default = 50257, doc = "token ids" },
        { "max_positions", "int", min = 1, default = 1024, doc = "learned positions" },
        { "norm_eps", "number", above = 0, default = 1e-5, doc = "added to the variance" },
        { "tied", "bool", default = true, doc = "the head reads the embedding" },
        { "init_std", "number", min = 0, default = 0.02, doc = "spread of new matrices" },
    },
    check = check,
    build = build,
    config = config,
} --[[@as fsdpgen.gpt2]]
