/* SPDX-License-Identifier: Apache-2.0 */
/* fuse.c: primitive nodes → fused nodes. In: the joint graph (grad). Out: fused nodes
 * with `replaced`, then g->numerics_hash. Breaks: node and value ids, which are
 * renumbered.
 *
 * Patterns (pattern.c) are matched on each class's joint forward and backward graph,
 * largest first, then by name, and last what makes scales; nodes in order. A match must
 * be convex, and its inner values must have no other user. A fused node of forward and
 * backward nodes belongs to the backward, with its meets (fuse_meets.c). An attribute
 * that the pattern does not mention takes its default.
 *
 * What changes no bit comes last, after the hash, and so is not in it: expansions in
 * place of fused nodes that the target has no kernel for (fuse_split.c), ops with the
 * bits of their expansions (same_bits), which may take in other fused ops, and chains of
 * formulas (fuse_maps.c). */
#include "graph/pattern.h"

#include <math.h>
#include <string.h>

/* ---- matching -------------------------------------------------------------------- */

typedef struct Match {
    Node *node[MAX_PATTERN];
    Value *value[MAX_PATTERN_VALUES];
    Attr var[MAX_VARS];
    bool var_bound[MAX_VARS];
} Match;

typedef struct Matcher {
    Gen *g;
    Class *c;
    const Pattern *p;
    const OpRule *sum;
    Uses uses;
    Node **next_write; /* per gradient: the next node that writes the same buffer */
    Match m;
} Matcher;

/* Of two meets that bring the same, the match takes the one of the backward. */
static bool bind_value(Matcher *x, const Value *pattern, Value *v)
{
    Value **bound = &x->m.value[pattern->id];

    if (*bound && !meets_alike(x->g, *bound, v))
        return false;
    if (!*bound || (*bound != v && v->def->phase == PHASE_BACKWARD))
        *bound = v;
    return true;
}

static bool bind_attr(Match *m, int var, const Attr *a)
{
    Attr *have = &m->var[var];

    if (!m->var_bound[var]) {
        *have = *a;
        m->var_bound[var] = true;
        return true;
    }
    if (have->type == ATTR_INT && a->type == ATTR_NUM)
        return (double)have->i == a->num;
    if (have->type != a->type)
        return false;
    if (a->type == ATTR_NUM)
        return !memcmp(&have->num, &a->num, sizeof a->num);
    return a->type == ATTR_STR ? !strcmp(have->s, a->s) : have->i == a->i;
}

static bool unify(Matcher *x, int index, Node *n, bool swap)
{
    const PatternNode *pn = &x->p->node[index];
    Match *m = &x->m;

    if (n->op != pn->op || n->n_in != pn->n_in || n->omitted != pn->omitted)
        return false;
    for (int i = 0; i < x->p->n_nodes; i++)
        if (m->node[i] == n)
            return false;
    for (int i = 0; i < n->n_attrs; i++)
        if (pn->var[i] < 0 ? !attr_equal(&pn->attrs[i], &n->attrs[i])
                           : !bind_attr(m, pn->var[i], &n->attrs[i]))
            return false;
    for (int i = 0; i < n->n_in; i++)
        if (!bind_value(x, pn->in[i], n->in[swap ? 1 - i : i]))
            return false;
    for (int i = 0; i < n->n_out; i++)
        if (!bind_value(x, pn->out[i], n->out[i]))
            return false;
    m->node[index] = n;
    return true;
}

static bool match_rest(Matcher *x, int step);

static bool try_node(Matcher *x, int step, Node *n)
{
    for (int swap = 0; swap < (n->op == x->sum ? 2 : 1); swap++) {
        Match saved = x->m;

        if (unify(x, x->p->order[step], n, swap != 0) && match_rest(x, step + 1))
            return true;
        x->m = saved;
    }
    return false;
}

static bool accept(Matcher *x);

static bool match_rest(Matcher *x, int step)
{
    const PatternNode *pn;

    if (step == x->p->n_nodes)
        return accept(x);
    pn = &x->p->node[x->p->order[step]];
    for (int i = 0; i < pn->op->n_out; i++) /* it makes a value that is matched already */
        if (x->m.value[pn->out[i]->id]) {
            Node *def = x->m.value[pn->out[i]->id]->def;

            return def && try_node(x, step, def);
        }
    for (int i = 0; i < pn->n_in; i++) { /* it uses a value that is matched already */
        const Value *v = x->m.value[pn->in[i]->id];

        if (!v)
            continue;
        for (int k = 0; k < x->uses.count[v->id]; k++)
            if (try_node(x, step, x->uses.node[v->id][k]))
                return true;
        return false;
    }
    return false;
}

/* ---- conditions ------------------------------------------------------------------ */

static bool inside(const Matcher *x, const Node *n)
{
    for (int i = 0; i < x->p->n_nodes; i++)
        if (x->m.node[i] == n)
            return true;
    return false;
}

static bool is_output(const Matcher *x, const Value *v)
{
    for (int i = 0; i < x->p->op->n_out; i++)
        if (x->m.value[x->p->out[i]->id] == v)
            return true;
    return false;
}

/* Does a path from n lead back into the match? seen: per node. */
static bool leads_back(const Matcher *x, const Node *n, bool *seen)
{
    if (inside(x, n))
        return true;
    if (seen[n->id])
        return false;
    seen[n->id] = true;
    for (int i = 0; i < n->n_out; i++) {
        const Node *next = x->next_write[n->out[i]->id];

        if (next && leads_back(x, next, seen))
            return true;
        for (int k = 0; k < x->uses.count[n->out[i]->id]; k++)
            if (leads_back(x, x->uses.node[n->out[i]->id][k], seen))
                return true;
    }
    return false;
}

static Phase match_phase(const Matcher *x)
{
    for (int i = 0; i < x->p->n_nodes; i++)
        if (x->m.node[i]->phase == PHASE_BACKWARD)
            return PHASE_BACKWARD;
    return PHASE_FORWARD;
}

/* The last of the pieces that the match spans: its inputs exist there in the forward, and
 * its backward runs as early as possible. span.c moves it if it depends on more. */
static int match_piece(const Matcher *x)
{
    int piece = 0;

    for (int i = 0; i < x->p->n_nodes; i++)
        piece = (int)max_i64(piece, x->m.node[i]->piece);
    return piece;
}

static bool value_fits(const Matcher *x, const Value *v, Phase phase, bool *seen)
{
    bool out = is_output(x, v);
    const Node *next = x->next_write[v->id];

    if (!out && (class_is_root(x->c, v) || v->loc == LOC_GRAD))
        return false;
    for (int i = 0; i < x->c->n_outputs; i++)
        if (x->c->outputs[i] == v && phase != PHASE_FORWARD)
            return false; /* the next block's forward needs it */
    if (next && !inside(x, next) && leads_back(x, next, seen))
        return false;
    for (int k = 0; k < x->uses.count[v->id]; k++) {
        const Node *user = x->uses.node[v->id][k];

        if (inside(x, user))
            continue;
        if (!out || leads_back(x, user, seen) ||
            (user->phase < phase && !meets_follow(x->c, &x->uses, user)))
            return false;
    }
    return true;
}

/* A fused node that writes gradients needs outputs that can add, and one beta for all. */
static bool grads_fit(const Matcher *x)
{
    Value *out[MAX_OPERANDS];
    bool add[MAX_OPERANDS];

    for (int i = 0; i < x->p->op->n_out; i++) {
        out[i] = x->m.value[x->p->out[i]->id];
        add[i] = out[i]->def->add[out[i]->def_out];
        if (out[i]->loc == LOC_GRAD && !x->p->op->out[i].may_add)
            return false;
    }
    return grads_agree(x->c, x->p->op->n_out, out, add);
}

static bool accept(Matcher *x)
{
    bool *seen = gen_alloc(x->g, (size_t)x->c->nodes.count + 1);
    Phase phase = match_phase(x);

    for (int i = 0; i < x->p->n_nodes; i++)
        for (int k = 0; k < x->m.node[i]->n_out; k++)
            if (!value_fits(x, x->m.node[i]->out[k], phase, seen))
                return false;
    return grads_fit(x);
}

/* ---- the fused node -------------------------------------------------------------- */

static void fused_attrs(Matcher *x, Node *n)
{
    const OpRule *op = x->p->op;

    n->n_attrs = op->info->n_attrs;
    n->attrs = gen_alloc(x->g, sizeof *n->attrs * (size_t)(n->n_attrs + 1));
    for (int i = 0; i < n->n_attrs; i++) {
        const AttrSpec *spec = &op->info->attrs[i];
        int var = 0;

        while (strcmp(x->p->var_name[var], spec->key) != 0)
            var++;
        if (!x->m.var_bound[var]) {
            if (!spec->has_default)
                luaL_error(x->g->L,
                           "%s: its expansion does not mention attribute %s, which has"
                           " no default",
                           op->name, spec->key);
            n->attrs[i] = spec->dflt;
            continue;
        }
        n->attrs[i] = x->m.var[var];
        n->attrs[i].key = spec->key;
        if (spec->type == ATTR_NUM && x->m.var[var].type == ATTR_INT) {
            n->attrs[i].type = ATTR_NUM;
            n->attrs[i].num = (double)x->m.var[var].i;
        } else if ((int)x->m.var[var].type != spec->type) {
            luaL_error(x->g->L, "%s: attribute %s has another type in its expansion",
                       op->name, spec->key);
        }
    }
}

/* Dims that the pattern gave to attributes must equal the inputs' dims. */
static void check_dims(Matcher *x, const Node *n)
{
    lua_State *L = x->g->L;

    infer_push_n(x->g, n);
    for (int i = x->p->op->info->n_attrs; i < x->p->n_vars; i++) {
        if (!x->m.var_bound[i])
            continue;
        lua_getfield(L, -1, x->p->var_name[i]);
        if (x->m.var[i].type != ATTR_INT || lua_tointeger(L, -1) != x->m.var[i].i)
            luaL_error(
                L,
                "%s: its expansion passes dim %s on, but the graph has another value"
                " there",
                x->p->op->name, x->p->var_name[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

static void check_flops(Matcher *x, Node *n)
{
    double sum = 0;

    for (int i = 0; i < n->n_replaced; i++)
        sum += n->replaced[i]->flops;
    if (!n->op->info->has_flops)
        n->flops = sum;
    else if (fabs(n->flops - sum) > 1e-9 * sum)
        luaL_error(x->g->L, "%s: its flops are %s, but those of its expansion are %s",
                   n->op->name, gen_printf(x->g, "%.0f", n->flops),
                   gen_printf(x->g, "%.0f", sum));
}

static void make_fused(Matcher *x)
{
    const OpRule *op = x->p->op;
    Node *n = gen_alloc(x->g, sizeof *n);
    int at = 0, kept = 0;

    *n = (Node){.op = op,
                .phase = match_phase(x),
                .piece = match_piece(x),
                .n_in = op->n_in,
                .n_out = op->n_out,
                .n_replaced = x->p->n_nodes};
    n->in = gen_alloc(x->g, sizeof *n->in * (size_t)(op->n_in + 1));
    n->out = gen_alloc(x->g, sizeof *n->out * (size_t)op->n_out);
    n->add = gen_alloc(x->g, sizeof *n->add * (size_t)op->n_out);
    n->replaced = gen_alloc(x->g, sizeof *n->replaced * (size_t)n->n_replaced);
    memcpy(n->replaced, x->m.node, sizeof *n->replaced * (size_t)n->n_replaced);
    for (int i = 0; i < op->n_in; i++)
        n->in[i] = x->m.value[i]; /* the first values of the pattern are its inputs */
    meets_take(x->g, n);
    fused_attrs(x, n);
    for (int i = 0; i < op->n_out; i++) {
        n->out[i] = gen_alloc(x->g, sizeof **n->out);
        n->out[i]->name = op->out[i].name;
    }
    infer_node(x->g, n);
    check_dims(x, n);
    check_flops(x, n);
    for (int i = 0; i < op->n_out; i++) {
        Value *v = x->m.value[x->p->out[i]->id];

        if (!same_shape(v, n->out[i]) || v->dtype != n->out[i]->dtype)
            luaL_error(x->g->L, "%s: output %s is %s %s, but its expansion gives %s %s",
                       op->name, op->out[i].name, dtype_name(n->out[i]->dtype),
                       shape_text(x->g, n->out[i]), dtype_name(v->dtype),
                       shape_text(x->g, v));
        n->add[i] = v->def->add[v->def_out];
        n->out[i] = v;
    }
    for (int i = 0; i < op->n_out; i++) {
        n->out[i]->def = n;
        n->out[i]->def_out = i;
        meets_move(&x->uses, n, n->out[i]);
    }
    n->name = n->out[0]->name;
    for (int i = 0; i < x->c->nodes.count; i++)
        if (inside(x, x->c->nodes.items[i]))
            at = i; /* at the place of the last one */
    for (int i = 0; i < x->c->nodes.count; i++) {
        Node *o = x->c->nodes.items[i];

        if (i == at)
            x->c->nodes.items[kept++] = n;
        else if (!inside(x, o))
            x->c->nodes.items[kept++] = o;
    }
    x->c->nodes.count = kept;
    for (int i = 0; i < kept; i++)
        x->c->nodes.items[i]->id = i;
}

Node **class_next_writes(Gen *g, const Class *c)
{
    Node **next = gen_alloc(g, sizeof *next * (size_t)(c->values.count + 1));

    for (int i = 0; i < c->values.count; i++) {
        const Value *v = c->values.items[i];

        for (int k = 0; v->loc == LOC_GRAD && k < c->values.count; k++) {
            const Value *o = c->values.items[k];

            if (o->loc == LOC_GRAD && o->loc_index == v->loc_index &&
                o->index == v->index + 1)
                next[i] = o->def;
        }
    }
    return next;
}

/* Has everything run that node n must follow? next: per gradient, the next writer of its
 * buffer. */
static bool ready(const Class *c, const Node *n, const bool *done, Node *const *next)
{
    for (int k = 0; k < n->n_in; k++) {
        const Node *def = n->in[k]->def;

        if (def && def->phase != PHASE_SETUP && !done[def->id])
            return false;
    }
    for (int i = 0; i < c->values.count; i++)
        if (next[i] == n && !done[c->values.items[i]->def->id])
            return false;
    return true;
}

void class_sort(Gen *g, Class *c)
{
    int n = c->nodes.count, placed = 0, forward_left = 0;
    Node **order = gen_alloc(g, sizeof *order * (size_t)(n + 1));
    bool *done = gen_alloc(g, (size_t)n + 1);
    Node **next = class_next_writes(g, c);

    for (int i = 0; i < n; i++)
        forward_left += c->nodes.items[i]->phase == PHASE_FORWARD;
    while (placed < n) {
        int i = 0;

        while (i < n &&
               (done[i] || (forward_left && c->nodes.items[i]->phase != PHASE_FORWARD) ||
                !ready(c, c->nodes.items[i], done, next)))
            i++;
        gen_require(i < n, "class %s has a cycle", c->name);
        done[i] = true;
        forward_left -= c->nodes.items[i]->phase == PHASE_FORWARD;
        order[placed++] = c->nodes.items[i];
    }
    for (int i = 0; i < n; i++) {
        order[i]->id = i;
        c->nodes.items[i] = order[i];
    }
}

typedef struct FuseRun {
    Gen *g;
    Class *c;
    const Pattern *p;
} FuseRun;

static int run_fuse(lua_State *L)
{
    FuseRun *run = lua_touserdata(L, 1);
    Class *c = run->c;
    Matcher *x = gen_alloc(run->g, sizeof *x);
    bool fresh = false; /* do x's uses match the current graph? */

    for (int i = 0; i < c->nodes.count;) {
        if (c->nodes.items[i]->op != run->p->node[run->p->order[0]].op) {
            i++;
            continue;
        }
        if (!fresh) {
            *x = (Matcher){
                .g = run->g, .c = c, .p = run->p, .sum = ops_role(run->g, "sum")};
            x->uses = class_uses(run->g, c);
            x->next_write = class_next_writes(run->g, c);
            fresh = true;
        }
        if (!try_node(x, 0, c->nodes.items[i])) {
            i++;
            continue;
        }
        make_fused(x);
        fresh = false;
        i = 0;
    }
    return 0;
}

/* Which ops: those that the hash has, or those with the bits of their expansions. */
static bool is_due(Gen *g, const OpRule *op, bool same_bits)
{
    return op->info->same_bits == same_bits &&
           (!same_bits || ops_has_template(g, op, ops_kernel_file(g, NULL)));
}

static void fuse_classes(Gen *g, const PatternList *patterns, bool same_bits)
{
    Builder *b = builder_get(g);

    for (int i = 0; i < g->classes.count; i++) {
        for (int k = 0; k < patterns->count; k++) {
            FuseRun run = {g, g->classes.items[i], patterns->items[k]};

            if (!is_due(g, run.p->op, same_bits))
                continue;
            b->block = run.c->name;
            builder_protect(g, run_fuse, &run, ops_place(g, run.p->op, "expands", NULL));
            b->block = NULL;
        }
        class_sort(g, g->classes.items[i]);
        class_sweep(g, g->classes.items[i]);
    }
}

void fuse_graph(Gen *g)
{
    PatternList patterns = {0};

    if (g->model.fuse) {
        patterns_record(g, &patterns);
        fuse_classes(g, &patterns, false);
    }
    if (g->model.kernel_library)
        kernel_library_check(g);
    g->numerics_hash = numerics_hash(g);
    g->numerics_lines = numerics_lines(g);
    if (g->model.fuse) {
        fuse_split(g);
        fuse_classes(g, &patterns, true);
        fuse_maps(g);
    }
}
