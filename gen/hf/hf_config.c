/* SPDX-License-Identifier: Apache-2.0 */
/* hf_config.c: the config.json of checkpoints, which makes them Hugging Face models.
 *
 * In: the architecture's config (check), checkpoint.config and checkpoint.class; blocks
 * and parameters (graph). Out: Model.config_json, config_names, config_checked,
 * config_says. Breaks: nothing.
 *
 * transformers takes the class in `auto_map`, or else its own class for `model_type`. A
 * class that `fsdpgen import` knows must compute this graph (hf_check.c); about others
 * the plan says that they were not checked. */
#include "hf/hf.h"
#include "base/sandbox.h"
#include "base/show.h"
#include "describe/load.h"
#include "ops/ops.h"

#include <lauxlib.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- its text -------------------------------------------------------------------- */

/* The shortest text that reads back as x, with a point or an exponent. */
static const char *json_number(Gen *g, double x)
{
    const char *s;

    if (x == floor(x) && fabs(x) < 1e15)
        return gen_printf(g, "%.1f", x);
    s = show_number(g, x);
    return gen_printf(g, "%s%s", s, strpbrk(s, ".e") ? "" : ".0");
}

static bool is_plain(const char *s)
{
    if (strstr(s, "${")) /* of templates */
        return false;
    for (; *s; s++)
        if (*s < 32 || *s > 126 || *s == '"' || *s == '\\')
            return false;
    return true;
}

static bool put_json(Gen *g, Text *t, int indent);

/* The list on top of the stack: of { key, value } an object, of strings an array; an
 * empty one is null. */
static bool put_list(Gen *g, Text *t, int indent)
{
    lua_State *L = g->L;
    lua_Integer n = sandbox_length(L, -1);
    bool object = n > 0 && lua_rawgeti(L, -1, 1) == LUA_TTABLE, ok = true;

    if (n == 0) {
        text_printf(t, "null");
        return true;
    }
    lua_pop(L, 1);
    text_printf(t, "%s\n", object ? "{" : "[");
    for (lua_Integer i = 1; ok && i <= n; i++) {
        text_printf(t, "%*s", indent + 2, "");
        lua_rawgeti(L, -1, i);
        if (object) {
            ok = lua_istable(L, -1) && lua_rawgeti(L, -1, 1) == LUA_TSTRING &&
                 is_plain(lua_tostring(L, -1));
            if (!ok)
                return false;
            text_printf(t, "\"%s\": ", lua_tostring(L, -1));
            lua_pop(L, 1);
            lua_rawgeti(L, -1, 2);
            lua_remove(L, -2);
        }
        ok = put_json(g, t, indent + 2);
        lua_pop(L, 1);
        text_printf(t, "%s\n", i < n ? "," : "");
    }
    text_printf(t, "%*s%s", indent, "", object ? "}" : "]");
    return ok;
}

static bool put_json(Gen *g, Text *t, int indent)
{
    lua_State *L = g->L;

    switch (lua_type(L, -1)) {
    case LUA_TBOOLEAN:
        text_printf(t, "%s", lua_toboolean(L, -1) ? "true" : "false");
        return true;
    case LUA_TSTRING:
        text_printf(t, "\"%s\"", lua_tostring(L, -1));
        return is_plain(lua_tostring(L, -1));
    case LUA_TNUMBER:
        if (lua_isinteger(L, -1))
            text_printf(t, "%lld", (long long)lua_tointeger(L, -1));
        else
            text_printf(t, "%s", json_number(g, lua_tonumber(L, -1)));
        return isfinite(lua_tonumber(L, -1));
    case LUA_TTABLE:
        return indent < 40 && put_list(g, t, indent);
    default:
        return false;
    }
}

/* What the architecture may know of the trainer beyond its own fields. */
static void push_trainer(Gen *g)
{
    static const char *const names[][2] = {
        {"f32", "float32"}, {"f64", "float64"}, {"bf16", "bfloat16"}, {"f16", "float16"}};
    lua_State *L = g->L;

    lua_newtable(L);
    for (int i = 0; i < 4; i++) {
        if (strcmp(names[i][0], dtype_name(g->model.param_dtype)))
            continue;
        lua_pushstring(L, names[i][1]);
        lua_setfield(L, -2, "dtype");
    }
    if (g->model.packed) {
        lua_pushinteger(L, g->model.document_end);
        lua_setfield(L, -2, "document_end");
    }
}

/* Does the list on top of the stack begin with a list? */
static bool is_object(lua_State *L)
{
    bool object = false;

    if (lua_istable(L, -1)) {
        object = lua_rawgeti(L, -1, 1) == LUA_TTABLE;
        lua_pop(L, 1);
    }
    return object;
}

/* Writes the value on top of the stack. false: no config.json, with a message. */
static bool put_config(Gen *g, Text *t)
{
    if (is_object(g->L) && put_list(g, t, 0)) {
        text_printf(t, "\n");
        return true;
    }
    diag_add(g, DIAG_ERROR, model_pos(g, "model"),
             "return a list of { key, value }; values: plain strings, numbers, "
             "booleans, lists of strings, such lists again; {} as a value is "
             "null; where Hugging Face has no such model, return nil",
             "arch %s: what config returned is not a config.json", g->model.arch);
    return false;
}

/* Pushes { key, value }; the value is on top of the stack and is consumed. */
static void push_pair(lua_State *L, const char *key)
{
    lua_createtable(L, 2, 0);
    lua_pushstring(L, key);
    lua_rawseti(L, -2, 1);
    lua_insert(L, -2);
    lua_rawseti(L, -2, 2);
}

/* Makes the list on top of the stack name the class: its first two pairs become
 * architectures and auto_map. */
static void name_class(lua_State *L, const char *class)
{
    int list = lua_gettop(L);
    lua_Integer kept = 2, n = sandbox_length(L, list);

    lua_newtable(L);
    lua_newtable(L);
    lua_pushstring(L, strchr(class, '.') + 1);
    lua_rawseti(L, -2, 1);
    push_pair(L, "architectures");
    lua_rawseti(L, list + 1, 1);
    lua_newtable(L);
    lua_pushstring(L, class);
    push_pair(L, "AutoModelForCausalLM");
    lua_rawseti(L, -2, 1);
    push_pair(L, "auto_map");
    lua_rawseti(L, list + 1, 2);
    for (lua_Integer i = 1; i <= n; i++) {
        const char *key = NULL;

        lua_rawgeti(L, list, i);
        if (lua_istable(L, -1)) {
            lua_rawgeti(L, -1, 1);
            key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
            lua_pop(L, 1);
        }
        if (key && (!strcmp(key, "architectures") || !strcmp(key, "auto_map")))
            lua_pop(L, 1);
        else
            lua_rawseti(L, list + 1, ++kept);
    }
    lua_replace(L, list);
}

/* The architecture's config(m, t) returns a list of { key, value }, or nil if Hugging
 * Face has no such model. Returns the text, or NULL. */
static const char *config_text(Gen *g)
{
    lua_State *L = g->L;
    Text t = {.g = g};
    bool put = false;

    lua_rawgeti(L, LUA_REGISTRYINDEX, g->model.config_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, g->model.model_ref);
    push_trainer(g);
    if (sandbox_status(L, lua_pcall(L, 2, 1, 0)) != LUA_OK) {
        loader_lua_error(g, "model", model_pos(g, "model"));
        return NULL;
    }
    if (!lua_isnil(L, -1)) {
        if (g->model.config_class && is_object(L))
            name_class(L, g->model.config_class);
        put = put_config(g, &t);
    }
    lua_pop(L, 1);
    return put ? t.s : NULL;
}

/* ---- the class that it names ----------------------------------------------------- */

/* Reports that the architecture's config.json is invalid. */
__attribute__((format(printf, 3, 4))) static void complain(Gen *g, const char *help,
                                                           const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    diag_add(g, DIAG_ERROR, model_pos(g, "model"), help, "%s", gen_vprintf(g, fmt, ap));
    va_end(ap);
}

/* Ops of the graph that --ops replaced: they are assumed to compute the same as ours. */
static const char *replaced_ops(Gen *g)
{
    Words words = {0};

    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++) {
            const OpRule *op = g->classes.items[i]->nodes.items[k]->op;

            if (!words_have(&words, op->name) && ops_foreign(g, op) &&
                embed_find(gen_printf(g, "templates/ops/%s/op.lua", op->name)))
                *gen_push(g, &words) = op->name;
        }
    return words.count ? words_join(g, &words, "") : NULL;
}

static void check_class(Gen *g, const Family *family, const char *named)
{
    Model *m = &g->model;
    const char *class = family->class_name, *problem, *replaced;
    Gen *reference;

    if (named && strcmp(named, class) != 0) {
        complain(g,
                 gen_printf(g,
                            "write { \"architectures\", { \"%s\" } }, or name a class of "
                            "your own: checkpoint = { class = \"modeling_mine.%s\" }",
                            class, named),
                 "config.json: it names %s, but transformers loads model_type \"%s\" as "
                 "%s",
                 named, family->model_type, class);
        return;
    }
    reference = hf_reference(g, m->config_json, &problem);
    if (!reference) {
        complain(g,
                 "mend config(m, t) of the architecture, or write it as it is: "
                 "checkpoint = { config = \"unchecked\" }",
                 "config.json: what %s computes for it is not known here: %s", class,
                 problem);
        return;
    }
    hf_compare(g, reference, class);
    replaced = replaced_ops(g);
    m->config_names = class;
    m->config_checked = true;
    m->config_says =
        replaced ? gen_printf(g,
                              "%s; it computes this graph if %s of --ops computes what "
                              "ours does",
                              class, replaced)
                 : gen_printf(g, "%s, which computes this graph", class);
}

/* The text of a member; NULL if it is missing or not a text. */
static const char *text_of(Gen *g, const json_t *v)
{
    return json_is_string(v) ? gen_strdup(g, json_string_value(v)) : NULL;
}

static void check_config(Gen *g, const json_t *root)
{
    Model *m = &g->model;
    const char *own = text_of(
        g, json_object_get(json_object_get(root, "auto_map"), "AutoModelForCausalLM"));
    const char *type = text_of(g, json_object_get(root, "model_type"));
    const char *named =
        text_of(g, json_array_get(json_object_get(root, "architectures"), 0));
    const Family *family = type ? hf_family(type) : NULL;

    if (!own && !named && !family) {
        complain(g,
                 "give it { \"architectures\", { \"LlamaForCausalLM\" } } and { "
                 "\"model_type\", \"llama\" }, or those of your class",
                 "config.json: it names no class: architectures is missing");
        return;
    }
    m->config_names = own ? own : named ? named : family->class_name;
    if (m->config_use == CONFIG_UNCHECKED)
        m->config_says =
            gen_printf(g, "%s, unchecked: checkpoint.config says so", m->config_names);
    else if (own)
        m->config_says = gen_printf(
            g, "%s, a class of your own: what it computes is not checked", own);
    else if (family)
        check_class(g, family, named);
    else
        m->config_says = gen_printf(
            g, "%s, which fsdpgen does not know: what it computes is not checked", named);
}

/* ---- the pass -------------------------------------------------------------------- */

/* Why checkpoints have no config.json; NULL: config_json is set, or there is a
 * message. */
static const char *why_none(Gen *g)
{
    Model *m = &g->model;
    const bool has = m->config_ref != LUA_NOREF;

    if (m->config_use == CONFIG_NONE)
        return "checkpoint.config says so";
    m->config_json = has ? config_text(g) : NULL;
    if (m->config_json || diag_errors(g))
        return NULL;
    if (m->config_class)
        diag_add(
            g, DIAG_ERROR, model_pos(g, "checkpoint.class"),
            has ? "leave it out, or let its config(m, t) return a list"
                : "give arch { ... } config = function(m, t) return { { key, value }, "
                  "... } end",
            "checkpoint.class: the architecture %s %s no config.json that could name "
            "it",
            m->arch, has ? "returns" : "writes");
    return gen_printf(g,
                      has ? "the architecture %s says that Hugging Face has no such model"
                          : "the architecture %s writes none",
                      m->arch);
}

void config_make(Gen *g)
{
    Model *m = &g->model;
    const char *why = why_none(g);
    json_error_t error;
    json_t *root;

    if (why)
        m->config_says = gen_printf(g, "none: %s", why);
    if (!m->config_json)
        return;
    root = json_loads(m->config_json, JSON_REJECT_DUPLICATES, &error);
    if (root)
        check_config(g, root);
    else
        complain(g, "give each key once",
                 "arch %s: what config returned is not a"
                 " config.json: %s",
                 m->arch, error.text);
    json_decref(root);
}

void config_dump(Gen *g, Text *t)
{
    text_printf(t, "config.json: %s\n%s", g->model.config_says,
                g->model.config_json ? g->model.config_json : "");
}
