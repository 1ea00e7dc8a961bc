/* SPDX-License-Identifier: Apache-2.0 */
/* docs_ops.c: the list of all ops. In: their rules. Out: Markdown (`fsdpgen docs ops`), a
 * table for each kind of op. */
#include "shell/shell.h"

#include "base/show.h"
#include "ops/ops.h"

#include <string.h>

typedef enum { WITH_GRADIENT, FUSED, WITHOUT_GRADIENT, OPTIMIZER, N_KINDS } OpKind;

static const char *const headings[N_KINDS] = {
    [WITH_GRADIENT] = "Ops with a gradient",
    [FUSED] = "Fused ops, which take the place of others",
    [WITHOUT_GRADIENT] =
        "Ops without a gradient: of backward graphs, setup and evaluation",
    [OPTIMIZER] = "Ops of optimizers",
};

static OpKind kind_of(const OpRule *op)
{
    if (op->optimizer)
        return OPTIMIZER;
    if (op->fused)
        return FUSED;
    return op->info->has_backward ? WITH_GRADIENT : WITHOUT_GRADIENT;
}

/* A cell of a table, where a bar would end it. */
static void add_cell(Text *t, const char *s)
{
    for (; *s; s++)
        text_printf(t, "%s%c", *s == '|' ? "\\" : "", *s);
}

static const char *doc_of(Gen *g, const OpRule *op)
{
    const char *doc = "";

    lua_rawgeti(g->L, LUA_REGISTRYINDEX, op->lua_ref);
    if (lua_getfield(g->L, -1, "doc") == LUA_TSTRING)
        doc = gen_strdup(g, lua_tostring(g->L, -1));
    lua_pop(g->L, 2);
    return doc;
}

/* "`x [t, 2*f]`"; "`y`": its shape follows from attributes. */
static void add_operands(Text *t, const Operand *list, int n)
{
    for (int i = 0; i < n; i++) {
        text_printf(t, "%s`%s", i ? ", " : "", list[i].name);
        if (*list[i].dims) {
            text_printf(t, " [");
            for (const char *p = list[i].dims; *p; p++)
                text_printf(t, *p == ' ' ? ", " : "%c", *p);
            text_printf(t, "]");
        }
        if (!strcmp(list[i].dtype, "i32") || !strcmp(list[i].dtype, "fp8"))
            text_printf(t, " %s", list[i].dtype);
        text_printf(t, list[i].optional ? "?`" : "`");
    }
}

static void add_attrs(Gen *g, Text *t, const OpInfo *info)
{
    for (int i = 0; i < info->n_attrs; i++) {
        const AttrSpec *a = &info->attrs[i];

        text_printf(t, "%s`", i ? ", " : "");
        if (a->has_default && !a->from && a->type == ATTR_NUM)
            text_printf(t, "%s=%s", a->key, show_number(g, a->dflt.num));
        else if (a->has_default && !a->from)
            add_cell(t, attr_text(g, &a->dflt));
        else
            text_printf(t, "%s", a->key);
        text_printf(t, a->from ? "` (the model's)" : "`");
    }
}

static const char *targets(Gen *g, const OpRule *op)
{
    bool cpu = ops_has_template(g, op, "cpu.c");

    if (ops_has_template(g, op, "cuda.cu"))
        return cpu ? "cpu, cuda" : "cuda";
    return op->fused ? "cpu, cuda (expanded)" : "cpu";
}

static void add_op(Gen *g, Text *t, const OpRule *op)
{
    text_printf(t, "| `%s` | ", op->name);
    add_cell(t, doc_of(g, op));
    text_printf(t, " | ");
    add_operands(t, op->in, op->n_in);
    text_printf(t, " | ");
    add_operands(t, op->out, op->n_out);
    text_printf(t, " | ");
    add_attrs(g, t, op->info);
    text_printf(t, " | %s |\n", targets(g, op));
}

void docs_ops(Gen *g, Text *t)
{
    t->g = g;
    for (OpKind kind = 0; kind < N_KINDS; kind++) {
        text_printf(t, "%s## %s\n\n", kind ? "\n" : "", headings[kind]);
        text_printf(t, "| op | computes | takes | makes | attributes | targets |\n"
                       "|---|---|---|---|---|---|\n");
        for (int i = 0; i < g->ops.count; i++)
            if (!g->ops.items[i].info->form_of && !g->ops.items[i].collective &&
                kind_of(&g->ops.items[i]) == kind)
                add_op(g, t, &g->ops.items[i]);
    }
}
