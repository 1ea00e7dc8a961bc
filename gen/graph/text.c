/* SPDX-License-Identifier: Apache-2.0 */
/* text.c: the graph as --dump prints it. In: the graph. Out: text. Changes nothing. */
#include "graph/graph.h"
#include "base/show.h"

#include <string.h>

const char *phase_name(Phase phase)
{
    static const char *const names[] = {"setup", "forward", "backward", "recompute",
                                        "evaluate"};
    return names[phase];
}

/* Of a graph in parts: what a part has of the value, along each axis that has parts. */
static void put_part(Gen *g, Text *t, const PartState part[N_PARTS_AXES])
{
    const char *before = " <";

    for (int a = 0; g->in_parts && a < N_PARTS_AXES; a++) {
        if (g->model.parts[a] == 1)
            continue;
        text_printf(t, "%s%s", before, part_text(g, &part[a]));
        before = ", ";
    }
    text_printf(t, "%s", g->in_parts ? ">" : "");
}

static void put_value(Gen *g, Text *t, const Value *v)
{
    text_printf(t, "%s %s %s", v->name, dtype_name(v->dtype), shape_text(g, v));
    put_part(g, t, v->part);
}

static void put_node(Gen *g, Text *t, const Node *n)
{
    text_printf(t, "    ");
    for (int i = 0; i < n->n_out; i++) {
        text_printf(t, "%s", i ? ", " : "");
        put_value(g, t, n->out[i]);
        if (n->add[i])
            text_printf(t, " (adds)");
    }
    text_printf(t, " = %s(", n->op->name);
    for (int i = 0, at = 0; i < n->n_in; i++, at++) {
        for (; at < operand_index(n, i); at++)
            text_printf(t, "%s-", at ? ", " : "");
        text_printf(t, "%s%s", at ? ", " : "", n->in[i]->name);
    }
    text_printf(t, ")");
    for (int i = 0; i < n->n_attrs; i++)
        if (!attr_silent(n->op, &n->attrs[i]))
            text_printf(t, " %s", attr_text(g, &n->attrs[i]));
    text_printf(t, "  flops %.0f\n", n->flops);
    if (!n->n_replaced)
        return;
    text_printf(t, "      replaces");
    for (int i = 0; i < n->n_replaced; i++)
        text_printf(t, " %s", n->replaced[i]->op->name);
    text_printf(t, "\n");
}

static void put_params(Gen *g, Text *t, const Class *c)
{
    for (int i = 0; i < c->params.count; i++) {
        const ClassParam *p = &c->params.items[i];
        Value shape = {.n_dims = p->n_dims};

        memcpy(shape.dim, p->dim, sizeof p->dim);
        text_printf(t, "  param %s %s", p->name, shape_text(g, &shape));
        put_part(g, t, p->mark);
        text_printf(t, " init %s", p->init);
        if (!strcmp(p->init, "normal"))
            text_printf(t, " std %s", show_number(g, p->init_std));
        text_printf(t, "%s%s%s", p->decay ? " decay" : "",
                    p->tied_global ? " global" : "", p->frozen ? " frozen" : "");
        if (p->gathered != p->dtype)
            text_printf(t, " gathered %s", dtype_name(p->gathered));
        text_printf(t, "\n");
        for (int k = 0; k < p->n_parts; k++)
            text_printf(t, "    part %s %lld rows\n", p->part_name[k],
                        (long long)p->part_rows[k]);
    }
}

static void put_boundary(Gen *g, Text *t, const char *what, Value *const *v, int n)
{
    for (int i = 0; v && i < n; i++) {
        if (!v[i])
            continue;
        text_printf(t, "  %s ", what);
        put_value(g, t, v[i]);
        text_printf(t, "\n");
    }
}

static void put_class(Gen *g, Text *t, const Class *c)
{
    int blocks = 0;

    for (int i = 0; i < g->blocks.count; i++)
        blocks += g->blocks.items[i].cls == c;
    text_printf(t, "class %s: %d block%s\n", c->name, blocks, blocks == 1 ? "" : "s");
    put_params(g, t, c);
    put_boundary(g, t, "takes", c->inputs, c->n_inputs);
    put_boundary(g, t, "returns", c->outputs, c->n_outputs);
    if (c->loss)
        text_printf(t, "  loss %s\n", c->loss->name);
    put_boundary(g, t, "takes", c->d_outputs, c->n_outputs);
    put_boundary(g, t, "returns", c->d_inputs, c->n_inputs);
    for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD; phase++) {
        bool any = false;

        for (int i = 0; i < c->nodes.count; i++) {
            if (c->nodes.items[i]->phase != (Phase)phase)
                continue;
            if (!any)
                text_printf(t, "  %s\n", phase_name((Phase)phase));
            any = true;
            put_node(g, t, c->nodes.items[i]);
        }
    }
    for (int i = 0; c->grads && i < c->params.count; i++)
        if (c->grads[i])
            text_printf(t, "  gradient of %s: %s\n", c->params.items[i].name,
                        c->grads[i]->name);
}

void graph_text(Gen *g, Text *t)
{
    if (g->setup.n_nodes)
        text_printf(t, "setup\n");
    for (int i = 0; i < g->setup.n_nodes; i++)
        put_node(g, t, g->setup.nodes[i]);
    for (int i = 0; i < g->classes.count; i++)
        put_class(g, t, g->classes.items[i]);
    for (int a = 0; g->in_parts && a < N_PARTS_AXES; a++)
        if (g->model.parts[a] > 1)
            text_printf(t, "parts %s %lld\n", axis_name(parts_mesh(a)),
                        (long long)g->model.parts[a]);
    text_printf(t, "blocks\n");
    for (int i = 0; i < g->blocks.count; i++) {
        const Block *b = &g->blocks.items[i];

        text_printf(t, "  %s: %s \"%s\"\n", b->name, b->cls->name, b->prefix);
    }
    text_printf(t, "parameters\n");
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        text_printf(t, "  %s %lld", p->name, (long long)p->elems);
        if (p->n_uses > 1)
            text_printf(t, " (%d blocks)", p->n_uses);
        text_printf(t, "\n");
    }
}
