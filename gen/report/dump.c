/* SPDX-License-Identifier: Apache-2.0 */
/* dump.c: --dump=PASS: the IR after a pass as deterministic text, for golden tests. In:
 * the IR. Out: text. Changes nothing. dump_plan.c prints the planning passes. */
#include "graph/graph.h"
#include "plan/plan.h"
#include "report/report.h"

#include <string.h>

/* ---- spans ----------------------------------------------------------------------- */

static void put_place(Text *t, const Value *v)
{
    static const char *const names[] = {"nowhere", "param",   "scale", "grad",  "in",
                                        "out",     "d_in",    "d_out", "data",  "const",
                                        "saved",   "scratch", "loss",  "logits"};

    if (v->loc == LOC_SAVED || v->loc == LOC_SCRATCH)
        text_printf(t, "%s@%s+%lld", v->name, names[v->loc], (long long)v->offset_bytes);
    else
        text_printf(t, "%s@%s", v->name, names[v->loc]);
}

/* piece: of a block that is cut; the scratch belongs to the block. */
static void put_span(Text *t, const Span *s, bool nodes, bool piece)
{
    static const char *const kinds[] = {
        [ARG_PARAMS] = "params",   [ARG_GRADS] = "grads",
        [ARG_CONST] = "const",     [ARG_DATA] = "data",
        [ARG_IN] = "in",           [ARG_OUT] = "out",
        [ARG_DOUT] = "d_out",      [ARG_DIN] = "d_in",
        [ARG_LOSS] = "loss",       [ARG_LOSS_SCALE] = "loss_scale",
        [ARG_LOGITS] = "logits",   [ARG_SAVED] = "saved",
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
    text_printf(t, "mesh.replicate = %lld\nmesh.shard = %lld\n",
                (long long)m->mesh.axis[AXIS_REPLICATE].degree,
                (long long)m->mesh.axis[AXIS_SHARD].degree);
    for (int a = N_PARTS_AXES - 1; a >= 0; a--)
        if (parts_ranks(m, a) > 1)
            text_printf(t, "mesh.%s = %lld\n", axis_name(parts_mesh(a)),
                        (long long)parts_ranks(m, a));
    text_printf(t, "world_size = %lld\n", (long long)m->mesh.world_size);
    text_printf(t, "strategy = %s\n", strategy_name(m->strategy));
    dump_wrap(&m->wrap, t);
    if (m->reshard_ranks > 1 && m->reshard_ranks < m->mesh.axis[AXIS_SHARD].degree)
        text_printf(t, "reshard_after_forward = %lld\n", (long long)m->reshard_ranks);
    else
        text_printf(t, "reshard_after_forward = %s\n",
                    m->reshard_ranks == m->mesh.axis[AXIS_SHARD].degree ? "true"
                                                                        : "false");
    text_printf(t,
                "prefetch.forward = %lld\nprefetch.backward = %lld\nprefetch.order = %s\n"
                "prefetch.in_flight = %lld\n",
                (long long)m->prefetch_forward, (long long)m->prefetch_backward,
                prefetch_order_name(m->prefetch_order), (long long)m->gathers_in_flight);
    text_printf(t, "accumulate = %s\n", m->accumulate_sharded ? "sharded" : "unsharded");
    text_printf(t, "target = %s\nbudget_bytes = %lld\n", m->target->name,
                (long long)m->budget_bytes);
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
    } else if (!strcmp(pass, "graph") || !strcmp(pass, "grad") ||
               !strcmp(pass, "encode") || !strcmp(pass, "split") ||
               !strcmp(pass, "fuse")) {
        graph_text(g, t);
        if (!strcmp(pass, "fuse"))
            text_printf(t, "numerics %016llx\n", (unsigned long long)g->numerics_hash);
    } else if (!strcmp(pass, "span")) {
        dump_spans(g, t);
    } else if (!strcmp(pass, "config")) {
        config_dump(g, t);
    } else if (!strcmp(pass, "checkpoint")) {
        checkpoint_dump(g, t);
    } else if (!dump_plan(g, pass, t)) {
        gen_die("no dump of pass %s", pass);
    }
}
