/* SPDX-License-Identifier: Apache-2.0 */
/* hf_read.c: values of a config.json. In: the file, paths of keys. Out: values, or
 * messages with their places. */
#include "hf/hf.h"

#include "base/json_place.h"
#include "base/show.h"
#include "describe/load.h"

#include <float.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CONFIG_BYTES = 1 << 20 };

Pos hf_place(const Config *c, const char *path)
{
    return json_place(c->file, c->text, c->bytes, path);
}

void hf_refuse(const Config *c, const char *path, const char *help, const char *problem)
{
    diag_add(c->g, DIAG_ERROR, hf_place(c, path), help, "%s: %s", path, problem);
}

const char *hf_shown(const Config *c, const json_t *v)
{
    char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *text = gen_printf(c->g, "%.60s", s ? s : "?");

    free(s);
    return text;
}

void hf_unknown(const Config *c, const char *path)
{
    diag_add(c->g, DIAG_WARNING, hf_place(c, path), "see that the model is the same",
             "%.100s: is unknown and ignored", path);
}

bool hf_equal(const json_t *a, const json_t *b)
{
    return json_is_number(a) && json_is_number(b)
               ? json_number_value(a) == json_number_value(b)
               : json_equal((json_t *)(uintptr_t)a, (json_t *)(uintptr_t)b);
}

json_t *hf_member(const Config *c, const char *path)
{
    json_t *at = c->root;
    char key[64];

    while (at && *path) {
        const size_t n = strcspn(path, ".");

        gen_require(n < sizeof key, "key %s", path);
        memcpy(key, path, n);
        key[n] = '\0';
        at = json_object_get(at, key); /* NULL unless it is an object */
        path += n + (path[n] == '.');
    }
    return json_is_null(at) ? NULL : at;
}

bool hf_lacks(const Config *c, const char *key)
{
    return json_object_get(c->root, key) == NULL;
}

int64_t hf_int(const Config *c, const char *path, int64_t missing)
{
    const json_t *v = hf_member(c, path);

    if (!v) {
        if (missing < 0)
            hf_refuse(c, path, "every model of this family has it", "is missing");
        return missing;
    }
    if (!json_is_integer(v) || json_integer_value(v) < 0 ||
        json_integer_value(v) > INT32_MAX) {
        hf_refuse(c, path, "a whole number is expected here",
                  gen_printf(c->g, "%s is not a size", hf_shown(c, v)));
        return missing;
    }
    return json_integer_value(v);
}

int64_t hf_count(const Config *c, const char *path, int64_t missing, int64_t least)
{
    const int64_t value = hf_int(c, path, missing);

    if (hf_member(c, path) && value >= 0 && value < least)
        hf_refuse(c, path,
                  gen_printf(c->g, "at least %lld is expected here", (long long)least),
                  gen_printf(c->g, "%lld is too small", (long long)value));
    return value;
}

double hf_number(const Config *c, const char *path, double missing)
{
    const json_t *v = hf_member(c, path);

    if (!v)
        return missing;
    if (!json_is_number(v)) {
        hf_refuse(c, path, "a number is expected here",
                  gen_printf(c->g, "%s is not a number", hf_shown(c, v)));
        return missing;
    }
    return json_number_value(v);
}

double hf_positive(const Config *c, const char *path, double missing)
{
    const double value = hf_number(c, path, missing);

    if (hf_member(c, path) && !(value >= FLT_MIN))
        hf_refuse(c, path, "a number above 0 is expected here",
                  gen_printf(c->g, "%s is not above 0%s", hf_shown(c, hf_member(c, path)),
                             value > 0 ? " in f32" : ""));
    return value;
}

bool hf_bool(const Config *c, const char *path, bool missing)
{
    const json_t *v = hf_member(c, path);

    if (v && !json_is_boolean(v))
        hf_refuse(c, path, "use true or false",
                  gen_printf(c->g, "%s is not true or false", hf_shown(c, v)));
    return v ? json_is_true(v) : missing;
}

const char *hf_digits(Gen *g, double x)
{
    const char *s = show_shortest(g, x), *e = strchr(s, 'e');

    return !e ? s : gen_printf(g, "%.*se%d", (int)(e - s), s, atoi(e + 1));
}

/* Fills root; false with a message. */
static bool parse(Config *c)
{
    json_error_t error;

    diag_source(c->g, c->file, c->text, c->bytes);
    c->root = json_loadb(c->text, c->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!c->root) {
        const size_t at = error.position > 0 ? (size_t)error.position - 1 : 0;

        diag_add(c->g, DIAG_ERROR, json_offset(c->file, c->text, c->bytes, at, 1),
                 json_error_code(&error) == json_error_duplicate_key
                     ? "keep one of them"
                     : "the JSON is damaged, or cut off: take the file again",
                 "%s", json_problem(c->g, &error));
        return false;
    }
    if (!json_is_object(c->root))
        diag_add(c->g, DIAG_ERROR, hf_place(c, ""), NULL, "a config.json is one object");
    return json_is_object(c->root);
}

bool hf_take(Config *c, const char *text)
{
    c->file = "config.json";
    c->text = text;
    c->bytes = strlen(text);
    return parse(c);
}

bool hf_read(Config *c, const char *path)
{
    const size_t n = strlen(path);
    const bool is_file = n > 5 && !strcmp(path + n - 5, ".json");
    int e;

    c->file = is_file ? path : gen_printf(c->g, "%s/config.json", path);
    e = read_whole_file(c->file, &c->text, &c->bytes);
    if (e || c->bytes > MAX_CONFIG_BYTES) {
        diag_add(c->g, DIAG_ERROR, (Pos){.file = c->file},
                 "fsdpgen import DIR reads DIR/config.json; of a model on the Hub: hf "
                 "download NAME --local-dir DIR",
                 "%s", e ? file_problem(e) : "is larger than 1 MiB: no config.json");
        return false;
    }
    if (c->bytes >= 3 && !memcmp(c->text, "\xEF\xBB\xBF", 3)) { /* byte order mark */
        c->text += 3;
        c->bytes -= 3;
    }
    return parse(c);
}
