/* SPDX-License-Identifier: Apache-2.0 */
/* annotations.c: the description language for editors with the Lua language server. In:
 * the table of fields that parses descriptions, the shipped architectures, the rules of
 * ops. Out: annotations (`fsdpgen docs lua`, committed as models/fsdpgen.lua).
 * annotations_graph.c has those for authors of architectures. */
#include "shell/annotations.h"

#include "describe/load.h"

#include <lauxlib.h>
#include <string.h>

/* ---- types ----------------------------------------------------------------------- */

static const char *joined(Gen *g, const char *a, const char *b)
{
    return *a ? gen_printf(g, "%s|%s", a, b) : b;
}

static const char *plain_type(Gen *g, const Field *f, const char *path)
{
    switch (f->type) {
    case FIELD_INT:
        return "integer";
    case FIELD_NUMBER:
        return "number";
    case FIELD_BOOL:
        return "boolean";
    case FIELD_STRING:
        return f->values.count ? "" : "string";
    case FIELD_TABLE:
        return gen_printf(g, "fsdpgen.%s", path);
    case FIELD_MODEL:
        return "fsdpgen.model";
    case FIELD_ANY:
        return f->editor ? f->editor : "any";
    case FIELD_LIST:
    case FIELD_RECORD:
        break;
    }
    return "";
}

/* path: of the class for a table in this field. */
static const char *type_of(Gen *g, const Field *f, const char *path)
{
    const char *type = plain_type(g, f, path), *item;

    for (int i = 0; i < f->values.count; i++)
        type = joined(g, type, gen_printf(g, "\"%s\"", f->values.items[i]));
    for (int i = 0; i < f->kinds.count; i++)
        type = joined(g, type, gen_printf(g, "fsdpgen.%s", f->kinds.items[i]));
    for (int i = 0; i < f->later_kinds.count; i++)
        type = joined(g, type, gen_printf(g, "fsdpgen.%s", f->later_kinds.items[i]));
    if (f->type == FIELD_LIST) {
        item = type_of(g, f->item, path);
        type = gen_printf(g, strchr(item, '|') ? "(%s)[]" : "%s[]", item);
        if (f->alone)
            type = joined(g, type, item);
    }
    if (f->number_sets.count || f->number_makes || f->number)
        type = joined(g, type, "integer");
    if (f->func)
        type = joined(g, type, f->editor ? f->editor : "function");
    return type;
}

/* ---- classes --------------------------------------------------------------------- */

/* given: as a description writes it, with optional fields; else as functions get it,
 * complete except for fields without a default. */
void annotate_fields(Gen *g, Text *t, const Fields *fields, const char *name, bool given)
{
    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];
        const char *path = gen_printf(g, "%s.%s", name, f->name);
        const bool missing = f->optional || (given && f->default_ref != LUA_NOREF);

        text_printf(t, "---@field %s%s %s %s%s\n", f->name, missing ? "?" : "",
                    type_of(g, f, path), f->doc ? f->doc : "",
                    f->later ? " (later)" : "");
    }
}

void annotate_class(Gen *g, Text *t, const Fields *fields, const char *name, bool given)
{
    for (int i = 0; i < fields->count; i++) { /* inner tables are classes too */
        const Field *f = &fields->items[i];
        const Fields *inner = f->fields ? f->fields : f->item ? f->item->fields : NULL;

        if (inner)
            annotate_class(g, t, inner, gen_printf(g, "%s.%s", name, f->name), given);
    }
    text_printf(t, "---@class (exact) fsdpgen.%s\n", name);
    annotate_fields(g, t, fields, name, given);
    text_printf(t, "\n");
}

/* The class of a constructor; unnamed values are at numeric keys. */
static void add_kind(Gen *g, Text *t, const Kind *k)
{
    const Field *f = k->positional ? fields_find(k->fields, k->positional) : NULL;
    Fields fields = *k->fields;

    if (f) { /* it may be unnamed, so it is optional */
        fields.items = gen_alloc(g, sizeof *f * (size_t)fields.count);
        for (int i = 0; i < fields.count; i++) {
            fields.items[i] = k->fields->items[i];
            fields.items[i].optional |= !strcmp(fields.items[i].name, k->positional);
        }
    }
    annotate_class(g, t, &fields, k->name, true);
    if (!f)
        return;
    t->len--; /* the empty line; one is enough */
    if (kind_takes_list(k))
        text_printf(t, "---@field [integer] %s %s\n\n", type_of(g, f->item, k->name),
                    f->doc);
    else
        text_printf(t, "---@field [1]? %s %s\n\n", type_of(g, f, k->name), f->doc);
}

static void add_constructor(Gen *g, Text *t, const Kind *k)
{
    const Field *f = k->positional ? fields_find(k->fields, k->positional) : NULL;

    if (k->constant) {
        text_printf(t, "\n---@type fsdpgen.%s\n%s = {}\n", k->name, k->name);
        return;
    }
    text_printf(t, "\n---@param fields%s fsdpgen.%s", k->fields->count && !f ? "?" : "",
                k->name);
    if (f && !kind_takes_list(k))
        text_printf(t, "|%s", type_of(g, f, k->name));
    text_printf(t, "\n---@return fsdpgen.%s\nfunction %s(fields) end\n", k->name,
                k->name);
}

void docs_lua(Gen *g, Text *t)
{
    const Loader *ld = loader_of(g);
    const Kinds *kinds = &ld->kinds;

    t->g = g;
    text_printf(t,
                "---@meta fsdpgen\n"
                "-- SPDX-License-Identifier: Apache-2.0\n"
                "-- Annotations of the description language for editors (LuaLS). "
                "Written by\n"
                "-- `fsdpgen docs lua` from the tables that parse descriptions: DO NOT "
                "EDIT.\n"
                "-- luacheck: ignore\n\n");
    annotate_graph(g, t);
    annotate_archs(g, t);
    for (int i = 0; i < kinds->count; i++)
        add_kind(g, t, &kinds->items[i]);
    annotate_class(g, t, ld->trainer, "trainer", true);
    text_printf(t, "---@param fields fsdpgen.trainer\n---@return fsdpgen.trainer\n"
                   "function trainer(fields) end\n\n"
                   "---@param fields fsdpgen.arch\n"
                   "---@return fun(dimensions: table): fsdpgen.model\n"
                   "function arch(fields) end\n");
    for (int i = 0; i < kinds->count; i++)
        add_constructor(g, t, &kinds->items[i]);
}
