/* SPDX-License-Identifier: Apache-2.0 */
/* test_split_both.c: graphs in parts of both axes, damaged on purpose, one fault at a
 * time, where the axes meet: fault_axis is the one that a fault is about. */
#include "test_split.h"

#include <stdio.h>
#include <string.h>

static PartsAxis other_axis(void)
{
    return fault_axis == PARTS_TENSOR ? PARTS_CONTEXT : PARTS_TENSOR;
}

/* ---- meets ----------------------------------------------------------------------- */

typedef bool MeetTest(const Node *n);

/* The first meet along that axis for which the test is true; NULL: none. */
static Node *find_meet(Gen *g, PartsAxis along, MeetTest *test)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++) {
            Node *n = g->classes.items[i]->nodes.items[k];

            if (n->op->collective && n->along == along && test(n))
                return n;
        }
    return NULL;
}

static bool any_meet(const Node *n)
{
    (void)n;
    return true;
}

/* Does it pass on pieces, or summands, of the axis of the fault? No gradient of a
 * parameter, which is checked by itself. */
static bool passes_pieces(const Node *n)
{
    return n->out[0]->part[fault_axis].kind == PART_CUT && n->out[0]->loc != LOC_GRAD;
}

static bool passes_sections(const Node *n)
{
    return passes_pieces(n) && n->out[0]->part[fault_axis].sections.n > 1;
}

static bool passes_summands(const Node *n)
{
    return n->out[0]->part[fault_axis].kind == PART_PARTIAL;
}

static bool plant_all_pieces(Gen *g)
{
    Node *n = find_meet(g, other_axis(), passes_pieces);

    if (n)
        n->out[0]->part[fault_axis] = (PartState){0};
    return n != NULL;
}

static bool plant_other_pieces(Gen *g)
{
    Node *n = find_meet(g, other_axis(), passes_pieces);

    if (n)
        n->out[0]->part[fault_axis].dim = 1 - n->out[0]->part[fault_axis].dim;
    return n != NULL;
}

/* All sections as one. */
static void join_sections(Gen *g, PartState *part)
{
    int64_t *all = gen_alloc(g, sizeof *all);

    for (int i = 0; i < part->sections.n; i++)
        *all += part->sections.elems[i];
    part->sections = (Sections){1, all, 0};
}

/* Of q, k and v, which tokens do not have. */
static bool plant_joined_sections(Gen *g)
{
    Node *n = find_meet(g, other_axis(), passes_sections);

    if (n)
        join_sections(g, &n->out[0]->part[fault_axis]);
    return n != NULL;
}

/* As if the sum along context, which comes first, were that along both. */
static bool plant_summed_with(Gen *g)
{
    Node *n = find_meet(g, other_axis(), passes_summands);

    if (n)
        n->out[0]->part[fault_axis] = (PartState){0};
    return n != NULL;
}

static bool plant_wrong_axis(Gen *g)
{
    Node *n = find_meet(g, fault_axis, any_meet);

    if (n)
        n->along = other_axis();
    return n != NULL;
}

static Attr *attr_of(Node *n, const char *key)
{
    for (int i = 0; i < n->n_attrs; i++)
        if (!strcmp(n->attrs[i].key, key))
            return &n->attrs[i];
    return NULL;
}

static bool plant_says_other_axis(Gen *g)
{
    Node *n = find_meet(g, fault_axis, any_meet);

    if (n)
        attr_of(n, "axis")->s = axis_name(parts_mesh(other_axis()));
    return n != NULL;
}

/* ---- a meet is removed ----------------------------------------------------------- */

/* Places that have a value, to put it back. */
typedef struct Places {
    Value ***items;
    int count, cap;
} Places;

static void put(Gen *g, Places *changed, Value **place, Value *from, Value *to)
{
    if (*place != from)
        return;
    *place = to;
    *gen_push(g, changed) = place;
}

/* Everything that takes what the meet makes takes what it reads. */
static void without(Gen *g, Class *c, const Node *meet, Places *changed)
{
    Value *from = meet->out[0], *to = meet->in[0];

    for (int i = 0; i < c->nodes.count; i++)
        for (int k = 0; k < c->nodes.items[i]->n_in; k++)
            put(g, changed, &c->nodes.items[i]->in[k], from, to);
    for (int i = 0; i < c->n_outputs; i++)
        put(g, changed, &c->outputs[i], from, to);
    for (int i = 0; i < c->n_inputs; i++)
        put(g, changed, &c->d_inputs[i], from, to);
    put(g, changed, &c->loss, from, to);
    if (from->loc == LOC_GRAD) {
        to->loc = LOC_GRAD;
        to->loc_index = from->loc_index;
    }
}

static void restore(Places *changed, const Node *meet, Value in)
{
    for (int i = 0; i < changed->count; i++)
        *changed->items[i] = meet->out[0];
    *meet->in[0] = in;
}

/* The sum along the axis on the way to the gradient of a whole parameter is not made;
 * what follows knows it. */
static bool plant_not_summed(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        for (int k = 0; k < c->nodes.count; k++) {
            Node *n = c->nodes.items[k], *first = n->in[0]->def;
            Places changed = {0};

            if (!n->op->collective || n->out[0]->loc != LOC_GRAD || !first ||
                !first->op->collective || first->along == n->along ||
                n->in[0]->part[n->along].kind != PART_PARTIAL)
                continue;
            without(g, c, n->along == fault_axis ? n : first, &changed);
            if (n->along != fault_axis)
                n->out[0]->part[fault_axis].kind = PART_PARTIAL;
            return true;
        }
    }
    return false;
}

/* What a part adds to the gradient of a box of both axes goes to the buffer as it is. */
static bool plant_unmet_box(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++) {
        Class *c = g->classes.items[i];

        for (int k = 0; k < c->nodes.count; k++) {
            Node *n = c->nodes.items[k];
            Places changed = {0};

            if (n->op->collective && n->out[0]->loc == LOC_GRAD &&
                value_differs(n->out[0]) == 3u &&
                n->in[0]->part[n->along].kind == PART_PARTIAL) {
                without(g, c, n, &changed);
                return true;
            }
        }
    }
    return false;
}

/* ---- marks: a weight is cut along tensor, and its pieces along context ----------- */

static ClassParam *cut_twice(Gen *g, Value **box)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->values.count; k++) {
            Value *v = g->classes.items[i]->values.items[k];
            ClassParam *p = v->kind == VAL_PARAM
                                ? &g->classes.items[i]->params.items[v->index]
                                : NULL;

            if (!p || p->mark[PARTS_TENSOR].kind != PART_CUT ||
                p->mark[PARTS_CONTEXT].kind != PART_CUT ||
                p->mark[PARTS_CONTEXT].sections.n == 1)
                continue;
            *box = v;
            return p;
        }
    return NULL;
}

static bool plant_no_mark(Gen *g)
{
    Value *box;
    ClassParam *p = cut_twice(g, &box);

    if (p)
        p->mark[fault_axis] = (PartState){0};
    return p != NULL;
}

/* Of mark and box alike, so that only the sizes of what a part of features has show it.
 */
static bool plant_marked_across(Gen *g)
{
    Value *box;
    ClassParam *p = cut_twice(g, &box);

    if (!p)
        return false;
    p->mark[fault_axis].dim = 1 - p->mark[fault_axis].dim;
    box->part[fault_axis].dim = p->mark[fault_axis].dim;
    return true;
}

static bool plant_marked_as_one(Gen *g)
{
    Value *box;
    ClassParam *p = cut_twice(g, &box);

    if (!p)
        return false;
    join_sections(g, &p->mark[PARTS_CONTEXT]);
    join_sections(g, &box->part[PARTS_CONTEXT]);
    return true;
}

/* More of one section, and as much less of another. */
static bool plant_marked_askew(Gen *g)
{
    Value *box;
    ClassParam *p = cut_twice(g, &box);
    PartState *of[] = {p ? &p->mark[PARTS_CONTEXT] : NULL,
                       p ? &box->part[PARTS_CONTEXT] : NULL};

    for (int k = 0; p && k < 2; k++) {
        Sections *s = &of[k]->sections;
        int64_t *elems = gen_alloc(g, sizeof *elems * (size_t)s->n);

        memcpy(elems, s->elems, sizeof *elems * (size_t)s->n);
        elems[0] += elems[1] / 2;
        elems[1] -= elems[1] / 2;
        s->elems = elems;
    }
    return p != NULL;
}

const SplitFault both_faults[] = {
    {"a meet along the other axis has all pieces", plant_all_pieces, "mixes the pieces",
     IN_ALL},
    {"a meet along the other axis has other pieces", plant_other_pieces,
     "mixes the pieces", IN_ALL},
    {"a meet along the other axis joins sections", plant_joined_sections,
     "mixes the pieces", ALONG_TENSOR},
    {"a meet along the other axis by mistake", plant_wrong_axis, "the meet ", IN_ALL},
    {"a meet says the other axis", plant_says_other_axis, "of other parts", IN_ALL},
    {"one sum for both axes", plant_summed_with, "mixes the pieces", ALONG_TENSOR},
    {"a norm's gradient is not summed along one axis", plant_not_summed,
     "is not summed over parts", IN_ALL},
    {"the gradient of a box is not summed", plant_unmet_box,
     "on the ranks of its parameter", IN_ALL},
    {"a weight without one of its two marks", plant_no_mark, "boxes", IN_ALL},
    {"pieces across the other axis's", plant_marked_across, "boxes", IN_ALL},
    {"sections of pieces as one", plant_marked_as_one, "boxes", IN_ALL},
    {"a piece of more of a section than it has", plant_marked_askew, "boxes", IN_ALL},
    {0},
};

/* ---- legs ------------------------------------------------------------------------ */

/* One of two nodes that run for each part now runs once for all along the axis. */
static bool plant_fewer_runs(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 1; k < g->classes.items[i]->nodes.count; k++) {
            Node *const *n = &g->classes.items[i]->nodes.items[k];

            if (n[0]->leg != n[-1]->leg || node_differs(n[0]) != 3u)
                continue;
            for (int o = 0; o < n[0]->n_out; o++)
                n[0]->out[o]->part[fault_axis] = (PartState){0};
            return true;
        }
    return false;
}

const SplitFault both_legs_faults[] = {
    {"a node runs once amid nodes that run for each part", plant_fewer_runs,
     "run together", IN_ALL},
    {0},
};

/* ---- every meet ------------------------------------------------------------------ */

typedef struct Seen {
    Gen *g;
    const Node *meet;
    int seen, unseen;
} Seen;

static void look(Seen *x, const char *what)
{
    if (verify_split(x->g)) {
        x->seen++;
        return;
    }
    x->unseen++;
    printf("FAIL test_split: %s %s: not noticed\n", x->meet->name, what);
}

/* What it passes on of the other axis, otherwise. */
static void try_passed(Seen *x, PartState *part)
{
    const PartState was = *part;

    if (was.kind != PART_WHOLE) {
        *part = (PartState){0};
        look(x, "makes all of the other axis's pieces");
    }
    if (was.kind != PART_PARTIAL) {
        *part = (PartState){.kind = PART_PARTIAL};
        look(x, "makes summands along the other axis");
    }
    *part = was;
    if (was.kind == PART_CUT) {
        part->dim = (was.dim + 1) % max_i64(2, x->meet->out[0]->n_dims);
        look(x, "makes other pieces of the other axis");
    }
    *part = was;
    if (was.kind == PART_CUT && was.sections.n > 1) {
        join_sections(x->g, part);
        look(x, "joins the other axis's sections");
    }
    *part = was;
}

static void try_meet(Seen *x, Class *c, Node *n)
{
    const PartsAxis along = n->along, other = N_PARTS_AXES - 1 - along;
    const Value in = *n->in[0];
    Places changed = {0};

    x->meet = n;
    try_passed(x, &n->out[0]->part[other]);
    n->along = other;
    look(x, "is along the other axis");
    attr_of(n, "axis")->s = axis_name(parts_mesh(other));
    attr_of(n, "parts")->i = x->g->model.parts[other];
    look(x, "is along the other axis and says so");
    attr_of(n, "axis")->s = axis_name(parts_mesh(along));
    attr_of(n, "parts")->i = x->g->model.parts[along];
    n->along = along;
    without(x->g, c, n, &changed);
    look(x, "is removed");
    restore(&changed, n, in);
}

int split_meet_faults(Gen *g, int *unseen)
{
    Seen x = {.g = g};

    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++)
            if (g->classes.items[i]->nodes.items[k]->op->collective)
                try_meet(&x, g->classes.items[i], g->classes.items[i]->nodes.items[k]);
    if (verify_split(g)) {
        x.unseen++;
        printf("FAIL test_split: a fault was not taken back\n");
    }
    *unseen = x.unseen;
    return x.seen;
}
