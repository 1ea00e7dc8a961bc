/* SPDX-License-Identifier: Apache-2.0 */
/* import_hf.c: the config.json of a Hugging Face model to a description. Comes in: the
 * folder, or the file. Goes out: the Lua that a person would have written: fields that
 * have their defaults are left out. What the architectures here cannot do is refused by
 * name, at its place; what only training reads and we do not (dropout) is set to 0 with a
 * warning; keys nobody knows are named in a warning, for they might matter.
 *
 * One table says of every key of every family what becomes of it. */
#include "import.h"
#include "json_place.h"
#include "load.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LLAMA = 1,
    MISTRAL = 2,
    QWEN2 = 4,
    QWEN3 = 8,
    GPT2 = 16,
    QWEN = QWEN2 | QWEN3,
    ROTARY = LLAMA | MISTRAL | QWEN,
    ALL = ROTARY | GPT2,
    MAX_CONFIG_BYTES = 1 << 20
};

/* What transformers (5.23) takes where a file lacks the key. */
static const struct Family {
    const char *model_type, *arch;
    int bit;
    int kv_heads; /* 0: as many as heads */
    int head_dim; /* 0: dim / heads */
    int window;
} families[] = {
    {"llama", "llama", LLAMA, 0, 0, 0},
    {"mistral", "llama", MISTRAL, 8, 0, 4096},
    {"qwen2", "llama", QWEN2, 32, 0, 4096},
    {"qwen3", "llama", QWEN3, 32, 128, 4096},
    {"gpt2", "gpt2", GPT2, 0, 0, 0},
};
enum { N_FAMILIES = sizeof families / sizeof *families };

typedef enum {
    USED,     /* becomes a field */
    MUST,     /* the architecture has this one value */
    TRAINING, /* a rate of dropout: 0 here */
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
    {MISTRAL | QWEN, "sliding_window", USED, NULL},
    {QWEN, "use_sliding_window", USED, NULL},
    {QWEN, "max_window_layers", USED, NULL},
    {MISTRAL | QWEN, "layer_types", USED, NULL},
    {ROTARY, "hidden_act", MUST, "\"silu\""},
    {ROTARY, "attention_bias", MUST, "false"},
    {ROTARY, "mlp_bias", MUST, "false"},
    {ROTARY, "attention_dropout", TRAINING, NULL},
    {LLAMA, "pretraining_tp", IGNORED, NULL},
    {GPT2, "n_embd", USED, NULL},
    {GPT2, "n_layer", USED, NULL},
    {GPT2, "n_head", USED, NULL},
    {GPT2, "n_inner", USED, NULL},
    {GPT2, "n_positions", USED, NULL},
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
};
enum { N_RULES = sizeof rules / sizeof *rules };

typedef struct Config {
    Gen *g;
    const char *file, *text;
    size_t bytes;
    json_t *root;
    const struct Family *family;
} Config;

static Pos place(const Config *c, const char *path)
{
    return json_place(c->file, c->text, c->bytes, path);
}

static void refuse(const Config *c, const char *path, const char *help,
                   const char *problem)
{
    diag_add(c->g, DIAG_ERROR, place(c, path), help, "%s: %s", path, problem);
}

/* The value as it is written, for messages. */
static const char *shown(const Config *c, const json_t *v)
{
    char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *text = gen_printf(c->g, "%.60s", s ? s : "?");

    free(s);
    return text;
}

/* ---- reading ----------------------------------------------------------------------- */

static json_t *member(const Config *c, const char *path)
{
    json_t *at = c->root;
    char key[64];

    while (at && *path) {
        const size_t n = strcspn(path, ".");

        gen_require(n < sizeof key, "key %s", path);
        memcpy(key, path, n);
        key[n] = '\0';
        at = json_object_get(at, key); /* NULL of what is no object */
        path += n + (path[n] == '.');
    }
    return json_is_null(at) ? NULL : at;
}

/* null says that there is none; a key that the file lacks has the family's default. */
static bool lacks(const Config *c, const char *key)
{
    return json_object_get(c->root, key) == NULL;
}

/* An integer from lo to hi; missing without a default: an error. */
static int64_t take_int(const Config *c, const char *path, int64_t missing)
{
    const json_t *v = member(c, path);

    if (!v) {
        if (missing < 0)
            refuse(c, path, "every model of this family has it", "is missing");
        return missing;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        json_integer_value(v) > INT32_MAX) {
        refuse(c, path, "a whole number is expected here",
               gen_printf(c->g, "%s is no size", shown(c, v)));
        return missing;
    }
    return json_integer_value(v);
}

static double take_number(const Config *c, const char *path, double missing)
{
    const json_t *v = member(c, path);

    if (!v)
        return missing;
    if (!json_is_number(v)) {
        refuse(c, path, "a number is expected here",
               gen_printf(c->g, "%s is no number", shown(c, v)));
        return missing;
    }
    return json_number_value(v);
}

static bool take_bool(const Config *c, const char *path, bool missing)
{
    const json_t *v = member(c, path);

    if (v && !json_is_boolean(v))
        refuse(c, path, "use true or false",
               gen_printf(c->g, "%s is not true or false", shown(c, v)));
    return v ? json_is_true(v) : missing;
}

/* ---- what the keys are ---------------------------------------------------------------
 */

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
    if (!json_is_null(v) && !json_equal(want, v))
        refuse(c, r->key,
               gen_printf(c->g, "the architecture `%s` has %s", c->family->arch, r->must),
               gen_printf(c->g, "%s is not supported", shown(c, v)));
    json_decref(want);
}

static void check_key(const Config *c, const char *key, const json_t *v)
{
    const struct Rule *r = rule_of(c, key);

    if (key[0] == '_')
        return; /* notes of the program that wrote the file */
    if (!r)
        diag_add(c->g, DIAG_WARNING, place(c, key), "see that the model is the same",
                 "%.100s: is unknown and ignored", key);
    else if (r->use == MUST)
        check_must(c, r, v);
    else if (r->use == TRAINING && take_number(c, key, 0) != 0)
        diag_add(c->g, DIAG_WARNING, place(c, key), "the trainers here have no dropout",
                 "%s: %s becomes 0", key, shown(c, v));
}

/* Parts of a model that no architecture here has, whatever its family says. */
static bool check_refused(const Config *c)
{
    static const char *const keys[] = {"quantization_config", "num_experts",
                                       "num_local_experts", "text_config"};
    bool ok = true;

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (!member(c, keys[i]))
            continue;
        refuse(c, keys[i], "take the dense text model in bf16, f16 or f32",
               "is not supported");
        ok = false;
    }
    return ok;
}

static bool find_family(Config *c)
{
    const json_t *v = member(c, "model_type");
    const char *type = json_string_value(v);
    const char *help = "llama, mistral, qwen2, qwen3 and gpt2 can be imported";

    if (!type) {
        refuse(c, "model_type", help, v ? "is no text" : "is missing");
        return false;
    }
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].model_type, type))
            c->family = &families[i];
    if (!c->family)
        refuse(c, "model_type", help,
               gen_printf(c->g, "%s is not supported", shown(c, v)));
    return c->family != NULL;
}

/* ---- writing: fields that differ from their defaults ---------------------------------
 */

/* The shortest text that reads back as x: 5e5, 0.02, 1e-5. */
static const char *number(Gen *g, double x)
{
    char s[40], *e;
    int digits = 1;

    do {
        snprintf(s, sizeof s, "%.*g", digits, x);
    } while (strtod(s, NULL) != x && digits++ < 17);
    e = strchr(s, 'e');
    if (!e)
        return gen_strdup(g, s);
    return gen_printf(g, "%.*se%d", (int)(e - s), s, atoi(e + 1));
}

/* `key = value` items, filled into lines of 76 columns inside the constructor. */
typedef struct Items {
    Text t;
    size_t column;
} Items;

static void item(Items *items, const char *text)
{
    const char *end = strchr(text, '\n'); /* of its first line */
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
        item(items, gen_printf(items->t.g, "%s = %s", key, number(items->t.g, value)));
}

static void item_flag(Items *items, const char *key, bool value, bool usual)
{
    if (value != usual)
        item(items, gen_printf(items->t.g, "%s = %s", key, value ? "true" : "false"));
}

/* ---- rotary positions ----------------------------------------------------------------
 */

/* Older files have rope_theta and rope_scaling, newer ones rope_parameters with both. */
static const char *rope_key(const Config *c)
{
    return member(c, "rope_parameters") ? "rope_parameters" : "rope_scaling";
}

static const char *inside(const Config *c, const char *key)
{
    return gen_printf(c->g, "%s.%s", rope_key(c), key);
}

/* "default", "llama3", ..., under either of its names. */
static const char *rope_type(const Config *c, const char **path)
{
    const json_t *v = member(c, *path = inside(c, "rope_type"));

    if (!v)
        v = member(c, *path = inside(c, "type"));
    return !v ? "default" : json_is_string(v) ? json_string_value(v) : "";
}

static const char *rope_scaling(const Config *c)
{
    const char *path, *type = rope_type(c, &path);
    double factor, low, high;
    int64_t original;

    if (!strcmp(type, "default"))
        return NULL;
    if (strcmp(type, "llama3") != 0) {
        refuse(c, path, "\"default\" and \"llama3\" can be imported",
               gen_printf(c->g, "%s is not supported", shown(c, member(c, path))));
        return NULL;
    }
    factor = take_number(c, inside(c, "factor"), 0);
    if (factor < 1)
        refuse(c, inside(c, "factor"), "Llama 3.1 has 8.0", "is not 1 or more");
    low = take_number(c, inside(c, "low_freq_factor"), 1);
    high = take_number(c, inside(c, "high_freq_factor"), 4);
    original = take_int(c, inside(c, "original_max_position_embeddings"), 8192);
    if (low == 1 && high == 4 && original == 8192 && (factor == 8 || factor == 32))
        return factor == 8 ? "llama.scaling_3_1" : "llama.scaling_3_2";
    return gen_printf(c->g,
                      "{\n            factor = %s, low_freq_factor = %s, "
                      "high_freq_factor = %s, original = %lld,\n        }",
                      number(c->g, factor), number(c->g, low), number(c->g, high),
                      (long long)original);
}

static void item_rope(const Config *c, Items *items)
{
    const double theta =
        take_number(c, inside(c, "rope_theta"), take_number(c, "rope_theta", 1e4));
    const char *scaling = rope_scaling(c);
    const char *base =
        theta != 1e4 ? gen_printf(c->g, "theta = %s", number(c->g, theta)) : NULL;

    if (base || scaling)
        item(items, gen_printf(c->g, "rope = { %s%s%s%s }", base ? base : "",
                               base && scaling ? ", " : "", scaling ? "scaling = " : "",
                               scaling ? scaling : ""));
}

/* ---- sliding windows ------------------------------------------------------------------
 */

/* 0: every token sees all before it. All layers have the same window, or it is refused:
 * of Qwen's, those from max_window_layers on have one. */
static int64_t window_of(const Config *c)
{
    const int64_t window = take_int(
        c, "sliding_window", lacks(c, "sliding_window") ? c->family->window : 0);
    const json_t *types = member(c, "layer_types");
    const bool qwen = c->family->bit & QWEN;
    size_t sliding = 0;

    if (window == 0 || (qwen && !take_bool(c, "use_sliding_window", false)))
        return 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));

        sliding += type != NULL && !strcmp(type, "sliding_attention");
    }
    if (types && sliding != 0 && sliding != json_array_size(types))
        refuse(c, "layer_types", "all layers have the same window here",
               "a mix of windows is not supported");
    if (!types && qwen) {
        const int64_t from = take_int(c, "max_window_layers", 28);

        if (from >= take_int(c, "num_hidden_layers", -1))
            return 0;
        if (from > 0)
            refuse(c, "max_window_layers", "all layers have the same window here",
                   "a window in some layers only is not supported");
    }
    return types && sliding == 0 ? 0 : window;
}

/* ---- the two architectures ------------------------------------------------------------
 */

static void import_llama(const Config *c, Items *items)
{
    const int64_t dim = take_int(c, "hidden_size", -1);
    const int64_t heads = take_int(c, "num_attention_heads", -1);
    const int64_t usual = heads > 0 && dim % heads == 0 ? dim / heads : 0;
    const int64_t head_dim =
        take_int(c, "head_dim", lacks(c, "head_dim") ? c->family->head_dim : 0);

    item_int(items, "layers", take_int(c, "num_hidden_layers", -1), 0);
    item_int(items, "dim", dim, 0);
    item_int(items, "heads", heads, 0);
    item_int(items, "kv_heads",
             take_int(c, "num_key_value_heads",
                      lacks(c, "num_key_value_heads") && c->family->kv_heads
                          ? c->family->kv_heads
                          : max_i64(heads, 0)),
             heads);
    item_int(items, "head_dim", head_dim ? head_dim : usual, usual);
    item_int(items, "ffn", take_int(c, "intermediate_size", -1), 0);
    item_int(items, "vocab", take_int(c, "vocab_size", -1), 0);
    item_rope(c, items);
    item_number(items, "norm_eps", take_number(c, "rms_norm_eps", 1e-6), 1e-5);
    item_flag(items, "tied", take_bool(c, "tie_word_embeddings", false), false);
    item_flag(items, "qkv_bias", c->family->bit == QWEN2, false);
    item_flag(items, "qk_norm", c->family->bit == QWEN3, false);
    item_int(items, "window", window_of(c), 0);
    item_number(items, "init_std", take_number(c, "initializer_range", 0.02), 0.02);
}

static void import_gpt2(const Config *c, Items *items)
{
    const int64_t dim = take_int(c, "n_embd", 768);

    item_int(items, "layers", take_int(c, "n_layer", 12), 0);
    item_int(items, "dim", dim, 0);
    item_int(items, "heads", take_int(c, "n_head", 12), 0);
    item_int(items, "ffn", take_int(c, "n_inner", 4 * dim), 4 * dim);
    item_int(items, "vocab", take_int(c, "vocab_size", 50257), 50257);
    item_int(items, "max_positions", take_int(c, "n_positions", 1024), 1024);
    item_number(items, "norm_eps", take_number(c, "layer_norm_epsilon", 1e-5), 1e-5);
    item_flag(items, "tied", take_bool(c, "tie_word_embeddings", true), true);
    item_number(items, "init_std", take_number(c, "initializer_range", 0.02), 0.02);
}

/* ---- the whole ------------------------------------------------------------------------
 */

/* A trainer's name from the folder's: lower case, other characters to `_`. */
static const char *trainer_name(Gen *g, const char *folder)
{
    size_t n = strlen(folder), from;
    char *name;

    while (n > 1 && folder[n - 1] == '/')
        n--;
    for (from = n; from > 0 && folder[from - 1] != '/'; from--)
        continue;
    name = gen_strndup(g, folder + from, n - from < 64 ? n - from : 64);
    for (char *p = name; *p; p++) {
        const bool after_dot = p == name || p[-1] == '.';

        *p = *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') ||
              (*p == '.' && !after_dot)))
            *p = '_';
    }
    return name[0] >= 'a' && name[0] <= 'z' ? name : gen_printf(g, "model_%.58s", name);
}

static int64_t sequence(const Config *c)
{
    const int64_t most = c->family->bit == GPT2
                             ? take_int(c, "n_positions", 1024)
                             : take_int(c, "max_position_embeddings", 2048);

    return most > 0 ? min_i64(most, 4096) : 2048;
}

static void print_description(const Config *c, const char *folder, const Items *items,
                              Text *t)
{
    const char *name = trainer_name(c->g, folder), *arch = c->family->arch;

    text_printf(t, "-- From the config.json of a Hugging Face model (%s).\n",
                c->family->model_type);
    text_printf(t, "local %s = require \"arch.%s\"\n\n", arch, arch);
    text_printf(t, "return trainer {\n    name = \"%s\",\n    model = %s {\n", name,
                arch);
    text_printf(t, "%s\n    },\n", items->t.s);
    text_printf(t, "    seq = %lld, micro_batch = 1, global_batch = 64,\n",
                (long long)sequence(c));
    text_printf(t, "    mesh = { shard = 1 },\n");
    text_printf(t,
                "    optimizer = adamw { lr = 1e-5, weight_decay = 0.1, clip = 1.0 },\n");
    text_printf(t, "    lr = cosine { warmup = 100, steps = 2000 },\n}\n");
}

static bool read_config(Config *c, const char *path)
{
    const size_t n = strlen(path);
    const bool is_file = n > 5 && !strcmp(path + n - 5, ".json");
    json_error_t error;
    int e;

    c->file = is_file ? path : gen_printf(c->g, "%s/config.json", path);
    e = read_whole_file(c->file, &c->text, &c->bytes);
    if (e || c->bytes > MAX_CONFIG_BYTES) {
        diag_add(c->g, DIAG_ERROR, (Pos){.file = c->file},
                 "fsdpgen import DIR reads DIR/config.json", "%s",
                 e ? strerror(e) : "is larger than 1 MiB: no config.json");
        return false;
    }
    diag_source(c->g, c->file, c->text, c->bytes);
    c->root = json_loadb(c->text, c->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!c->root) {
        const size_t at = error.position > 0 ? (size_t)error.position - 1 : 0;

        diag_add(c->g, DIAG_ERROR, json_offset(c->file, c->text, c->bytes, at, 1), NULL,
                 "%s", error.text);
        return false;
    }
    if (!json_is_object(c->root))
        diag_add(c->g, DIAG_ERROR, place(c, ""), NULL, "a config.json is one object");
    return json_is_object(c->root);
}

void import_hugging_face(Gen *g, Text *t)
{
    Config c = {.g = g};
    Items items = {.t = {.g = g}};
    const char *key, *folder = g->opt.input;
    json_t *value;

    if (!read_config(&c, folder) || !check_refused(&c) || !find_family(&c))
        return;
    json_object_foreach(c.root, key, value) check_key(&c, key, value);
    if (!strcmp(c.family->arch, "gpt2"))
        import_gpt2(&c, &items);
    else
        import_llama(&c, &items);
    if (c.file == folder) /* the folder of the file names the model */
        folder = strrchr(folder, '/')
                     ? gen_strndup(g, folder, (size_t)(strrchr(folder, '/') - folder))
                     : "model";
    print_description(&c, folder, &items, t);
    json_decref(c.root);
}
