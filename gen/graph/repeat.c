/* SPDX-License-Identifier: Apache-2.0 */
/* repeat.c: copies where parts of a sequence are more than what they share. In: the
 * forward nodes of every class (graph); `repeats` of op rules. Out: before the first call
 * that reads whole sequences, nodes that make the copies; calls behind it have as many.
 * grad sums the copies' gradients, so this comes before it. Breaks: ids. Without
 * parts.context nothing changes, nor where parts have whole sequences.
 *
 * Key and value heads are the example. Around attention parts share heads, and with 8 of
 * them 16 parts get one each if each stands twice: the first two parts read the first.
 *
 * Values between such calls have other shapes then. So nothing is repeated if another op
 * reads them; split reports that parts do not divide the call. */
#include "graph/builder.h"

#include <string.h>

typedef struct Repeat {
    Gen *g;
    Builder *b;
    Class *c;
    Uses uses;
    int64_t *copies; /* per value: the attribute of its sections now; 0: as it was */
} Repeat;

static const Cut *repeating_cut(const Node *n)
{
    for (int i = 0; i < n->op->info->n_cuts; i++)
        if (n->op->info->cuts[i].repeats)
            return &n->op->info->cuts[i];
    return NULL;
}

/* Has the operand sections of as many as the attribute says? */
static bool has_sections(const Cut *cut, const char *operand)
{
    const CutOperand *o = cuts_operand(cut, operand);

    for (int i = 0; o && i < o->n_weights; i++)
        if (!strcmp(o->weight[i], cut->repeats))
            return true;
    return false;
}

/* The input with them; each rule has one. */
static int repeated_input(const Node *n, const Cut *cut)
{
    for (int i = 0; i < n->n_in; i++)
        if (has_sections(cut, node_operand(n, i)->name))
            return i;
    return -1;
}

static Attr *repeated_attr(const Node *n, const Cut *cut)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, cut->repeats))
            return &n->attrs[i];
    gen_die("%s: no attribute %s", n->op->name, cut->repeats);
}

/* As many as all parts divide, if they divide what else is shared; 0: none are needed, or
 * copies do not help. Parts of features share them first, and have no copies. */
static int64_t copies_needed(const Model *m, const Node *n, const Cut *cut)
{
    const int64_t have = repeated_attr(n, cut)->i, parts = parts_all(m);
    int64_t copies = have;

    if (m->micro_batch % m->parts[PARTS_CONTEXT] == 0 || have % m->parts[PARTS_TENSOR])
        return 0;
    for (int i = 0; i < n->n_attrs; i++)
        for (int k = 0; k < cut->n_attrs; k++)
            if (!strcmp(n->attrs[i].key, cut->attrs[k]) &&
                strcmp(cut->attrs[k], cut->repeats) != 0 && n->attrs[i].i % parts)
                return 0;
    while (copies % parts) /* a power of two */
        copies *= 2;
    return copies == have ? 0 : copies;
}

/* Do all readers of what the node makes take copies? */
static bool readers_follow(const Repeat *x, const Node *n, const Cut *cut)
{
    for (int k = 0; k < n->n_out; k++) {
        const Value *v = n->out[k];

        if (!has_sections(cut, n->op->out[k].name))
            continue;
        if (class_is_root(x->c, v))
            return false;
        for (int u = 0; u < x->uses.count[v->id]; u++) {
            const Node *reader = x->uses.node[v->id][u];
            const Cut *own = repeating_cut(reader);
            int at = own ? repeated_input(reader, own) : -1;

            if (at < 0 || repeated_attr(reader, own)->i != repeated_attr(n, cut)->i ||
                !readers_follow(x, reader, own))
                return false;
            for (int i = 0; i < reader->n_in; i++)
                if ((reader->in[i] == v) != (i == at))
                    return false;
        }
    }
    return true;
}

/* The node with so many; its input has them. */
static void take_copies(Repeat *x, Node *n, const Cut *cut, int64_t copies)
{
    repeated_attr(n, cut)->i = copies;
    x->b->blame = n->pos;
    infer_node(x->g, n);
    for (int k = 0; k < n->n_out; k++)
        if (has_sections(cut, n->op->out[k].name))
            x->copies[n->out[k]->id] = copies;
}

/* Calls the rule's function: the input with copies, of nodes at the end of the class. */
static Value *make_copies(Repeat *x, const Node *n, const Cut *cut, int64_t copies)
{
    lua_State *L = x->g->L;
    const int top = lua_gettop(L), first = x->c->nodes.count;
    Class *owner = NULL;
    Value *made;

    luaL_checkstack(L, 30, "copies");
    x->b->blame = n->pos;
    ops_push_function(L, n->op, "cuts");
    if (lua_getfield(L, -1, cut->axis) != LUA_TTABLE ||
        lua_getfield(L, -1, "repeats") != LUA_TTABLE ||
        lua_getfield(L, -1, cut->repeats) != LUA_TFUNCTION)
        luaL_error(L, "%s: the rule changed its own cuts", n->op->name);
    builder_push_call(x->b, n, x->c);
    lua_pushinteger(L, copies);
    x->b->phase = PHASE_FORWARD;
    x->b->piece = n->piece;
    lua_call(L, 3, 1);
    made = builder_to_value(L, -1, &owner);
    if (!made || owner != x->c || !made->def || made->def->id < first)
        luaL_error(
            L, "%s: repeats of cut %s returns %s, not the value of a call that it makes",
            n->op->name, cut->axis, builder_show(x->g, L, -1));
    lua_settop(L, top);
    for (int i = first; i < x->c->nodes.count; i++)
        x->c->nodes.items[i]->pos = n->pos;
    return made;
}

/* The nodes from `first` on go before the one at `at`. */
static void move_nodes(Repeat *x, int at, int first)
{
    Class *c = x->c;
    const int count = c->nodes.count - first, after = first - at;
    Node **moved = gen_alloc(x->g, sizeof *moved * (size_t)(count + after));

    memcpy(moved, c->nodes.items + first, sizeof *moved * (size_t)count);
    memcpy(moved + count, c->nodes.items + at, sizeof *moved * (size_t)after);
    memcpy(c->nodes.items + at, moved, sizeof *moved * (size_t)(count + after));
    for (int i = at; i < c->nodes.count; i++)
        c->nodes.items[i]->id = i;
}

static int run_repeat(lua_State *L)
{
    Repeat *x = lua_touserdata(L, 1);
    const Model *m = &x->g->model;
    Class *c = x->c;

    x->uses = class_uses(x->g, c);
    x->copies = gen_alloc(x->g, sizeof *x->copies * (size_t)(c->values.count + 1));
    for (int i = 0; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];
        const Cut *cut = repeating_cut(n);
        const int at = cut ? repeated_input(n, cut) : -1, first = c->nodes.count;
        const Value *in = at < 0 ? NULL : n->in[at];
        int64_t copies = in ? x->copies[in->id] : 0;
        Value *made;

        if (copies) {
            take_copies(x, n, cut, copies);
            continue;
        }
        copies = in ? copies_needed(m, n, cut) : 0;
        if (!copies || !readers_follow(x, n, cut))
            continue;
        made = make_copies(x, n, cut, copies);
        made->name = made->def->name =
            value_unique_name(x->g, c, gen_printf(x->g, "%s_repeated", in->name));
        n->in[at] = made;
        move_nodes(x, i, first);
        i += c->nodes.count - first;
        take_copies(x, n, cut, copies);
    }
    return 0;
}

void graph_repeat(Gen *g)
{
    Builder *b = builder_get(g);

    for (int i = 0; i < g->classes.count && g->model.parts[PARTS_CONTEXT] > 1; i++) {
        Repeat x = {.g = g, .b = b, .c = g->classes.items[i]};
        bool good;

        b->cls = x.c;
        b->block = x.c->name;
        good = builder_protect(g, run_repeat, &x, model_pos(g, "model"));
        b->cls = NULL;
        b->block = NULL;
        b->blame = (Pos){0};
        if (!good)
            return;
    }
}
