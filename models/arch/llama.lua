-- SPDX-License-Identifier: Apache-2.0
-- The llama family: pre-norm blocks of rotary attention with grouped heads and a gated
-- feed-forward. In: the fields below. Out: blocks embed, layers.0 .. layers.N-1, head, whose
-- parameters carry Hugging Face's names. Llama 2 and 3.x, Mistral (window), Qwen2.5
-- (qkv_bias) and Qwen3 (qk_norm, head_dim) are descriptions of this one file.
--
-- q, k and v are one storage tensor, gate and up another: one product each, gathered where
-- the product reads it. `parts` names the Hugging Face tensors in its rows, in order.

local function matrix(g, name, rows, cols, std, parts)
    return g:param { name, { rows, cols }, init = "normal", std = std, decay = true,
                     parts = parts }
end

-- Norm weights start at one, biases at zero; neither is decayed.
local function vector(g, name, elems, init, parts)
    return g:param { name, { elems }, init = init, decay = false, parts = parts }
end

local function embedding(g, m)
    if not m.tied then
        return matrix(g, "embed_tokens.weight", m.vocab, m.dim, m.init_std)
    end
    -- The head reads it too: one parameter under one global name.
    return g:param { global = "model.embed_tokens.weight", { m.vocab, m.dim },
                     init = "normal", std = m.init_std, decay = true }
end

-- Rows of q, k, v in the fused tensor, in Hugging Face's order.
local function qkv_parts(m, kind)
    local q, kv = m.heads * m.head_dim, m.kv_heads * m.head_dim
    return q + 2 * kv, {
        { "self_attn.q_proj." .. kind, q },
        { "self_attn.k_proj." .. kind, kv },
        { "self_attn.v_proj." .. kind, kv },
    }
end

local function rope_table(g, m)
    local s = m.rope.scaling or { factor = 1.0, low_freq_factor = 1.0,
                                  high_freq_factor = 4.0, original = 0 }
    return g.rope_table {
        seq = m.seq, head_dim = m.head_dim, theta = m.rope.theta, factor = s.factor,
        low_freq_factor = s.low_freq_factor, high_freq_factor = s.high_freq_factor,
        original = s.original, name = "rope_table",
    }
end

local function attention(g, m, x, residual_std)
    local heads, kv_heads, head_dim = m.heads, m.kv_heads, m.head_dim
    local rows, parts = qkv_parts(m, "weight")
    local w = matrix(g, "self_attn.qkv_proj.weight", rows, m.dim, m.init_std, parts)
    local qkv = g.linear { x, w, name = "qkv" }
    if m.qkv_bias then
        local _, bias_parts = qkv_parts(m, "bias")
        local bias = vector(g, "self_attn.qkv_proj.bias", rows, "zeros", bias_parts)
        qkv = g.bias { qkv, bias, name = "qkv_biased" }
    end
    if m.qk_norm then
        qkv = g.qk_norm {
            qkv, vector(g, "self_attn.q_norm.weight", head_dim, "ones"),
            vector(g, "self_attn.k_norm.weight", head_dim, "ones"),
            heads = heads, kv_heads = kv_heads, head_dim = head_dim, eps = m.norm_eps,
            name = "qk_normed",
        }
    end
    qkv = g.rope {
        qkv, rope_table(g, m), g:starts(), heads = heads, kv_heads = kv_heads,
        head_dim = head_dim, seq = m.seq, name = "roped",
    }
    g:cut "attention"
    local o = g.attention {
        qkv, g:starts(), heads = heads, kv_heads = kv_heads, head_dim = head_dim,
        seq = m.seq, window = m.window, scale = 1.0 / math.sqrt(head_dim), name = "attn",
    }
    w = matrix(g, "self_attn.o_proj.weight", m.dim, heads * head_dim, residual_std)
    return g.linear { o, w, name = "attn_out" }
end

local function feed_forward(g, m, x, residual_std)
    local w = matrix(g, "mlp.gate_up_proj.weight", 2 * m.ffn, m.dim, m.init_std,
                     { { "mlp.gate_proj.weight", m.ffn }, { "mlp.up_proj.weight", m.ffn } })
    local gate_up = g.linear { x, w, name = "gate_up" }
    local act = g.swiglu { gate_up, name = "ffn_act" }
    g:cut "mlp_down"
    w = matrix(g, "mlp.down_proj.weight", m.dim, m.ffn, residual_std)
    return g.linear { act, w, name = "ffn_out" }
end

-- A cut marks where a unit smaller than the block may end: each piece has one matrix.
local function layer(g, m, x, residual_std)
    g:cut "qkv"
    local w = vector(g, "input_layernorm.weight", m.dim, "ones")
    local h = g.rmsnorm { x, w, eps = m.norm_eps, name = "attn_norm" }
    x = g.add { x, attention(g, m, h, residual_std), name = "attn_residual" }
    g:cut "mlp_up"
    w = vector(g, "post_attention_layernorm.weight", m.dim, "ones")
    h = g.rmsnorm { x, w, eps = m.norm_eps, name = "ffn_norm" }
    return g.add { x, feed_forward(g, m, h, residual_std), name = "ffn_residual" }
end

local function head(g, m, x)
    local w = vector(g, "model.norm.weight", m.dim, "ones")
    local h = g.rmsnorm { x, w, eps = m.norm_eps, name = "final_norm" }
    if m.tied then
        w = embedding(g, m)
    else
        w = matrix(g, "lm_head.weight", m.vocab, m.dim, m.init_std)
    end
    local logits = g.linear { h, w, name = "logits" }
    local loss = g.cross_entropy { logits, g:targets(), name = "loss" }
    return loss
end

---@param m fsdpgen.llama.m
local function check(m, fail)
    if m.head_dim == m.dim // m.heads and m.dim % m.heads ~= 0 then
        fail("heads", ("%d does not divide dim (%d)"):format(m.heads, m.dim),
             ("use a divisor of %d"):format(m.dim))
    end
    if m.heads % m.kv_heads ~= 0 then
        fail("kv_heads", ("%d does not divide heads (%d)"):format(m.kv_heads, m.heads),
             ("use a divisor of %d: a key head serves heads / kv_heads query heads")
             :format(m.heads))
    end
    if m.head_dim % 2 ~= 0 then
        fail("head_dim", ("%d is odd, but rotary positions turn pairs"):format(m.head_dim),
             ("use %d"):format(m.head_dim + 1))
    end
    local s = m.rope.scaling
    if s and s.high_freq_factor <= s.low_freq_factor then
        fail("rope.scaling.high_freq_factor",
             ("%g is not above low_freq_factor (%g)"):format(s.high_freq_factor,
                                                           s.low_freq_factor),
             "Llama 3.1 has low_freq_factor = 1, high_freq_factor = 4")
    end
end

-- config.json as transformers writes it.
---@param m fsdpgen.llama.m
---@param t fsdpgen.config
local function config(m, t)
    if m.qk_norm and m.qkv_bias then
        return nil -- no family of Hugging Face has both
    end
    local kind = m.qk_norm and "qwen3" or m.qkv_bias and "qwen2" or m.window > 0 and "mistral"
        or "llama"
    local class = { llama = "Llama", mistral = "Mistral", qwen2 = "Qwen2", qwen3 = "Qwen3" }
    local c = {
        { "architectures", { class[kind] .. "ForCausalLM" } },
        { "model_type", kind },
        { "torch_dtype", t.dtype },
        { "hidden_size", m.dim },
        { "intermediate_size", m.ffn },
        { "num_hidden_layers", m.layers },
        { "num_attention_heads", m.heads },
        { "num_key_value_heads", m.kv_heads },
        { "head_dim", m.head_dim },
        { "vocab_size", m.vocab },
        { "max_position_embeddings", m.seq },
        { "hidden_act", "silu" },
        { "rms_norm_eps", m.norm_eps },
        { "rope_theta", m.rope.theta },
        { "tie_word_embeddings", m.tied },
        { "initializer_range", m.init_std },
        { "bos_token_id", {} },
        { "eos_token_id", t.document_end or {} },
    }
    local s = m.rope.scaling
    if s then
        c[#c + 1] = { "rope_scaling", {
            { "rope_type", "llama3" },
            { "factor", s.factor },
            { "low_freq_factor", s.low_freq_factor },
            { "high_freq_factor", s.high_freq_factor },
            { "original_max_position_embeddings", s.original },
        } }
    end
    if kind == "mistral" then
        c[#c + 1] = { "sliding_window", m.window }
    elseif kind ~= "llama" and m.window > 0 then
        c[#c + 1] = { "use_sliding_window", true }
        c[#c + 1] = { "sliding_window", m.window }
        c[#c + 1] = { "max_window_layers", 0 }
    end
    return c
end

---@param m fsdpgen.llama.m
---@param b fsdpgen.b
local function build(m, b)
    local residual_std = m.init_std
    if m.scale_residual_init then
        residual_std = m.init_std / math.sqrt(2.0 * m.layers)
    end
    local x = b:block("embed", "embed", "model.", function(g)
        return g.embed { g:tokens(), embedding(g, m), name = "x" }
    end)
    for i = 0, m.layers - 1 do
        x = b:block(("layers.%d"):format(i), "layer", ("model.layers.%d."):format(i),
                    function(g, y) return layer(g, m, y, residual_std) end, x)
    end
    b:block("head", "head", "", function(g, y) return head(g, m, y) end, x)
end

local scaling_fields = {
    { "factor", "number", min = 1, doc = "how far long wavelengths are stretched" },
    { "low_freq_factor", "number", above = 0, default = 1.0,
      doc = "wavelengths over original / this are stretched fully" },
    { "high_freq_factor", "number", above = 0, default = 4.0,
      doc = "wavelengths under original / this are left alone" },
    { "original", "int", min = 1, default = 8192, doc = "tokens it was first trained on" },
}

local rope_fields = {
    { "theta", "number", above = 0, default = 1e4, doc = "base of the wavelengths" },
    { "scaling", "table", optional = true, fields = scaling_fields,
      doc = "Llama 3.1's stretching of long wavelengths" },
}

return arch {
    name = "llama",
    doc = "Llama 2 and 3.x, Mistral, Qwen2.5, Qwen3",
    fields = {
        { "layers", "int", min = 1, doc = "transformer blocks" },
        { "dim", "int", min = 1, doc = "width of the residual stream" },
        { "heads", "int", min = 1, doc = "query heads" },
        { "kv_heads", "int", min = 1, default = function(m) return m.heads end,
          default_text = "heads", doc = "key and value heads; divides heads" },
        { "head_dim", "int", min = 2, default = function(m) return m.dim // m.heads end,
          default_text = "dim / heads", doc = "width of a head; even" },
        { "ffn", "int", min = 1, doc = "width of the gated feed-forward" },
        { "vocab", "int", min = 2, doc = "token ids" },
        { "rope", "table", default = {}, fields = rope_fields,
          doc = "rotary positions, rotate-half as in Hugging Face" },
        { "norm_eps", "number", above = 0, default = 1e-5, doc = "added to the mean square" },
        { "tied", "bool", default = false, doc = "the head reads the embedding" },
        { "qkv_bias", "bool", default = false, doc = "biases on q, k and v (Qwen2.5)" },
        { "qk_norm", "bool", default = false, doc = "RMS norm of q and k heads (Qwen3)" },
        { "window", "int", min = 0, default = 0,
          doc = "tokens that a token sees, itself included; 0: all before it (Mistral)" },
        { "init_std", "number", min = 0, default = 0.02, doc = "spread of new matrices" },
        { "scale_residual_init", "bool", default = false,
          doc = "matrices that write the residual start at init_std / sqrt(2 layers)" },
    },
    values = {
        scaling_3_1 = { factor = 8.0, low_freq_factor = 1.0, high_freq_factor = 4.0,
                        original = 8192 },
        scaling_3_2 = { factor = 32.0, low_freq_factor = 1.0, high_freq_factor = 4.0,
                        original = 8192 },
    },
    check = check,
    build = build,
    config = config,
} --[[@as fsdpgen.llama]]
