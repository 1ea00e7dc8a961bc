/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c: --dump=PASS: the IR after a pass as deterministic text, which golden tests
 * compare and of which the numerics hash is taken. In: the IR. Out: text; nothing is
 * changed. The planning passes are printed by dump_plan.c. */
#include "graph.h"
#include "plan.h"

#include <string.h>

/* ---- the graph ------------------------------------------------------------------- */

static void put_value(Gen *g, Text *t, const Value *v)
{
    text_printf(t, "%s %s %s", v->name, dtype_name(v->dtype), shape_text(g, v));
}

static void put_node(Gen *g, Text *t, const Node *n, bool costs)
{
    text_printf(t, "    ");
    for (int i = 0; i < n->n_out; i++) {
        text_printf(t, "%s", i ? ", " : "");
        put_value(g, t, n->out[i]);
        if (n->add[i])
            text_printf(t, " (adds)");
    }
    text_printf(t, " = %s(", n->op->name);
    for (int i = 0; i < n->n_in; i++)
        text_printf(t, "%s%s", i ? ", " : "", n->in[i]->name);
    text_printf(t, ")");
    for (int i = 0; i < n->n_attrs; i++)
        text_printf(t, " %s", attr_text(g, &n->attrs[i]));
    if (costs)
        text_printf(t, "  flops %.0f", n->flops);
    text_printf(t, "\n");
    if (!n->n_replaced || !costs)
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
        text_printf(t, "  param %s %s init %s", p->name, shape_text(g, &shape), p->init);
        if (!strcmp(p->init, "normal"))
            text_printf(t, " std %.17g", p->init_std);
        text_printf(t, "%s%s%s\n", p->decay ? " decay" : "",
                    p->tied_global ? " global" : "", p->frozen ? " frozen" : "");
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

static void put_class(Gen *g, Text *t, const Class *c, bool costs)
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
            put_node(g, t, c->nodes.items[i], costs);
        }
    }
    for (int i = 0; c->grads && i < c->params.count; i++)
        if (c->grads[i])
            text_printf(t, "  gradient of %s: %s\n", c->params.items[i].name,
                        c->grads[i]->name);
}

void graph_text(Gen *g, Text *t, bool costs)
{
    if (g->setup.n_nodes)
        text_printf(t, "setup\n");
    for (int i = 0; i < g->setup.n_nodes; i++)
        put_node(g, t, g->setup.nodes[i], costs);
    for (int i = 0; i < g->classes.count; i++)
        put_class(g, t, g->classes.items[i], costs);
    text_printf(t, "blocks\n");
    for (int i = 0; i < g->blocks.count; i++) {
        const Block *b = &g->blocks.items[i];

        text_printf(t, "  %s: %s \"%s\"\n", b->name, b->cls->name, b->prefix);
    }
    if (!costs)
        return;
    text_printf(t, "parameters\n");
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];

        text_printf(t, "  %s %lld", p->name, (long long)p->elems);
        if (p->n_uses > 1)
            text_printf(t, " (%d blocks)", p->n_uses);
        text_printf(t, "\n");
    }
}

/* ---- spans ----------------------------------------------------------------------- */

static void put_place(Text *t, const Value *v)
{
    static const char *const names[] = {"nowhere", "param", "grad",    "in",
                                        "out",     "d_in",  "d_out",   "data",
                                        "const",   "saved", "scratch", "loss",
                                        "logits"};

    if (v->loc == LOC_SAVED || v->loc == LOC_SCRATCH)
        text_printf(t, "%s@%s+%lld", v->name, names[v->loc], (long long)v->offset_bytes);
    else
        text_printf(t, "%s@%s", v->name, names[v->loc]);
}

/* piece: of a block that is cut; its scratch is the block's. */
static void put_span(Text *t, const Span *s, bool nodes, bool piece)
{
    static const char *const kinds[] = {
        [ARG_PARAMS] = "params", [ARG_GRADS] = "grads",
        [ARG_CONST] = "const",   [ARG_DATA] = "data",
        [ARG_IN] = "in",         [ARG_OUT] = "out",
        [ARG_DOUT] = "d_out",    [ARG_DIN] = "d_in",
        [ARG_LOSS] = "loss",     [ARG_LOSS_SCALE] = "loss_scale",
        [ARG_LOGITS] = "logits", [ARG_SAVED] = "saved",
        [ARG_SCRATCH] = "scratch",
    };

    if (!s->n_nodes)
        return;
    text_printf(t, "  %s(", s->name);
    for (int i = 0; i < s->n_args; i++) {
        const SpanArg *a = &s->args[i];

        text_printf(t, "%s%s", i ? ", " : "", kinds[a->kind]);
        if (a->value)
            text_printf(t, " %s", a->value->name);
    }
    text_printf(t, ")\n    ");
    if (!piece)
        text_printf(t, "scratch %lld bytes, at least %lld; ", (long long)s->scratch_bytes,
                    (long long)s->live_scratch_bytes);
    text_printf(t, "flops %.0f; traffic %lld bytes\n", s->flops,
                (long long)s->traffic_bytes);
    for (int i = 0; nodes && i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        text_printf(t, "    %s(", n->kernel);
        for (int k = 0; k < n->n_in; k++) {
            text_printf(t, "%s", k ? ", " : "");
            put_place(t, n->in[k]);
        }
        text_printf(t, " ->");
        for (int k = 0; k < n->n_out; k++) {
            text_printf(t, "%s", k ? ", " : " ");
            put_place(t, n->out[k]);
            if (n->add[k])
                text_printf(t, " (adds)");
        }
        if (n->workspace_bytes)
            text_printf(t, "; workspace %lld@scratch+%lld", (long long)n->workspace_bytes,
                        (long long)n->workspace_offset_bytes);
        text_printf(t, ")\n");
    }
}

static void put_pieces(Text *t, const Class *c, Phase phase)
{
    int n = c->pieces.count;

    put_span(t, class_span(c, -1, phase), n == 1, false);
    for (int i = 0; n > 1 && i < n; i++)
        put_span(t, class_span(c, class_piece(c, i, phase), phase), true, true);
}

static void dump_spans(Gen *g, Text *t)
{
    if (g->setup.n_nodes) {
        text_printf(t, "setup\n");
        put_span(t, &g->setup, true, false);
    }
    for (int i = 0; i < g->consts.count; i++)
        text_printf(t, "  const %s %lld bytes\n", g->consts.items[i].name,
                    (long long)g->consts.items[i].bytes);
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        text_printf(t, "class %s: saved %lld bytes\n", c->name,
                    (long long)c->saved_bytes);
        for (int k = 0; c->pieces.count > 1 && k < c->params.count; k++)
            text_printf(t, "  param %s: piece %s\n", c->params.items[k].name,
                        c->pieces.items[c->params.items[k].piece].name);
        put_pieces(t, c, PHASE_FORWARD);
        put_pieces(t, c, PHASE_BACKWARD);
        put_span(t, &c->evaluate, true, false);
    }
}

/* ---- the description ------------------------------------------------------------- */

static void dump_wrap(const WrapRule *w, Text *t)
{
    static const char *const names[] = {"per_block", "by_size", "by_name", "root_only",
                                        "a function"};

    text_printf(t, "wrap = %s", names[w->kind]);
    if (w->kind == WRAP_PER_BLOCK)
        text_printf(t, "(%lld)", (long long)w->blocks);
    if (w->kind == WRAP_BY_SIZE)
        text_printf(t, "(%lld)", (long long)w->params);
    text_printf(t, "%s%s\n", w->embed_joins ? ", embed joins" : "",
                w->head_joins ? ", head joins" : "");
}

static void dump_model(Gen *g, Text *t, bool checked)
{
    const Model *m = &g->model;

    text_printf(t, "name %s\narch %s\n", m->name ? m->name : "?",
                m->arch ? m->arch : "?");
    if (!checked)
        return;
    text_printf(t, "inside the hash\n%s", m->hash_fields ? m->hash_fields : "");
    text_printf(t, "outside the hash\n");
    text_printf(t, "mesh.replicate = %lld\nmesh.shard = %lld\nworld_size = %lld\n",
                (long long)m->replicate, (long long)m->shard, (long long)m->world_size);
    text_printf(t, "strategy = %s\n",
                m->strategy == FULL_SHARD      ? "full_shard"
                : m->strategy == SHARD_GRAD_OP ? "shard_grad_op"
                : m->strategy == HYBRID_SHARD  ? "hybrid_shard"
                                               : "no_shard");
    dump_wrap(&m->wrap, t);
    if (m->reshard_ranks > 1 && m->reshard_ranks < m->shard)
        text_printf(t, "reshard_after_forward = %lld\n", (long long)m->reshard_ranks);
    else
        text_printf(t, "reshard_after_forward = %s\n",
                    m->reshard_ranks == m->shard ? "true" : "false");
    text_printf(t,
                "prefetch.forward = %lld\nprefetch.backward = %lld\nprefetch.order = %s\n"
                "prefetch.in_flight = %lld\n",
                (long long)m->prefetch_forward, (long long)m->prefetch_backward,
                prefetch_order_name(m->prefetch_order), (long long)m->gathers_in_flight);
    text_printf(t, "accumulate = %s\n", m->accumulate_sharded ? "sharded" : "unsharded");
    text_printf(t, "target = %s\nbudget_bytes = %lld\n",
                m->target == TARGET_CPU ? "cpu" : "cuda", (long long)m->budget_bytes);
}

static void dump_ops(Gen *g, Text *t)
{
    for (int i = 0; i < g->ops.count; i++) {
        const OpRule *op = &g->ops.items[i];

        text_printf(t, "%s%s: %d in, %d out%s\n", op->name,
                    op->optimizer ? " (optimizer)" : "", op->n_in, op->n_out,
                    op->fused ? ", fused" : "");
    }
}

void dump_pass(Gen *g, const char *pass, Text *t)
{
    if (!strcmp(pass, "load")) {
        dump_model(g, t, false);
    } else if (!strcmp(pass, "check")) {
        dump_model(g, t, true);
    } else if (!strcmp(pass, "ops")) {
        dump_ops(g, t);
    } else if (!strcmp(pass, "graph") || !strcmp(pass, "grad") || !strcmp(pass, "fuse")) {
        graph_text(g, t, true);
        if (!strcmp(pass, "fuse"))
            text_printf(t, "numerics %016llx\n", (unsigned long long)g->numerics_hash);
    } else if (!strcmp(pass, "span")) {
        dump_spans(g, t);
    } else if (!strcmp(pass, "checkpoint")) {
        checkpoint_dump(g, t);
    } else if (!strcmp(pass, "emit")) {
        emit_dump(g, t);
    } else if (!dump_plan(g, pass, t)) {
        gen_die("no dump of pass %s", pass);
    }
}
