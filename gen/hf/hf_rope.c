/* SPDX-License-Identifier: Apache-2.0 */
/* hf_rope.c: positions, and which tokens a token sees. In: the keys of a config.json
 * about rotary positions and sliding windows. Out: the fields `rope` and `window`, or
 * messages about what our architectures cannot do. */
#include "hf/hf.h"

#include <string.h>

/* ---- rotary positions ------------------------------------------------------------ */

/* Older files have rope_theta and rope_scaling, newer ones rope_parameters with both. */
static const char *rope_key(const Config *c)
{
    return hf_member(c, "rope_parameters") ? "rope_parameters" : "rope_scaling";
}

static const char *inside(const Config *c, const char *key)
{
    return gen_printf(c->g, "%s.%s", rope_key(c), key);
}

/* "default", "llama3", ..., under either of its two names. */
static const char *rope_type(const Config *c, const char **path)
{
    const json_t *v = hf_member(c, *path = inside(c, "rope_type"));

    if (!v)
        v = hf_member(c, *path = inside(c, "type"));
    return !v ? "default" : json_is_string(v) ? json_string_value(v) : "";
}

static const char *rope_scaling(const Config *c)
{
    const char *path, *type = rope_type(c, &path);
    double factor, low, high;
    int64_t original;

    if (!strcmp(type, "default"))
        return NULL;
    if (strcmp(type, "llama3") != 0 || c->family->bit == PHI3) {
        hf_refuse(
            c, path,
            c->family->bit == PHI3 ? "of Phi's only \"default\" can be imported, which "
                                     "Phi-4 and the models of "
                                     "4k tokens have"
                                   : "\"default\" and \"llama3\" can be imported",
            gen_printf(c->g, "%s is not supported", hf_shown(c, hf_member(c, path))));
        return NULL;
    }
    factor = hf_number(c, inside(c, "factor"), 0);
    if (factor < 1)
        hf_refuse(c, inside(c, "factor"), "Llama 3.1 has 8.0", "is not 1 or more");
    low = hf_number(c, inside(c, "low_freq_factor"), 1);
    high = hf_number(c, inside(c, "high_freq_factor"), 4);
    original = hf_int(c, inside(c, "original_max_position_embeddings"), 8192);
    if (low == 1 && high == 4 && original == 8192 && (factor == 8 || factor == 32))
        return factor == 8 ? "llama.scaling_3_1" : "llama.scaling_3_2";
    return gen_printf(c->g,
                      "{\n            factor = %s, low_freq_factor = %s, "
                      "high_freq_factor = %s, original = %lld,\n        }",
                      hf_digits(c->g, factor), hf_digits(c->g, low),
                      hf_digits(c->g, high), (long long)original);
}

/* Is it an object with known keys only? */
static bool check_rope(const Config *c, const char *name)
{
    static const char *const known[] = {
        "rope_type",
        "type",
        "rope_theta",
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "long_factor",
        "short_factor", /* of longrope, which is refused */
        "original_max_position_embeddings"};
    json_t *rope = hf_member(c, name), *v;
    const char *key;

    if (rope && !json_is_object(rope)) {
        hf_refuse(c, name, "it has rope_type and what that needs",
                  gen_printf(c->g, "%s is not an object", hf_shown(c, rope)));
        return false;
    }
    json_object_foreach(rope, key, v)
    {
        size_t i = 0;

        if (!strcmp(key, "partial_rotary_factor")) {
            if (c->family->bit != PHI3 &&
                hf_number(c, gen_printf(c->g, "%s.%s", name, key), 1) != 1)
                hf_refuse(c, gen_printf(c->g, "%s.%s", name, key),
                          "all of a head is rotated here",
                          gen_printf(c->g, "%s is not supported", hf_shown(c, v)));
            continue;
        }
        while (i < sizeof known / sizeof *known && strcmp(known[i], key) != 0)
            i++;
        if (i == sizeof known / sizeof *known)
            hf_unknown(c, gen_printf(c->g, "%s.%s", name, key));
    }
    return true;
}

/* A value under its one name; NULL means the same as a missing value. */
static const json_t *rope_value(const json_t *rope, const char *key)
{
    const bool is_type = !strcmp(key, "type") || !strcmp(key, "rope_type");
    const json_t *v = json_object_get(rope, is_type ? "rope_type" : key);

    if (is_type && (!v || json_is_null(v)))
        v = json_object_get(rope, "type");
    if (json_is_null(v) ||
        (is_type && v && json_is_string(v) && !strcmp(json_string_value(v), "default")))
        return NULL;
    return v;
}

/* Does b contain everything that a says? same_base compares the base. */
static bool says_all(const json_t *b, json_t *a)
{
    const char *key;
    json_t *ignored;

    json_object_foreach(a, key, ignored)
    {
        const json_t *va = rope_value(a, key), *vb = rope_value(b, key);

        if (strcmp(key, "rope_theta") != 0 && va != vb && !(va && vb && hf_equal(va, vb)))
            return false;
    }
    return true;
}

/* Older files have the base outside rope_scaling. */
static bool same_base(const Config *c)
{
    const json_t *a = hf_member(c, "rope_parameters.rope_theta");
    const json_t *own = hf_member(c, "rope_scaling.rope_theta");
    const json_t *b = own ? own : hf_member(c, "rope_theta");

    return a ? !b || hf_equal(a, b) : !own;
}

/* Of a head, how much turns: in rope_parameters, or beside them. */
static double rope_fraction(const Config *c)
{
    const char *path = inside(c, "partial_rotary_factor");
    double fraction;

    if (c->family->bit != PHI3)
        return 1; /* or it was refused */
    if (!hf_member(c, path))
        path = "partial_rotary_factor";
    fraction = hf_number(c, path, 1);
    if (fraction <= 0 || fraction > 1)
        hf_refuse(c, path, "it is a fraction of a head: Phi-4-mini has 0.75",
                  gen_printf(c->g, "%s is not above 0 and at most 1",
                             hf_shown(c, hf_member(c, path))));
    return fraction;
}

const char *hf_rope(const Config *c)
{
    json_t *parameters = hf_member(c, "rope_parameters");
    json_t *older = hf_member(c, "rope_scaling");
    const bool sound = check_rope(c, "rope_parameters") & check_rope(c, "rope_scaling");
    const char *scaling, *base;
    double theta, fraction;

    if (!sound)
        return NULL;
    if (parameters && older &&
        !(same_base(c) && says_all(parameters, older) && says_all(older, parameters)))
        hf_refuse(c, "rope_scaling", "give one",
                  "says something else than rope_parameters");
    theta = hf_number(
        c, inside(c, "rope_theta"),
        hf_number(c, "rope_theta", c->family->theta != 0 ? c->family->theta : 1e4));
    scaling = rope_scaling(c);
    fraction = rope_fraction(c);
    base = theta != 1e4 ? gen_printf(c->g, "theta = %s", hf_digits(c->g, theta)) : "";
    if (fraction != 1)
        base = gen_printf(c->g, "%s%sfraction = %s", base, *base ? ", " : "",
                          hf_digits(c->g, fraction));
    if (!*base && !scaling)
        return NULL;
    return gen_printf(c->g, "%s%s%s%s", base, *base && scaling ? ", " : "",
                      scaling ? "scaling = " : "", scaling ? scaling : "");
}

/* ---- sliding windows ------------------------------------------------------------- */

/* Is there one type per layer? */
static void check_types(const Config *c, const json_t *types)
{
    const json_t *layers = hf_member(c, "num_hidden_layers");

    if (types && !json_is_array(types))
        hf_refuse(c, "layer_types", "it has a type for each layer",
                  gen_printf(c->g, "%s is not a list", hf_shown(c, types)));
    else if (types && json_is_integer(layers) &&
             json_integer_value(layers) != (json_int_t)json_array_size(types))
        hf_refuse(c, "layer_types", "it has a type for each layer",
                  gen_printf(c->g, "its length is %zu, not num_hidden_layers, %lld",
                             json_array_size(types),
                             (long long)json_integer_value(layers)));
}

/* 0: every token sees all earlier ones. All layers must have the same window; in Qwen
 * models, layers from max_window_layers on have one. */
int64_t hf_window(const Config *c)
{
    const int64_t window = hf_int(c, "sliding_window",
                                  hf_lacks(c, "sliding_window") ? c->family->window : 0);
    const json_t *types = hf_member(c, "layer_types");
    const bool qwen = c->family->bit & QWEN;
    size_t sliding = 0;

    check_types(c, types);
    if (c->family->bit == SMOLLM3) {
        for (size_t i = 0; i < json_array_size(types); i++)
            if (!json_is_string(json_array_get(types, i)) ||
                strcmp(json_string_value(json_array_get(types, i)), "full_attention") !=
                    0)
                hf_refuse(c, "layer_types", "SmolLM3's layers see all tokens before",
                          "a sliding window is not supported");
        return 0;
    }
    if (window == 0 || (qwen && !hf_bool(c, "use_sliding_window", false)))
        return 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));

        sliding += type != NULL && !strcmp(type, "sliding_attention");
    }
    if (types && sliding != 0 && sliding != json_array_size(types))
        hf_refuse(c, "layer_types", "all layers have the same window here",
                  "a mix of windows is not supported");
    if (!types && qwen) {
        const int64_t from = hf_int(c, "max_window_layers", 28);

        if (from >= hf_int(c, "num_hidden_layers", -1))
            return 0;
        if (from > 0)
            hf_refuse(c, "max_window_layers", "all layers have the same window here",
                      "a window in some layers only is not supported");
    }
    return types && sliding == 0 ? 0 : window;
}

/* ---- layers without positions ---------------------------------------------------- */

/* The list has 1 where a layer has rotary positions. */
static bool fits(const json_t *list, int64_t every)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *v = json_array_get(list, i);
        const bool rotary = every == 0 || (int64_t)(i + 1) % every != 0;

        if (!json_is_integer(v) || json_integer_value(v) != (rotary ? 1 : 0))
            return false;
    }
    return true;
}

int64_t hf_nope_every(const Config *c)
{
    const json_t *list = hf_member(c, "no_rope_layers");
    int64_t every = 0;

    if (c->family->bit != SMOLLM3)
        return 0;
    if (!list) {
        every = hf_int(c, "no_rope_layer_interval", 4);
        if (every == 0)
            hf_refuse(c, "no_rope_layer_interval", "SmolLM3 has 4", "0 is not supported");
        return every;
    }
    for (size_t i = json_array_size(list); i > 0; i--)
        if (json_integer_value(json_array_get(list, i - 1)) == 0)
            every = (int64_t)i;
    if (!json_is_array(list) ||
        (int64_t)json_array_size(list) != hf_int(c, "num_hidden_layers", -1))
        hf_refuse(c, "no_rope_layers", "it has a 0 or a 1 for each layer",
                  "it is not a list of num_hidden_layers numbers");
    else if (!fits(list, every))
        hf_refuse(c, "no_rope_layers",
                  "every n-th layer may lack positions: [1, 1, 1, 0, 1, 1, 1, 0, ...]",
                  "such a mix of layers is not supported");
    return every;
}
