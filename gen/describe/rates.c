/* SPDX-License-Identifier: Apache-2.0 */
/* rates.c: the file of --rates, which `trainer --calibrate` wrote on some machine. In:
 * JSON, version 1:
 *
 *   { "fsdpgen_rates": 1, "platform": "text", "target": "cpu",
 *     "threads": 2, "ranks": 2,
 *     "products": [{ "form": "nt", "m": 512, "n": 512, "k": 512,
 *                    "dtype": "f32", "us": 90.5 }],
 *     "rates": { "product_gflops": .., "attention_gflops": ..,
 *                "attention_bwd_gflops": .., "elementwise_gbps": ..,
 *                "norm_gbps": .., "copy_gbps": .. },
 *     "collectives": [{ "kind": "all_gather", "ranks": 2,
 *                       "bytes": 1048576, "us": 300 }],
 *     "contention": 1.08, "launch_us": 0.4 }
 *
 * Out: the model's rates; what the file lacks stays as the target has it. A wrong value
 * is an error with its place. Nothing here reaches the numerics hash. */
#include "describe/check.h"

#include "base/json_place.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 100000, SHOWN = 60 };

const char *cost_class_name(CostClass c)
{
    static const char *const names[N_COSTS] = {
        "product", "attention", "attention_bwd", "elementwise", "norm", "copy"};

    gen_require((int)c >= 0 && c < N_COSTS, "cost class %d", (int)c);
    return names[c];
}

bool cost_by_flops(CostClass c)
{
    return c <= COST_ATTENTION_BWD;
}

const char *product_form_name(ProductForm f)
{
    static const char *const names[N_FORMS] = {"nt", "nn", "tn"};

    gen_require((int)f >= 0 && f < N_FORMS, "form %d", (int)f);
    return names[f];
}

typedef struct File {
    Gen *g;
    const char *path, *text;
    size_t bytes;
    json_t *root;
    Rates *r;
} File;

/* ---- values ---------------------------------------------------------------------- */

static void refuse(const File *f, const char *at, const char *help, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void refuse(const File *f, const char *at, const char *help, const char *fmt, ...)
{
    char problem[200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(problem, sizeof problem, fmt, ap);
    va_end(ap);
    diag_add(f->g, DIAG_ERROR, json_place(f->path, f->text, f->bytes, at), help,
             "%.100s: %s", at, problem);
}

static const char *shown(const File *f, const json_t *v)
{
    char *s = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
    const char *text = gen_printf(f->g, "%.*s", SHOWN, s ? s : "?");

    free(s);
    return text;
}

static const char *path_of(const File *f, const char *base, const char *key)
{
    return *base ? gen_printf(f->g, "%s.%s", base, key) : key;
}

/* Reports keys of the object that are not in the list. */
static void check_keys(const File *f, const char *base, json_t *o,
                       const char *const *keys, int n)
{
    const char *key;
    json_t *v;

    json_object_foreach(o, key, v)
    {
        bool known = false;

        for (int i = 0; i < n; i++)
            known = known || !strcmp(keys[i], key);
        if (!known) {
            const char *near = diag_nearest(key, keys, n);

            refuse(f, path_of(f, base, gen_printf(f->g, "%.60s", key)),
                   near ? gen_printf(f->g, "did you mean %s?", near)
                        : "leave it out, or measure again with this version's "
                          "trainer --calibrate",
                   "a file of rates has no such key");
        }
    }
}

/* A number in [least, most]; 0 with or, if it is needed, without a message. */
static double number(const File *f, const char *base, const json_t *o, const char *key,
                     double least, double most, bool needed)
{
    const json_t *v = json_object_get(o, key);
    const char *at = path_of(f, base, key);
    const double x = json_is_number(v) ? json_number_value(v) : -1;

    if (!v) {
        if (needed)
            refuse(f, at,
                   gen_printf(f->g, "write a number from %.9g to %.9g", least, most),
                   "is missing");
        return 0;
    }
    if (json_is_number(v) && x >= least && x <= most)
        return x;
    refuse(f, at, gen_printf(f->g, "write a number from %.9g to %.9g", least, most),
           "%s is not such a rate, size or time", shown(f, v));
    return 0;
}

static int64_t whole(const File *f, const char *base, const json_t *o, const char *key,
                     int64_t most)
{
    const json_t *v = json_object_get(o, key);

    if (json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) <= most)
        return json_integer_value(v);
    refuse(f, path_of(f, base, key),
           gen_printf(f->g, "write a whole number from 1 to %lld", (long long)most),
           v ? "%s is not such a number" : "is missing", shown(f, v));
    return 1;
}

/* The index of a word of the list; -1 after a message. */
static int word(const File *f, const char *base, const json_t *o, const char *key,
                const char *const *words, int n)
{
    const json_t *v = json_object_get(o, key);
    Text help = {.g = f->g};

    for (int i = 0; i < n; i++) {
        if (json_is_string(v) && !strcmp(json_string_value(v), words[i]))
            return i;
        text_printf(&help, "%s\"%s\"", i ? ", " : "use one of ", words[i]);
    }
    refuse(f, path_of(f, base, key), help.s, v ? "%s is unknown" : "is missing",
           shown(f, v));
    return -1;
}

/* An array of objects with the keys; how many, or 0. */
static int rows_of(const File *f, const char *key, json_t **list)
{
    *list = json_object_get(f->root, key);
    if (!*list)
        return 0;
    if (!json_is_array(*list) || json_array_size(*list) > MAX_ROWS) {
        refuse(f, key, gen_printf(f->g, "write a list of at most %d rows", MAX_ROWS),
               "is not such a list: %s", shown(f, *list));
        return 0;
    }
    return (int)json_array_size(*list);
}

/* Row i, with no other keys than those; NULL after a message. */
static json_t *row_at(const File *f, const char *list, json_t *rows, int i,
                      const char *const *keys, int n, const char **at)
{
    json_t *o = json_array_get(rows, (size_t)i);

    *at = gen_printf(f->g, "%s.%d", list, i);
    if (!json_is_object(o)) {
        refuse(f, *at, "write an object { ... }", "%s is not an object", shown(f, o));
        return NULL;
    }
    check_keys(f, *at, o, keys, n);
    return o;
}

static int64_t ps_of_us(double us)
{
    return (int64_t)(us * 1e6);
}

/* ---- parts ----------------------------------------------------------------------- */

static int by_shape(const void *a, const void *b)
{
    const ProductTime *x = a, *y = b;
    const int64_t p[] = {x->form, x->dtype, x->m, x->n, x->k},
                  q[] = {y->form, y->dtype, y->m, y->n, y->k};

    for (int i = 0; i < 5; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

static int by_size(const void *a, const void *b)
{
    const MoveTime *x = a, *y = b;
    const int64_t p[] = {x->kind, x->ranks, x->bytes},
                  q[] = {y->kind, y->ranks, y->bytes};

    for (int i = 0; i < 3; i++)
        if (p[i] != q[i])
            return p[i] < q[i] ? -1 : 1;
    return 0;
}

static void read_products(File *f)
{
    static const char *const keys[] = {"form", "m", "n", "k", "dtype", "us"};
    static const char *const forms[] = {"nt", "nn", "tn"};
    static const char *const dtypes[] = {"f32", "bf16", "f16", "f64"};
    json_t *list;
    const int n = rows_of(f, "products", &list);
    Rates *r = f->r;

    r->products = gen_alloc(f->g, sizeof *r->products * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        ProductTime *p = &r->products[r->n_products];
        const char *at;
        const json_t *o = row_at(f, "products", list, i, keys, 6, &at);
        int form, dtype;

        if (!o)
            continue;
        form = word(f, at, o, "form", forms, 3);
        dtype = word(f, at, o, "dtype", dtypes, 4);
        *p = (ProductTime){.m = whole(f, at, o, "m", INT32_MAX),
                           .n = whole(f, at, o, "n", INT32_MAX),
                           .k = whole(f, at, o, "k", INT32_MAX),
                           .ps = ps_of_us(number(f, at, o, "us", 1e-3, 1e9, true))};
        if (form < 0 || dtype < 0)
            continue;
        p->form = (ProductForm)form;
        p->dtype = dtype_parse(dtypes[dtype]);
        r->n_products++;
    }
    qsort(r->products, (size_t)r->n_products, sizeof *r->products, by_shape);
    for (int i = 1; i < r->n_products; i++)
        if (by_shape(&r->products[i - 1], &r->products[i]) == 0)
            refuse(f, "products", "keep one of them",
                   "the %s of %lld x %lld x %lld is there twice",
                   product_form_name(r->products[i].form), (long long)r->products[i].m,
                   (long long)r->products[i].n, (long long)r->products[i].k);
}

static void read_moves(File *f)
{
    static const char *const keys[] = {"kind", "ranks", "bytes", "us"};
    static const char *const kinds[] = {"all_gather", "reduce_scatter"};
    json_t *list;
    const int n = rows_of(f, "collectives", &list);
    Rates *r = f->r;

    r->moves = gen_alloc(f->g, sizeof *r->moves * (size_t)(n + 1));
    for (int i = 0; i < n; i++) {
        MoveTime *t = &r->moves[r->n_moves];
        const char *at;
        const json_t *o = row_at(f, "collectives", list, i, keys, 4, &at);
        int kind;

        if (!o)
            continue;
        kind = word(f, at, o, "kind", kinds, 2);
        *t = (MoveTime){.ranks = whole(f, at, o, "ranks", STARTED_RANKS),
                        .bytes = whole(f, at, o, "bytes", INT64_C(1) << 50),
                        .ps = ps_of_us(number(f, at, o, "us", 1e-3, 1e9, true))};
        if (t->ranks == 1)
            refuse(f, path_of(f, at, "ranks"), "leave the row out",
                   "one rank has no collectives");
        if (kind < 0)
            continue;
        t->kind = (MoveKind)kind;
        r->n_moves++;
    }
    qsort(r->moves, (size_t)r->n_moves, sizeof *r->moves, by_size);
    for (int i = 1; i < r->n_moves; i++)
        if (by_size(&r->moves[i - 1], &r->moves[i]) == 0)
            refuse(f, "collectives", "keep one of them",
                   "the %s of %lld bytes over %lld ranks is there twice",
                   kinds[r->moves[i].kind], (long long)r->moves[i].bytes,
                   (long long)r->moves[i].ranks);
}

static void read_classes(File *f)
{
    static const char *const keys[N_COSTS] = {
        "product_gflops",   "attention_gflops", "attention_bwd_gflops",
        "elementwise_gbps", "norm_gbps",        "copy_gbps"};
    json_t *o = json_object_get(f->root, "rates");

    if (!json_is_object(o)) {
        refuse(f, "rates", "write { \"product_gflops\": ..., ... }",
               o ? "is not an object" : "is missing");
        return;
    }
    check_keys(f, "rates", o, keys, N_COSTS);
    for (int c = 0; c < N_COSTS; c++) {
        const double giga = number(f, "rates", o, keys[c], 1e-3, 1e9, false);

        if (giga > 0) {
            f->r->per_us[c] = max_i64((int64_t)(giga * 1e3), 1);
            f->r->library_per_us[c] = 0;
            f->r->measured |= 1U << c;
        }
    }
}

/* ---- the file -------------------------------------------------------------------- */

/* Rates of another target say nothing about this one. */
static void check_head(const File *f, const Model *m)
{
    static const char *const keys[] = {
        "fsdpgen_rates", "platform", "target",      "threads",    "ranks",
        "products",      "rates",    "collectives", "contention", "launch_us"};
    const json_t *version = json_object_get(f->root, "fsdpgen_rates"),
                 *target = json_object_get(f->root, "target"),
                 *platform = json_object_get(f->root, "platform");

    if (!json_is_integer(version) || json_integer_value(version) != 1) {
        refuse(f, "fsdpgen_rates",
               "measure again with this version's trainer --calibrate",
               version ? "version %s is unknown; 1 is known" : "is missing",
               shown(f, version));
        return;
    }
    check_keys(f, "", f->root, keys, sizeof keys / sizeof *keys);
    if (!json_is_string(target) ||
        strcmp(json_string_value(target), m->target->name) != 0)
        refuse(f, "target",
               gen_printf(f->g, "measure with a trainer for %s, or say --target",
                          m->target->name),
               target ? "%s: the description's target is %s" : "is missing",
               shown(f, target), m->target->name);
    if (!json_is_string(platform) || json_string_length(platform) > 4000)
        refuse(f, "platform", "write what was measured, as a text",
               platform ? "%s is not such a text" : "is missing", shown(f, platform));
    else
        f->r->platform = gen_strdup(f->g, json_string_value(platform));
    whole(f, "", f->root, "threads", 4096);
    whole(f, "", f->root, "ranks", STARTED_RANKS);
}

static bool parse(File *f)
{
    json_error_t error;

    diag_source(f->g, f->path, f->text, f->bytes);
    f->root = json_loadb(f->text, f->bytes, JSON_REJECT_DUPLICATES, &error);
    if (!f->root) {
        const size_t at = error.position > 0 ? (size_t)error.position - 1 : 0;

        diag_add(f->g, DIAG_ERROR, json_offset(f->path, f->text, f->bytes, at, 1),
                 "take the file that trainer --calibrate wrote", "%s",
                 json_problem(f->g, &error));
        return false;
    }
    if (json_is_object(f->root))
        return true;
    diag_add(f->g, DIAG_ERROR, json_offset(f->path, f->text, f->bytes, 0, 1),
             "take the file that trainer --calibrate wrote",
             "--rates: the file holds no object");
    return false;
}

static void read_parts(File *f, const Model *m)
{
    const int errors = diag_errors(f->g);
    double x;

    check_head(f, m);
    if (diag_errors(f->g) > errors)
        return;
    read_classes(f);
    read_products(f);
    read_moves(f);
    x = number(f, "", f->root, "contention", 1, 100, false);
    if (x > 0)
        f->r->contention = (int64_t)(x * 1000);
    if (json_object_get(f->root, "launch_us"))
        f->r->launch_ps = ps_of_us(number(f, "", f->root, "launch_us", 0, 1e6, false));
}

/* The file's name without folders, as emitted texts may have it: in ASCII, without `${`
 * and blanks at the end. */
static const char *name_of(Gen *g, const char *path)
{
    const char *slash = strrchr(path, '/'), *s = slash ? slash + 1 : path;
    Text t = {.g = g};

    for (const unsigned char *c = (const unsigned char *)s; *c; c++) {
        const bool kept =
            (*c > ' ' && *c < 127 && !(*c == '$' && c[1] == '{')) || (*c == ' ' && c[1]);

        text_printf(&t, kept ? "%c" : "\\x%02x", *c);
    }
    return t.s;
}

void rates_read(Check *c, Model *m)
{
    Gen *g = c->g;
    File f = {.g = g, .path = g->opt.rates, .r = &m->rates};
    int e;

    if (!f.path)
        return;
    e = read_whole_file(f.path, &f.text, &f.bytes);
    if (e) {
        diag_add(g, DIAG_ERROR, (Pos){0}, "trainer --calibrate writes such a file",
                 "--rates %s: %s", f.path, file_problem(e));
        return;
    }
    m->rates.file = name_of(g, f.path);
    m->rates.digest = hash_bytes(f.text, f.bytes);
    if (parse(&f))
        read_parts(&f, m);
    json_decref(f.root);
}

const ProductTime *rates_product(const Rates *r, const Product *p, Dtype dtype)
{
    const ProductTime key = {p->form, p->m, p->n, p->k, dtype, 0};

    return r->n_products == 0
               ? NULL
               : bsearch(&key, r->products, (size_t)r->n_products, sizeof key, by_shape);
}
