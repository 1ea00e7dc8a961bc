/* SPDX-License-Identifier: Apache-2.0 */
/* verify_graph.c: the invariants of the graph. In: the graph after graph, grad, fuse or
 * span. Out: nothing; a broken invariant is a bug of ours: die, exit 70. The checks share
 * nothing with the passes that made the graph: shapes are inferred again, liveness is
 * counted per pair. */
#include "graph/builder.h"
#include "plan/plan.h"
#include "base/names.h"
#include "prove/verify.h"

#include <math.h>
#include <string.h>

/* ---- SSA ------------------------------------------------------------------------- */

static void check_values(const Class *c)
{
    for (int i = 0; i < c->values.count; i++) {
        const Value *v = c->values.items[i];
        int64_t elems = 1;

        gen_require(v->id == i, "%s: value %s has id %d, not %d", c->name, v->name, v->id,
                    i);
        gen_require(ident_ok(v->name), "%s: value name %s", c->name, v->name);
        for (int k = 0; k < v->n_dims; k++)
            elems *= v->dim[k];
        gen_require(v->n_dims > 0 && elems == v->elems &&
                        v->bytes == elems * dtype_bytes(v->dtype),
                    "%s: %s has a wrong size", c->name, v->name);
        gen_require((v->kind == VAL_NODE) == (v->def != NULL), "%s: %s: kind", c->name,
                    v->name);
        for (int k = 0; k < i; k++)
            gen_require(strcmp(v->name, c->values.items[k]->name) != 0,
                        "%s: two values are named %s", c->name, v->name);
    }
}

/* Only a meet makes the same in all parts of what differs between them. */
static void check_parts(const Class *c, const Node *n)
{
    for (int a = 0; a < N_PARTS_AXES; a++) {
        bool differs = false;

        for (int i = 0; i < n->n_in; i++)
            differs = differs || n->in[i]->part[a].kind != PART_WHOLE;
        for (int k = 0; differs && !n->op->collective && k < n->n_out; k++)
            gen_require(n->out[k]->part[a].kind != PART_WHOLE,
                        "%s: %s is made of parts, but is whole", c->name,
                        n->out[k]->name);
    }
}

static void check_nodes(const Class *c)
{
    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        gen_require(n->id == i, "%s: node %s has id %d, not %d", c->name, n->name, n->id,
                    i);
        gen_require(n->phase != PHASE_SETUP, "%s: setup node %s in a class", c->name,
                    n->name);
        gen_require(!i || n->phase >= c->nodes.items[i - 1]->phase,
                    "%s: forward node %s after a backward one", c->name, n->name);
        check_parts(c, n);
        for (int k = 0; k < n->n_in; k++) {
            const Value *v = n->in[k];

            gen_require(v->id < c->values.count && c->values.items[v->id] == v,
                        "%s: %s reads %s, which is not of the class", c->name, n->name,
                        v->name);
            gen_require(!v->def || v->def->phase == PHASE_SETUP || v->def->id < i,
                        "%s: %s reads %s before it is made", c->name, n->name, v->name);
            gen_require(n->phase == PHASE_BACKWARD || v->kind != VAL_DOUT,
                        "%s: forward node %s reads a gradient", c->name, n->name);
        }
        for (int k = 0; k < n->n_out; k++)
            gen_require(n->out[k]->def == n && n->out[k]->def_out == k,
                        "%s: %s does not make %s", c->name, n->name, n->out[k]->name);
    }
}

static bool reads(const Node *n, const Value *v)
{
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] == v)
            return true;
    return false;
}

/* Is some output needed: read, or returned? */
static bool useful(const Class *c, const Node *n)
{
    for (int k = 0; k < n->n_out; k++) {
        if (class_is_root(c, n->out[k]) || n->out[k]->loc == LOC_GRAD)
            return true;
        for (int i = n->id + 1; i < c->nodes.count; i++)
            if (reads(c->nodes.items[i], n->out[k]))
                return true;
    }
    return false;
}

/* ---- shapes and flops, inferred again -------------------------------------------- */

/* A text names a dtype, and flops do not depend on it. */
static bool has_other_attrs(const Node *n)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].type != ATTR_STR)
            return true;
    return false;
}

/* A matrix product: three dims, one of them summed over; its flops have a closed form. */
static void check_product(Gen *g, const Class *c, const Node *n)
{
    const OpInfo *info = n->op->info;
    double product = 2;
    int reductions = 0;

    if (info->n_axes != 3 || n->n_replaced || n->n_out != 1 || has_other_attrs(n))
        return;
    infer_push_n(g, n);
    for (int i = 0; i < 3; i++) {
        lua_getfield(g->L, -1, info->axes[i].dim);
        product *= (double)lua_tointeger(g->L, -1);
        reductions += info->axes[i].reduction;
        lua_pop(g->L, 1);
    }
    lua_pop(g->L, 1);
    if (reductions == 1 && n->flops != product)
        diag_add(g, DIAG_ERROR, ops_place(g, n->op, "flops", NULL),
                 "a product that sums over one of three axes has 2 M N K flops",
                 "op %s: %s of %s has %.0f flops, but 2 M N K is %.0f", n->op->name,
                 n->name, c->name, n->flops, product);
}

static void check_inferred(Gen *g, const Class *c, const Node *n)
{
    Node again = *n;
    double sum = 0;

    again.out = gen_alloc(g, sizeof *again.out * (size_t)n->n_out);
    for (int k = 0; k < n->n_out; k++)
        again.out[k] = gen_alloc(g, sizeof **again.out);
    infer_node(g, &again);
    for (int k = 0; k < n->n_out; k++)
        gen_require(same_shape(again.out[k], n->out[k]) &&
                        again.out[k]->dtype == n->out[k]->dtype,
                    "%s: %s is %s %s, but inferred as %s %s", c->name, n->out[k]->name,
                    dtype_name(n->out[k]->dtype), shape_text(g, n->out[k]),
                    dtype_name(again.out[k]->dtype), shape_text(g, again.out[k]));
    gen_require(again.workspace_bytes == n->workspace_bytes, "%s: %s: workspace", c->name,
                n->name);
    for (int i = 0; i < n->n_replaced; i++)
        sum += n->replaced[i]->flops;
    gen_require(!n->n_replaced || fabs(sum - n->flops) <= 1e-9 * sum,
                "%s: %s: flops not conserved", c->name, n->name);
    check_product(g, c, n);
}

/* ---- gradients ------------------------------------------------------------------- */

/* One gradient per parameter: the first node into its buffer stores, later ones add. */
/* How many pieces all parts together have of the value. */
static int64_t times_cut(const Gen *g, const Value *v)
{
    int64_t times = 1;

    for (int a = 0; a < N_PARTS_AXES; a++)
        times *= v->part[a].kind == PART_CUT ? g->model.parts[a] : 1;
    return times;
}

static void check_gradients(const Gen *g, const Class *c)
{
    for (int p = 0; p < c->params.count; p++) {
        const Value *d = c->grads[p], *last = NULL;
        int64_t padding;

        gen_require(!d == c->params.items[p].frozen, "%s: gradient of %s, frozen or not",
                    c->name, c->params.items[p].name);
        if (!d)
            continue;
        padding = c->params.items[p].elems / c->params.items[p].dim[0] *
                  c->params.items[p].mark[PARTS_TENSOR].sections.pad;
        gen_require(d->dtype == g->model.reduce_dtype &&
                        d->elems * times_cut(g, d) == c->params.items[p].elems + padding,
                    "%s: gradient of %s", c->name, c->params.items[p].name);
        for (int i = 0; i < c->nodes.count; i++) {
            const Node *n = c->nodes.items[i];

            for (int k = 0; k < n->n_out; k++) {
                const Value *v = n->out[k];

                if (v->loc != LOC_GRAD || v->loc_index != p)
                    continue;
                gen_require(n->add[k] == (last != NULL),
                            "%s: %s stores and adds in wrong order", c->name, v->name);
                gen_require(n->op->out[k].may_add, "%s: %s cannot add", c->name, v->name);
                gen_require(v->index == (last ? last->index + 1 : 0),
                            "%s: %s out of order in its buffer", c->name, v->name);
                last = v;
            }
            for (int k = 0; k < n->n_in; k++)
                gen_require(n->in[k]->loc != LOC_GRAD, "%s: %s reads an accumulator",
                            c->name, n->name);
            gen_require(grads_agree(c, n->n_out, n->out, n->add),
                        "%s: %s needs two betas", c->name, n->name);
        }
        gen_require(last == d, "%s: %s is not the last in its buffer", c->name, d->name);
    }
    for (int i = 0; i < c->n_inputs; i++)
        gen_require(!c->trains_before
                        ? !c->d_inputs[i]
                        : c->d_inputs[i] && same_shape(c->d_inputs[i], c->inputs[i]) &&
                              c->d_inputs[i]->dtype == c->inputs[i]->dtype,
                    "%s: gradient of its input", c->name);
}

/* ---- slabs ----------------------------------------------------------------------- */

/* Per node output of a class: the last node that reads it, or its own. */
typedef struct Lives {
    const Class *c;
    int *last;
} Lives;

static int last_use(const Lives *l, const Value *v)
{
    return l->last[v->id];
}

static Lives find_lives(Gen *g, const Class *c)
{
    Lives l = {c, gen_alloc(g, sizeof *l.last * (size_t)(c->values.count + 1))};

    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        for (int k = 0; k < n->n_out; k++)
            l.last[n->out[k]->id] = i;
        for (int k = 0; k < n->n_in; k++)
            l.last[n->in[k]->id] = i;
    }
    return l;
}

/* b's definition is the last reader of a, and its rule allows b in a's bytes. */
static bool in_place(const Lives *l, const Value *a, const Value *b)
{
    const Node *n = b->def;
    const char *alias = n->op->out[b->def_out].alias;

    for (int i = 0; alias && i < n->n_in; i++)
        if (n->in[i] == a && !strcmp(node_operand(n, i)->name, alias))
            return last_use(l, a) == n->id && a->offset_bytes == b->offset_bytes;
    return false;
}

static bool overlap(int64_t a, int64_t a_bytes, int64_t b, int64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static bool same_memory(const Value *a, const Value *b)
{
    if (a->loc != b->loc || a->def->phase == PHASE_SETUP || b->def->phase == PHASE_SETUP)
        return false;
    switch (a->loc) {
    case LOC_SCRATCH:
        if (a->def->phase != b->def->phase)
            return false;
        return overlap(a->offset_bytes, a->bytes, b->offset_bytes, b->bytes);
    case LOC_SAVED:
        return overlap(a->offset_bytes, a->bytes, b->offset_bytes, b->bytes);
    case LOC_OUT:
    case LOC_DIN:
        return a->loc_index == b->loc_index;
    default:
        return false;
    }
}

static void check_pair(const Lives *l, const Value *a, const Value *b)
{
    const Class *c = l->c;

    if (a->kind != VAL_NODE || b->kind != VAL_NODE || !same_memory(a, b))
        return;
    if (last_use(l, a) < b->def->id || last_use(l, b) < a->def->id)
        goto boundary;
    gen_require(in_place(l, a, b) || in_place(l, b, a),
                "%s: %s and %s are live at once in the same bytes", c->name, a->name,
                b->name);
boundary:
    /* What the caller reads afterwards must be the last write to those bytes. */
    gen_require(!(class_is_root(c, a) && b->def->id > a->def->id) &&
                    !(class_is_root(c, b) && a->def->id > b->def->id),
                "%s: %s and %s share a boundary buffer in the wrong order", c->name,
                a->name, b->name);
}

static void check_bounds(const Lives *l, const Value *v)
{
    const Class *c = l->c;
    int64_t end = v->offset_bytes + v->bytes;
    const Span *s;

    if (v->kind != VAL_NODE || v->def->phase == PHASE_SETUP)
        return;
    s = v->def->phase == PHASE_FORWARD ? &c->forward : &c->backward;
    gen_require(v->loc != LOC_NONE, "%s: %s lives nowhere", c->name, v->name);
    gen_require(v->loc != LOC_SCRATCH || end <= s->scratch_bytes,
                "%s: %s lies outside the scratch slab", c->name, v->name);
    gen_require(v->loc != LOC_SAVED || end <= c->saved_bytes,
                "%s: %s lies outside the saved slab", c->name, v->name);
    gen_require(v->offset_bytes % ARENA_ALIGN_BYTES == 0, "%s: %s is not aligned",
                c->name, v->name);
    gen_require(v->loc != LOC_SCRATCH ||
                    c->nodes.items[last_use(l, v)]->phase == v->def->phase,
                "%s: %s is in scratch, but the other span reads it", c->name, v->name);
}

static void check_workspace(const Lives *l, const Span *s, const Node *n)
{
    const Class *c = l->c;

    if (!n->workspace_bytes)
        return;
    gen_require(n->workspace_offset_bytes % ARENA_ALIGN_BYTES == 0 &&
                    n->workspace_offset_bytes + n->workspace_bytes <= s->scratch_bytes,
                "%s: workspace of %s", c->name, n->name);
    for (int i = 0; i < c->values.count; i++) {
        const Value *v = c->values.items[i];

        if (v->loc != LOC_SCRATCH || v->def->phase != s->phase || v->def->id > n->id ||
            last_use(l, v) < n->id)
            continue;
        gen_require(!overlap(v->offset_bytes, v->bytes, n->workspace_offset_bytes,
                             n->workspace_bytes),
                    "%s: the workspace of %s lies on %s", c->name, n->name, v->name);
    }
}

static bool span_has(const Span *s, ArgKind kind, int index)
{
    for (int i = 0; i < s->n_args; i++)
        if (s->args[i].kind == kind && (index < 0 || s->args[i].index == index))
            return true;
    return false;
}

/* Every operand is reachable from the span's arguments. */
static void check_args(const Lives *l, const Span *s)
{
    static const ArgKind kind[] = {
        [LOC_PARAM] = ARG_PARAMS,  [LOC_SCALE] = ARG_PARAMS,    [LOC_GRAD] = ARG_GRADS,
        [LOC_IN] = ARG_IN,         [LOC_OUT] = ARG_OUT,         [LOC_DIN] = ARG_DIN,
        [LOC_DOUT] = ARG_DOUT,     [LOC_DATA] = ARG_DATA,       [LOC_CONST] = ARG_CONST,
        [LOC_SAVED] = ARG_SAVED,   [LOC_SCRATCH] = ARG_SCRATCH, [LOC_LOSS] = ARG_LOSS,
        [LOC_LOGITS] = ARG_LOGITS,
    };

    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        check_workspace(l, s, n);
        for (int k = 0; k < n->n_in + n->n_out; k++) {
            const Value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
            bool indexed = v->loc == LOC_IN || v->loc == LOC_OUT || v->loc == LOC_DIN ||
                           v->loc == LOC_DOUT || v->loc == LOC_DATA ||
                           v->loc == LOC_CONST;

            if (v->kind == VAL_DATA && v->index == DATA_PART)
                continue; /* it comes with the parts */
            gen_require(v->loc != LOC_NONE &&
                            span_has(s, kind[v->loc], indexed ? v->loc_index : -1),
                        "%s: %s is not an argument of the span", s->name, v->name);
        }
    }
}

static bool same_kernel(const Node *a, const Node *b)
{
    bool same = a->op == b->op && a->n_attrs == b->n_attrs && a->n_in == b->n_in;

    for (int i = 0; i < a->n_attrs && same; i++)
        same = attr_equal(&a->attrs[i], &b->attrs[i]);
    for (int i = 0; i < a->n_in && same; i++)
        same = same_shape(a->in[i], b->in[i]) && a->in[i]->dtype == b->in[i]->dtype;
    return same;
}

/* The class's nodes, then those of evaluation. */
static int all_nodes(const Class *c)
{
    return c->nodes.count + c->evaluate.n_nodes;
}

static const Node *node_at(const Class *c, int i)
{
    return i < c->nodes.count ? c->nodes.items[i] : c->evaluate.nodes[i - c->nodes.count];
}

/* Kernels have equal names exactly if op, attributes, shapes and dtypes are equal, over
 * all classes. */
static void check_kernels(Gen *g)
{
    struct {
        const Node **items;
        int count, cap;
    } known = {0};

    for (int q = 0; q < g->classes.count; q++)
        for (int i = 0; i < all_nodes(g->classes.items[q]); i++) {
            const Node *n = node_at(g->classes.items[q], i);
            bool found = false;

            for (int k = 0; k < known.count; k++) {
                bool named = !strcmp(n->kernel, known.items[k]->kernel);

                gen_require(named == same_kernel(n, known.items[k]),
                            "kernels of %s and %s: %s, %s", n->name, known.items[k]->name,
                            n->kernel, known.items[k]->kernel);
                found = found || named;
            }
            if (!found)
                *gen_push(g, &known) = n;
        }
}

/* Called in order, the pieces run each node of the phase once, in its order. */
static void check_pieces(const Class *c, Phase phase)
{
    const Span *whole = class_span(c, -1, phase);
    int n = c->pieces.count, at = 0;

    for (int k = 0; k < n; k++) {
        int piece = class_piece(c, k, phase);
        const Span *s = class_span(c, piece, phase);

        for (int i = 0; i < s->n_nodes; i++)
            gen_require(at < whole->n_nodes && s->nodes[i] == whole->nodes[at++] &&
                            s->nodes[i]->piece == piece,
                        "%s: %s is in another piece's place", c->name, s->nodes[i]->name);
    }
    gen_require(at == whole->n_nodes, "%s: nodes outside its pieces", c->name);
}

/* What meets bring, or take: a value in scratch of an earlier node of the same span. */
static bool made_before(const Span *s, int node, const Value *v)
{
    for (int i = 0; i < node; i++)
        for (int k = 0; k < s->nodes[i]->n_out; k++)
            if (s->nodes[i]->out[k] == v)
                return v->loc == LOC_SCRATCH;
    return false;
}

static bool is_read(const Span *s, const Value *v)
{
    for (int i = 0; i < s->n_nodes; i++)
        for (int k = 0; k < s->nodes[i]->n_in; k++)
            if (s->nodes[i]->in[k] == v)
                return v->loc == LOC_SCRATCH;
    return false;
}

/* Evaluation makes the loss, if the forward does not, and logits, in parts of pieces. It
 * keeps nothing else, and reads only what exists after the forward. */
static void check_evaluate(Gen *g, const Lives *l)
{
    const Class *c = l->c;
    const Span *s = &c->evaluate;
    int losses = 0, logits = 0;

    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        check_inferred(g, c, n);
        for (int k = 0; k < n->n_in; k++)
            gen_require(made_before(s, i, n->in[k]) ||
                            (n->in[k]->kind != VAL_DOUT && n->in[k]->loc != LOC_SCRATCH &&
                             (!n->in[k]->def || n->in[k]->def->phase < PHASE_BACKWARD)),
                        "%s: evaluation reads %s", c->name, n->in[k]->name);
        for (int k = 0; k < n->n_out; k++) {
            losses += n->out[k]->loc == LOC_LOSS;
            logits += n->out[k]->loc == LOC_LOGITS;
            gen_require(n->out[k]->loc == LOC_LOSS || n->out[k]->loc == LOC_LOGITS ||
                            is_read(s, n->out[k]),
                        "%s: evaluation writes %s", c->name, n->out[k]->name);
        }
    }
    check_args(l, s);
    gen_require(!s->n_nodes ||
                    (logits == 1 && losses == (c->loss->def->phase == PHASE_BACKWARD)),
                "%s: evaluation makes %d losses, %d logits", c->name, losses, logits);
}

static void check_spans(Gen *g, const Class *c)
{
    Lives l = find_lives(g, c);

    for (int i = 0; i < c->values.count; i++) {
        check_bounds(&l, c->values.items[i]);
        for (int k = 0; k < i; k++)
            check_pair(&l, c->values.items[k], c->values.items[i]);
    }
    for (int piece = -1; piece < c->pieces.count; piece++) {
        check_args(&l, class_span(c, piece, PHASE_FORWARD));
        check_args(&l, class_span(c, piece, PHASE_BACKWARD));
    }
    check_evaluate(g, &l);
    gen_require(c->forward.n_nodes + c->backward.n_nodes == c->nodes.count,
                "%s: nodes outside its spans", c->name);
    check_pieces(c, PHASE_FORWARD);
    check_pieces(c, PHASE_BACKWARD);
    gen_require(c->forward.scratch_bytes >= c->forward.live_scratch_bytes &&
                    c->backward.scratch_bytes >= c->backward.live_scratch_bytes,
                "%s: scratch below its lower bound", c->name);
}

/* ---- all checks ------------------------------------------------------------------ */

static void check_blocks(const Gen *g)
{
    int64_t uses = 0, used = 0;

    for (int i = 0; i < g->blocks.count; i++) {
        const Block *b = &g->blocks.items[i];

        gen_require(b->cls->n_inputs == (i > 0), "block %s takes %d values", b->name,
                    b->cls->n_inputs);
        gen_require((b->cls->loss != NULL) == (i == g->blocks.count - 1),
                    "block %s: loss", b->name);
        if (i > 0) {
            const Value *from = g->blocks.items[i - 1].cls->outputs[0];

            gen_require(same_shape(from, b->cls->inputs[0]) &&
                            from->dtype == b->cls->inputs[0]->dtype,
                        "block %s does not fit the one before", b->name);
        }
        for (int k = 0; k < b->cls->params.count; k++, used++)
            gen_require(g->params.items[b->param[k]].elems ==
                            b->cls->params.items[k].elems,
                        "block %s: %s", b->name, b->cls->params.items[k].name);
    }
    for (int i = 0; i < g->params.count; i++)
        uses += g->params.items[i].n_uses;
    gen_require(uses == used, "parameter uses");
}

typedef struct Verify {
    Gen *g;
    const char *pass;
} Verify;

static int run_verify(lua_State *L)
{
    Verify *v = lua_touserdata(L, 1);
    bool graph = !strcmp(v->pass, "graph");

    check_blocks(v->g);
    for (int i = 0; i < v->g->classes.count; i++) {
        const Class *c = v->g->classes.items[i];

        check_values(c);
        check_nodes(c);
        for (int k = 0; k < c->nodes.count; k++) {
            check_inferred(v->g, c, c->nodes.items[k]);
            gen_require(graph || useful(c, c->nodes.items[k]), "%s: %s is not used",
                        c->name, c->nodes.items[k]->name);
        }
        if (!graph)
            check_gradients(v->g, c);
        if (!strcmp(v->pass, "fuse"))
            verify_chains(v->g, c);
        if (!strcmp(v->pass, "span"))
            check_spans(v->g, c);
    }
    if (!strcmp(v->pass, "span"))
        check_kernels(v->g);
    return 0;
}

void verify_graph(Gen *g, const char *pass)
{
    Verify v = {g, pass};

    /* An error here is a mistake in an op's rule; the driver stops at it. */
    if (!builder_protect(g, run_verify, &v, (Pos){0}) && !diag_errors(g))
        gen_die("verify after %s", pass);
}
