/* SPDX-License-Identifier: Apache-2.0 */
/* span.c: nodes → spans. In: the fused graph (fuse). Out: Value.loc, offset_bytes,
 * loc_index; Node.kernel, piece and workspace_offset_bytes; the spans of each class, of
 * its pieces, of evaluation (evaluate.c) and of setup, with their signatures; the saved
 * slab's size. Breaks: node ids.
 *
 * 1. Nodes run in graph order: forward piece by piece, backward by pieces in reverse. A
 *    node that depends on other pieces (a fused op across a cut) moves to the first piece
 *    where it can run.
 * 2. A boundary value lives in its boundary buffer. Others live in the saved slab if the
 *    forward makes them and the backward reads them, else in their span's scratch slab,
 *    placed by liveness.
 * 3. An output whose rule allows it takes the bytes of an input that dies there.
 * 4. All offsets are multiples of 256 and constants of the class. */
#include "base/pack.h"
#include "graph/builder.h"
#include "base/names.h"
#include "ops/ops.h"

#include <string.h>

typedef struct SpanRun {
    Gen *g;
    Class *c;
    int *first, *last; /* per value: the node that defines it, the last that reads it */
    int *group;        /* per value: id of the value whose bytes it shares */
} SpanRun;

/* ---- kernel names ---------------------------------------------------------------- */

typedef struct KernelName {
    const char *name, *key;
} KernelName;
typedef struct KernelNames {
    KernelName *items;
    int count, cap;
} KernelNames;

static const char *kernel_key(Gen *g, const Node *n)
{
    Text t = {.g = g};

    text_printf(&t, "%s", n->op->name);
    for (int i = 0; i < n->n_attrs; i++)
        if (!attr_silent(n->op, &n->attrs[i]))
            text_printf(&t, " %s", attr_text(g, &n->attrs[i]));
    for (int i = 0; i < n->n_in + n->n_out; i++) {
        const Value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        text_printf(&t, " %s%s", dtype_name(v->dtype), shape_text(g, v));
    }
    if (n->omitted)
        text_printf(&t, " without %x", (unsigned)n->omitted);
    return t.s;
}

/* norm_1024x288_f32: the dims that the inputs bind, in order, or the first output's
 * dims. */
static const char *kernel_base(Gen *g, const Node *n)
{
    Text t = {.g = g};
    const Value *typed = NULL;
    const char *names[MAX_SYMS];
    int n_names = 0;
    bool first = true;

    text_printf(&t, "%s", n->op->name);
    for (int i = 0; i < n->n_in; i++)
        n_names = dims_symbols(g, node_operand(n, i)->dims, names, n_names, MAX_SYMS);
    infer_push_n(g, n);
    for (int i = 0; i < n_names; i++) {
        lua_getfield(g->L, -1, names[i]);
        text_printf(&t, "%s%lld", first ? "_" : "x", (long long)lua_tointeger(g->L, -1));
        lua_pop(g->L, 1);
        first = false;
    }
    lua_pop(g->L, 1);
    for (int i = 0; first && i < n->out[0]->n_dims; i++)
        text_printf(&t, "%s%lld", i ? "x" : "_", (long long)n->out[0]->dim[i]);
    for (int i = 0; i < n->n_in + n->n_out && !typed; i++) {
        const Value *v = i < n->n_in ? n->in[i] : n->out[i - n->n_in];

        if (v->dtype != DT_I32)
            typed = v;
    }
    text_printf(&t, "_%s", dtype_name(typed ? typed->dtype : n->out[0]->dtype));
    return t.s;
}

/* Equal names for equal op, shapes, dtypes and attributes. If names clash, the first has
 * the plain name and later ones carry a hash of what they are. */
static void name_kernel(Gen *g, KernelNames *names, Node *n)
{
    const char *key = kernel_key(g, n), *name = kernel_base(g, n);
    bool clash = false;
    KernelName *k;

    for (int i = 0; i < names->count; i++) {
        if (!strcmp(names->items[i].key, key)) {
            n->kernel = names->items[i].name;
            return;
        }
        clash = clash || !strcmp(names->items[i].name, name);
    }
    if (clash)
        name = gen_printf(g, "%s_%08x", name, (unsigned)hash_bytes(key, strlen(key)));
    k = gen_push(g, names);
    *k = (KernelName){name, key};
    n->kernel = name;
}

/* ---- where values live ----------------------------------------------------------- */

static void set_loc(Value *v, Loc loc, int index)
{
    v->loc = loc;
    v->loc_index = index;
}

static void find_lives(SpanRun *x)
{
    for (int i = 0; i < x->c->nodes.count; i++) {
        const Node *n = x->c->nodes.items[i];

        for (int k = 0; k < n->n_in; k++)
            x->last[n->in[k]->id] = i;
        for (int k = 0; k < n->n_out; k++)
            x->first[n->out[k]->id] = x->last[n->out[k]->id] = i;
    }
    for (int i = 0; i < x->c->values.count; i++)
        x->last[i] = legs_end(x->g, x->c, x->c->values.items[i], x->last[i]);
}

static void find_locs(SpanRun *x)
{
    Class *c = x->c;

    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];

        x->group[i] = i;
        if (v->kind == VAL_PARAM)
            set_loc(v, LOC_PARAM, v->index);
        else if (v->kind == VAL_SCALE)
            set_loc(v, LOC_SCALE, v->index);
        else if (v->kind == VAL_INPUT)
            set_loc(v, LOC_IN, v->index);
        else if (v->kind == VAL_DATA)
            set_loc(v, LOC_DATA, v->index);
        else if (v->kind == VAL_DOUT)
            set_loc(v, LOC_DOUT, v->index);
        else if (v->def->phase == PHASE_SETUP || v->loc == LOC_GRAD)
            continue; /* set by graph.c and grad.c */
        else if (v->def->phase == PHASE_FORWARD && x->last[i] >= 0 &&
                 c->nodes.items[x->last[i]]->phase == PHASE_BACKWARD)
            set_loc(v, LOC_SAVED, 0);
        else
            set_loc(v, LOC_SCRATCH, 0);
    }
    for (int i = 0; i < c->n_outputs; i++)
        set_loc(c->outputs[i], LOC_OUT, i);
    for (int i = 0; i < c->n_inputs; i++)
        if (c->d_inputs[i])
            set_loc(c->d_inputs[i], LOC_DIN, i);
    if (c->loss)
        set_loc(c->loss, LOC_LOSS, 0);
}

/* May output `out` of n take the bytes of its input v? */
static bool may_alias(const SpanRun *x, const Node *n, const Value *v, const Value *out)
{
    int times = 0;

    for (int i = 0; i < n->n_in; i++)
        times += n->in[i] == v;
    if (times != 1 || v->bytes != out->bytes || x->last[v->id] != n->id ||
        v->kind != VAL_NODE || value_differs(v) != value_differs(out))
        return false;
    if (v->loc == LOC_SAVED) /* it dies in the backward, inside the slab */
        return out->loc == LOC_SCRATCH && n->phase == PHASE_BACKWARD;
    return v->loc == LOC_SCRATCH && (out->loc == LOC_SCRATCH || out->loc == LOC_SAVED ||
                                     out->loc == LOC_OUT || out->loc == LOC_DIN);
}

/* Merges v's group into that of `to`. */
static void join_groups(SpanRun *x, const Value *v, const Value *to)
{
    int from = x->group[v->id];
    Value *root = x->c->values.items[x->group[to->id]];

    for (int i = 0; i < x->c->values.count; i++)
        if (x->group[i] == from) {
            x->group[i] = root->id;
            set_loc(x->c->values.items[i], root->loc, root->loc_index);
        }
}

static void find_aliases(SpanRun *x)
{
    for (int i = 0; i < x->c->nodes.count; i++) {
        Node *n = x->c->nodes.items[i];
        uint64_t taken = 0;

        for (int k = 0; k < n->n_out; k++) {
            const char *alias = n->op->out[k].alias;

            for (int a = 0; alias && a < n->n_in; a++) {
                if (strcmp(node_operand(n, a)->name, alias) != 0 || (taken >> a & 1) ||
                    !may_alias(x, n, n->in[a], n->out[k]))
                    continue;
                taken |= UINT64_C(1) << a;
                if (n->in[a]->loc == LOC_SAVED)
                    join_groups(x, n->out[k], n->in[a]);
                else
                    join_groups(x, n->in[a], n->out[k]);
            }
        }
    }
}

/* ---- slabs ----------------------------------------------------------------------- */

static void place_saved(SpanRun *x)
{
    int64_t end = 0;
    bool *placed = gen_alloc(x->g, (size_t)x->c->values.count + 1);
    int *at = gen_alloc(x->g, sizeof *at * (size_t)(x->c->values.count + 1));

    for (int i = 0; i < x->c->values.count; i++) {
        Value *v = x->c->values.items[i];
        int group = x->group[i];

        if (v->loc != LOC_SAVED)
            continue;
        if (!placed[group]) {
            placed[group] = true;
            at[group] = x->c->saved.count;
            *gen_push(x->g, &x->c->saved) =
                (Saved){.value = x->c->values.items[group], .offset_bytes = end};
            end += round_up(v->bytes, ARENA_ALIGN_BYTES);
        }
        v->loc_index = at[group];
        v->offset_bytes = x->c->saved.items[at[group]].offset_bytes;
    }
    x->c->saved_bytes = end;
}

/* An item in a span's scratch: a group of values, or the workspace of one node. */
typedef struct Item {
    int64_t bytes;
    int first, last, group;
    Node *node;
} Item;
typedef struct Items {
    Item *items;
    int count, cap;
} Items;

static void collect_items(SpanRun *x, Span *s, Items *list)
{
    for (int i = 0; i < x->c->values.count; i++) {
        const Value *v = x->c->values.items[i];
        Item *item = NULL;

        if (v->loc != LOC_SCRATCH || !v->def || v->def->phase != s->phase)
            continue;
        for (int k = 0; k < list->count; k++)
            if (list->items[k].group == x->group[i])
                item = &list->items[k];
        if (!item) {
            item = gen_push(x->g, list);
            *item =
                (Item){.first = x->first[i], .last = x->last[i], .group = x->group[i]};
        }
        item->bytes = max_i64(item->bytes, round_up(v->bytes, ARENA_ALIGN_BYTES));
        item->first = (int)min_i64(item->first, x->first[i]);
        item->last = (int)max_i64(item->last, x->last[i]);
    }
    for (int i = 0; i < s->n_nodes; i++) {
        Node *n = s->nodes[i];

        if (n->workspace_bytes)
            *gen_push(x->g, list) = (Item){
                round_up(n->workspace_bytes, ARENA_ALIGN_BYTES), n->id, n->id, -1, n};
    }
}

static int64_t max_live(const Items *list)
{
    int64_t most = 0;

    for (int i = 0; i < list->count; i++) { /* a maximum occurs where some item begins */
        int64_t live = 0;

        for (int k = 0; k < list->count; k++)
            if (list->items[k].first <= list->items[i].first &&
                list->items[k].last >= list->items[i].first)
                live += list->items[k].bytes;
        most = max_i64(most, live);
    }
    return most;
}

static void place_scratch(SpanRun *x, Span *s)
{
    Gen *g = x->g;
    Items list = {0};
    PackProblem p;
    int64_t *bytes, *offset;
    int *start, *duration;
    uint64_t *conflict;
    size_t n;

    collect_items(x, s, &list);
    n = (size_t)list.count;
    p = (PackProblem){.n = list.count, .words = list.count / 64 + 1};
    bytes = gen_alloc(g, sizeof *bytes * (n + 1));
    offset = gen_alloc(g, sizeof *offset * (n + 1));
    start = gen_alloc(g, sizeof *start * (n + 1));
    duration = gen_alloc(g, sizeof *duration * (n + 1));
    conflict = gen_alloc(g, sizeof *conflict * (n + 1) * (size_t)p.words);
    for (int i = 0; i < list.count; i++) {
        const Item *a = &list.items[i];

        bytes[i] = a->bytes;
        start[i] = a->first;
        duration[i] = a->last - a->first + 1;
        for (int k = 0; k < list.count; k++)
            if (k != i && a->first <= list.items[k].last &&
                list.items[k].first <= a->last)
                conflict[i * p.words + k / 64] |= UINT64_C(1) << (k & 63);
    }
    p.bytes = bytes;
    p.start = start;
    p.duration = duration;
    p.conflict = conflict;
    p.lower_bound = s->live_scratch_bytes = max_live(&list);
    s->scratch_bytes = pack_items(g, &p, offset);
    for (int i = 0; i < list.count; i++) {
        if (list.items[i].node)
            list.items[i].node->workspace_offset_bytes = offset[i];
        for (int k = 0; list.items[i].group >= 0 && k < x->c->values.count; k++)
            if (x->group[k] == list.items[i].group &&
                x->c->values.items[k]->loc == LOC_SCRATCH)
                x->c->values.items[k]->offset_bytes = offset[i];
    }
}

/* ---- signatures ------------------------------------------------------------------ */

static void add_arg(Gen *g, Span *s, ArgKind kind, int index, Value *v)
{
    SpanArg *args = gen_alloc(g, sizeof *args * (size_t)(s->n_args + 1));

    if (s->n_args)
        memcpy(args, s->args, sizeof *args * (size_t)s->n_args);
    args[s->n_args++] = (SpanArg){kind, index, v};
    s->args = args;
}

/* The value of that kind and index among the span's operands; NULL if none. */
static Value *touched(const Span *s, Loc loc, int index)
{
    for (int i = 0; i < s->n_nodes; i++) {
        const Node *n = s->nodes[i];

        for (int k = 0; k < n->n_in + n->n_out; k++) {
            Value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];

            if (v->loc == loc && (index < 0 || v->loc_index == index))
                return v;
        }
    }
    return NULL;
}

static bool touches_scratch(const Span *s)
{
    for (int i = 0; i < s->n_nodes; i++)
        if (s->nodes[i]->workspace_bytes)
            return true;
    return touched(s, LOC_SCRATCH, -1) != NULL;
}

void span_make_args(Gen *g, Class *c, Span *s)
{
    if (touched(s, LOC_PARAM, -1) || touched(s, LOC_SCALE, -1))
        add_arg(g, s, ARG_PARAMS, -1, NULL);
    if (touched(s, LOC_GRAD, -1))
        add_arg(g, s, ARG_GRADS, -1, NULL);
    for (int i = 0; i < g->consts.count; i++)
        if (touched(s, LOC_CONST, i))
            add_arg(g, s, ARG_CONST, i, g->consts.items[i].value);
    for (int i = 0; i < N_DATA; i++) /* a part's number comes with the parts */
        if (i != DATA_PART && touched(s, LOC_DATA, i))
            add_arg(g, s, ARG_DATA, i, touched(s, LOC_DATA, i));
    for (int i = 0; c && i < c->n_inputs; i++)
        if (touched(s, LOC_IN, i))
            add_arg(g, s, ARG_IN, i, c->inputs[i]);
    for (int i = 0; c && i < c->n_outputs; i++)
        if (touched(s, LOC_OUT, i))
            add_arg(g, s, ARG_OUT, i, c->outputs[i]);
    for (int i = 0; c && i < c->n_outputs; i++)
        if (touched(s, LOC_DOUT, i))
            add_arg(g, s, ARG_DOUT, i, c->d_outputs[i]);
    for (int i = 0; c && i < c->n_inputs; i++)
        if (touched(s, LOC_DIN, i))
            add_arg(g, s, ARG_DIN, i, c->d_inputs[i]);
    if (touched(s, LOC_SAVED, -1))
        add_arg(g, s, ARG_SAVED, -1, NULL);
    if (touches_scratch(s))
        add_arg(g, s, ARG_SCRATCH, -1, NULL);
    if (touched(s, LOC_LOSS, -1)) /* last, because the caller fills the runtime's slot */
        add_arg(g, s, ARG_LOSS, -1, c->loss);
    if (touched(s, LOC_LOGITS, -1))
        add_arg(g, s, ARG_LOGITS, -1, touched(s, LOC_LOGITS, -1));
    for (int i = 0; i < s->n_nodes; i++)
        if (ops_scaled(g, s->nodes[i]->op)) {
            add_arg(g, s, ARG_LOSS_SCALE, -1, NULL);
            return;
        }
}

/* piece: -1 takes the nodes of all pieces. */
static void fill_span(Gen *g, Span *s, Phase phase, int piece, const char *name,
                      Node **nodes, int count)
{
    *s = (Span){.name = name, .phase = phase};
    s->nodes = gen_alloc(g, sizeof *s->nodes * (size_t)(count + 1));
    for (int i = 0; i < count; i++)
        if (nodes[i]->phase == phase && (piece < 0 || nodes[i]->piece == piece))
            s->nodes[s->n_nodes++] = nodes[i];
    for (int i = 0; i < s->n_nodes; i++) {
        node_cost(g, s->nodes[i]);
        s->flops += s->nodes[i]->flops;
        s->traffic_bytes += s->nodes[i]->cost.traffic_bytes;
    }
}

/* Is it the name of a class, or of a piece that already has its spans? */
static bool name_taken(Gen *g, const char *base)
{
    const char *forward = gen_printf(g, "%s_forward", base);

    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        if (!strcmp(name_functions(g, c->name), base))
            return true;
        for (int k = 0; k < c->pieces.count; k++)
            if (c->pieces.items[k].forward.name &&
                !strcmp(c->pieces.items[k].forward.name, forward))
                return true;
    }
    return false;
}

/* The prefix of function names in math.c: layer, or layer_mlp_up. */
static const char *piece_base(Gen *g, const Class *c, int piece)
{
    const char *part = c->pieces.items[piece].name, *base = name_functions(g, c->name);

    if (!part)
        return base;
    base = gen_printf(g, "%s_%s", base, part);
    while (name_taken(g, base))
        base = gen_printf(g, "%s_piece", base);
    return base;
}

static void piece_span(Gen *g, Class *c, int piece, const char *base, Phase phase)
{
    const Span *whole = class_span(c, -1, phase);
    Piece *p = &c->pieces.items[piece];
    Span *s = phase == PHASE_FORWARD ? &p->forward : &p->backward;

    fill_span(
        g, s, phase, piece,
        gen_printf(g, "%s_%s", base, phase == PHASE_FORWARD ? "forward" : "backward"),
        c->nodes.items, c->nodes.count);
    span_make_args(g, c, s);
    if (touches_scratch(s)) {
        s->scratch_bytes = whole->scratch_bytes;
        s->live_scratch_bytes = whole->live_scratch_bytes;
    }
}

static void class_spans(Gen *g, Class *c, KernelNames *names)
{
    SpanRun x = {.g = g, .c = c};
    size_t n = (size_t)c->values.count + 1;
    const char *name = name_functions(g, c->name);

    x.first = gen_alloc(g, sizeof *x.first * n);
    x.last = gen_alloc(g, sizeof *x.last * n);
    x.group = gen_alloc(g, sizeof *x.group * n);
    for (int i = 0; i < c->values.count; i++)
        x.first[i] = x.last[i] = -1;
    class_pieces(g, c);
    for (int i = 0; i < c->nodes.count; i++) {
        gen_require(c->nodes.items[i]->id == i, "class %s: node ids", c->name);
        name_kernel(g, names, c->nodes.items[i]);
    }
    legs_number(g, c);
    find_lives(&x);
    find_locs(&x);
    find_aliases(&x);
    place_saved(&x);
    fill_span(g, &c->forward, PHASE_FORWARD, -1, gen_printf(g, "%s_forward", name),
              c->nodes.items, c->nodes.count);
    fill_span(g, &c->backward, PHASE_BACKWARD, -1, gen_printf(g, "%s_backward", name),
              c->nodes.items, c->nodes.count);
    place_scratch(&x, &c->forward);
    place_scratch(&x, &c->backward);
    span_make_args(g, c, &c->forward);
    span_make_args(g, c, &c->backward);
    for (int i = 0; i < c->pieces.count; i++) {
        const char *base = piece_base(g, c, i);

        piece_span(g, c, i, base, PHASE_FORWARD);
        piece_span(g, c, i, base, PHASE_BACKWARD);
    }
    evaluate_class(g, c);
    for (int i = 0; i < c->evaluate.n_nodes; i++)
        name_kernel(g, names, c->evaluate.nodes[i]);
    if (c->evaluate.n_nodes) {
        c->evaluate.name = gen_printf(g, "%s_evaluate", name);
        span_make_args(g, c, &c->evaluate);
    }
}

/* Setup nodes write constants; scratch holds only their workspaces, one at a time. */
static void setup_span(Gen *g, KernelNames *names)
{
    Span *s = &g->setup;
    Node **nodes = s->nodes;
    int n = s->n_nodes;

    for (int i = 0; i < n; i++)
        name_kernel(g, names, nodes[i]);
    fill_span(g, s, PHASE_SETUP, -1, "setup", nodes, n);
    for (int i = 0; i < n; i++)
        s->scratch_bytes = max_i64(
            s->scratch_bytes, round_up(nodes[i]->workspace_bytes, ARENA_ALIGN_BYTES));
    s->live_scratch_bytes = s->scratch_bytes;
    span_make_args(g, NULL, s);
}

static int run_spans(lua_State *L)
{
    Gen *g = lua_touserdata(L, 1);
    KernelNames names = {0};

    setup_span(g, &names);
    for (int i = 0; i < g->classes.count; i++)
        class_spans(g, g->classes.items[i], &names);
    return 0;
}

void span_build(Gen *g)
{
    builder_protect(g, run_spans, g, model_pos(g, "model"));
}
