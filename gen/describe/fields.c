/* SPDX-License-Identifier: Apache-2.0 */
/* fields.c: reads tables of fields. In: rows `{ name, type, attributes }` in Lua, from
 * gen/lua/describe.lua and from architectures. Out: Field structs. A mistake in a row is
 * a Lua error at its line that names the row, because architectures of users have rows
 * too. */
#include "describe/fields.h"
#include "base/sandbox.h"

#include <lauxlib.h>
#include <string.h>

static const char *const type_names[] = {
    [FIELD_INT] = "int",       [FIELD_NUMBER] = "number", [FIELD_BOOL] = "bool",
    [FIELD_STRING] = "string", [FIELD_TABLE] = "table",   [FIELD_LIST] = "list",
    [FIELD_RECORD] = "record", [FIELD_MODEL] = "model",   [FIELD_ANY] = "any",
};
enum { N_TYPES = sizeof type_names / sizeof *type_names, MAX_NESTING = 8, MAX_NAME = 64 };

static const char *const attributes[] = {
    "default", "default_text", "optional",  "min",          "max",         "above",
    "below",   "power_of_two", "values",    "later_values", "later_types", "later_kinds",
    "pattern", "pattern_doc",  "max_bytes", "forbid",       "size",        "fields",
    "item",    "count",        "kinds",     "number_makes", "number_sets", "number",
    "func",    "hash",         "later",     "only",         "doc",         "example",
    "alone",   "neutral",      "graph",     "editor",       "more",        "fills",
    "of_gpu",
};
enum { N_ATTRIBUTES = sizeof attributes / sizeof *attributes };

typedef struct Reader {
    Gen *g;
    lua_State *L;
    const char *row; /* name of the row being read, for messages */
    int depth;
    bool plain; /* rows of an architecture or op: no constructors, models or tables as
                   they are */
} Reader;

static Fields *read_rows(Reader *r, int index, const char *hash);

static void deeper(Reader *r)
{
    if (++r->depth > MAX_NESTING)
        luaL_error(r->L, "field '%s': tables in tables deeper than %d", r->row,
                   MAX_NESTING);
    luaL_checkstack(r->L, 10, "fields");
}

/* A text attribute of the row on top of the stack; NULL if missing. */
static const char *get_text(Reader *r, const char *key)
{
    const char *s = NULL;

    if (lua_getfield(r->L, -1, key) == LUA_TSTRING)
        s = gen_strdup(r->g, lua_tostring(r->L, -1));
    else if (!lua_isnil(r->L, -1))
        luaL_error(r->L, "field '%s': %s must be a string", r->row, key);
    lua_pop(r->L, 1);
    return s;
}

static bool get_number(Reader *r, const char *key, double *out)
{
    bool has = lua_getfield(r->L, -1, key) != LUA_TNIL;

    if (has && lua_type(r->L, -1) != LUA_TNUMBER)
        luaL_error(r->L, "field '%s': %s must be a number", r->row, key);
    if (has)
        *out = lua_tonumber(r->L, -1);
    lua_pop(r->L, 1);
    return has;
}

/* A number of characters, or of a list's values; 0 if missing. */
static int64_t get_count(Reader *r, const char *key)
{
    double n = 0;

    get_number(r, key, &n);
    if (!(n >= 0 && n <= INT32_MAX) || n != (double)(int64_t)n)
        luaL_error(r->L, "field '%s': %s must be a whole number from 0 to %d", r->row,
                   key, INT32_MAX);
    return (int64_t)n;
}

static bool get_bool(Reader *r, const char *key)
{
    bool b;

    if (lua_getfield(r->L, -1, key) != LUA_TNIL && !lua_isboolean(r->L, -1))
        luaL_error(r->L, "field '%s': %s must be true or false", r->row, key);
    b = lua_toboolean(r->L, -1);
    lua_pop(r->L, 1);
    return b;
}

static Words get_words(Reader *r, const char *key)
{
    Words w = {0};

    if (lua_getfield(r->L, -1, key) != LUA_TNIL && !lua_istable(r->L, -1))
        luaL_error(r->L, "field '%s': %s must be a list of strings", r->row, key);
    for (int i = 1; lua_istable(r->L, -1); i++) {
        int type = lua_rawgeti(r->L, -1, i);

        if (type != LUA_TNIL && type != LUA_TSTRING)
            luaL_error(r->L, "field '%s': %s must be a list of strings", r->row, key);
        if (type == LUA_TSTRING)
            *gen_push(r->g, &w) = gen_strdup(r->g, lua_tostring(r->L, -1));
        lua_pop(r->L, 1);
        if (type == LUA_TNIL)
            break;
    }
    lua_pop(r->L, 1);
    return w;
}

static int get_ref(Reader *r, const char *key)
{
    if (lua_getfield(r->L, -1, key) == LUA_TNIL) {
        lua_pop(r->L, 1);
        return LUA_NOREF;
    }
    return luaL_ref(r->L, LUA_REGISTRYINDEX);
}

static bool is_of_trainer(FieldType type)
{
    return type == FIELD_RECORD || type == FIELD_MODEL || type == FIELD_ANY;
}

static FieldType read_type(Reader *r)
{
    const char *type;

    lua_rawgeti(r->L, -1, 2);
    type = lua_type(r->L, -1) == LUA_TSTRING ? lua_tostring(r->L, -1) : NULL;
    for (int i = 0; type && i < N_TYPES; i++)
        if (!strcmp(type, type_names[i]) && !(r->plain && is_of_trainer((FieldType)i))) {
            lua_pop(r->L, 1);
            return (FieldType)i;
        }
    luaL_error(r->L,
               "field '%s': unknown type" HELP
               "use int, number, bool, string, table or list",
               r->row);
    return FIELD_ANY;
}

static void check_attributes(Reader *r)
{
    sandbox_push_keys(r->L, -1);
    for (lua_Integer k = 1; lua_rawgeti(r->L, -1, k) != LUA_TNIL; k++, lua_pop(r->L, 1)) {
        const char *key;
        bool known = false;

        if (lua_type(r->L, -1) != LUA_TSTRING)
            continue;
        key = lua_tostring(r->L, -1);
        for (int i = 0; i < N_ATTRIBUTES; i++)
            known = known || !strcmp(key, attributes[i]);
        if (!known) {
            const char *near = diag_nearest(key, attributes, N_ATTRIBUTES);

            luaL_error(r->L, "field '%s': unknown attribute '%s'" HELP "%s%s%s", r->row,
                       key, near ? "did you mean `" : "gen/lua/describe.lua lists them",
                       near ? near : "", near ? "`?" : "");
        }
    }
    lua_pop(r->L, 2);
}

static void read_later(Reader *r, Field *f)
{
    f->later = get_bool(r, "later");
    f->later_values = get_words(r, "later_values");
    f->later_kinds = get_words(r, "later_kinds");
    f->only_ref = get_ref(r, "only");
    if (lua_getfield(r->L, -1, "later_types") == LUA_TTABLE) {
        f->later_number = get_text(r, "number");
        f->later_function = get_text(r, "function");
    }
    lua_pop(r->L, 1);
}

static void try_pattern(Reader *r, const char *pattern)
{
    lua_State *L = r->L;

    if (!pattern)
        return;
    lua_getglobal(L, "string");
    lua_getfield(L, -1, "match");
    lua_remove(L, -2);
    lua_pushstring(L, "");
    lua_pushstring(L, pattern);
    if (lua_pcall(L, 2, 1, 0) != LUA_OK)
        luaL_error(L, "field '%s': pattern: %s" HELP "write one of Lua's patterns",
                   r->row, lua_tostring(L, -1));
    lua_pop(L, 1);
}

/* The row's table is on top of the stack. */
static Field read_row(Reader *r, const char *hash)
{
    Field f = {.type = read_type(r)};

    check_attributes(r);
    f.doc = get_text(r, "doc");
    f.example = get_text(r, "example");
    f.hash = get_text(r, "hash");
    if (!f.hash)
        f.hash = hash;
    f.optional = get_bool(r, "optional");
    f.default_ref = get_ref(r, "default");
    f.neutral_ref = get_ref(r, "neutral");
    f.graph = get_bool(r, "graph");
    f.default_text = get_text(r, "default_text");
    f.has_min = get_number(r, "min", &f.min);
    f.has_max = get_number(r, "max", &f.max);
    f.has_above = get_number(r, "above", &f.above);
    f.has_below = get_number(r, "below", &f.below);
    f.power_of_two = get_bool(r, "power_of_two");
    f.values = get_words(r, "values");
    f.pattern = get_text(r, "pattern");
    try_pattern(r, f.pattern);
    f.pattern_doc = get_text(r, "pattern_doc");
    f.forbid = get_text(r, "forbid");
    f.max_bytes = get_count(r, "max_bytes");
    f.size = get_bool(r, "size");
    f.kinds = get_words(r, "kinds");
    f.number_makes = get_text(r, "number_makes");
    f.number_sets = get_words(r, "number_sets");
    f.number = get_text(r, "number");
    f.alone = get_bool(r, "alone");
    f.fills = get_bool(r, "fills");
    f.of_gpu = get_bool(r, "of_gpu");
    f.func = get_text(r, "func");
    f.editor = get_text(r, "editor");
    f.more = get_text(r, "more");
    f.count = get_count(r, "count");
    read_later(r, &f);
    if (r->plain && (f.kinds.count || f.later_kinds.count || f.number_makes))
        luaL_error(r->L,
                   "field '%s': only fields of the trainer have constructors" HELP
                   "leave `kinds`, `later_kinds` and `number_makes` out",
                   r->row);
    if (lua_getfield(r->L, -1, "fields") == LUA_TTABLE)
        f.fields = read_rows(r, lua_gettop(r->L), f.hash);
    lua_pop(r->L, 1);
    if (lua_getfield(r->L, -1, "item") == LUA_TTABLE) {
        deeper(r);
        f.item = gen_alloc(r->g, sizeof *f.item);
        *f.item = read_row(r, f.hash);
        f.item->name = "value";
        r->depth--;
    }
    lua_pop(r->L, 1);
    if (f.type == FIELD_TABLE && !f.fields)
        luaL_error(r->L, "field '%s': a table needs fields = { ... }", r->row);
    if (f.type == FIELD_LIST && !f.item)
        luaL_error(r->L, "field '%s': a list needs item = { name, type }", r->row);
    return f;
}

static Fields *read_rows(Reader *r, int index, const char *hash)
{
    Fields *fields = gen_alloc(r->g, sizeof *fields);
    const char *outer = r->row;

    deeper(r);
    for (int i = 1; lua_rawgeti(r->L, index, i) != LUA_TNIL; i++) {
        Field f;
        size_t n = 0;
        const char *name;

        if (!lua_istable(r->L, -1))
            luaL_error(r->L, "fields[%d] must be a row { name, type, ... }", i);
        lua_rawgeti(r->L, -1, 1);
        name = lua_type(r->L, -1) == LUA_TSTRING ? lua_tolstring(r->L, -1, &n) : NULL;
        if (!name || n > MAX_NAME || !is_identifier(name, n))
            luaL_error(r->L,
                       "fields[%d]: the row has no legal name" HELP
                       "use lower-case letters, digits and _, a letter first, no word "
                       "of Lua",
                       i);
        r->row = gen_strdup(r->g, name);
        lua_pop(r->L, 1);
        if (fields_find(fields, r->row))
            luaL_error(r->L, "field '%s' is declared twice" HELP "remove one of them",
                       r->row);
        name = r->row;
        f = read_row(r, hash);
        f.name = name;
        *gen_push(r->g, fields) = f;
        lua_pop(r->L, 1);
    }
    lua_pop(r->L, 1);
    r->row = outer;
    r->depth--;
    return fields;
}

Fields *fields_read(Gen *g, lua_State *L, int index, const char *hash, bool plain)
{
    Reader r = {.g = g, .L = L, .row = "fields", .plain = plain};

    return read_rows(&r, lua_absindex(L, index), hash);
}

Kinds kinds_read(Gen *g, lua_State *L, int index)
{
    Reader r = {.g = g, .L = L, .row = "constructors"};
    Kinds kinds = {0};

    index = lua_absindex(L, index);
    for (int i = 1; lua_rawgeti(L, index, i) != LUA_TNIL; i++) {
        Kind k = {0};

        lua_rawgeti(L, -1, 1);
        k.name = r.row = gen_strdup(g, luaL_checkstring(L, -1));
        lua_pop(L, 1);
        k.positional = get_text(&r, "positional");
        k.constant = get_bool(&r, "constant");
        k.later = get_bool(&r, "later");
        lua_getfield(L, -1, "fields");
        k.fields = read_rows(&r, lua_gettop(L), "in");
        lua_pop(L, 1);
        *gen_push(g, &kinds) = k;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return kinds;
}

bool is_identifier(const char *s, size_t n)
{
    static const char *const keywords[] = {
        "and",      "break",  "do",   "else", "elseif", "end",   "false", "for",
        "function", "goto",   "if",   "in",   "local",  "nil",   "not",   "or",
        "repeat",   "return", "then", "true", "until",  "while",
    };

    if (n == 0 || s[0] < 'a' || s[0] > 'z' ||
        n != strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_"))
        return false;
    for (size_t i = 0; i < sizeof keywords / sizeof *keywords; i++)
        if (!strcmp(s, keywords[i]))
            return false;
    return true;
}

bool size_is_written(const char *s)
{
    const char *unit = s + strspn(s, "0123456789.");

    return unit > s && *unit && strchr("BKMGTkmgt", *unit) &&
           strspn(unit, "BKMGTbkmgti") == strlen(unit);
}

int64_t size_parse(const char *s)
{
    static const struct {
        const char *name;
        int64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"KB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"TB", INT64_C(1000000000000)},
        {"KiB", INT64_C(1) << 10},
        {"MiB", INT64_C(1) << 20},
        {"GiB", INT64_C(1) << 30},
        {"TiB", INT64_C(1) << 40},
    };
    int64_t value = 0, scale = 1; /* value / scale, exact as written */

    if (*s < '0' || *s > '9')
        return -1;
    for (bool point = false; (*s >= '0' && *s <= '9') || (*s == '.' && !point); s++) {
        if (value > 100000000 || scale > 100000)
            return -1;
        point = point || *s == '.';
        scale *= point && *s != '.' ? 10 : 1;
        value = *s == '.' ? value : value * 10 + (*s - '0');
    }
    s += *s == ' ';
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcmp(s, units[i].name) && value > 0 &&
            value <= INT64_MAX / units[i].bytes && (scale == 1 || units[i].bytes > 1))
            return value * units[i].bytes >= scale ? value * units[i].bytes / scale : -1;
    return -1;
}

const Field *fields_find(const Fields *f, const char *name)
{
    for (int i = 0; i < f->count; i++)
        if (!strcmp(f->items[i].name, name))
            return &f->items[i];
    return NULL;
}

bool kind_takes_list(const Kind *k)
{
    const Field *f = k->positional ? fields_find(k->fields, k->positional) : NULL;

    return f && f->type == FIELD_LIST;
}

const Kind *kinds_find(const Kinds *k, const char *name)
{
    for (int i = 0; i < k->count; i++)
        if (!strcmp(k->items[i].name, name))
            return &k->items[i];
    return NULL;
}

bool words_have(const Words *w, const char *word)
{
    for (int i = 0; i < w->count; i++)
        if (!strcmp(w->items[i], word))
            return true;
    return false;
}

static const char *join(Gen *g, const Words *w, const char *quote, const char *last)
{
    Text t = {.g = g};

    text_add(&t, "", 0);
    for (int i = 0; i < w->count; i++)
        text_printf(&t, "%s%s%s%s",
                    i == 0              ? ""
                    : i + 1 == w->count ? last
                                        : ", ",
                    quote, w->items[i], quote);
    return t.s;
}

const char *words_join(Gen *g, const Words *w, const char *quote)
{
    return join(g, w, quote, " or ");
}

const char *words_all(Gen *g, const Words *w)
{
    return join(g, w, "", " and ");
}

Words fields_names(Gen *g, const Fields *f)
{
    Words w = {0};

    for (int i = 0; i < f->count; i++)
        *gen_push(g, &w) = f->items[i].name;
    return w;
}
