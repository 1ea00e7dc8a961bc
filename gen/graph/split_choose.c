/* SPDX-License-Identifier: Apache-2.0 */
/* split_choose.c: along which axis each node is computed in parts. In: a class of whole
 * values, of which parameters, inputs and gradients from outside have their part; `cuts`
 * of the ops' rules. Out: a choice per node, and the part of each of its outputs. Changes
 * no shape. A node whose parts are other ops is replaced first (split_ops.c).
 *
 * Nodes are taken in order, and of all ways that a rule allows for the call the cheapest
 * is taken: first the one that moves the fewest bytes of cut parameters, of values made
 * of them alone, and of their gradients (a mark says where these lie), then one that
 * divides the work, then the one that moves the fewest bytes of other values, then the
 * one that needs the fewest inputs otherwise than they are.
 *
 * Parts of tokens (parts.context) have whole weights: a node is cut by tokens wherever
 * its rule allows it, and otherwise, as attention, by heads. A node that could only do
 * the work of all parts is refused. Meets of parts of features are nodes, too. */
#include "graph/graph.h"

#include <string.h>

/* What earlier nodes need of a value anyway. */
typedef struct Needed {
    const Value *value;
    Phase phase;
    PartState as;
} Needed;

typedef struct Chooser {
    Gen *g;
    const Class *c;
    PartsAxis axis;
    int64_t parts; /* along it */
    struct {
        Needed *items;
        int count, cap;
    } needed;
    struct {
        Choice *items;
        int count, cap;
    } choices; /* per node so far */
} Chooser;

typedef struct Price {
    double param_bytes;
    bool whole;        /* every part does all the work */
    bool cuts_weights; /* a part reads, or makes the gradient of, a piece of a weight */
    double bytes;
    int changes; /* inputs that are not as they are needed, pieces of whole ones too */
} Price;

/* ---- parts of a node ------------------------------------------------------------- */

/* What a part along one axis has of the pieces along another, of the same dim; false:
 * those are not pieces any more. Sections that are the parts themselves, one each, are
 * tokens: the part has one of them. Otherwise it has its piece of each section. */
static bool piece_of(Gen *g, PartState *other, const PartState *cut, int64_t parts)
{
    const bool own = cut->sections.n == 1 && other->sections.n == parts;
    Sections s = {.n = own ? 1 : other->sections.n};

    if (other->sections.pad || (!own && s.n != cut->sections.n))
        return false;
    s.elems = gen_alloc(g, sizeof *s.elems * (size_t)s.n);
    for (int i = 0; i < other->sections.n; i++) {
        const int64_t elems = other->sections.elems[i];

        if (own ? elems != other->sections.elems[0]
                : elems * cut->sections.elems[0] !=
                      other->sections.elems[0] * cut->sections.elems[i])
            return false;
        s.elems[own ? 0 : i] = own ? elems : elems / parts;
    }
    other->sections = s;
    return true;
}

bool split_others(Gen *g, PartState part[N_PARTS_AXES], PartsAxis axis)
{
    const PartState *cut = &part[axis];
    bool good = true;

    for (int a = 0; a < N_PARTS_AXES; a++)
        if (a != (int)axis && cut->kind == PART_CUT && part[a].kind == PART_CUT &&
            part[a].dim == cut->dim)
            good = piece_of(g, &part[a], cut, g->model.parts[axis]) && good;
    return good;
}

bool split_shape(Gen *g, Value *v, PartsAxis axis)
{
    const PartState *cut = &v->part[axis];

    if (cut->kind != PART_CUT)
        return true;
    v->dim[cut->dim] /= g->model.parts[axis];
    v->elems /= g->model.parts[axis];
    v->bytes /= g->model.parts[axis];
    return split_others(g, v->part, axis);
}

/* A summand of a value may be wider than the value: parts.dtype, if the rule leaves the
 * output's dtype to an attribute. */
static void widen_summands(const Gen *g, const Node *n, const Cut *cut, Attr *attrs)
{
    const Dtype wide = g->model.parts_dtype;

    for (int k = 0; cut && wide != DT_NONE && k < n->n_out; k++) {
        const Operand *out = &n->op->out[k];
        const CutOperand *o = cuts_operand(cut, out->name);

        for (int i = 0; o && o->kind == PART_PARTIAL && i < n->n_attrs; i++)
            if (attrs[i].type == ATTR_STR && !strcmp(attrs[i].key, out->dtype) &&
                dtype_bytes(wide) > dtype_bytes(n->out[k]->dtype))
                attrs[i].s = dtype_name(wide);
    }
}

static Attr *part_attrs(Gen *g, const Node *n, const Cut *cut, int64_t parts)
{
    Attr *attrs = gen_alloc(g, sizeof *attrs * (size_t)(n->n_attrs + 1));

    if (n->n_attrs)
        memcpy(attrs, n->attrs, sizeof *attrs * (size_t)n->n_attrs);
    for (int i = 0; cut && i < n->n_attrs; i++)
        for (int k = 0; k < cut->n_attrs; k++)
            if (!strcmp(attrs[i].key, cut->attrs[k]))
                attrs[i].i /= parts;
    widen_summands(g, n, cut, attrs);
    return attrs;
}

/* Of a meet along another axis: from what to what, in this part. */
static void part_of_meet(Gen *g, Node *part, const Value *in, const Value *out)
{
    for (int i = 0; i < part->n_attrs; i++) {
        if (!strcmp(part->attrs[i].key, "from"))
            part->attrs[i].s = part_text(g, &in->part[part->along]);
        if (!strcmp(part->attrs[i].key, "to"))
            part->attrs[i].s = part_text(g, &out->part[part->along]);
    }
}

/* Output k as a part has it. Not good: an error. */
static Value part_output(Gen *g, const Node *n, const Choice *choice, PartsAxis axis,
                         int k)
{
    Value v = *n->out[k];

    v.part[axis] = choice->part[n->n_in + k];
    if (!split_shape(g, &v, axis))
        luaL_error(g->L, "%s: pieces of pieces", n->op->name);
    return v;
}

Node *split_part_node(Gen *g, const Node *n, const Choice *choice, PartsAxis axis)
{
    Node *part = gen_alloc(g, sizeof *part);

    *part = *n;
    part->attrs = part_attrs(g, n, choice->cut, g->model.parts[axis]);
    part->in = gen_alloc(g, sizeof *part->in * (size_t)(n->n_in + 1));
    part->out = gen_alloc(g, sizeof *part->out * (size_t)(n->n_out + 1));
    for (int i = 0; i < n->n_in; i++) {
        part->in[i] = gen_alloc(g, sizeof **part->in);
        *part->in[i] = *n->in[i];
        part->in[i]->part[axis] = choice->part[i];
        if (!split_shape(g, part->in[i], axis))
            luaL_error(g->L, "%s: pieces of pieces", n->op->name);
    }
    for (int i = 0; i < n->n_out; i++)
        part->out[i] = gen_alloc(g, sizeof **part->out);
    if (n->op->collective) {
        const Value out = part_output(g, n, choice, axis, 0);

        part_of_meet(g, part, part->in[0], &out);
    }
    infer_node(g, part);
    return part;
}

typedef struct Try {
    Gen *g;
    const Node *n;
    const Choice *choice;
    PartsAxis axis;
} Try;

static int try_part_node(lua_State *L)
{
    const Try *t = lua_touserdata(L, 1);
    const Node *part = split_part_node(t->g, t->n, t->choice, t->axis);

    for (int i = 0; i < t->n->n_out; i++) {
        const Value want = part_output(t->g, t->n, t->choice, t->axis, i);

        if (!same_shape(&want, part->out[i]))
            return luaL_error(L, "another shape");
    }
    return 0;
}

/* Does the rule take such a call? Its `check` may refuse half a sequence. */
static bool part_fits(Gen *g, const Node *n, const Choice *choice, PartsAxis axis)
{
    lua_State *L = g->L;
    Try t = {g, n, choice, axis};
    bool good;

    lua_pushcfunction(L, try_part_node);
    lua_pushlightuserdata(L, &t);
    good = lua_pcall(L, 1, 0, 0) == LUA_OK;
    if (!good)
        lua_pop(L, 1);
    return good;
}

/* ---- candidates ------------------------------------------------------------------ */

static bool divides(const Chooser *x, const Node *n, const Cut *cut,
                    const PartState *part)
{
    for (int i = 0; i < n->n_in + n->n_out; i++)
        for (int k = 0; part[i].kind == PART_CUT && k < part[i].sections.n; k++)
            if (part[i].sections.elems[k] % x->parts)
                return false;
    for (int i = 0; i < n->n_attrs; i++)
        for (int k = 0; k < cut->n_attrs; k++)
            if (!strcmp(n->attrs[i].key, cut->attrs[k]) && n->attrs[i].i % x->parts)
                return false;
    return true;
}

/* The sections of a free axis, as an input has them; parameters first. */
static Sections sections_now(const Chooser *x, const Node *n, const Cut *cut)
{
    for (int param = 1; param >= 0; param--)
        for (int i = 0; i < n->n_in; i++) {
            const Value *v = n->in[i];
            const CutOperand *o = cuts_operand(cut, node_operand(n, i)->name);
            Sections s;

            if (!o || (v->kind == VAL_PARAM) != param ||
                v->part[x->axis].kind != PART_CUT || v->part[x->axis].dim != o->dim)
                continue;
            s = cuts_base(x->g, o, &v->part[x->axis].sections);
            if (s.n)
                return s;
        }
    return (Sections){0};
}

/* Does the candidate keep padding apart? A call that reads padding whole, or along an
 * axis that does not pad, would take it for numbers. */
static bool keeps_padding(const Chooser *x, const Node *n, const Cut *cut,
                          const PartState *part)
{
    for (int i = 0; i < n->n_in; i++) {
        const PartState *p = &n->in[i]->part[x->axis];

        if (p->kind == PART_CUT && p->sections.pad &&
            (!cut || !cut->pads || !part_equal(p, &part[i])))
            return false;
    }
    return true;
}

/* Pieces of tokens are as between blocks (split.c: split_boundary), unless an input has
 * others: a part of features has some of each part of tokens. */
static Sections token_sections(const Chooser *x, const Node *n, const Cut *cut)
{
    const Model *m = &x->g->model;
    const int64_t tokens = m->micro_batch * m->seq_tokens,
                  count = m->parts[PARTS_CONTEXT];
    Sections s = {0};

    for (int i = 0; x->axis == PARTS_TENSOR && count > 1 && !s.n && i < n->n_in; i++) {
        const CutOperand *o = cuts_operand(cut, node_operand(n, i)->name);

        if (o && o->dim == 0 && n->in[i]->dim[0] == tokens && o->times == 1) {
            s = (Sections){.n = (int)count};
            s.elems = gen_alloc(x->g, sizeof *s.elems * (size_t)count);
            for (int k = 0; k < count; k++)
                s.elems[k] = tokens / count;
        }
    }
    return s;
}

/* The candidate's parts, or NULL if the call cannot be cut so. */
static PartState *candidate(const Chooser *x, const Node *n, const Cut *cut)
{
    Sections sections;
    Choice choice = {.cut = cut};

    if (!cut) { /* all whole */
        choice.part =
            gen_alloc(x->g, sizeof *choice.part * (size_t)(n->n_in + n->n_out + 1));
        return keeps_padding(x, n, NULL, choice.part) ? choice.part : NULL;
    }
    sections = sections_now(x, n, cut);
    if (!sections.n)
        sections = token_sections(x, n, cut);
    choice.part = cuts_parts(x->g, n, cut, cut->free && sections.n ? &sections : NULL);
    if (!choice.part || !divides(x, n, cut, choice.part) ||
        !keeps_padding(x, n, cut, choice.part) || !part_fits(x->g, n, &choice, x->axis))
        return NULL;
    return choice.part;
}

/* ---- prices ---------------------------------------------------------------------- */

/* Bytes that a part receives. */
static double moved(const Chooser *x, const Value *v, const PartState *from,
                    const PartState *to)
{
    const double bytes = (double)v->bytes * (double)(x->parts - 1) / (double)x->parts;

    if (part_equal(from, to) || from->kind == PART_WHOLE)
        return 0;
    if (part_is_made(from))
        return to->kind == PART_WHOLE ? 2 * bytes : bytes;
    return to->kind == PART_WHOLE || from->dim == to->dim ? bytes
                                                          : bytes / (double)x->parts;
}

/* split.c makes a meet once for each phase, and a sum once. */
static bool needed(const Chooser *x, const Value *v, Phase phase, const PartState *as)
{
    for (int i = 0; i < x->needed.count; i++) {
        const Needed *n = &x->needed.items[i];

        if (n->value == v && part_equal(&n->as, as) &&
            (n->phase == phase || part_is_made(&v->part[x->axis])))
            return true;
    }
    return false;
}

static Price price_of(const Chooser *x, const Node *n, const Cut *cut,
                      const PartState *part)
{
    Price price = {.whole = !cut};

    for (int i = 0; i < n->n_in; i++) {
        const Value *v = n->in[i];
        const PartState *has = &v->part[x->axis];
        double bytes = needed(x, v, n->phase, &part[i]) ? 0 : moved(x, v, has, &part[i]);

        price.changes += !part_equal(has, &part[i]);
        if (v->of_weights) {
            price.param_bytes += bytes;
            price.cuts_weights = price.cuts_weights || part[i].kind == PART_CUT;
        } else
            price.bytes += bytes;
    }
    for (int i = 0; i < n->n_out; i++) {
        const Value *v = n->out[i];
        const PartState *made = &part[n->n_in + i];

        if (v->loc == LOC_GRAD) {
            const PartState want = split_gradient(x->c, v, x->axis);

            const double bytes = moved(x, v, made, &want);

            price.cuts_weights = price.cuts_weights || made->kind == PART_CUT;
            if (want.kind == PART_CUT)
                price.param_bytes += bytes;
            else
                price.bytes += bytes;
        }
    }
    return price;
}

/* Parts of tokens gather weights, wherever those lie, and cut them only where they must.
 */
static bool cheaper(const Chooser *x, const Price *a, const Price *b)
{
    const bool tokens = x->axis == PARTS_CONTEXT;

    if (!tokens && a->param_bytes != b->param_bytes)
        return a->param_bytes < b->param_bytes;
    if (a->whole != b->whole)
        return b->whole;
    if (tokens && a->cuts_weights != b->cuts_weights)
        return b->cuts_weights;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes;
    return a->changes < b->changes;
}

/* "heads (16) and kv_heads (4)"; *most: so many parts divide them. What repeat.c may copy
 * counts only if parts divide the rest. */
static const char *divided_attrs(Gen *g, const Node *n, const Cut *cut, int64_t *most)
{
    const int64_t parts = *most;
    Text t = {.g = g};

    for (int copied = 0; copied < 2 && *most >= parts; copied++)
        for (int i = 0; i < n->n_attrs; i++)
            for (int k = 0; k < cut->n_attrs; k++) {
                const char *key = cut->attrs[k];

                if (strcmp(n->attrs[i].key, key) != 0 ||
                    copied != (cut->repeats && !strcmp(cut->repeats, key)))
                    continue;
                *most = min_i64(*most, n->attrs[i].i & -n->attrs[i].i);
                text_printf(&t, "%s%s (%lld)", t.len ? " and " : "", key,
                            (long long)n->attrs[i].i);
            }
    return t.s;
}

/* Each part of a sequence would do the work of all: the op's rule does not say how it is
 * cut, or the call needs whole sequences, and parts do not divide its heads. */
static void refuse_whole_work(const Chooser *x, const Node *n)
{
    const OpInfo *info = n->op->info;
    const char *field = parts_field(x->g, x->axis), *attrs = NULL;
    const int64_t tensor = x->g->model.parts[PARTS_TENSOR];
    bool sequences = false; /* could it have whole ones? */
    int64_t most = 1;

    if (diag_errors(x->g))
        return; /* the first such call says enough */
    if (info->n_cuts == 0) {
        diag_add(x->g, DIAG_ERROR, model_pos(x->g, field),
                 "give its op.lua `cuts` (docs/ops.md), or leave out parts.context",
                 "%s: the rule of %s, which %s calls, has no `cuts`: each of %lld parts "
                 "would do all its work",
                 field, n->op->name, x->c->name, (long long)x->parts);
        return;
    }
    for (int i = 0; i < info->n_cuts; i++) {
        sequences = sequences || info->cuts[i].ordered;
        if (attrs)
            continue;
        most = x->parts;
        attrs = divided_attrs(x->g, n, &info->cuts[i], &most);
    }
    diag_add(x->g, DIAG_ERROR, model_pos(x->g, field),
             gen_printf(x->g,
                        sequences ? "use %lld, or a micro_batch that is a multiple of "
                                    "%lld: parts then have whole sequences"
                                  : "use %lld",
                        (long long)(attrs ? most : 1), (long long)x->parts),
             "%s: %s of %s reads whole sequences, and %lld parts do not divide its %s%s",
             field, n->op->name, x->c->name, (long long)x->parts,
             attrs ? attrs : "work otherwise",
             attrs && tensor > 1
                 ? gen_printf(x->g,
                              " in each part of heads and features (parts.tensor = %lld)",
                              (long long)tensor)
                 : "");
}

/* Does a part read tokens that it does not have, to do all the work? */
static bool does_all_tokens(const Chooser *x, const Node *n, const Choice *choice)
{
    bool cut = false;

    for (int i = 0; i < n->n_in; i++)
        cut = cut ||
              (n->in[i]->part[x->axis].kind == PART_CUT && n->in[i]->kind != VAL_PARAM);
    return cut && !choice->cut && x->axis == PARTS_CONTEXT;
}

/* A meet along another axis goes on with its input's part: along a dim that it leaves as
 * it is, or, of a dim of which it makes or takes pieces, if those are of parts of tokens
 * (piece_of). Otherwise it is the same in all parts. */
static Choice choose_meet(const Chooser *x, const Node *n)
{
    const PartState *has = &n->in[0]->part[x->axis];
    Choice as_it_is = {.part = candidate(x, n, NULL)};
    Choice choice = {.part = gen_alloc(x->g, 2 * sizeof *choice.part)};
    bool follows = has->kind == PART_CUT;

    choice.part[0] = choice.part[1] = *has;
    for (int k = 0; follows && k < 2; k++) {
        const Value *v = k ? n->out[0] : n->in[0];
        const PartState *met = &v->part[n->along];

        if (met->kind == PART_CUT && met->dim == has->dim) {
            follows = has->sections.n == 1 && met->sections.n == x->parts;
            choice.part[1].sections.n = 1;
            choice.part[1].sections.elems =
                gen_alloc(x->g, sizeof *choice.part[1].sections.elems);
            choice.part[1].sections.elems[0] = n->out[0]->dim[has->dim];
        }
    }
    return follows && part_fits(x->g, n, &choice, x->axis) ? choice : as_it_is;
}

static Choice choose(const Chooser *x, const Node *n)
{
    const OpInfo *info = n->op->info;
    Choice best = {.part = candidate(x, n, NULL)};
    Price least = {0};

    if (best.part)
        least = price_of(x, n, NULL, best.part);

    for (int i = 0; i < info->n_cuts; i++) {
        PartState *part = info->cuts[i].context && x->axis != PARTS_CONTEXT
                              ? NULL
                              : candidate(x, n, &info->cuts[i]);
        Price price;

        if (!part)
            continue;
        price = price_of(x, n, &info->cuts[i], part);
        if (!best.part || cheaper(x, &price, &least)) {
            least = price;
            best = (Choice){&info->cuts[i], part};
        }
    }
    if (!best.part)
        luaL_error(
            x->g->L,
            "%s: it reads a value that is padded with zeros for %s, and no cut of its"
            " rule says pads = true",
            n->op->name,
            gen_printf(x->g, "%s = %lld", parts_field(x->g, x->axis),
                       (long long)x->parts));
    if (does_all_tokens(x, n, &best))
        refuse_whole_work(x, n);
    return best;
}

/* Does it read weights, or what is made of them, and nothing else? */
static bool reads_weights(const Node *n)
{
    for (int i = 0; i < n->n_in; i++)
        if (!n->in[i]->of_weights)
            return false;
    return n->n_in > 0;
}

/* A meet of a parameter's boxes is of a matrix's (split.c: box_copy). */
static void check_gathers(const Chooser *x, const Node *n, const Choice *choice)
{
    const char *field = parts_field(x->g, x->axis);

    for (int i = 0; i < n->n_in; i++) {
        const Value *v = n->in[i];

        if (v->kind == VAL_PARAM && v->part[x->axis].kind == PART_CUT && v->n_dims != 2 &&
            !part_equal(&v->part[x->axis], &choice->part[i]))
            diag_add(x->g, DIAG_ERROR, model_pos(x->g, field),
                     gen_printf(x->g,
                                "leave out `cut` of %s, or say in the rule of %s how its "
                                "parts compute (`cuts`)",
                                x->c->params.items[v->index].name, n->op->name),
                     "%s: %s of %s reads all of %s, which has %d dim%s: of parameters "
                     "that are cut, only matrices can be gathered",
                     field, n->op->name, x->c->name, x->c->params.items[v->index].name,
                     v->n_dims, v->n_dims == 1 ? "" : "s");
    }
}

Choice *split_choose(Gen *g, Class *c, PartsAxis axis)
{
    Chooser x = {.g = g, .c = c, .axis = axis, .parts = g->model.parts[axis]};
    int built = 0; /* nodes before this one are not replaced again */

    for (int i = 0; i < c->values.count; i++)
        c->values.items[i]->of_weights = c->values.items[i]->kind == VAL_PARAM;
    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n;
        Choice choice;

        builder_get(g)->blame = c->nodes.items[i]->pos;
        if (i >= built && axis == PARTS_TENSOR)
            built = i + split_ops(g, c, i);
        n = c->nodes.items[i];
        choice = n->op->collective ? choose_meet(&x, n) : choose(&x, n);
        check_gathers(&x, n, &choice);
        *gen_push(g, &x.choices) = choice;
        for (int k = 0; k < n->n_in; k++)
            *gen_push(g, &x.needed) = (Needed){n->in[k], n->phase, choice.part[k]};
        for (int k = 0; k < n->n_out; k++) {
            n->out[k]->part[axis] = choice.part[n->n_in + k];
            n->out[k]->of_weights = reads_weights(n);
        }
    }
    return x.choices.items;
}
