/* SPDX-License-Identifier: Apache-2.0 */
/* docs.c: the reference of the description language. In: the fields that also drive the
 * parser. Out: Markdown for docs/reference.md (`fsdpgen docs`). shell/annotations.c makes
 * the annotations for editors. */
#include "describe/load.h"

#include <lauxlib.h>
#include <string.h>

/* ---- words ----------------------------------------------------------------------- */

static void add_range(Text *t, const Field *f)
{
    const char *comma = f->has_min || f->has_above ? "," : "";
    const int digits = f->type == FIELD_INT ? 16 : 14; /* integers have all of theirs */

    if (f->power_of_two)
        text_printf(t, " power of two");
    if (f->has_min)
        text_printf(t, " ≥ %.*g", digits, f->min);
    if (f->has_above)
        text_printf(t, " > %.*g", digits, f->above);
    if (f->has_max)
        text_printf(t, "%s ≤ %.*g", comma, digits, f->max);
    if (f->has_below)
        text_printf(t, "%s < %.*g", comma, digits, f->below);
}

static const char *default_text(Gen *g, const Field *f)
{
    const char *s;

    if (f->default_text)
        return f->default_text;
    if (f->default_ref == LUA_NOREF)
        return f->optional ? "none" : NULL;
    if (f->type == FIELD_TABLE)
        return NULL; /* its fields have ranges of their own */
    lua_rawgeti(g->L, LUA_REGISTRYINDEX, f->default_ref);
    if (f->type == FIELD_RECORD) {
        s = gen_printf(g, "`%s`", lua_tostring(g->L, -1));
    } else if (lua_istable(g->L, -1)) { /* a list */
        Text t = {.g = g};

        for (int i = 1; i <= (int)lua_rawlen(g->L, -1); i++) {
            lua_rawgeti(g->L, -1, i);
            text_printf(&t, "%s%s", i == 1 ? "`{ " : ", ", check_show(g, -1));
            lua_pop(g->L, 1);
        }
        text_printf(&t, " }`");
        s = t.s;
    } else if (lua_isfunction(g->L, -1)) {
        s = "computed";
    } else {
        s = gen_printf(g, "`%s`", check_show(g, -1));
    }
    lua_pop(g->L, 1);
    return s;
}

static void add_kind(Text *t, const Kind *k)
{
    text_printf(t, "`%s%s`", k->name,
                k->constant          ? ""
                : kind_takes_list(k) ? gen_printf(t->g, " { %s }", k->positional)
                : k->positional      ? gen_printf(t->g, "(%s)", k->positional)
                                     : " { ... }");
    if (k->later)
        text_printf(t, " (later)");
}

/* ---- Markdown -------------------------------------------------------------------- */

static void add_values(Gen *g, Text *t, const Field *f, const Kinds *kinds)
{
    const char *type[] = {"integer", "number", "`true`, `false`", "text", "table",
                          "list",    "",       "architecture",    "any"};

    if (f->only_ref != LUA_NOREF) {
        lua_rawgeti(g->L, LUA_REGISTRYINDEX, f->only_ref);
        text_printf(t, "`%s`; others later", check_show(g, -1));
        lua_pop(g->L, 1);
        return;
    }
    for (int i = 0; i < f->values.count; i++)
        text_printf(t, "%s`\"%s\"`%s", i ? ", " : "", f->values.items[i],
                    words_have(&f->later_values, f->values.items[i]) ? " (later)" : "");
    for (int i = 0; i < f->kinds.count; i++) {
        text_printf(t, "%s", i || f->values.count ? ", " : "");
        add_kind(t, kinds_find(kinds, f->kinds.items[i]));
    }
    for (int i = 0; i < f->later_kinds.count; i++) {
        text_printf(t, ", ");
        add_kind(t, kinds_find(kinds, f->later_kinds.items[i]));
    }
    if (!f->values.count && !f->kinds.count)
        text_printf(t, "%s", f->size ? "size: `\"8GiB\"`" : type[f->type]);
    if (f->type == FIELD_LIST && f->count)
        text_printf(t, " of %d", (int)f->count);
    if (f->type == FIELD_LIST && !f->count)
        text_printf(
            t, f->item->type == FIELD_ANY ? " of texts or of lists of texts" : " of %ss",
            type[f->item->type]);
    if (f->alone)
        text_printf(t, ", or one alone");
    if (f->pattern)
        text_printf(t, ": %s", f->pattern_doc ? f->pattern_doc : "");
    if (f->number)
        text_printf(t, ", %s", f->number);
    add_range(t, f);
    if (f->number_makes)
        text_printf(t, "; a number means `%s`", f->number_makes);
    for (int i = 0; i < f->number_sets.count; i++)
        text_printf(t, "%s`%s`", i ? " and " : "; a number sets ",
                    f->number_sets.items[i]);
    if (f->func)
        text_printf(t, "; %s", f->func);
    if (f->later_number)
        text_printf(t, "; %s (later)", f->later_number);
    if (f->later_function)
        text_printf(t, "; %s (later)", f->later_function);
}

static const char *hash_text(const Field *f)
{
    return !strcmp(f->hash, "none") ? "–" : f->hash;
}

static void add_rows(Gen *g, Text *t, const Fields *fields, const char *path,
                     const Kinds *kinds, bool hash)
{
    for (int i = 0; i < fields->count; i++) {
        const Field *f = &fields->items[i];
        const char *full = *path ? gen_printf(g, "%s.%s", path, f->name) : f->name;
        const char *def = default_text(g, f);

        text_printf(t, "| `%s` | ", full);
        if (f->later)
            text_printf(t, "later");
        else
            add_values(g, t, f, kinds);
        text_printf(t, " | %s |",
                    f->later                 ? ""
                    : def                    ? def
                    : f->type == FIELD_TABLE ? ""
                                             : "required");
        if (hash)
            text_printf(t, " %s |", hash_text(f));
        text_printf(t, " %s |\n", f->doc ? f->doc : "");
        if (f->fields)
            add_rows(g, t, f->fields, full, kinds, hash);
        if (f->item && f->item->fields)
            add_rows(g, t, f->item->fields, gen_printf(g, "%s[i]", full), kinds, hash);
    }
}

void docs_markdown(Gen *g, Text *t, const Fields *trainer, const Kinds *kinds,
                   const Fields *machines)
{
    text_printf(t, "### `trainer { ... }`\n\n"
                   "| field | values | default | hash | what it is |\n"
                   "|---|---|---|---|---|\n");
    add_rows(g, t, trainer, "", kinds, true);
    for (int i = 0; i < kinds->count; i++) {
        const Kind *k = &kinds->items[i];

        if (!k->fields->count)
            continue;
        text_printf(t, "\n### ");
        add_kind(t, k);
        text_printf(t,
                    "\n\n| field | values | default | what it is |\n|---|---|---|---|\n");
        add_rows(g, t, k->fields, "", kinds, false);
    }
    text_printf(t, "\n### A file of `--machines`\n\n"
                   "| field | values | default | what it is |\n|---|---|---|---|\n");
    add_rows(g, t, machines, "", kinds, false);
}
