/* SPDX-License-Identifier: Apache-2.0 */
/* verify_split.c: does a graph in parts stand for the whole graph? In: the graph after
 * split. Out: NULL, or what is wrong. From the graph alone, without split.c's choices,
 * along each axis by itself; what a part has along other axes is then its call:
 *
 * 1. A node's parts are a cut that its op's rule lists, of the call that the parts make
 *    up together; or every part computes all of it. No rule declares an op linear, so no
 *    op reads a partial value. What reads padding takes it along an axis that pads.
 * 2. A meet turns what its input is into what its output is. All parts run one list of
 *    nodes, so they see the same meets in one order. It reads no weights: a rank has
 *    gathered others, or none, while its peers meet. Along other axes its result is cut
 *    as its input is: never into several pieces of a dim that it puts together or apart.
 *    Only a sum changes the dtype: of summands of parts.dtype, which is wider.
 * 3. A parameter's box is a piece of each section, and its gradient has the same piece.
 *    That of a whole parameter is whole. Boxes of padded rows are as fast as the last
 *    one's own rows let them be, and no larger.
 * 4. A block returns the parts that the next block takes; a loss is whole.
 * 5. Data is whole; of the parts' numbers each part has its own. */
#include "graph/builder.h"
#include "prove/verify.h"

#include <string.h>

typedef struct SplitCheck {
    Gen *g;
    const Class *c;
    PartsAxis axis;
    int64_t parts; /* along it */
    const char *bad;
} SplitCheck;

/* ---- nodes ----------------------------------------------------------------------- */

static Value *whole_value(const SplitCheck *x, const Value *v)
{
    Value *whole = gen_alloc(x->g, sizeof *whole);

    *whole = *v;
    if (v->part[x->axis].kind == PART_CUT) {
        whole->dim[v->part[x->axis].dim] *= x->parts;
        whole->elems *= x->parts;
        whole->bytes *= x->parts;
    }
    return whole;
}

static const PartState *part_of(const SplitCheck *x, const Value *v)
{
    return &v->part[x->axis];
}

/* The call that the parts make up, if they are cut so. */
static Node *whole_node(const SplitCheck *x, const Node *n, const Cut *cut)
{
    Node *whole = gen_alloc(x->g, sizeof *whole);

    *whole = *n;
    whole->in = gen_alloc(x->g, sizeof *whole->in * (size_t)(n->n_in + 1));
    whole->out = gen_alloc(x->g, sizeof *whole->out * (size_t)(n->n_out + 1));
    whole->attrs = gen_alloc(x->g, sizeof *whole->attrs * (size_t)(n->n_attrs + 1));
    for (int i = 0; i < n->n_in; i++)
        whole->in[i] = whole_value(x, n->in[i]);
    for (int i = 0; i < n->n_out; i++)
        whole->out[i] = gen_alloc(x->g, sizeof **whole->out);
    for (int i = 0; i < n->n_attrs; i++) {
        whole->attrs[i] = n->attrs[i];
        for (int k = 0; cut && k < cut->n_attrs; k++)
            if (!strcmp(n->attrs[i].key, cut->attrs[k]))
                whole->attrs[i].i =
                    (int64_t)((uint64_t)n->attrs[i].i * (uint64_t)x->parts);
    }
    return whole;
}

static const Value *operand(const Node *n, int i)
{
    return i < n->n_in ? n->in[i] : n->out[i - n->n_in];
}

static bool reads_padding(const SplitCheck *x, const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (part_of(x, n->in[i])->sections.pad)
            return true;
    return false;
}

/* Is it this cut, a free axis with the sections of operand `by`, or with one? */
static bool fits(const SplitCheck *x, const Node *n, const Node *whole, const Cut *cut,
                 int by)
{
    const int all = n->n_in + n->n_out;
    Sections sections = {0};
    const PartState *part;

    if (reads_padding(x, n) && (!cut->pads || (cut->free && by < 0)))
        return false;
    if (by >= 0) {
        const char *name =
            by < n->n_in ? node_operand(n, by)->name : n->op->out[by - n->n_in].name;
        const Value *v = operand(n, by);
        const CutOperand *o = cuts_operand(cut, name);

        if (!o || part_of(x, v)->kind != PART_CUT || part_of(x, v)->dim != o->dim ||
            (reads_padding(x, n) && !part_of(x, v)->sections.pad))
            return false;
        sections = cuts_base(x->g, o, &part_of(x, v)->sections);
    }
    part = cuts_parts(x->g, whole, cut, sections.n ? &sections : NULL);
    for (int i = 0; part && i < all; i++) {
        const Value *v = operand(n, i);

        if (!part_equal(part_of(x, v), &part[i]) ||
            (i >= n->n_in && part_of(x, v)->sections.pad < part[i].sections.pad) ||
            !same_shape(operand(whole, i), whole_value(x, v)))
            return false;
    }
    return part != NULL;
}

typedef struct TryCut {
    const SplitCheck *x;
    const Node *n;
    const Cut *cut;
    bool fits;
} TryCut;

static int try_cut(lua_State *L)
{
    TryCut *t = lua_touserdata(L, 1);
    Node *whole = whole_node(t->x, t->n, t->cut);

    infer_node(t->x->g, whole);
    for (int by = -1; !t->fits && by < (t->cut->free ? t->n->n_in + t->n->n_out : 0);
         by++)
        t->fits = fits(t->x, t->n, whole, t->cut, by);
    return 0;
}

static bool node_is_cut(const SplitCheck *x, const Node *n)
{
    for (int i = 0; i < n->op->info->n_cuts; i++) {
        if (n->op->info->cuts[i].context && x->axis != PARTS_CONTEXT)
            continue;
        TryCut t = {x, n, &n->op->info->cuts[i], false};

        lua_pushcfunction(x->g->L, try_cut);
        lua_pushlightuserdata(x->g->L, &t);
        if (lua_pcall(x->g->L, 1, 0, 0) != LUA_OK)
            lua_pop(x->g->L, 1);
        if (t.fits)
            return true;
    }
    return false;
}

static bool node_is_whole(const SplitCheck *x, const Node *n)
{
    for (int i = 0; i < n->n_in + n->n_out; i++)
        if (part_of(x, operand(n, i))->kind != PART_WHOLE)
            return false;
    return true;
}

static const Attr *attr_of(const Node *n, const char *key)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, key))
            return &n->attrs[i];
    return NULL;
}

/* What parts along the axis have of a value if it is whole along the axis of the meet.
 * Where both axes cut one dim, either the meet's parts are tokens, and the others' have
 * some of each (own), or they are pieces of each section. False: it cannot be so. */
static bool unmet(const SplitCheck *x, const Node *n, const Value *v, bool own,
                  PartState *state)
{
    const PartState *has = part_of(x, v), *met = &v->part[n->along];
    const int64_t parts = x->g->model.parts[n->along];
    const bool inner = x->axis == PARTS_CONTEXT;
    const int times = own && !inner ? (int)parts : 1;

    *state = *has;
    if (has->kind != PART_CUT || met->kind != PART_CUT || has->dim != met->dim)
        return true;
    if (has->sections.n != met->sections.n || has->sections.pad ||
        (own ? has->sections.n != 1 : inner))
        return false;
    state->sections.n = has->sections.n * times;
    state->sections.elems =
        gen_alloc(x->g, sizeof *state->sections.elems * (size_t)state->sections.n);
    for (int i = 0; i < state->sections.n; i++)
        state->sections.elems[i] =
            has->sections.elems[i / times] * (own && !inner ? 1 : parts);
    return true;
}

/* Of a meet along another axis: it is linear, so that summands stay summands. */
static const char *check_passed(const SplitCheck *x, const Node *n)
{
    const Value *in = n->in[0], *out = n->out[0];
    bool good = false;

    for (int k = 0; k < 4; k++) {
        PartState from, to;

        good = good || (unmet(x, n, in, k & 1, &from) && unmet(x, n, out, k >> 1, &to) &&
                        part_equal(&from, &to));
    }
    return good ? NULL
                : gen_printf(x->g, "%s: the meet %s mixes the pieces of parts",
                             x->c->name, n->name);
}

/* A sum, in the values' dtype, of summands that are wider. */
static bool adds_wide(const SplitCheck *x, const Node *n)
{
    const Dtype wide = n->in[0]->dtype;

    return part_of(x, n->in[0])->kind == PART_PARTIAL &&
           wide == x->g->model.parts_dtype &&
           n->out[0]->dtype == x->g->model.param_dtype &&
           dtype_bytes(wide) > dtype_bytes(n->out[0]->dtype);
}

static const char *check_meet(const SplitCheck *x, const Node *n)
{
    const Attr *axis = attr_of(n, "axis"), *parts = attr_of(n, "parts");
    const Attr *from = attr_of(n, "from"), *to = attr_of(n, "to");

    if (!from || !to || !parts || !axis || parts->i != x->parts ||
        strcmp(axis->s, axis_name(parts_mesh(x->axis))) != 0)
        return gen_printf(x->g, "%s: the meet %s is of other parts", x->c->name, n->name);
    if (n->in[0]->kind == VAL_PARAM && part_of(x, n->in[0])->kind != PART_WHOLE)
        return gen_printf(x->g, "%s: the meet %s reads weights of other ranks",
                          x->c->name, n->name);
    if (n->in[0]->dtype != n->out[0]->dtype && !adds_wide(x, n))
        return gen_printf(x->g, "%s: the meet %s makes %s of %s", x->c->name, n->name,
                          dtype_name(n->out[0]->dtype), dtype_name(n->in[0]->dtype));
    if (strcmp(from->s, part_text(x->g, part_of(x, n->in[0]))) != 0 ||
        strcmp(to->s, part_text(x->g, part_of(x, n->out[0]))) != 0 ||
        part_is_made(part_of(x, n->out[0])))
        return gen_printf(x->g, "%s: the meet %s makes %s of %s", x->c->name, n->name,
                          part_text(x->g, part_of(x, n->out[0])),
                          part_text(x->g, part_of(x, n->in[0])));
    return NULL;
}

static const char *check_node(const SplitCheck *x, const Node *n)
{
    if (n->op->collective)
        return n->along == x->axis ? check_meet(x, n) : check_passed(x, n);
    for (int i = 0; i < n->n_in; i++)
        if (part_is_made(part_of(x, n->in[i])))
            return gen_printf(x->g, "%s: %s reads %s before the parts %s", x->c->name,
                              n->name, n->in[i]->name,
                              part_of(x, n->in[i])->kind == PART_PARTIAL
                                  ? "are summed"
                                  : "meet in the largest");
    if ((!node_is_whole(x, n) || reads_padding(x, n)) && !node_is_cut(x, n))
        return gen_printf(x->g, "%s: the parts of %s do not make up %s", x->c->name,
                          n->name, n->op->name);
    return NULL;
}

/* ---- parameters, boundaries ------------------------------------------------------ */

/* Padded boxes of so many rows: no other part than the last has zeros, and it has not
 * only them. Eights of rows are fast, so boxes are the fewest eights that hold all rows;
 * the fewest rows only where eights leave the last part none. */
static bool padded_well(int64_t each, int64_t parts, int64_t rows)
{
    const int64_t before = (parts - 1) * each, rest = each % 8;

    if (before >= rows || before + each < rows)
        return false;
    if (rest == 0)
        return (each - 8) * parts < rows;
    return before + each - parts < rows && (parts - 1) * (each + 8 - rest) >= rows;
}

/* The piece of a parameter that a part has along the axis, where another axis may cut it,
 * too: equal pieces of each section. */
static bool is_piece(const SplitCheck *x, const ClassParam *p, const PartState *part)
{
    const PartState *mark = &p->mark[x->axis];
    const PartState *context = &p->mark[PARTS_CONTEXT];
    const bool again = x->axis == PARTS_TENSOR && context->kind == PART_CUT;
    const int64_t times = again ? x->g->model.parts[PARTS_CONTEXT] : 1;

    if (mark->kind != PART_CUT || part->kind != PART_CUT)
        return mark->kind == part->kind;
    if (mark->dim != part->dim || mark->sections.n != part->sections.n)
        return false;
    for (int i = 0; i < mark->sections.n; i++)
        if (mark->sections.elems[i] != part->sections.elems[i] * times)
            return false;
    return true;
}

/* Do the sections of the mark have all of the dim that it cuts? That is the parameter's,
 * or that of a part of features. */
static bool has_all(const SplitCheck *x, const ClassParam *p, const PartState *mark)
{
    const PartState *tensor = &p->mark[PARTS_TENSOR];
    const bool inner = x->axis == PARTS_CONTEXT && tensor->kind == PART_CUT;
    const int64_t unit = inner ? 1 : p->mark_unit;
    int64_t sum = -mark->sections.pad;
    bool good = !inner || (tensor->dim == mark->dim && !tensor->sections.pad &&
                           tensor->sections.n == mark->sections.n);

    for (int i = 0; i < mark->sections.n; i++) {
        sum += mark->sections.elems[i];
        good = good && mark->sections.elems[i] % (x->parts * unit) == 0;
        good = good &&
               (!inner || mark->sections.elems[i] * x->g->model.parts[PARTS_TENSOR] ==
                              tensor->sections.elems[i]);
    }
    return good && (inner || sum == p->dim[mark->dim]);
}

static const char *check_param(const SplitCheck *x, const Value *v)
{
    const ClassParam *p = &x->c->params.items[v->index];
    const PartState *mark = &p->mark[x->axis];
    const int64_t pad = p->mark[PARTS_TENSOR].sections.pad;
    int64_t times[N_PARTS_AXES];

    for (int a = 0; a < N_PARTS_AXES; a++)
        times[a] = p->mark[a].kind == PART_CUT ? x->g->model.parts[a] : 1;
    if (!is_piece(x, p, part_of(x, v)) ||
        (mark->kind == PART_CUT && !has_all(x, p, mark)) || pad < 0 ||
        (p->mark_pads ? !padded_well(v->dim[0] * times[PARTS_CONTEXT],
                                     x->g->model.parts[PARTS_TENSOR], p->dim[0])
                      : pad > 0) ||
        v->elems * times[PARTS_TENSOR] * times[PARTS_CONTEXT] !=
            p->elems + pad * (p->elems / p->dim[0]))
        return gen_printf(x->g, "%s: the boxes of %s are not the parameter", x->c->name,
                          p->name);
    return NULL;
}

static const char *check_gradient(const SplitCheck *x, const Value *v)
{
    const ClassParam *p = &x->c->params.items[v->loc_index];

    if (is_piece(x, p, part_of(x, v)))
        return NULL;
    return p->mark[x->axis].kind == PART_CUT
               ? gen_printf(x->g, "%s: %s is not on the ranks of its parameter",
                            x->c->name, v->name)
               : gen_printf(x->g, "%s: the gradient of %s is not summed over parts",
                            x->c->name, p->name);
}

/* Data is whole, but the parts' numbers: each part has its own, along tensor. */
static const char *check_data(const SplitCheck *x, const Value *v)
{
    int64_t parts = x->parts;
    const PartState whole = {0}, own = {.kind = PART_CUT, .sections = {1, &parts, 0}};
    const bool number = v->index == DATA_PART && x->axis == PARTS_TENSOR;

    if (part_equal(part_of(x, v), number ? &own : &whole) &&
        (v->index != DATA_PART || v->elems == 1))
        return NULL;
    return gen_printf(x->g, "%s: parts take %s as %s", x->c->name, v->name,
                      part_text(x->g, part_of(x, v)));
}

static const char *check_params(const SplitCheck *x)
{
    for (int i = 0; i < x->c->values.count; i++) {
        const Value *v = x->c->values.items[i];
        const char *bad = v->kind == VAL_PARAM  ? check_param(x, v)
                          : v->kind == VAL_DATA ? check_data(x, v)
                          : v->loc == LOC_GRAD  ? check_gradient(x, v)
                                                : NULL;

        if (bad)
            return bad;
    }
    return NULL;
}

static const char *check_ends(const SplitCheck *x, const Class *next)
{
    const Class *c = x->c;

    if (c->loss && part_of(x, c->loss)->kind != PART_WHOLE)
        return gen_printf(x->g, "%s: the loss is not summed over parts", c->name);
    for (int i = 0; i < c->n_inputs; i++)
        if (c->d_inputs[i] &&
            !part_equal(part_of(x, c->d_inputs[i]), part_of(x, c->inputs[i])))
            return gen_printf(x->g, "%s: %s is in other parts than %s", c->name,
                              c->d_inputs[i]->name, c->inputs[i]->name);
    for (int i = 0; next && i < c->n_outputs; i++)
        if (!part_equal(part_of(x, c->outputs[i]), part_of(x, next->inputs[i])))
            return gen_printf(x->g, "%s: %s is in other parts than %s takes it", c->name,
                              c->outputs[i]->name, next->name);
    for (int i = 0; i < c->n_outputs; i++)
        if (c->d_outputs[i] &&
            !part_equal(part_of(x, c->d_outputs[i]), part_of(x, c->outputs[i])))
            return gen_printf(x->g, "%s: %s is in other parts than %s", c->name,
                              c->d_outputs[i]->name, c->outputs[i]->name);
    return NULL;
}

static const char *check_class(const SplitCheck *x, const Class *next)
{
    const char *bad = check_params(x);

    for (int i = 0; !bad && i < x->c->nodes.count; i++)
        bad = check_node(x, x->c->nodes.items[i]);
    return bad ? bad : check_ends(x, next);
}

static int run_split_check(lua_State *L)
{
    SplitCheck *x = lua_touserdata(L, 1);
    Gen *g = x->g;

    for (int i = 0; !x->bad && x->parts > 1 && i < g->blocks.count; i++) {
        x->c = g->blocks.items[i].cls;
        x->bad =
            check_class(x, i + 1 < g->blocks.count ? g->blocks.items[i + 1].cls : NULL);
    }
    return 0;
}

const char *verify_split(Gen *g)
{
    const char *bad = NULL;

    for (int a = 0; g->in_parts && !bad && a < N_PARTS_AXES; a++) {
        SplitCheck x = {.g = g, .axis = a, .parts = g->model.parts[a]};

        if (!builder_protect(g, run_split_check, &x, (Pos){0}))
            return "the check of parts failed";
        bad = x.bad;
    }
    return bad;
}
