/* SPDX-License-Identifier: Apache-2.0 */
/* annotations_graph.c: annotations for authors of architectures. In: the rules of ops,
 * the shipped architectures. Out: classes of values, of each op's call, of the builders
 * `g` and `b`, of each architecture's dimensions. The members of g and b are defined in C
 * (graph/builder.c) and repeated here in words. */
#include "shell/annotations.h"

#include "describe/load.h"
#include "ops/ops.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

static const char before_ops[] =
    "---@class (exact) fsdpgen.value  what an op of the graph computes\n"
    "---@field name string\n"
    "---@field dtype string\n"
    "---@field shape integer[]\n\n"
    "---@class (exact) fsdpgen.param\n"
    "---@field [1] string|integer[] its name in the block; or, with `global`, its dims\n"
    "---@field [2]? integer[] its dims, where a name is given\n"
    "---@field global? string the whole name, of a parameter that blocks share\n"
    "---@field init? \"normal\"|\"zeros\"|\"ones\" its initial values\n"
    "---@field std? number spread of `normal`\n"
    "---@field decay? boolean weight decay: of matrices unless it says otherwise\n"
    "---@field parts? fsdpgen.part[] tensors of a checkpoint that are its rows, in "
    "order\n"
    "---@field cut? \"rows\"|\"columns\"|fsdpgen.mark how parts.tensor cuts it\n\n"
    "---@class (exact) fsdpgen.mark\n"
    "---@field [1] \"rows\"|\"columns\"\n"
    "---@field unit? integer rows or columns that stay together: a head's\n"
    "---@field sections? integer[] sizes of what lies side by side, each of which is "
    "cut\n"
    "---@field pad? boolean rows of zeros may follow, so that parts are equal: a "
    "vocabulary\n"
    "---@field of? string|string[] the model's field that is the number of units, or "
    "one for each section\n\n"
    "---@class (exact) fsdpgen.part\n"
    "---@field [1] string name\n"
    "---@field [2] integer rows\n\n"
    "---@class (exact) fsdpgen.block  what a wrap function is asked about\n"
    "---@field name string\n"
    "---@field class string\n"
    "---@field index integer from 1\n"
    "---@field blocks integer of the model\n"
    "---@field params integer elements\n"
    "---@field pieces fsdpgen.piece[]\n\n"
    "---@class (exact) fsdpgen.piece\n"
    "---@field name string\n"
    "---@field params integer elements\n\n";

static const char after_ops[] =
    "---@field param fun(self: fsdpgen.g, spec: fsdpgen.param): fsdpgen.value declares a "
    "parameter\n"
    "---@field cut fun(self: fsdpgen.g, name: string) a piece of the block begins\n"
    "---@field tokens fun(self: fsdpgen.g): fsdpgen.value token ids\n"
    "---@field targets fun(self: fsdpgen.g): fsdpgen.value ids to be predicted\n"
    "---@field starts fun(self: fsdpgen.g): fsdpgen.value? where each token's document "
    "begins; nil without `documents`\n\n"
    "---@class (exact) fsdpgen.b  builds the blocks of a model, in order\n"
    "---@field block fun(self: fsdpgen.b, name: string, class: string, prefix: string, "
    "build: (fun(g: fsdpgen.g, x: fsdpgen.value): fsdpgen.value), x?: fsdpgen.value): "
    "fsdpgen.value\n\n";

static const char *attr_type(const AttrSpec *a)
{
    switch (a->type) {
    case ATTR_INT:
        return "integer";
    case ATTR_NUM:
        return "number";
    case ATTR_STR:
        return "string";
    default:
        return "boolean";
    }
}

static void add_call(Text *t, const OpRule *op)
{
    text_printf(t, "---@class (exact) fsdpgen.op.%s\n", op->name);
    for (int i = 0; i < op->n_in; i++)
        text_printf(t, "---@field [%d]%s fsdpgen.value %s\n", i + 1,
                    op->in[i].optional ? "?" : "", op->in[i].name);
    for (int i = 0; i < op->info->n_attrs; i++) {
        const AttrSpec *a = &op->info->attrs[i];

        text_printf(t, "---@field %s%s %s\n", a->key,
                    a->has_default || a->from ? "?" : "", attr_type(a));
    }
    text_printf(t, "---@field name? string of the value\n\n");
}

void annotate_graph(Gen *g, Text *t)
{
    text_printf(t, "%s", before_ops);
    for (int i = 0; i < g->ops.count; i++)
        if (!g->ops.items[i].optimizer && !g->ops.items[i].collective)
            add_call(t, &g->ops.items[i]);
    text_printf(t, "---@class (exact) fsdpgen.g  builds the graph of a block\n");
    for (int i = 0; i < g->ops.count; i++) {
        const OpRule *op = &g->ops.items[i];

        if (op->optimizer || op->collective)
            continue;
        text_printf(t, "---@field %s fun(call: fsdpgen.op.%s): fsdpgen.value", op->name,
                    op->name);
        for (int k = 1; k < op->n_out; k++)
            text_printf(t, ", fsdpgen.value");
        text_printf(t, "\n");
    }
    text_printf(t, "%s", after_ops);
}

/* ---- architectures --------------------------------------------------------------- */

static const char arch_class[] =
    "---@class fsdpgen.model  what an architecture returns for its dimensions\n\n"
    "---@class fsdpgen.row  a field of an architecture: { name, type, attributes }\n"
    "---@field [1] string name\n"
    "---@field [2] \"int\"|\"number\"|\"bool\"|\"string\"|\"table\"|\"list\" type\n"
    "---@field doc? string\n"
    "---@field default? any a value, or a function of the fields above it\n"
    "---@field default_text? string a computed default in words\n"
    "---@field optional? boolean it may be missing\n"
    "---@field min? number\n"
    "---@field max? number\n"
    "---@field above? number exclusive\n"
    "---@field below? number exclusive\n"
    "---@field values? string[] words that are legal\n"
    "---@field fields? fsdpgen.row[] of a table\n"
    "---@field item? fsdpgen.row of a list\n\n"
    "---@class (exact) fsdpgen.arch\n"
    "---@field name string\n"
    "---@field doc? string\n"
    "---@field fields fsdpgen.row[]\n"
    "---@field values? table names reachable through the architecture\n"
    "---@field check? fun(m: table, fail: fun(path: string, problem: string, help?: "
    "string))\n"
    "---@field build fun(m: table, b: fsdpgen.b)\n"
    "---@field config? fun(m: table, t: fsdpgen.config): table? config.json, its keys in "
    "order; nil: none\n\n"
    "---@class (exact) fsdpgen.config\n"
    "---@field dtype string as config.json names it\n"
    "---@field document_end? integer\n\n";

/* The class of fields that has the keys of the value on top of the stack; or NULL. */
static const char *class_of(Gen *g, const Fields *fields, const char *name)
{
    lua_State *L = g->L;
    bool all = true;

    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        all = all && lua_type(L, -2) == LUA_TSTRING &&
              fields_find(fields, lua_tostring(L, -2));
    if (all)
        return gen_printf(g, "fsdpgen.%s", name);
    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];
        const char *found =
            f->fields ? class_of(g, f->fields, gen_printf(g, "%s.%s", name, f->name))
                      : NULL;

        if (found)
            return found;
    }
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names reachable through the architecture, whose table is on top of the stack. */
static void add_values(Gen *g, Text *t, const Fields *fields, const char *dims)
{
    lua_State *L = g->L;
    OptionList names = {0};

    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1))
        if (lua_type(L, -2) == LUA_TSTRING)
            *gen_push(g, &names) = gen_strdup(g, lua_tostring(L, -2));
    if (names.count)
        qsort(names.items, (size_t)names.count, sizeof *names.items, by_name);
    for (int i = 0; i < names.count; i++) {
        const char *type = "any";

        if (lua_getfield(L, -1, names.items[i]) == LUA_TTABLE)
            type = class_of(g, fields, dims);
        text_printf(t, "---@field %s %s\n", names.items[i], type ? type : "table");
        lua_pop(L, 1);
    }
}

static void add_arch(Gen *g, Text *t, const char *module)
{
    lua_State *L = g->L;
    const Tag *tag;
    const char *dims, *m;
    int top = lua_gettop(L);

    lua_rawgeti(L, LUA_REGISTRYINDEX, g->loader->env_ref);
    lua_getfield(L, -1, "require");
    lua_pushstring(L, module);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK)
        gen_die("%s: %s", module, lua_tostring(L, -1));
    tag = record_tag(g, -1);
    gen_require(tag && tag->arch, "%s is not an architecture", module);
    dims = gen_printf(g, "%s.dimensions", tag->name);
    m = gen_printf(g, "%s.m", tag->name);
    annotate_class(g, t, tag->arch->fields, dims, true);
    annotate_class(g, t, tag->arch->fields, m, false);
    t->len--; /* the empty line; then what build needs from the trainer: */
    text_printf(t, "---@field seq integer the trainer's\n"
                   "---@field micro_batch integer the trainer's\n"
                   "---@field loss_chunk_tokens integer the trainer's\n\n");
    text_printf(t, "---@class fsdpgen.%s\n", tag->name);
    add_values(g, t, tag->arch->fields, dims);
    text_printf(t, "---@overload fun(dimensions: fsdpgen.%s): fsdpgen.model\n\n", dims);
    lua_settop(L, top);
}

void annotate_archs(Gen *g, Text *t)
{
    text_printf(t, "%s", arch_class);
    g->loader->folder = "/dev/null";
    g->loader->env_ref = record_push_env(g);
    for (int i = 0; i < embedded_count; i++) {
        const char *path = embedded_files[i].path, *prefix = "models/arch/";
        const size_t n = strlen(prefix), all = strlen(path);

        if (!strncmp(path, prefix, n))
            add_arch(
                g, t,
                gen_printf(g, "arch.%.*s", (int)(all - n - strlen(".lua")), path + n));
    }
}
