/* SPDX-License-Identifier: Apache-2.0 */
/* hf_rope.c: rotary positions. In: the keys of a config.json about them. Out: the field
 * `rope`, or messages about what our architectures cannot do. */
#include "hf/hf.h"

#include <string.h>

/* ---- rotary positions ------------------------------------------------------------ */

/* Gemma 3 has two: of layers that see all tokens, and of those with a window. */
static const char *new_key(const Config *c)
{
    return c->family->bit == GEMMA3 ? "rope_parameters.full_attention"
                                    : "rope_parameters";
}

/* Older files have rope_theta and rope_scaling, newer ones rope_parameters with both. */
static const char *rope_key(const Config *c)
{
    return hf_member(c, new_key(c)) ? new_key(c) : "rope_scaling";
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

static double scaling_factor(const Config *c, const char *help)
{
    const double factor = hf_number(c, inside(c, "factor"), 0);

    if (factor < 1)
        hf_refuse(c, inside(c, "factor"), help, "is not 1 or more");
    return factor;
}

/* All wavelengths alike: they are longer than 1 token. */
static const char *linear_scaling(const Config *c)
{
    const double factor = scaling_factor(c, "Gemma 3 has 8.0");

    return factor == 8 ? "llama.scaling_gemma_3"
                       : gen_printf(c->g, "{ factor = %s, original = 1 }",
                                    hf_digits(c->g, factor));
}

/* transformers does not load a file that lacks it. */
static double llama3_factor(const Config *c, const char *key, const char *help)
{
    const char *path = inside(c, key);

    if (!hf_member(c, path))
        hf_refuse(c, path, help, "is missing");
    return hf_positive(c, path, 1);
}

static const char *rope_scaling(const Config *c)
{
    const char *path, *type = rope_type(c, &path);
    double factor, low, high;
    int64_t original;

    if (!strcmp(type, "default"))
        return NULL;
    if (!strcmp(type, "linear") && c->family->bit != PHI3)
        return linear_scaling(c);
    if (strcmp(type, "llama3") != 0 || c->family->bit == PHI3) {
        hf_refuse(
            c, path,
            c->family->bit == PHI3
                ? "of Phi's only \"default\" can be imported, which "
                  "Phi-4 and the models of "
                  "4k tokens have"
                : "\"default\", \"linear\" and \"llama3\" can be imported",
            gen_printf(c->g, "%s is not supported", hf_shown(c, hf_member(c, path))));
        return NULL;
    }
    factor = scaling_factor(c, "Llama 3.1 has 8.0");
    low = llama3_factor(c, "low_freq_factor", "Llama 3.1 has 1.0");
    high = llama3_factor(c, "high_freq_factor", "Llama 3.1 has 4.0");
    original =
        hf_count(c, inside(c, "original_max_position_embeddings"), hf_positions(c), 1);
    if (high <= low && hf_member(c, inside(c, "high_freq_factor")))
        hf_refuse(c, inside(c, "high_freq_factor"), "Llama 3.1 has 1.0 and 4.0",
                  gen_printf(c->g, "%s is not above low_freq_factor, which is %s",
                             hf_digits(c->g, high), hf_digits(c->g, low)));
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
    const json_t *a = hf_member(c, gen_printf(c->g, "%s.rope_theta", new_key(c)));
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

/* The base in Gemma 3's layers with a window, whose positions are not scaled; 0: there
 * are no such layers. */
static double local_theta(const Config *c)
{
    static const char local[] = "rope_parameters.sliding_attention";
    const json_t *type;
    json_t *both = hf_member(c, "rope_parameters"), *ignored;
    const char *key;

    if (c->family->bit != GEMMA3)
        return 0;
    if (both && !json_is_object(both))
        hf_refuse(c, "rope_parameters", "it has full_attention and sliding_attention",
                  gen_printf(c->g, "%s is not an object", hf_shown(c, both)));
    json_object_foreach(both, key, ignored)
    {
        if (strcmp(key, "full_attention") != 0 && strcmp(key, "sliding_attention") != 0)
            hf_refuse(c, gen_printf(c->g, "rope_parameters.%s", key),
                      "Gemma 3 has full_attention and sliding_attention there",
                      "is not supported");
    }
    check_rope(c, local);
    type = hf_member(c, gen_printf(c->g, "%s.rope_type", local));
    if (type &&
        (!json_is_string(type) || strcmp(json_string_value(type), "default") != 0))
        hf_refuse(c, gen_printf(c->g, "%s.rope_type", local),
                  "layers with a window have \"default\"",
                  gen_printf(c->g, "%s is not supported", hf_shown(c, type)));
    return hf_window(c) == 0 ? 0
                             : hf_positive(c, gen_printf(c->g, "%s.rope_theta", local),
                                           hf_positive(c, "rope_local_base_freq", 1e4));
}

/* Adds `key = value` to fields, after a comma. */
static const char *add_field(const Config *c, const char *fields, const char *key,
                             const char *value)
{
    return gen_printf(c->g, "%s%s%s = %s", fields, *fields ? ", " : "", key, value);
}

int64_t hf_positions(const Config *c)
{
    const int most = c->family->positions;

    return hf_int(c, "max_position_embeddings", most ? most : 2048);
}

const char *hf_rope(const Config *c)
{
    json_t *parameters = hf_member(c, new_key(c));
    json_t *older = hf_member(c, "rope_scaling");
    const bool valid = check_rope(c, new_key(c)) & check_rope(c, "rope_scaling");
    const char *scaling, *base = "";
    double theta, fraction, local;

    if (!valid)
        return NULL;
    if (parameters && older &&
        !(same_base(c) && says_all(parameters, older) && says_all(older, parameters)))
        hf_refuse(c, "rope_scaling", "give one",
                  "says something else than rope_parameters");
    theta = hf_positive(
        c, inside(c, "rope_theta"),
        hf_positive(c, "rope_theta", c->family->theta != 0 ? c->family->theta : 1e4));
    scaling = rope_scaling(c);
    fraction = rope_fraction(c);
    local = local_theta(c);
    if (theta != 1e4)
        base = add_field(c, base, "theta", hf_digits(c->g, theta));
    if (local != 0 && (local != theta || scaling))
        base = add_field(c, base, "local_theta", hf_digits(c->g, local));
    if (fraction != 1)
        base = add_field(c, base, "fraction", hf_digits(c->g, fraction));
    if (scaling)
        base = add_field(c, base, "scaling", scaling);
    return *base ? base : NULL;
}
