/* SPDX-License-Identifier: Apache-2.0 */
/* test_legs.c: places of values in parts, damaged on purpose, one fault at a time;
 * verify_legs must name it. */
#include "test_split.h"

#include <stdio.h>
#include <string.h>

PartsAxis fault_axis;

static bool once(const Node *n)
{
    return n->op->collective || !node_differs(n);
}

/* The first nodes of a leg for which the test is true: a, then b after it, or a itself.
 */
typedef bool PairTest(Node *a, Node *b);

static bool damage_pair(Gen *g, PairTest *damage)
{
    for (int i = 0; i < g->classes.count; i++) {
        const Class *c = g->classes.items[i];

        for (int a = 0; a < c->nodes.count; a++)
            for (int b = a; b < c->nodes.count; b++) {
                Node *n = c->nodes.items[a], *m = c->nodes.items[b];

                if (n->leg == m->leg && !once(n) && damage(n, m))
                    return true;
            }
    }
    return false;
}

static bool runs_along(const Node *n)
{
    return node_differs(n) >> fault_axis & 1;
}

/* What all parts along the axis have, in the scratch of its phase, of the inputs of a,
 * which runs for each; NULL: none. */
static Value *shared_input(Node *a)
{
    for (int k = 0; runs_along(a) && k < a->n_in; k++)
        if (a->in[k]->part[fault_axis].kind == PART_WHOLE && a->in[k]->loc == LOC_SCRATCH)
            return a->in[k];
    return NULL;
}

/* As if the value died with the last node that reads it. */
static bool later_value(Node *a, Node *b)
{
    Value *v = shared_input(a);

    if (!v || a == b || b->out[0]->loc != LOC_SCRATCH)
        return false;
    b->out[0]->offset_bytes = v->offset_bytes;
    return true;
}

static bool earlier_value(Node *a, Node *b)
{
    Value *v = shared_input(b);

    if (!v || a == b || a->out[0]->loc != LOC_SCRATCH)
        return false;
    a->out[0]->offset_bytes = v->offset_bytes;
    return true;
}

static bool in_place(Node *a, Node *b)
{
    Value *v = shared_input(a);

    if (!v || a != b || a->out[0]->loc != LOC_SCRATCH)
        return false;
    a->out[0]->offset_bytes = v->offset_bytes;
    return true;
}

static bool workspace(Node *a, Node *b)
{
    Value *v = shared_input(a);

    if (!v || a == b)
        return false;
    b->workspace_bytes = v->bytes;
    b->workspace_offset_bytes = v->offset_bytes;
    return true;
}

static bool plant_later(Gen *g)
{
    return damage_pair(g, later_value);
}

static bool plant_earlier(Gen *g)
{
    return damage_pair(g, earlier_value);
}

static bool plant_in_place(Gen *g)
{
    return damage_pair(g, in_place);
}

static bool plant_workspace(Gen *g)
{
    return damage_pair(g, workspace);
}

static bool plant_meet_in_place(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++) {
            Node *n = g->classes.items[i]->nodes.items[k];

            if (n->op->collective && n->along == fault_axis &&
                n->in[0]->loc == LOC_SCRATCH && n->out[0]->loc == LOC_SCRATCH) {
                n->out[0]->offset_bytes = n->in[0]->offset_bytes;
                return true;
            }
        }
    return false;
}

/* The loop over parts goes on behind a meet. */
static bool plant_one_leg(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 1; k < g->classes.items[i]->nodes.count; k++) {
            Node *const *n = &g->classes.items[i]->nodes.items[k];

            if (n[0]->op->collective && n[0]->along == fault_axis) {
                n[0]->leg = n[-1]->leg;
                return true;
            }
        }
    return false;
}

/* One of two outputs is what all parts have, so each part writes it. */
static bool plant_made_by_each(Gen *g)
{
    for (int i = 0; i < g->classes.count; i++)
        for (int k = 0; k < g->classes.items[i]->nodes.count; k++) {
            Node *n = g->classes.items[i]->nodes.items[k];

            if (n->n_out > 1 && n->out[0]->part[fault_axis].kind != PART_WHOLE &&
                n->out[1]->part[fault_axis].kind != PART_WHOLE) {
                n->out[1]->part[fault_axis] = (PartState){0};
                return true;
            }
        }
    return false;
}

const SplitFault legs_faults[] = {
    {"what all parts read under a later result", plant_later, "for the next part",
     IN_ALL},
    {"what all parts read under an earlier one", plant_earlier, "for the next part",
     ALONG_TENSOR},
    {"what all parts read under the reader's own", plant_in_place, "for the next part",
     IN_ALL},
    {"what all parts read under a workspace", plant_workspace, "its workspace over",
     IN_ALL},
    {"a meet in place", plant_meet_in_place, "which other parts read", IN_ALL},
    {"a meet inside a loop over parts", plant_one_leg, "run together", IN_ALL},
    {"every part makes what all have", plant_made_by_each, "which all have", IN_ALL},
    {0},
};
