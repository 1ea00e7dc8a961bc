/* SPDX-License-Identifier: Apache-2.0 */
/* check_value.c: validates values against fields. In: a raw table, its fields, its place.
 * Out: a resolved table with every default filled in, and a message for each mistake: the
 * value, its place, and what to write instead. It knows types and ranges only; check.c
 * compares fields with each other. */
#include "describe/check.h"
#include "base/sandbox.h"

#include <ctype.h>
#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void check_error(Check *c, Pos pos, const char *help, const char *fmt, ...)
{
    va_list ap;
    const char *text;

    va_start(ap, fmt);
    text = gen_vprintf(c->g, fmt, ap);
    va_end(ap);
    c->errors++;
    diag_add(c->g, DIAG_ERROR, pos, help, "%s", text);
}

/* All planned features are refused in the same words. */
static void not_yet(Check *c, const char *path, Pos pos, const char *what,
                    const char *help)
{
    if (what)
        check_error(c, pos, help, "%s: %s is not available yet", path, what);
    else
        check_error(c, pos, help, "%s is not available yet", path);
}

static void wrong_type(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    const char *help = gen_printf(c->g, "write %s", check_example(c, f, path));
    bool quoted = lua_type(L, -1) == LUA_TSTRING;
    bool number = f->type == FIELD_INT || f->type == FIELD_NUMBER;

    if (quoted && lua_rawlen(L, -1) < 32 &&
        ((number && lua_isnumber(L, -1)) ||
         (f->type == FIELD_BOOL && (!strcmp(lua_tostring(L, -1), "true") ||
                                    !strcmp(lua_tostring(L, -1), "false")))))
        help = gen_printf(c->g, "write %s, without quotes", lua_tostring(L, -1));
    if (f->type == FIELD_BOOL && synonym_bool(L, -1))
        help =
            gen_printf(c->g, "write %s = %s", check_last_name(path), synonym_bool(L, -1));
    check_error(c, site.pos, help, "%s: %s is given, but %s is expected", path,
                check_show(c->g, -1), check_type(c, f));
}

/* ---- simple values: on top of the stack, replaced by the resolved one ------------ */

/* Integers without a limit of their own must still fit the products they enter. */
static double int_max(const Field *f)
{
    return f->has_max ? f->max : f->has_below ? f->below : INT32_MAX;
}

static const char *range_in_words(Check *c, const Field *f)
{
    Text t = {.g = c->g};
    bool integer = f->type == FIELD_INT;

    text_add(&t, "", 0);
    if (f->has_min)
        text_printf(&t, integer ? "at least %.0f" : "at least %.14g", f->min);
    if (f->has_above)
        text_printf(&t, "more than %.14g", f->above);
    if (t.len && (f->has_max || f->has_below || integer))
        text_printf(&t, " and ");
    if (f->has_max || (integer && !f->has_below))
        text_printf(&t, integer ? "at most %.0f" : "at most %.14g",
                    integer ? int_max(f) : f->max);
    if (f->has_below)
        text_printf(&t, "less than %.14g", f->below);
    return t.s;
}

static bool check_range(Check *c, const Field *f, const char *path, Site site)
{
    double v = lua_tonumber(c->L, -1);
    const char *help = gen_printf(c->g, "use %s", range_in_words(c, f));

    if ((f->has_min && v < f->min) || (f->has_above && v <= f->above)) {
        check_error(c, site.pos, help, "%s: %s is too small", path, check_show(c->g, -1));
        return false;
    }
    if ((f->has_max && v > f->max) || (f->has_below && v >= f->below) ||
        (f->type == FIELD_INT && v > int_max(f))) {
        check_error(c, site.pos, help, "%s: %s is too large", path, check_show(c->g, -1));
        return false;
    }
    if (f->type == FIELD_NUMBER && !number_fits_f32(v)) {
        check_error(c, site.pos, "use a number between 1.2e-38 and 3.4e38",
                    "%s: kernels compute in f32, which does not hold %s", path,
                    check_show(c->g, -1));
        return false;
    }
    return true;
}

static bool check_int(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    lua_Integer i;
    int exact;

    if (lua_type(L, -1) != LUA_TNUMBER) {
        wrong_type(c, f, path, site);
        return false;
    }
    i = lua_tointegerx(L, -1, &exact);
    if (!exact) {
        double v = lua_tonumber(L, -1);

        if (!isfinite(v) || fabs(v) >= 9e18)
            check_error(c, site.pos, gen_printf(c->g, "use %s", range_in_words(c, f)),
                        "%s: %s is not an integer that fits", path, check_show(c->g, -1));
        else
            check_error(c, site.pos,
                        v > 0 && v < 1 && !strcmp(path, "lr.warmup")
                            ? "write a number of steps, not a share of them: warmup = 100"
                            : gen_printf(c->g, "use %.0f or %.0f", floor(v), ceil(v)),
                        "%s: %s is not an integer", path, check_show(c->g, -1));
        return false;
    }
    lua_pop(L, 1);
    lua_pushinteger(L, i);
    if (!check_range(c, f, path, site))
        return false;
    if (f->power_of_two && (i < 1 || (i & (i - 1)) != 0)) {
        lua_Integer below = 1;

        while (below < i - below)
            below *= 2;
        check_error(
            c, site.pos,
            gen_printf(c->g, "use %lld or %lld", (long long)below, (long long)below * 2),
            "%s: %lld is not a power of two", path, (long long)i);
        return false;
    }
    return true;
}

static bool check_number(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    double v;

    if (lua_type(L, -1) != LUA_TNUMBER) {
        wrong_type(c, f, path, site);
        return false;
    }
    v = lua_tonumber(L, -1);
    if (!isfinite(v)) {
        check_error(c, site.pos, gen_printf(c->g, "write %s", check_example(c, f, path)),
                    "%s: %s is not a finite number", path, check_show(c->g, -1));
        return false;
    }
    lua_pop(L, 1);
    lua_pushnumber(L, v + 0.0); /* -0 becomes 0, for one hash of equal bits */
    return check_range(c, f, path, site);
}

static bool matches(Check *c, const char *pattern, const char *path, Site site)
{
    lua_State *L = c->L;
    bool yes;

    lua_getglobal(L, "string");
    lua_getfield(L, -1, "match");
    lua_remove(L, -2);
    lua_pushvalue(L, -2);
    lua_pushstring(L, pattern);
    yes = lua_pcall(L, 2, 1, 0) == LUA_OK;
    if (!yes) /* an architecture's: fields.c tried it with an empty text only */
        check_error(c, site.pos,
                    "its row in the architecture needs one of Lua's patterns",
                    "%s: pattern: %s", path, lua_tostring(L, -1));
    yes = !yes || !lua_isnil(L, -1);
    lua_pop(L, 1);
    return yes;
}

/* A constructor's call as a user writes it. */
static const char *as_written(Check *c, const Kind *k)
{
    return gen_printf(c->g, "%s%s", k->name,
                      k->constant                            ? ""
                      : k->positional && !kind_takes_list(k) ? "(1)"
                                                             : " { ... }");
}

/* The values of a field that are available: not those that come later. */
static Words values_now(Gen *g, const Field *f)
{
    Words now = {0};

    for (int i = 0; i < f->values.count; i++)
        if (!words_have(&f->later_values, f->values.items[i]))
            *gen_push(g, &now) = f->values.items[i];
    return now;
}

/* Reports the text on top of the stack: it is not one of the field's values. */
static void unknown_word(Check *c, const Field *f, const char *path, Site site)
{
    size_t n;
    const char *s = lua_tolstring(c->L, -1, &n), *help;
    const char *alike = synonym_alike(c->g, s, &f->values);
    const char *near = strlen(s) == n ? synonym_value(c->g, path, s) : NULL;
    const Words now = values_now(c->g, f);

    if (strlen(s) == n && !words_have(&f->values, near ? near : ""))
        near = diag_nearest(s, f->values.items, f->values.count);
    help = alike  ? gen_printf(c->g, "did you mean %s?", alike)
           : near ? gen_printf(c->g, "did you mean \"%s\"?", near)
           : words_have(&f->kinds, s)
               ? gen_printf(c->g, "write %s, without quotes",
                            as_written(c, kinds_find(&c->ld->kinds, s)))
               : gen_printf(c->g, "use %s%s", words_join(c->g, &now, "\""),
                            f->more ? ";" : "");
    if (f->more)
        help = gen_printf(c->g, "%s %s", help, f->more);
    check_error(c, site.pos, help, "%s: %s is not one of its values", path,
                check_show(c->g, -1));
}

/* "8G" and "8gib" are meant as 8GiB. */
static const char *size_help(Gen *g, const char *s)
{
    const size_t digits = strspn(s, "0123456789.");
    const char unit = (char)toupper((unsigned char)s[digits]);
    const char *meant = gen_printf(g, "%.*s%ciB", (int)digits, s, unit);

    if (digits && unit && strchr("KMGT", unit) && size_parse(meant) >= 0 &&
        strspn(s + digits + 1, "iIbB") == strlen(s + digits + 1))
        return gen_printf(g, "write \"%s\"", meant);
    return "write a number and a unit: \"8GiB\", \"512MiB\", \"16GB\"";
}

static bool check_string(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    const char *s;
    size_t n;

    if (lua_type(L, -1) != LUA_TSTRING) {
        wrong_type(c, f, path, site);
        return false;
    }
    s = lua_tolstring(L, -1, &n);
    if (f->values.count && (strlen(s) != n || !words_have(&f->values, s))) {
        unknown_word(c, f, path, site);
        return false;
    }
    if (words_have(&f->later_values, s)) {
        const Words now = values_now(c->g, f);

        not_yet(c, path, site.pos, check_show(c->g, -1),
                gen_printf(c->g, "use %s", words_join(c->g, &now, "\"")));
        return false;
    }
    if (f->size && (strlen(s) != n || size_parse(s) < 0)) {
        check_error(c, site.pos, size_help(c->g, s), "%s: %s is not a size", path,
                    check_show(c->g, -1));
        return false;
    }
    if (f->max_bytes && (int64_t)n > f->max_bytes) {
        check_error(c, site.pos,
                    gen_printf(c->g, "use at most %d characters", (int)f->max_bytes),
                    "%s: %s has %zu characters", path, check_show(c->g, -1), n);
        return false;
    }
    if (strlen(s) != n || (f->pattern && !matches(c, f->pattern, path, site)) ||
        (f->forbid && strstr(s, f->forbid))) {
        check_error(
            c, site.pos,
            f->forbid && strlen(s) == n && strstr(s, f->forbid)
                ? gen_printf(c->g, "use one without \"%s\"", f->forbid)
                : gen_printf(c->g, "use %s",
                             f->pattern_doc ? f->pattern_doc : "printable characters"),
            "%s: %s is not a legal %.*s", path, check_show(c->g, -1),
            (int)strcspn(check_last_name(path), "["), check_last_name(path));
        return false;
    }
    return true;
}

/* ---- structured values ----------------------------------------------------------- */

static bool check_list(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    int raw = lua_gettop(L), errors = c->errors;
    lua_Integer n;

    if (f->alone && !lua_istable(L, raw)) {
        lua_newtable(L);
        lua_insert(L, raw);
        lua_rawseti(L, raw, 1);
        site.lex = NULL;
    }
    if (!lua_istable(L, raw) || record_tag(c->g, raw)) {
        wrong_type(c, f, path, site);
        return false;
    }
    n = sandbox_length(L, raw);
    for (lua_pushnil(L); lua_next(L, raw); lua_pop(L, 1)) {
        if (lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 &&
            lua_tointeger(L, -2) <= n)
            continue;
        check_error(c, site.pos, gen_printf(c->g, "write %s", check_example(c, f, path)),
                    "%s: a list has values without names", path);
        lua_settop(L, raw);
        return false;
    }
    if (f->count && n != f->count) {
        check_error(c, site.pos, gen_printf(c->g, "write %s", check_example(c, f, path)),
                    "%s: a list of %lld is given, but %s is expected", path, (long long)n,
                    check_type(c, f));
        return false;
    }
    lua_createtable(L, (int)min_i64(n, 1024), 0);
    for (lua_Integer i = 1; i <= n && c->errors - errors < 10; i++) {
        const LexField *at = lex_item(site.lex, (int)min_i64(i, INT32_MAX));
        Site item = {.pos = at ? at->value : site.pos,
                     .lex = at ? at->table : NULL,
                     .written = site.written};

        lua_rawgeti(L, raw, i);
        check_value(c, f->item, gen_printf(c->g, "%s[%lld]", path, (long long)i), item);
        lua_rawseti(L, raw + 1, i);
    }
    lua_remove(L, raw);
    return c->errors == errors;
}

static bool check_plain_table(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    int errors = c->errors;

    if (lua_type(L, -1) == LUA_TNUMBER && f->number_sets.count) {
        lua_newtable(L);
        for (int i = 0; i < f->number_sets.count; i++) {
            lua_pushvalue(L, -2);
            lua_setfield(L, -2, f->number_sets.items[i]);
        }
        lua_remove(L, -2);
    } else if (!lua_istable(L, -1) || record_tag(c->g, -1)) {
        wrong_type(c, f, path, site);
        return false;
    }
    check_table(c, f->fields, path, lua_gettop(L), site);
    lua_remove(L, -2);
    return c->errors == errors;
}

/* The value is not a record of one of the field's kinds: explains how to write one. */
static void wrong_record(Check *c, const Field *f, const char *path, Site site)
{
    Gen *g = c->g;
    Tag *tag = record_tag(g, -1);
    const char *word = NULL, *help, *near;

    if (tag && tag->tag == TAG_CONSTRUCTOR)
        word = tag->name;
    else if (lua_type(c->L, -1) == LUA_TSTRING)
        word = lua_tostring(c->L, -1);
    near = word ? diag_nearest(word, f->kinds.items, f->kinds.count) : NULL;
    if (near) {
        help = gen_printf(g, "write %s = %s%s", check_last_name(path),
                          as_written(c, kinds_find(&c->ld->kinds, near)),
                          tag ? "" : ", without quotes");
    } else if (lua_type(c->L, -1) == LUA_TNUMBER && synonym_number(g, path)) {
        help = synonym_number(g, path);
    } else if (f->type == FIELD_STRING || (lua_istable(c->L, -1) && !tag)) {
        help = gen_printf(g, "write %s", check_example(c, f, path));
    } else {
        help = gen_printf(g, "use %s", words_join(g, &f->kinds, ""));
    }
    if (near && tag && !strcmp(near, tag->name))
        check_error(c, site.pos, help, "%s: %s is given without its fields", path, near);
    else
        check_error(c, site.pos, help, "%s: %s is given, but %s is expected", path,
                    lua_istable(c->L, -1) && !tag ? "a plain table" : check_show(g, -1),
                    check_type(c, f));
}

static bool check_record(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    Tag *tag = record_tag(c->g, -1), *resolved;
    int errors = c->errors;
    const Kind *kind = tag && tag->tag == TAG_RECORD ? tag->kind : NULL;

    if (lua_type(L, -1) == LUA_TNUMBER && f->number_makes) {
        kind = kinds_find(&c->ld->kinds, f->number_makes);
        gen_require(kind && kind->positional, "number_makes of %s", path);
        lua_newtable(L);
        lua_insert(L, -2);
        lua_setfield(L, -2, kind->positional);
    }
    if (!kind || !words_have(&f->kinds, kind->name)) {
        wrong_record(c, f, path, site);
        return false;
    }
    if (kind->later) {
        Words now = {0};

        for (int i = 0; i < f->kinds.count; i++)
            if (!kinds_find(&c->ld->kinds, f->kinds.items[i])->later)
                *gen_push(c->g, &now) = f->kinds.items[i];
        not_yet(c, path, site.pos, kind->name,
                gen_printf(c->g, "use %s", words_join(c->g, &now, "")));
        return false;
    }
    if (tag && tag->lex)
        site.lex = tag->lex;
    if (tag && tag->pos.line)
        site.pos = tag->pos;
    site.tag = tag;
    check_table(c, kind->fields, path, lua_gettop(L), site);
    resolved = gen_alloc(c->g, sizeof *resolved);
    *resolved = (Tag){.tag = TAG_RECORD, .kind = kind, .name = kind->name};
    record_set_tag(c->g, -1, resolved);
    lua_remove(L, -2);
    return c->errors == errors;
}

static bool check_model_value(Check *c, const Field *f, const char *path, Site site)
{
    Tag *tag = record_tag(c->g, -1);
    int errors = c->errors;

    if (tag && tag->tag == TAG_ARCH) {
        check_error(
            c, site.pos,
            gen_printf(c->g, "write %s = %s { ... }", check_last_name(path), tag->name),
            "%s: the architecture %s is given without its dimensions", path, tag->name);
        return false;
    }
    if (!tag || tag->tag != TAG_MODEL) {
        wrong_type(c, f, path, site);
        return false;
    }
    if (!tag->arch->module) {
        check_error(
            c, tag->arch->pos,
            gen_printf(c->g, "put `return arch { ... }` into a file and `require` it, so "
                             "that the emitted description can too"),
            "%s: the architecture %s is not what its own file returns", path, tag->name);
        return false;
    }
    site.lex = tag->lex;
    if (tag->pos.line)
        site.pos = tag->pos;
    site.tag = tag;
    check_table(c, tag->arch->fields, path, lua_gettop(c->L), site);
    record_set_tag(c->g, -1, tag);
    lua_remove(c->L, -2);
    return c->errors == errors;
}

/* Will this type or kind of value be available later? */
static bool is_later(Check *c, const Field *f, const char *path, Site site)
{
    const char *help = gen_printf(c->g, "write %s", check_example(c, f, path));
    Tag *tag = record_tag(c->g, -1);

    if (f->later)
        not_yet(c, path, site.pos, NULL, "leave it out");
    else if (f->later_number && lua_type(c->L, -1) == LUA_TNUMBER)
        not_yet(c, path, site.pos, f->later_number, help);
    else if (f->later_function && lua_isfunction(c->L, -1) && !tag)
        not_yet(c, path, site.pos, f->later_function, help);
    else if (tag && tag->tag == TAG_RECORD && words_have(&f->later_kinds, tag->name))
        not_yet(c, path, site.pos, tag->name, help);
    else
        return false;
    return true;
}

/* A plain table on top of the stack is replaced by a copy, which the description cannot
 * change later; tables in it, which no field takes, by empty ones. */
static void copy_flat(Check *c)
{
    lua_State *L = c->L;

    if (!lua_istable(L, -1) || record_tag(c->g, -1))
        return;
    record_push_copy(L, lua_gettop(L));
    lua_replace(L, -2);
    for (lua_pushnil(L); lua_next(L, -2);) {
        if (lua_istable(L, -1)) {
            lua_pushvalue(L, -2);
            lua_newtable(L);
            lua_rawset(L, -5);
        }
        lua_pop(L, 1);
    }
}

/* Checks by type; may replace the value. */
static bool check_typed(Check *c, const Field *f, const char *path, Site site)
{
    bool good;

    switch (f->type) {
    case FIELD_INT:
        return check_int(c, f, path, site);
    case FIELD_NUMBER:
        return check_number(c, f, path, site);
    case FIELD_STRING: /* or a record instead */
        return f->kinds.count && record_tag(c->g, -1) ? check_record(c, f, path, site)
                                                      : check_string(c, f, path, site);
    case FIELD_TABLE:
        return check_plain_table(c, f, path, site);
    case FIELD_LIST:
        return check_list(c, f, path, site);
    case FIELD_RECORD:
        return (f->func && lua_isfunction(c->L, -1) && !record_tag(c->g, -1)) ||
               check_record(c, f, path, site);
    case FIELD_MODEL:
        return check_model_value(c, f, path, site);
    case FIELD_BOOL:
        if (f->number && lua_type(c->L, -1) == LUA_TNUMBER)
            return check_int(c, f, path, site);
        good = lua_isboolean(c->L, -1);
        if (!good)
            wrong_type(c, f, path, site);
        return good;
    case FIELD_ANY:
        copy_flat(c);
        break;
    }
    return true;
}

/* Fields for which only one value is available yet. */
static bool is_only(Check *c, const Field *f, const char *path, Site site)
{
    bool good;

    if (f->only_ref == LUA_NOREF)
        return true;
    lua_rawgeti(c->L, LUA_REGISTRYINDEX, f->only_ref);
    good = lua_compare(c->L, -1, -2, LUA_OPEQ);
    lua_pop(c->L, 1);
    if (!good)
        not_yet(c, path, site.pos, check_show(c->g, -1),
                gen_printf(c->g, "leave it out, or write %s = %s", check_last_name(path),
                           check_show_ref(c, f->only_ref)));
    return good;
}

void check_value(Check *c, const Field *f, const char *path, Site site)
{
    lua_State *L = c->L;
    int top = lua_gettop(L);
    const void *raw = lua_topointer(L, -1);
    bool good = !is_later(c, f, path, site);

    luaL_checkstack(L, 20, "check");
    if (site.written)
        *gen_push(c->g, &c->ld->places) =
            (Place){.path = gen_strdup(c->g, path), .pos = site.pos};
    good = good && check_typed(c, f, path, site) && is_only(c, f, path, site);
    /* Remove wrong values, so that nothing depends on them; of a table the good fields
     * remain. */
    if (!good &&
        (!lua_istable(L, -1) || lua_topointer(L, -1) == raw || f->type == FIELD_LIST)) {
        lua_settop(L, top - 1);
        lua_pushnil(L);
    }
    lua_copy(L, -1, top);
    lua_settop(L, top);
}
