-- SPDX-License-Identifier: Apache-2.0
-- The llama family: pre-norm blocks of rotary attention with grouped heads and a gated
-- feed-forward. In: the fields below. Out: blocks embed, layers.0 .. layers.N-1, head, whose
-- parameters carry Hugging Face's names. Llama 2 and 3.x, Mistral (window), Qwen2.5
-- (qkv_bias), Qwen3 (qk_norm, head_dim), Granite 3 (multipliers), SmolLM3 (nope_every),
-- Phi-3 and 4 (fused_names, rope.fraction), OLMo 2 (post_norm, qk_norm_all) and Gemma 2 and 3
-- (sandwich_norm, norm_less_one, geglu, scale_embedding, softcaps, global_every) are
-- descriptions of this one file.
--
-- q, k and v are one storage tensor, gate and up another: one product each, gathered where
-- the product reads it. `parts` names the Hugging Face tensors in its rows, in order; Phi
-- has them fused in its files, too. `cut` says how parts.tensor divides them.

local function matrix(g, name, rows, cols, std, cut, parts)
    return g:param { name, { rows, cols }, init = "normal", std = std, decay = true,
                     cut = cut, parts = parts }
end

-- Norm weights start at one, biases at zero; neither is decayed.
local function vector(g, name, elems, init, cut, parts)
    return g:param { name, { elems }, init = init, decay = false, cut = cut, parts = parts }
end

-- A norm's weight; Gemma keeps it less 1.
local function norm_weight(g, m, name, elems)
    return vector(g, name, elems, m.norm_less_one and "zeros" or "ones")
end

local function norm_offset(m)
    return m.norm_less_one and 1 or nil
end

local function embedding(g, m)
    if not m.tied then
        return matrix(g, "embed_tokens.weight", m.vocab, m.dim, m.init_std,
                      { "rows", pad = true, of = "vocab" })
    end
    -- The head reads it too: one parameter under one global name.
    return g:param { global = "model.embed_tokens.weight", { m.vocab, m.dim },
                     init = "normal", std = m.init_std, decay = true,
                     cut = { "rows", pad = true, of = "vocab" } }
end

-- Rows of q, k, v in the fused tensor, in Hugging Face's order.
local function qkv_parts(m, kind)
    local q, kv = m.heads * m.head_dim, m.kv_heads * m.head_dim
    return q + 2 * kv, not m.fused_names and {
        { "self_attn.q_proj." .. kind, q },
        { "self_attn.k_proj." .. kind, kv },
        { "self_attn.v_proj." .. kind, kv },
    } or nil
end

-- Each part has some heads of q, k and v.
local function qkv_cut(m)
    local q, kv = m.heads * m.head_dim, m.kv_heads * m.head_dim
    return { "rows", unit = m.head_dim, sections = { q, kv, kv },
             of = { "heads", "kv_heads", "kv_heads" } }
end

-- Elements of a head that turn; transformers rounds down, too.
local function rotary_dim(m)
    return math.floor(m.head_dim * (m.rope.fraction or 1))
end

-- own: of layers with a window that have another base, which is not scaled.
local function rope_table(g, m, own)
    local s = not own and m.rope.scaling or { factor = 1.0, low_freq_factor = 1.0,
                                              high_freq_factor = 4.0, original = 0 }
    return g.rope_table {
        seq = m.seq, head_dim = rotary_dim(m), factor = s.factor,
        theta = own and m.rope.local_theta or m.rope.theta,
        low_freq_factor = s.low_freq_factor, high_freq_factor = s.high_freq_factor,
        original = s.original, name = own and "rope_table_local" or "rope_table",
    }
end

-- x times a multiplier; nil and 1 leave no trace.
local function scaled(g, x, by, name)
    return (by or 1) == 1 and x or g.scale { x, by = by, name = name }
end

-- way: what differs among layers: { rotary, window, chunk }
local function attention(g, m, x, residual_std, way)
    local heads, kv_heads, head_dim = m.heads, m.kv_heads, m.head_dim
    local rows, parts = qkv_parts(m, "weight")
    local w = matrix(g, "self_attn.qkv_proj.weight", rows, m.dim, m.init_std, qkv_cut(m),
                     parts)
    local qkv = g.linear { x, w, name = "qkv" }
    if m.qkv_bias then
        local _, bias_parts = qkv_parts(m, "bias")
        local bias = vector(g, "self_attn.qkv_proj.bias", rows, "zeros", qkv_cut(m), bias_parts)
        qkv = g.bias { qkv, bias, name = "qkv_biased" }
    end
    if m.qk_norm or m.qk_norm_all then
        local all = m.qk_norm_all
        qkv = g.qk_norm {
            qkv,
            norm_weight(g, m, "self_attn.q_norm.weight", all and heads * head_dim or head_dim),
            norm_weight(g, m, "self_attn.k_norm.weight",
                        all and kv_heads * head_dim or head_dim),
            heads = heads, kv_heads = kv_heads, head_dim = head_dim, eps = m.norm_eps,
            over_all = all, offset = norm_offset(m), name = "qk_normed",
        }
    end
    if way.rotary then
        local turned = rotary_dim(m)
        qkv = g.rope {
            qkv, rope_table(g, m, m.rope.local_theta and way.window > 0), g:starts(), heads = heads, kv_heads = kv_heads,
            head_dim = head_dim, seq = m.seq, rotary = turned < head_dim and turned or 0,
            name = "roped",
        }
    end
    g:cut "attention"
    local sinks = m.attention_sinks and g:param {
        "self_attn.sinks", { heads }, init = "normal", std = m.init_std, decay = false,
        cut = { "rows", of = "heads" },
    } or nil
    local o = g.attention {
        qkv, g:starts(), sinks, heads = heads, kv_heads = kv_heads, head_dim = head_dim,
        seq = m.seq, window = way.window, key_chunk = way.chunk, softcap = m.attention_softcap,
        name = "attn",
        scale = m.attention_multiplier or 1.0 / math.sqrt(head_dim),
    }
    w = matrix(g, "self_attn.o_proj.weight", m.dim, heads * head_dim, residual_std,
               { "columns", unit = head_dim, of = "heads" })
    return g.linear { o, w, name = "attn_out" }
end

local function feed_forward(g, m, x, residual_std)
    local parts = { { "mlp.gate_proj.weight", m.ffn }, { "mlp.up_proj.weight", m.ffn } }
    local w = matrix(g, "mlp.gate_up_proj.weight", 2 * m.ffn, m.dim, m.init_std,
                     { "rows", sections = { m.ffn, m.ffn }, of = "ffn" },
                     not m.fused_names and parts or nil)
    local gate_up = g.linear { x, w, name = "gate_up" }
    local act = g.swiglu { gate_up, act = m.geglu and "gelu" or nil, name = "ffn_act" }
    g:cut "mlp_down"
    w = matrix(g, "mlp.down_proj.weight", m.dim, m.ffn, residual_std, "columns")
    return g.linear { act, w, name = "ffn_out" }
end

-- A cut marks where a unit smaller than the block may end: each piece has one matrix.
local function layer(g, m, x, residual_std, way)
    local function norm(y, weight, name)
        local w = norm_weight(g, m, weight .. ".weight", m.dim)
        return (g.rmsnorm { y, w, eps = m.norm_eps, offset = norm_offset(m), name = name })
    end
    local sandwich = m.sandwich_norm
    g:cut "qkv"
    local h = x
    if not m.post_norm then h = norm(x, "input_layernorm", "attn_norm") end
    h = attention(g, m, h, residual_std, way)
    if m.post_norm then h = norm(h, "post_attention_layernorm", "attn_norm") end
    if sandwich then h = norm(h, "post_attention_layernorm", "attn_out_norm") end
    x = g.add { x, scaled(g, h, m.residual_multiplier, "attn_scaled"), name = "attn_residual" }
    g:cut "mlp_up"
    h = x
    if sandwich then
        h = norm(x, "pre_feedforward_layernorm", "ffn_norm")
    elseif not m.post_norm then
        h = norm(x, "post_attention_layernorm", "ffn_norm")
    end
    h = feed_forward(g, m, h, residual_std)
    if m.post_norm then h = norm(h, "post_feedforward_layernorm", "ffn_norm") end
    if sandwich then h = norm(h, "post_feedforward_layernorm", "ffn_out_norm") end
    return g.add { x, scaled(g, h, m.residual_multiplier, "ffn_scaled"), name = "ffn_residual" }
end

local function head(g, m, x)
    local w = norm_weight(g, m, "model.norm.weight", m.dim)
    local h = g.rmsnorm { x, w, eps = m.norm_eps, offset = norm_offset(m), name = "final_norm" }
    if m.tied then
        w = embedding(g, m)
    else
        w = matrix(g, "lm_head.weight", m.vocab, m.dim, m.init_std,
                   { "rows", pad = true, of = "vocab" })
    end
    h = scaled(g, h, 1 / (m.logits_scaling or 1), "head_scaled") -- as good as scaled logits
    local logits = g.linear { h, w, name = "logits" }
    local loss = g.cross_entropy {
        logits, g:targets(), softcap = m.logits_softcap, name = "loss",
    }
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
    if m.qk_norm and m.qk_norm_all then
        fail("qk_norm_all", "qk_norm is set, too", "set one: heads are normed, or all together")
    end
    if m.sandwich_norm and m.post_norm then
        fail("sandwich_norm", "post_norm is set, too",
             "set one: norms before and after, or only after")
    end
    if m.global_every and m.window == 0 and not m.attention_chunk then
        fail("global_every", "window is 0, so every layer sees all tokens",
             "set window or attention_chunk, which the other layers have")
    end
    if m.rope.local_theta and m.window == 0 then
        fail("rope.local_theta", "no layer has a window", "set window, or leave local_theta out")
    end
    if m.head_dim % 2 ~= 0 then
        fail("head_dim", ("%d is odd, but rotary positions turn pairs"):format(m.head_dim),
             ("use %d"):format(m.head_dim + 1))
    elseif rotary_dim(m) < 2 or rotary_dim(m) % 2 ~= 0 then
        local turned = rotary_dim(m)
        fail("rope.fraction", ("%g of head_dim (%d) is %d, but rotary positions turn pairs")
             :format(m.rope.fraction or 1, m.head_dim, turned),
             ("use %.17g, which is %d elements"):format((turned // 2 * 2 + 2) / m.head_dim,
                                                     turned // 2 * 2 + 2))
    end
    local s = m.rope.scaling
    if s and s.high_freq_factor <= s.low_freq_factor then
        fail("rope.scaling.high_freq_factor",
             ("%g is not above low_freq_factor (%g)"):format(s.high_freq_factor,
                                                           s.low_freq_factor),
             "Llama 3.1 has low_freq_factor = 1, high_freq_factor = 4")
    end
end

-- Does the layer, counted from 0, see all tokens?
local function sees_all(m, layer)
    return m.window == 0 and not m.attention_chunk
        or m.global_every ~= nil and (layer + 1) % m.global_every == 0
end

-- 1 / scale^2 of the scores, which Gemma has as a whole number; nil if it is not whole.
local function query_scalar(m)
    local scale = m.attention_multiplier or 1.0 / math.sqrt(m.head_dim)
    local scalar = math.floor(1.0 / (scale * scale) + 0.5)
    return 1.0 / math.sqrt(scalar) == scale and scalar or nil
end

-- Gemma 2 or, with norms of q and k, 3: nil where neither of them computes it.
local function gemma(m)
    local others = m.embedding_multiplier or m.residual_multiplier or m.logits_scaling
        or m.nope_every or m.post_norm or m.qk_norm_all or m.fused_names or m.qkv_bias
        or rotary_dim(m) < m.head_dim
    local all = m.sandwich_norm and m.norm_less_one and m.geglu and m.scale_embedding
    if others or not all or m.dim % m.heads ~= 0 or not query_scalar(m) then return nil end
    if m.qk_norm then
        if m.attention_softcap then return nil end
        return "gemma3_text", "Gemma3ForCausalLM"
    end
    if m.rope.local_theta then return nil end
    return "gemma2", "Gemma2ForCausalLM"
end

-- The model_type that computes it, and its class; nil: no family of Hugging Face's has all of it.
---@param m fsdpgen.llama.m
local function family(m)
    if m.attention_chunk or m.attention_sinks then return nil end
    if m.sandwich_norm or m.norm_less_one or m.geglu or m.scale_embedding or m.global_every
        or m.attention_softcap or m.logits_softcap or m.rope.local_theta then
        return gemma(m)
    end
    local multiplies = m.embedding_multiplier or m.residual_multiplier or m.logits_scaling
        or m.attention_multiplier
    local parts_rotary = rotary_dim(m) < m.head_dim
    local kinds = {
        { "granite", "Granite", multiplies },
        { "smollm3", "SmolLM3", m.nope_every },
        { "olmo2", "Olmo2", m.post_norm or m.qk_norm_all },
        { "phi3", "Phi3", m.fused_names or parts_rotary, window = true },
        { "qwen3", "Qwen3", m.qk_norm, window = true },
        { "qwen2", "Qwen2", m.qkv_bias, window = true },
        { "mistral", "Mistral", m.window > 0, window = true },
    }
    local found
    for _, kind in ipairs(kinds) do
        if kind[3] then
            -- all but Mistral, whose window several have, are alone in what they have
            if found and kind[1] ~= "mistral" then return nil end
            found = found or kind
        end
    end
    found = found or { "llama", "Llama" }
    if m.window > 0 and not found.window then return nil end
    if found[1] == "llama" and m.dim % m.heads ~= 0 then return nil end -- it is refused there
    if found[1] == "olmo2" and not (m.post_norm and m.qk_norm_all) then return nil end
    if found[1] == "phi3" and (m.rope.scaling or not m.fused_names) then return nil end
    return found[1], found[2] .. "ForCausalLM"
end

-- What Gemma has.
---@param m fsdpgen.llama.m
local function add_gemma_keys(m, kind, add)
    local types = {}
    add("query_pre_attn_scalar", query_scalar(m))
    for i = 0, m.layers - 1 do
        types[i + 1] = sees_all(m, i) and "full_attention" or "sliding_attention"
    end
    add("layer_types", types)
    add("sliding_window", m.window > 0 and m.window or {})
    add("attn_logit_softcapping", m.attention_softcap or {})
    add("final_logit_softcapping", m.logits_softcap or {})
    if kind == "gemma3_text" then
        add("rope_local_base_freq", m.rope.local_theta or m.rope.theta)
    end
    add("pad_token_id", {})
end

-- What only some families have.
---@param m fsdpgen.llama.m
local function add_family_keys(m, kind, c)
    local function add(key, value) c[#c + 1] = { key, value } end
    if kind == "gemma2" or kind == "gemma3_text" then
        add_gemma_keys(m, kind, add)
    elseif kind == "granite" then
        add("embedding_multiplier", m.embedding_multiplier or 1.0)
        add("attention_multiplier", m.attention_multiplier or 1.0 / math.sqrt(m.head_dim))
        add("residual_multiplier", m.residual_multiplier or 1.0)
        add("logits_scaling", m.logits_scaling or 1.0)
    elseif kind == "smollm3" then
        local rotary = {}
        for i = 1, m.layers do rotary[i] = i % m.nope_every == 0 and 0 or 1 end
        add("no_rope_layers", rotary)
        add("no_rope_layer_interval", m.nope_every)
        add("use_sliding_window", false)
        add("pad_token_id", {})
    elseif kind == "olmo2" then
        add("pad_token_id", {})
    elseif kind == "phi3" then
        add("partial_rotary_factor", m.rope.fraction or 1.0)
        add("sliding_window", m.window > 0 and m.window or {})
        add("original_max_position_embeddings", m.seq)
        add("pad_token_id", {})
    elseif kind == "mistral" then
        add("sliding_window", m.window)
    elseif kind ~= "llama" and m.window > 0 then
        add("use_sliding_window", true)
        add("sliding_window", m.window)
        add("max_window_layers", 0)
    end
end

-- config.json as transformers writes it.
---@param m fsdpgen.llama.m
---@param t fsdpgen.config
local function config(m, t)
    local kind, class = family(m)
    if not kind then return nil end
    local c = {
        { "architectures", { class } },
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
        { m.geglu and "hidden_activation" or "hidden_act",
          m.geglu and "gelu_pytorch_tanh" or "silu" },
        { "rms_norm_eps", m.norm_eps },
        { "rope_theta", m.rope.theta },
        { "tie_word_embeddings", m.tied },
        { "initializer_range", m.init_std },
        { "bos_token_id", {} },
        { "eos_token_id", t.document_end or {} },
    }
    local s = m.rope.scaling
    -- shorter than any wavelength, so all are stretched alike
    if s and s.original == 1 and s.low_freq_factor == 1 and s.high_freq_factor == 4 then
        c[#c + 1] = { "rope_scaling", { { "rope_type", "linear" }, { "factor", s.factor } } }
    elseif s then
        c[#c + 1] = { "rope_scaling", {
            { "rope_type", "llama3" },
            { "factor", s.factor },
            { "low_freq_factor", s.low_freq_factor },
            { "high_freq_factor", s.high_freq_factor },
            { "original_max_position_embeddings", s.original },
        } }
    end
    add_family_keys(m, kind, c)
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
        local y = g.embed { g:tokens(), embedding(g, m), name = "x" }
        if m.scale_embedding then
            y = g.scale { y, by = math.sqrt(m.dim), rounded = true, name = "x_root" }
        end
        return scaled(g, y, m.embedding_multiplier, "x_scaled")
    end)
    for i = 0, m.layers - 1 do
        local all = sees_all(m, i)
        local way = { rotary = not m.nope_every or (i + 1) % m.nope_every ~= 0,
                      window = all and 0 or m.window,
                      chunk = not all and m.attention_chunk or nil }
        local class = way.rotary and "layer" or "layer_nope"
        if all and (m.window > 0 or m.attention_chunk) then class = class .. "_global" end
        x = b:block(("layers.%d"):format(i), class, ("model.layers.%d."):format(i),
                    function(g, y) return layer(g, m, y, residual_std, way) end, x)
    end
    b:block("head", "head", "", function(g, y) return head(g, m, y) end, x)
end

local scaling_fields = {
    { "factor", "number", min = 1, doc = "how far long wavelengths are stretched" },
    { "low_freq_factor", "number", above = 0, default = 1.0,
      doc = "wavelengths over original / this are stretched fully" },
    { "high_freq_factor", "number", above = 0, default = 4.0,
      doc = "wavelengths under original / this are not stretched" },
    { "original", "int", min = 1, default = 8192,
      doc = "sequence length of the original training; 1: stretch all wavelengths alike" },
}

local rope_fields = {
    { "theta", "number", above = 0, default = 1e4, doc = "base of the wavelengths" },
    { "fraction", "number", above = 0, max = 1, optional = true,
      doc = "share of each head that is rotated, from its start; default all (Phi-4-mini: 0.75)" },
    { "local_theta", "number", above = 0, optional = true,
      doc = "base in layers with a window, where scaling does not apply (Gemma 3: 1e4)" },
    { "scaling", "table", optional = true, fields = scaling_fields,
      doc = "Llama 3.1's stretching of long wavelengths" },
}

return arch {
    name = "llama",
    doc = "Llama 2 and 3.x, Mistral, Qwen2.5, Qwen3, Granite 3, SmolLM3, Phi-3 and 4, OLMo 2, "
        .. "Gemma 2 and 3",
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
        { "qk_norm_all", "bool", optional = true,
          doc = "one RMS norm of all q heads together, and one of all k heads (OLMo 2)" },
        { "post_norm", "bool", optional = true,
          doc = "norms follow attention and feed-forward instead of preceding them (OLMo 2)" },
        { "sandwich_norm", "bool", optional = true,
          doc = "norms precede and follow attention and feed-forward (Gemma)" },
        { "norm_less_one", "bool", optional = true,
          doc = "norm weights are stored as w - 1 and start at 0 (Gemma)" },
        { "geglu", "bool", optional = true,
          doc = "the gate's activation is GELU, in its tanh form, not SiLU (Gemma)" },
        { "scale_embedding", "bool", optional = true,
          doc = "embeddings are multiplied by sqrt(dim), rounded to their dtype (Gemma)" },
        { "global_every", "int", min = 1, optional = true,
          doc = "one layer in this many sees all tokens; the others have `window` "
                .. "or `attention_chunk` (Gemma 2: 2, Gemma 3: 6)" },
        { "attention_chunk", "int", min = 1, optional = true,
          doc = "a token sees only tokens of its own chunk of this many tokens, counted from the start "
                .. "of its document; with `window`, only those that both allow" },
        { "attention_sinks", "bool", optional = true,
          doc = "each head has a logit that joins the softmax's sum, self_attn.sinks, as of a key whose "
                .. "value is zero; it starts like a matrix and is not decayed (gpt-oss)" },
        { "attention_softcap", "number", above = 0, optional = true,
          doc = "scores s become c tanh(s / c) (Gemma 2: 50)" },
        { "logits_softcap", "number", above = 0, optional = true,
          doc = "logits x become c tanh(x / c) (Gemma 2: 30)" },
        { "nope_every", "int", min = 1, optional = true,
          doc = "one layer in this many has no rotary positions (SmolLM3: 4)" },
        { "fused_names", "bool", optional = true,
          doc = "checkpoints hold q, k and v in one tensor, gate and up in another (Phi)" },
        { "embedding_multiplier", "number", above = 0, optional = true,
          doc = "embeddings are multiplied by it (Granite)" },
        { "attention_multiplier", "number", above = 0, optional = true,
          doc = "scores are multiplied by it; otherwise by 1 / sqrt(head_dim) (Granite)" },
        { "residual_multiplier", "number", above = 0, optional = true,
          doc = "what attention and feed-forward add to the residual is multiplied by it "
                .. "(Granite)" },
        { "logits_scaling", "number", above = 0, optional = true,
          doc = "logits are divided by it (Granite)" },
        { "init_std", "number", min = 0, default = 0.02, doc = "standard deviation of new matrices" },
        { "scale_residual_init", "bool", default = false,
          doc = "matrices that write the residual start at init_std / sqrt(2 layers)" },
    },
    values = {
        scaling_3_1 = { factor = 8.0, low_freq_factor = 1.0, high_freq_factor = 4.0,
                        original = 8192 },
        scaling_gemma_3 = { factor = 8.0, low_freq_factor = 1.0, high_freq_factor = 4.0,
                            original = 1 },
        scaling_3_2 = { factor = 32.0, low_freq_factor = 1.0, high_freq_factor = 4.0,
                        original = 8192 },
    },
    check = check,
    build = build,
    config = config,
} --[[@as fsdpgen.llama]]
