/* SPDX-License-Identifier: Apache-2.0 */
/* hf_model.c: the model that a config.json describes, as fields of one of our
 * architectures. In: the JSON of a config.json. Out: Lua as a person would write it:
 * fields with default values are omitted. What our architectures cannot do is refused by
 * name, at its place. Settings that only training reads and we do not support (dropout)
 * become 0 with a warning. Unknown keys are named in a warning, because they might
 * matter.
 *
 * One table says how every key of every family is handled. */
#include "hf/hf.h"

#include <math.h>
#include <string.h>

static const Family families[] = {
    {"llama", "LlamaForCausalLM", "llama", LLAMA, .kv_heads = 0},
    {"mistral", "MistralForCausalLM", "llama", MISTRAL, .kv_heads = 8, .window = 4096,
     .positions = 131072},
    {"qwen2", "Qwen2ForCausalLM", "llama", QWEN2, .kv_heads = 32, .window = 4096,
     .positions = 32768},
    {"qwen3", "Qwen3ForCausalLM", "llama", QWEN3, .kv_heads = 32, .head_dim = 128,
     .window = 4096, .positions = 32768},
    {"granite", "GraniteForCausalLM", "llama", GRANITE, .kv_heads = 0},
    {"smollm3", "SmolLM3ForCausalLM", "llama", SMOLLM3, .kv_heads = 4, .theta = 2e6,
     .positions = 32768, .tied = true},
    {"olmo2", "Olmo2ForCausalLM", "llama", OLMO2, .eps = 1e-5},
    {"phi3", "Phi3ForCausalLM", "llama", PHI3, .positions = 4096, .eps = 1e-5},
    {"gemma2", "Gemma2ForCausalLM", "llama", GEMMA2, .kv_heads = 4, .head_dim = 256,
     .window = 4096, .positions = 8192, .tied = true},
    {"gemma3_text", "Gemma3ForCausalLM", "llama", GEMMA3, .kv_heads = 4, .head_dim = 256,
     .window = 4096, .positions = 131072, .theta = 1e6, .tied = true},
    {"gpt2", "GPT2LMHeadModel", "gpt2", GPT2, .kv_heads = 0},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

typedef enum {
    USED,     /* becomes a field */
    MUST,     /* the architecture supports only this value */
    TRAINING, /* a dropout rate: becomes 0 */
    IGNORED,  /* does not change the trained model */
} Use;

static const struct Rule {
    int family;
    const char *key;
    Use use;
    const char *must; /* JSON */
} rules[] = {
    {ALL, "model_type", USED, NULL},
    {ALL, "vocab_size", USED, NULL},
    {ALL, "initializer_range", USED, NULL},
    {ALL, "tie_word_embeddings", USED, NULL},
    {ROTARY, "hidden_size", USED, NULL},
    {ROTARY, "intermediate_size", USED, NULL},
    {ROTARY, "num_hidden_layers", USED, NULL},
    {ROTARY, "num_attention_heads", USED, NULL},
    {ROTARY, "num_key_value_heads", USED, NULL},
    {ROTARY, "head_dim", USED, NULL},
    {ROTARY, "max_position_embeddings", USED, NULL},
    {ROTARY, "rms_norm_eps", USED, NULL},
    {ROTARY, "rope_theta", USED, NULL},
    {ROTARY, "rope_scaling", USED, NULL},
    {ROTARY, "rope_parameters", USED, NULL},
    {MISTRAL | QWEN | PHI3 | GEMMA, "sliding_window", USED, NULL},
    {QWEN, "use_sliding_window", USED, NULL},
    {QWEN, "max_window_layers", USED, NULL},
    {MISTRAL | QWEN | PHI3 | SMOLLM3 | GEMMA, "layer_types", USED, NULL},
    {SMOLLM3, "no_rope_layers", USED, NULL},
    {SMOLLM3, "no_rope_layer_interval", USED, NULL},
    {SMOLLM3, "use_sliding_window", MUST, "false"},
    {SMOLLM3, "sliding_window", IGNORED, NULL}, /* without use_sliding_window */
    {SMOLLM3, "max_window_layers", IGNORED, NULL},
    {GRANITE, "embedding_multiplier", USED, NULL},
    {GRANITE, "attention_multiplier", USED, NULL},
    {GRANITE, "residual_multiplier", USED, NULL},
    {GRANITE, "logits_scaling", USED, NULL},
    {GEMMA, "query_pre_attn_scalar", USED, NULL},
    {GEMMA, "final_logit_softcapping", USED, NULL},
    {GEMMA2, "attn_logit_softcapping", USED, NULL},
    {GEMMA3, "attn_logit_softcapping", MUST,
     "null"}, /* transformers does not compute it */
    {GEMMA3, "rope_local_base_freq", USED, NULL},
    {GEMMA3, "sliding_window_pattern", USED, NULL},
    {GEMMA, "hidden_activation", MUST, "\"gelu_pytorch_tanh\""},
    {GEMMA, "hidden_act", IGNORED, NULL}, /* hidden_activation counts */
    {GEMMA, "use_bidirectional_attention", MUST, "false"},
    {GEMMA, "cache_implementation", IGNORED, NULL},
    {PHI3, "partial_rotary_factor", USED, NULL},
    {PHI3, "original_max_position_embeddings", IGNORED, NULL}, /* of longrope */
    {PHI3, "resid_pdrop", TRAINING, NULL},
    {PHI3, "embd_pdrop", TRAINING, NULL},
    {ROTARY & ~GEMMA, "hidden_act", MUST, "\"silu\""},
    {ROTARY, "attention_bias", MUST, "false"},
    {ROTARY, "mlp_bias", MUST, "false"},
    {ROTARY & ~PHI3, "partial_rotary_factor", MUST, "1.0"},
    {ROTARY, "attention_dropout", TRAINING, NULL},
    {LLAMA | SMOLLM3, "pretraining_tp", IGNORED, NULL},
    {GPT2, "n_embd", USED, NULL},
    {GPT2, "n_layer", USED, NULL},
    {GPT2, "n_head", USED, NULL},
    {GPT2, "n_inner", USED, NULL},
    {GPT2, "n_positions", USED, NULL},
    {GPT2, "hidden_size", USED, NULL},
    {GPT2, "num_hidden_layers", USED, NULL},
    {GPT2, "num_attention_heads", USED, NULL},
    {GPT2, "max_position_embeddings", USED, NULL},
    {GPT2, "layer_norm_epsilon", USED, NULL},
    {GPT2, "activation_function", MUST, "\"gelu_new\""},
    {GPT2, "scale_attn_weights", MUST, "true"},
    {GPT2, "scale_attn_by_inverse_layer_idx", MUST, "false"},
    {GPT2, "add_cross_attention", MUST, "false"},
    {GPT2, "attn_pdrop", TRAINING, NULL},
    {GPT2, "embd_pdrop", TRAINING, NULL},
    {GPT2, "resid_pdrop", TRAINING, NULL},
    {GPT2, "n_ctx", IGNORED, NULL},
    {GPT2, "reorder_and_upcast_attn", IGNORED, NULL},
    {GPT2, "summary_activation", IGNORED, NULL},
    {GPT2, "summary_first_dropout", IGNORED, NULL},
    {GPT2, "summary_proj_to_labels", IGNORED, NULL},
    {GPT2, "summary_type", IGNORED, NULL},
    {GPT2, "summary_use_proj", IGNORED, NULL},
    {ALL, "architectures", IGNORED, NULL},
    {ALL, "torch_dtype", IGNORED, NULL},
    {ALL, "dtype", IGNORED, NULL},
    {ALL, "transformers_version", IGNORED, NULL},
    {ALL, "use_cache", IGNORED, NULL},
    {ALL, "bos_token_id", IGNORED, NULL},
    {ALL, "eos_token_id", IGNORED, NULL},
    {ALL, "pad_token_id", IGNORED, NULL},
    {ALL, "task_specific_params", IGNORED, NULL},
    {ALL, "output_past", IGNORED, NULL},
    {ALL, "is_decoder", IGNORED, NULL},
    {ALL, "is_encoder_decoder", MUST, "false"},
    {ALL, "attention_chunk_size", USED, NULL}, /* only to be refused */
};
enum { N_RULES = sizeof rules / sizeof *rules };

/* ---- how keys are handled -------------------------------------------------------- */

static const struct Rule *rule_of(const Config *c, const char *key)
{
    for (int i = 0; i < N_RULES; i++)
        if (!strcmp(rules[i].key, key) && rules[i].family & c->family->bit)
            return &rules[i];
    return NULL;
}

static void check_must(const Config *c, const struct Rule *r, const json_t *v)
{
    json_t *want = json_loads(r->must, JSON_DECODE_ANY, NULL);

    gen_require(want, "rule of %s", r->key);
    if (!json_is_null(v) && !hf_equal(want, v))
        hf_refuse(
            c, r->key,
            gen_printf(c->g, "the architecture `%s` has %s", c->family->arch, r->must),
            gen_printf(c->g, "%s is not supported", hf_shown(c, v)));
    json_decref(want);
}

static void check_key(const Config *c, const char *key, const json_t *v)
{
    const struct Rule *r = rule_of(c, key);

    if (key[0] == '_')
        return; /* notes of the program that wrote the file */
    if (!r)
        hf_unknown(c, key);
    else if (r->use == MUST)
        check_must(c, r, v);
    else if (r->use == TRAINING && hf_number(c, key, 0) != 0)
        diag_add(c->g, DIAG_WARNING, hf_place(c, key),
                 "the trainers here have no dropout", "%s: %s becomes 0", key,
                 hf_shown(c, v));
}

/* Parts of a model that no architecture here supports, in any family. */
static bool check_refused(const Config *c)
{
    static const char *const keys[] = {"quantization_config", "num_experts",
                                       "num_local_experts", "text_config"};
    bool ok = true;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!hf_member(c, keys[i]))
            continue;
        hf_refuse(c, keys[i], "take the dense text model in bf16, f16 or f32",
                  "is not supported");
        ok = false;
    }
    return ok;
}

/* A model that was trained in chunks is another one in a class that has none. */
static void check_chunks(const Config *c)
{
    if (hf_member(c, "attention_chunk_size"))
        hf_refuse(
            c, "attention_chunk_size",
            gen_printf(c->g,
                       "%s sees all tokens: remove the key; if the model was trained in "
                       "chunks, add attention_chunk to the description",
                       c->family->class_name),
            gen_printf(c->g, "%s does not read it", c->family->class_name));
}

const Family *hf_family(const char *model_type)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].model_type, model_type))
            return &families[i];
    return NULL;
}

/* "a, b and c can be imported" */
static const char *known_families(Gen *g)
{
    Text t = {.g = g};

    for (int i = 0; i < N_FAMILIES; i++)
        text_printf(&t, "%s%s",
                    i == 0                ? ""
                    : i == N_FAMILIES - 1 ? " and "
                                          : ", ",
                    families[i].model_type);
    text_printf(&t, " can be imported");
    return t.s;
}

static bool find_family(Config *c)
{
    const json_t *v = hf_member(c, "model_type");
    const char *type = json_string_value(v);
    const char *help = known_families(c->g);

    if (!type) {
        hf_refuse(c, "model_type", help, v ? "is not text" : "is missing");
        return false;
    }
    c->family = hf_family(type);
    if (!c->family)
        hf_refuse(c, "model_type", help,
                  gen_printf(c->g, "%s is not supported", hf_shown(c, v)));
    return c->family != NULL;
}

/* ---- writing: fields that differ from their defaults ----------------------------- */

/* `key = value` items, filled into lines of 76 columns inside the constructor. */
typedef struct Items {
    Text t;
    size_t column;
} Items;

static void item(Items *items, const char *text)
{
    const char *end = strchr(text, '\n'); /* of the text's first line */
    const size_t n =
        (end ? (size_t)(end - text) : strlen(text)) + 2; /* a comma, a space */

    if (items->t.len == 0 || items->column + n > 78) {
        text_printf(&items->t, "%s        ", items->t.len ? "\n" : "");
        items->column = 8;
    } else {
        text_printf(&items->t, " ");
    }
    text_printf(&items->t, "%s,", text);
    items->column += end ? 80 : n;
}

static void item_int(Items *items, const char *key, int64_t value, int64_t usual)
{
    if (value != usual)
        item(items, gen_printf(items->t.g, "%s = %lld", key, (long long)value));
}

static void item_number(Items *items, const char *key, double value, double usual)
{
    if (value != usual)
        item(items, gen_printf(items->t.g, "%s = %s", key, hf_digits(items->t.g, value)));
}

static void item_flag(Items *items, const char *key, bool value, bool usual)
{
    if (value != usual)
        item(items, gen_printf(items->t.g, "%s = %s", key, value ? "true" : "false"));
}

/* ---- the two architectures ------------------------------------------------------- */

/* Granite's. */
static void import_multipliers(const Config *c, Items *items, int64_t head_dim)
{
    static const char *const keys[] = {"embedding_multiplier", "attention_multiplier",
                                       "residual_multiplier", "logits_scaling"};

    for (int i = 0; i < 4; i++) {
        const double value = hf_number(c, keys[i], 1);

        if (value <= 0)
            hf_refuse(c, keys[i], "Granite's are positive",
                      gen_printf(c->g, "%s is not above 0",
                                 hf_shown(c, hf_member(c, keys[i]))));
        item_number(items, keys[i], value,
                    i == 1 ? 1 / sqrt((double)max_i64(head_dim, 1)) : 1);
    }
}

/* 0 unless the field is a positive number. */
static double softcap(const Config *c, const char *key, double usual)
{
    const double cap = hf_number(c, key, hf_lacks(c, key) ? usual : 0);

    if (cap < 0 || (cap == 0 && hf_member(c, key)))
        hf_refuse(c, key, "it is positive, or null",
                  gen_printf(c->g, "%s is not above 0", hf_shown(c, hf_member(c, key))));
    return cap;
}

static void import_gemma(const Config *c, Items *items, int64_t head_dim)
{
    const double scalar = hf_number(c, "query_pre_attn_scalar", 256);
    const bool second = c->family->bit == GEMMA2;

    if (scalar <= 0)
        hf_refuse(c, "query_pre_attn_scalar", "scores are divided by its square root",
                  gen_printf(c->g, "%s is not above 0",
                             hf_shown(c, hf_member(c, "query_pre_attn_scalar"))));
    item_flag(items, "sandwich_norm", true, false);
    item_flag(items, "norm_less_one", true, false);
    item_flag(items, "geglu", true, false);
    item_flag(items, "scale_embedding", true, false);
    item_int(items, "global_every", hf_global_every(c), 0);
    if (second)
        item_number(items, "attention_softcap", softcap(c, "attn_logit_softcapping", 50),
                    0);
    item_number(items, "logits_softcap",
                softcap(c, "final_logit_softcapping", second ? 30 : 0), 0);
    if (scalar > 0 && scalar != (double)head_dim)
        item_number(items, "attention_multiplier", 1 / sqrt(scalar), 0);
}

/* 0 is allowed: weights that begin as zeros. */
static double init_std(const Config *c)
{
    const double std = hf_number(c, "initializer_range", 0.02);

    return std == 0 ? 0 : hf_positive(c, "initializer_range", 0.02);
}

static void import_llama(const Config *c, Items *items)
{
    const int64_t dim = hf_count(c, "hidden_size", -1, 1);
    const int64_t heads = hf_count(c, "num_attention_heads", -1, 1);
    const int64_t usual = heads > 0 && dim % heads == 0 ? dim / heads : 0;
    const int64_t head_dim =
        hf_count(c, "head_dim", hf_lacks(c, "head_dim") ? c->family->head_dim : 0, 1);
    const char *rope;

    item_int(items, "layers", hf_count(c, "num_hidden_layers", -1, 1), 0);
    item_int(items, "dim", dim, 0);
    item_int(items, "heads", heads, 0);
    item_int(items, "kv_heads",
             hf_count(c, "num_key_value_heads",
                      hf_lacks(c, "num_key_value_heads") && c->family->kv_heads
                          ? c->family->kv_heads
                          : max_i64(heads, 0),
                      1),
             heads);
    item_int(items, "head_dim", head_dim ? head_dim : usual, usual);
    item_int(items, "ffn", hf_count(c, "intermediate_size", -1, 1), 0);
    item_int(items, "vocab", hf_count(c, "vocab_size", -1, 2), 0);
    rope = hf_rope(c);
    if (rope)
        item(items, gen_printf(c->g, "rope = { %s }", rope));
    item_number(items, "norm_eps",
                hf_positive(c, "rms_norm_eps", c->family->eps ? c->family->eps : 1e-6),
                1e-5);
    item_flag(items, "tied", hf_bool(c, "tie_word_embeddings", c->family->tied), false);
    item_flag(items, "qkv_bias", c->family->bit == QWEN2, false);
    item_flag(items, "qk_norm", c->family->bit & (QWEN3 | GEMMA3), false);
    item_int(items, "window", hf_window(c), 0);
    item_flag(items, "qk_norm_all", c->family->bit == OLMO2, false);
    item_flag(items, "post_norm", c->family->bit == OLMO2, false);
    if (c->family->bit & GEMMA)
        import_gemma(c, items, head_dim ? head_dim : usual);
    item_int(items, "nope_every", hf_nope_every(c), 0);
    item_flag(items, "fused_names", c->family->bit == PHI3, false);
    if (c->family->bit == GRANITE)
        import_multipliers(c, items, head_dim ? head_dim : usual);
    item_number(items, "init_std", init_std(c), 0.02);
}

/* GPT-2's own names, and those that transformers accepts instead (attribute_map). */
static const char *const gpt2_names[][2] = {{"n_embd", "hidden_size"},
                                            {"n_layer", "num_hidden_layers"},
                                            {"n_head", "num_attention_heads"},
                                            {"n_positions", "max_position_embeddings"}};

/* The name under which the file has a value. */
static const char *gpt2_key(const Config *c, const char *own)
{
    for (int i = 0; i < 4; i++)
        if (!strcmp(gpt2_names[i][0], own) && !hf_member(c, own) &&
            hf_member(c, gpt2_names[i][1]))
            return gpt2_names[i][1];
    return own;
}

static void check_gpt2_names(const Config *c)
{
    for (int i = 0; i < 4; i++) {
        const char *own = gpt2_names[i][0], *other = gpt2_names[i][1];
        const json_t *a = hf_member(c, own), *b = hf_member(c, other);

        if (a && b && !hf_equal(a, b))
            hf_refuse(c, other, "give one",
                      gen_printf(c->g, "%s is not %s, which is %s", hf_shown(c, b), own,
                                 hf_shown(c, a)));
    }
}

static void import_gpt2(const Config *c, Items *items)
{
    const int64_t dim = hf_count(c, gpt2_key(c, "n_embd"), 768, 1);

    check_gpt2_names(c);
    item_int(items, "layers", hf_count(c, gpt2_key(c, "n_layer"), 12, 1), 0);
    item_int(items, "dim", dim, 0);
    item_int(items, "heads", hf_count(c, gpt2_key(c, "n_head"), 12, 1), 0);
    item_int(items, "ffn", hf_count(c, "n_inner", 4 * dim, 1), 4 * dim);
    item_int(items, "vocab", hf_count(c, "vocab_size", 50257, 2), 50257);
    item_int(items, "max_positions", hf_count(c, gpt2_key(c, "n_positions"), 1024, 1),
             1024);
    item_number(items, "norm_eps", hf_positive(c, "layer_norm_epsilon", 1e-5), 1e-5);
    item_flag(items, "tied", hf_bool(c, "tie_word_embeddings", true), true);
    item_number(items, "init_std", init_std(c), 0.02);
}

/* ---- the whole model ------------------------------------------------------------- */

int64_t hf_sequence(const Config *c)
{
    const int64_t most = c->family->bit == GPT2
                             ? hf_count(c, gpt2_key(c, "n_positions"), 1024, 1)
                             : hf_positions(c);

    return most > 0 ? min_i64(most, 4096) : 2048;
}

const char *hf_model(Config *c)
{
    Items items = {.t = {.g = c->g}};
    const char *key;
    json_t *value;

    if (!check_refused(c) || !find_family(c))
        return NULL;
    json_object_foreach(c->root, key, value) check_key(c, key, value);
    check_chunks(c);
    if (!strcmp(c->family->arch, "gpt2"))
        import_gpt2(c, &items);
    else
        import_llama(c, &items);
    return diag_errors(c->g)
               ? NULL
               : gen_printf(c->g, "%s {\n%s\n    }", c->family->arch, items.t.s);
}
