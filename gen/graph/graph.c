/* SPDX-License-Identifier: Apache-2.0 */
/* graph.c: the architecture's build → blocks, classes, parameters, forward nodes. In: the
 * resolved model (check) and the ops (ops_load). Out: g->blocks, classes, params, consts,
 * setup.nodes. Breaks: nothing.
 *
 * Every block is built in Lua. A block whose graph equals an earlier one's except for
 * names shares its class, so that a layer's mathematics exists once. Nodes that depend on
 * no parameter, input or data move to the setup span and become constants that all
 * classes share: nodes with equal op, attributes and inputs become one constant. */
#include "graph/builder.h"
#include "base/names.h"

#include <string.h>

/* ---- structure ------------------------------------------------------------------- */

static void add_value(Text *t, const Value *v)
{
    text_printf(t, " %d:%s[", v->id, dtype_name(v->dtype));
    for (int i = 0; i < v->n_dims; i++)
        text_printf(t, "%s%lld", i ? "," : "", (long long)v->dim[i]);
    text_printf(t, "]");
}

/* Everything that decides whether two blocks share a class: of names, only those of local
 * parameters. */
static const char *structure_text(Gen *g, const Class *c)
{
    Text t = {.g = g};

    for (int i = 0; i < c->values.count; i++) {
        const Value *v = c->values.items[i];

        if (v->kind != VAL_NODE) {
            text_printf(&t, "%d %d", v->kind, v->index);
            add_value(&t, v);
        }
    }
    for (int i = 0; i < c->params.count; i++) {
        const ClassParam *p = &c->params.items[i];

        text_printf(&t, ";%s %d %s %.17g %d", p->name, p->tied_global, p->init,
                    p->init_std, p->decay);
        if (p->frozen)
            text_printf(&t, " frozen");
        text_printf(&t, " %s %lld%s", part_text(g, &p->mark[PARTS_TENSOR]),
                    (long long)p->mark_unit, p->mark_pads ? " pads" : "");
        for (int k = 0; k < p->n_parts; k++)
            text_printf(&t, " %s:%lld", p->part_name[k], (long long)p->part_rows[k]);
    }
    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        text_printf(&t, ";%s %d", n->op->name, n->piece);
        for (int k = 0; k < n->n_in; k++)
            text_printf(&t, " %d", n->in[k]->id);
        if (n->omitted)
            text_printf(&t, " without %x", (unsigned)n->omitted);
        for (int k = 0; k < n->n_attrs; k++)
            text_printf(&t, " %s", attr_text(g, &n->attrs[k]));
        for (int k = 0; k < n->n_out; k++)
            add_value(&t, n->out[k]);
    }
    for (int i = 0; i < c->pieces.count; i++)
        text_printf(&t, ";cut %s",
                    c->pieces.items[i].name ? c->pieces.items[i].name : "");
    if (c->n_inputs && !c->trains_before)
        text_printf(&t, ";first to train");
    text_printf(&t, ";out %d loss %d", c->n_outputs ? c->outputs[0]->id : -1,
                c->loss ? c->loss->id : -1);
    return t.s;
}

bool node_equal(const Node *a, const Node *b)
{
    if (a->op != b->op || a->n_attrs != b->n_attrs || a->n_in != b->n_in ||
        a->omitted != b->omitted)
        return false;
    for (int i = 0; i < a->n_attrs; i++)
        if (!attr_equal(&a->attrs[i], &b->attrs[i]))
            return false;
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i] != b->in[i])
            return false;
    return true;
}

/* ---- setup constants ------------------------------------------------------------- */

static const char *const_name(Gen *g, const char *base)
{
    const char *name = base;

    for (int i = 2;; i++) {
        bool used = false;

        for (int k = 0; k < g->consts.count; k++)
            used = used ||
                   (g->consts.items[k].name && !strcmp(g->consts.items[k].name, name));
        if (!used)
            return name;
        name = gen_printf(g, "%s_%d", base, i);
    }
}

/* The setup node equal to n, whose inputs are setup values already; made if new. */
static Node *setup_node(Gen *g, const Node *n)
{
    Node *s;

    for (int i = 0; i < g->setup.n_nodes; i++)
        if (node_equal(g->setup.nodes[i], n))
            return g->setup.nodes[i];
    s = gen_alloc(g, sizeof *s);
    *s = *n;
    s->id = g->setup.n_nodes;
    s->out = gen_alloc(g, sizeof *s->out * (size_t)n->n_out);
    for (int i = 0; i < n->n_out; i++) {
        Value *v = gen_alloc(g, sizeof *v);

        *v = *n->out[i];
        v->name = const_name(g, v->name);
        v->id = v->loc_index = g->consts.count;
        v->def = s;
        v->loc = LOC_CONST;
        s->out[i] = v;
        *gen_push(g, &g->consts) = (Const){v->name, s, i, v, v->bytes};
    }
    s->name = s->out[0]->name;
    {
        Node **nodes = gen_alloc(g, sizeof *nodes * (size_t)(g->setup.n_nodes + 1));

        for (int i = 0; i < g->setup.n_nodes; i++)
            nodes[i] = g->setup.nodes[i];
        nodes[g->setup.n_nodes++] = s;
        g->setup.nodes = nodes;
    }
    return s;
}

/* The class's values stay; they point at the shared node. */
void graph_hoist_setup(Gen *g, Class *c)
{
    int kept = 0;

    for (int i = 0; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i], *s;

        if (n->phase != PHASE_SETUP) {
            n->id = kept;
            c->nodes.items[kept++] = n;
            continue;
        }
        for (int k = 0; k < n->n_in; k++) /* class value → shared value */
            n->in[k] = n->in[k]->def->out[n->in[k]->def_out];
        s = setup_node(g, n);
        for (int k = 0; k < n->n_out; k++) {
            n->out[k]->def = s;
            n->out[k]->loc = LOC_CONST;
            n->out[k]->loc_index = s->out[k]->loc_index;
        }
    }
    c->nodes.count = kept;
}

/* ---- classes --------------------------------------------------------------------- */

static const char *class_name(Gen *g, const char *hint)
{
    const char *name = hint;

    for (int i = 2;; i++) {
        bool used = false;

        for (int k = 0; k < g->classes.count; k++)
            used = used || !strcmp(g->classes.items[k]->name, name);
        if (!used)
            return name;
        name = gen_printf(g, "%s_%d", hint, i);
    }
}

/* Blocks of one architecture's class may differ in what is frozen; then their names say
 * so. */
static const char *frozen_hint(Gen *g, const Class *c, const char *hint)
{
    int frozen = 0;

    for (int i = 0; i < c->params.count; i++)
        frozen += c->params.items[i].frozen;
    if (c->params.count && frozen == c->params.count)
        return gen_printf(g, c->trains_before ? "%s_passing" : "%s_frozen", hint);
    if (c->n_inputs && !c->trains_before)
        return gen_printf(g, "%s_first", hint);
    return frozen ? gen_printf(g, "%s_partly", hint) : hint;
}

/* The texts of known classes, for an exact comparison if hashes are equal; parallel to
 * g->classes. */
typedef struct Structures {
    struct {
        const char **items;
        int count, cap;
    } texts;
    struct {
        int *slot;
        int cap, count;
    } names; /* parameters by global name */
} Structures;

static Structures *structures; /* of the only build in this process */

static Class *find_class(Gen *g, Class *c, const char *hint)
{
    const char *text = structure_text(g, c);

    c->structure_hash = hash_bytes(text, strlen(text));
    for (int i = 0; i < g->classes.count; i++)
        if (g->classes.items[i]->structure_hash == c->structure_hash &&
            !strcmp(structures->texts.items[i], text))
            return g->classes.items[i];
    c->name = class_name(g, frozen_hint(g, c, hint));
    c->hint = hint;
    c->id = g->classes.count;
    *gen_push(g, &structures->texts) = text;
    *gen_push(g, &g->classes) = c;
    graph_hoist_setup(g, c);
    return c;
}

/* ---- parameters ------------------------------------------------------------------ */

static uint64_t name_hash(const char *s)
{
    return hash_bytes(s, strlen(s));
}

static void names_insert(Gen *g, int id)
{
    int cap = structures->names.cap;
    uint64_t at = name_hash(g->params.items[id].name);

    while (structures->names.slot[at % (uint64_t)cap])
        at++;
    structures->names.slot[at % (uint64_t)cap] = id + 1;
}

static void names_add(Gen *g, int id)
{
    if (2 * (structures->names.count + 1) > structures->names.cap) {
        structures->names.cap = structures->names.cap ? 2 * structures->names.cap : 256;
        structures->names.slot =
            gen_alloc(g, sizeof(int) * (size_t)structures->names.cap);
        for (int i = 0; i < id; i++)
            names_insert(g, i);
    }
    names_insert(g, id);
    structures->names.count++;
}

static Param *names_find(Gen *g, const char *name)
{
    int cap = structures->names.cap;

    for (uint64_t at = name_hash(name); cap; at++) {
        int id = structures->names.slot[at % (uint64_t)cap];

        if (!id)
            break;
        if (!strcmp(g->params.items[id - 1].name, name))
            return &g->params.items[id - 1];
    }
    return NULL;
}

static const char *global_name(Gen *g, const ClassParam *p, const char *prefix)
{
    return p->tied_global ? p->name : gen_printf(g, "%s%s", prefix, p->name);
}

/* Which parameters of a block just built are frozen: this is part of its class. */
static void find_frozen(Builder *b, const char *prefix)
{
    Class *c = b->cls;

    c->trains_before = b->trains;
    for (int i = 0; i < c->params.count; i++) {
        ClassParam *p = &c->params.items[i];
        const char *name = global_name(b->g, p, prefix);
        const Param *known = names_find(b->g, name);
        const ParamGroup *group = known ? known->group : group_of(b->g, name);

        p->frozen = group && group->frozen;
        p->group = group;
        b->trains = b->trains || !p->frozen;
    }
}

enum { MAX_MODEL_LOG2_ELEMS = 50 }; /* so that no sum of bytes overflows */

static void add_params(Builder *b, Block *block, Class *built)
{
    Gen *g = b->g;

    for (int i = 0; i < built->params.count; i++) {
        ClassParam *p = &block->cls->params.items[i];
        const char *name = global_name(g, p, block->prefix);
        Param *known = names_find(g, name);

        if (!known) {
            known = gen_push(g, &g->params);
            *known = (Param){.id = g->params.count - 1,
                             .name = name,
                             .decl = p,
                             .elems = p->elems,
                             .group = built->params.items[i].group,
                             .segment = -1};
            known->block = block; /* the class may move; graph_build sets this again */
            names_add(g, known->id);
            b->elems += p->elems;
            if (b->elems >> MAX_MODEL_LOG2_ELEMS)
                luaL_error(g->L, "param: up to %s, the model has more than 2^%d elements",
                           name, MAX_MODEL_LOG2_ELEMS);
        } else if (!p->tied_global || !known->decl->tied_global) {
            luaL_error(g->L,
                       "param: two blocks declare %s; to share one tensor, both say"
                       " global = \"%s\"",
                       name, name);
        } else if (!param_equal(known->decl, p)) {
            luaL_error(g->L, "param: two blocks declare %s differently", name);
        }
        known->n_uses++;
        block->param[i] = known->id;
    }
}

void graph_add_block(Builder *b, const char *name, const char *prefix)
{
    Gen *g = b->g;
    Block *block = gen_push(g, &g->blocks);

    *block = (Block){.id = g->blocks.count - 1,
                     .name = name,
                     .ident = name_ident(g, name),
                     .prefix = prefix};
    block->param =
        gen_alloc(g, sizeof *block->param * (size_t)(b->cls->params.count + 1));
    find_frozen(b, prefix);
    block->cls = find_class(g, b->cls, b->hint);
    add_params(b, block, b->cls);
}

/* ---- users of values ------------------------------------------------------------- */

Uses class_uses(Gen *g, const Class *c)
{
    Uses u;
    int total = 0;
    Node **at;

    u.count = gen_alloc(g, sizeof *u.count * (size_t)(c->values.count + 1));
    u.node = gen_alloc(g, sizeof *u.node * (size_t)(c->values.count + 1));
    for (int i = 0; i < c->nodes.count; i++)
        for (int k = 0; k < c->nodes.items[i]->n_in; k++, total++)
            u.count[c->nodes.items[i]->in[k]->id]++;
    at = gen_alloc(g, sizeof *at * (size_t)(total + 1));
    for (int i = 0; i < c->values.count; i++) {
        u.node[i] = at;
        at += u.count[i];
        u.count[i] = 0;
    }
    for (int i = 0; i < c->nodes.count; i++)
        for (int k = 0; k < c->nodes.items[i]->n_in; k++) {
            int id = c->nodes.items[i]->in[k]->id;

            if (!u.count[id] || u.node[id][u.count[id] - 1] != c->nodes.items[i])
                u.node[id][u.count[id]++] = c->nodes.items[i];
        }
    return u;
}

bool class_is_root(const Class *c, const Value *v)
{
    if (v == c->loss)
        return true;
    for (int i = 0; i < c->n_outputs; i++)
        if (c->outputs[i] == v)
            return true;
    for (int i = 0; c->d_inputs && i < c->n_inputs; i++)
        if (c->d_inputs[i] == v)
            return true;
    for (int i = 0; c->grads && i < c->params.count; i++)
        if (c->grads[i] == v)
            return true;
    return false;
}

/* Does the node add into a gradient that a later root needs? Its value then has no
 * user. */
static bool adds_to_grad(const Class *c, const Node *n)
{
    for (int i = 0; i < n->n_out; i++)
        if (n->out[i]->loc == LOC_GRAD && c->grads)
            return true;
    return false;
}

void class_sweep(Gen *g, Class *c)
{
    bool *needed = gen_alloc(g, (size_t)c->values.count + 1);
    bool *live = gen_alloc(g, (size_t)c->nodes.count + 1);
    int nodes = 0, values = 0;

    for (int i = c->nodes.count - 1; i >= 0; i--) {
        Node *n = c->nodes.items[i];

        live[i] = adds_to_grad(c, n);
        for (int k = 0; k < n->n_out; k++)
            live[i] = live[i] || needed[n->out[k]->id] || class_is_root(c, n->out[k]);
        for (int k = 0; live[i] && k < n->n_in; k++)
            needed[n->in[k]->id] = true;
    }
    for (int i = 0; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];

        for (int k = 0; live[i] && k < n->n_out; k++)
            needed[n->out[k]->id] = true; /* a kernel writes all its outputs */
        if (live[i]) {
            n->id = nodes;
            c->nodes.items[nodes++] = n;
        }
    }
    c->nodes.count = nodes;
    for (int i = 0; i < c->values.count; i++) {
        Value *v = c->values.items[i];
        bool boundary =
            v->kind == VAL_PARAM || v->kind == VAL_INPUT || v->kind == VAL_DOUT;

        if (!needed[v->id] && !boundary)
            continue;
        v->id = values;
        c->values.items[values++] = v;
    }
    c->values.count = values;
}

static void node_take_form(Gen *g, Node *n, const OpRule *form, const bool *dead)
{
    int kept = 0;

    for (int k = 0; k < n->n_out; k++) {
        const char *word = n->op->out[k].form;

        gen_require(!word || strcmp(word, form->info->form) != 0 || dead[k],
                    "%s: %s is needed", n->name, n->op->out[k].name);
        if (word && !strcmp(word, form->info->form))
            continue;
        n->out[kept] = n->out[k];
        n->add[kept] = n->add[k];
        n->out[kept]->def_out = kept;
        kept++;
    }
    n->op = form;
    n->n_out = kept;
    infer_node(g, n);
}

void class_trim(Gen *g, Class *c)
{
    Uses uses = class_uses(g, c);

    for (int i = 0; i < c->nodes.count; i++) {
        Node *n = c->nodes.items[i];
        bool dead[MAX_OPERANDS], any = false;
        const OpRule *form;

        for (int k = 0; k < n->n_out; k++) {
            const Value *v = n->out[k];

            dead[k] = !uses.count[v->id] && !class_is_root(c, v) && v->loc != LOC_GRAD;
            any = any || dead[k];
        }
        form = any ? ops_form(g, n->op, dead) : NULL;
        if (form)
            node_take_form(g, n, form, dead);
    }
    class_sweep(g, c);
}

/* ---- the pass -------------------------------------------------------------------- */

static int run_build(lua_State *L)
{
    Builder *b = lua_touserdata(L, 1);

    lua_rawgeti(L, LUA_REGISTRYINDEX, b->g->model.build_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->g->model.model_ref);
    lua_rawgeti(L, LUA_REGISTRYINDEX, b->b_ref);
    lua_call(L, 2, 0);
    return 0;
}

static void check_ends(Gen *g, Builder *b)
{
    const char *help =
        "the last block returns the loss: one element of dtype f64, summed over"
        " the tokens";

    if (b->cls || b->block) /* it caught the error of a block and continued */
        diag_add(g, DIAG_ERROR, model_pos(g, "model"), "do not catch errors in build",
                 "model: a block of %s was not finished", g->model.arch);
    else if (!g->blocks.count)
        diag_add(g, DIAG_ERROR, model_pos(g, "model"), help, "model: %s builds no block",
                 g->model.arch);
    else if (!b->ended)
        diag_add(g, DIAG_ERROR, model_pos(g, "model"), help,
                 "model: the last block of %s, %s, returns no loss", g->model.arch,
                 g->blocks.items[g->blocks.count - 1].name);
}

/* With packed documents, some op must read the starts, or documents would not be
 * separated. */
static void check_packed(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->values.count; k++) {
            const Value *v = g->classes.items[i]->values.items[k];

            if (v->kind == VAL_DATA && v->index == DATA_STARTS)
                return;
        }
    diag_add(g, DIAG_ERROR, model_pos(g, "documents"),
             "give g:starts() to the architecture's attention and positions, or leave"
             " documents out",
             "documents: %s does not tell documents apart: no block reads g:starts()",
             g->model.arch);
}

void graph_build(Gen *g)
{
    Builder *b = builder_get(g);

    structures = gen_alloc(g, sizeof *structures);
    b->phase = PHASE_FORWARD;
    if (!builder_protect(g, run_build, b, model_pos(g, "model")))
        return;
    check_ends(g, b);
    b->cls = NULL;
    b->block = NULL;
    for (int i = 0; i < g->params.count; i++)
        g->params.items[i].block = NULL;
    for (int i = 0; i < g->blocks.count; i++) {
        Block *block = &g->blocks.items[i];

        for (int k = 0; k < block->cls->params.count; k++) {
            Param *p = &g->params.items[block->param[k]];

            if (!p->block)
                p->block = block;
        }
    }
    groups_check(g);
    optimizer_matrices(g);
    for (int i = 0; i < g->classes.count; i++)
        class_sweep(g, g->classes.items[i]);
    if (g->model.packed)
        check_packed(g);
}
