/* SPDX-License-Identifier: Apache-2.0 */
/* pieces.c: assigns each node and parameter to a piece of its block; the first part of
 * the span pass. In: a class after fuse; its nodes have the piece in which the
 * architecture (or the forward node that they derive from) put them. Out: pieces in which
 * they can run, nodes in order of execution, ClassParam.piece.
 *
 * The forward runs pieces in order, the backward in reverse. Cuts change neither the set
 * of nodes nor what they compute, so the numerics hash, computed before, does not depend
 * on them; math.c has one function per piece. */
#include "graph/graph.h"

#include <string.h>

/* Per gradient value: the previous writer of its buffer. */
static const Value *write_before(const Class *c, const Value *v)
{
    for (int i = 0; v->loc == LOC_GRAD && i < c->values.count; i++) {
        const Value *o = c->values.items[i];

        if (o->loc == LOC_GRAD && o->loc_index == v->loc_index &&
            o->index == v->index - 1)
            return o;
    }
    return NULL;
}

/* The first piece, in order of execution, where everything that the node follows has
 * run. */
static int legal_piece(const Class *c, const Node *n)
{
    bool back = n->phase == PHASE_BACKWARD;
    int piece = n->piece;

    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const Value *v = k < n->n_in ? n->in[k] : write_before(c, n->out[k - n->n_in]);

        if (!v || !v->def || v->def->phase != n->phase)
            continue;
        piece =
            (int)(back ? min_i64(piece, v->def->piece) : max_i64(piece, v->def->piece));
    }
    return piece;
}

/* Sorts nodes by phase and piece, in order of execution, and otherwise keeps their
 * order. */
static void sort_pieces(Gen *g, Class *c)
{
    int n = c->pieces.count, placed = 0;
    Node **order = gen_alloc(g, sizeof *order * (size_t)(c->nodes.count + 1));

    for (int i = 0; i < c->nodes.count; i++) /* in an order that respects their inputs */
        c->nodes.items[i]->piece = legal_piece(c, c->nodes.items[i]);
    for (int turn = 0; turn < 2 * n; turn++)
        for (int i = 0; i < c->nodes.count; i++) {
            Node *o = c->nodes.items[i];

            if (turn == (o->phase == PHASE_FORWARD ? o->piece : 2 * n - 1 - o->piece))
                order[placed++] = o;
        }
    gen_require(placed == c->nodes.count, "class %s: nodes outside its pieces", c->name);
    for (int i = 0; i < placed; i++) {
        order[i]->id = i;
        c->nodes.items[i] = order[i];
    }
}

/* A parameter belongs to the first piece whose forward reads it. */
static void find_param_pieces(Class *c)
{
    for (int p = 0; p < c->params.count; p++)
        c->params.items[p].piece = -1;
    for (int i = 0; i < c->nodes.count; i++) {
        const Node *n = c->nodes.items[i];

        for (int k = 0; k < n->n_in; k++)
            if (n->in[k]->kind == VAL_PARAM && c->params.items[n->in[k]->index].piece < 0)
                c->params.items[n->in[k]->index].piece = n->piece;
    }
    for (int p = 0; p < c->params.count; p++) /* none reads it: its gradient's piece */
        if (c->params.items[p].piece < 0)
            c->params.items[p].piece =
                c->grads && c->grads[p] ? c->grads[p]->def->piece : 0;
}

/* Drops the cut of a piece that fused ops left empty. */
static void drop_empty_pieces(Gen *g, Class *c)
{
    for (int i = c->pieces.count - 1; i >= 0; i--) {
        Piece *p = &c->pieces.items[i];
        bool used = c->pieces.count == 1;

        for (int k = 0; k < c->nodes.count; k++)
            used = used || c->nodes.items[k]->piece == i;
        if (used)
            continue;
        diag_add(g, DIAG_WARNING, p->pos, "cut elsewhere, or generate with fuse = false",
                 "%s: nothing is left of piece %s: fused ops run across its cut", c->name,
                 p->name);
        memmove(p, p + 1, sizeof *p * (size_t)(c->pieces.count - 1 - i));
        c->pieces.count--;
        for (int k = 0; k < c->nodes.count; k++)
            c->nodes.items[k]->piece -= c->nodes.items[k]->piece > i;
    }
}

void class_pieces(Gen *g, Class *c)
{
    sort_pieces(g, c);
    drop_empty_pieces(g, c);
    find_param_pieces(c);
}
