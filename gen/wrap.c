/* SPDX-License-Identifier: Apache-2.0 */
/* wrap.c: which pieces are gathered and freed together; the first part of the shard pass.
 *
 * In: blocks with their pieces, the description's wrap. Out: a Wrap: every piece in one
 * group. Whatever the policy, that is all there is to know: shard.c makes a unit of each
 * group, and nothing after it asks for the policy again.
 *
 * Ends of the model are the blocks before the first whose kind repeats and those after
 * the last: the embedding and the head. */
#include "plan.h"

#include <string.h>

typedef struct Ends {
    int first, last; /* the blocks between the ends: first .. last */
} Ends;

/* Blocks of one kind, as the architecture named it, may be of several classes: what is
 * frozen makes them. */
static bool same_kind(const Class *a, const Class *b)
{
    return a == b || (a->hint && b->hint && !strcmp(a->hint, b->hint));
}

static Ends find_ends(Gen *g)
{
    int *uses = gen_alloc(g, sizeof *uses * (size_t)(g->blocks.count + 1));
    int n = g->blocks.count;
    Ends e = {n, -1};

    for (int b = 0; b < n; b++)
        for (int i = 0; i < n; i++)
            uses[b] += same_kind(g->blocks.items[b].cls, g->blocks.items[i].cls);
    for (int b = 0; b < n; b++)
        if (uses[b] > 1) {
            e.first = (int)min_i64(e.first, b);
            e.last = b;
        }
    if (e.last < 0) /* nothing repeats: the first and the last block are the ends */
        e = n > 2 ? (Ends){1, n - 2} : (Ends){n, n - 1};
    return e;
}

/* ---- policies: group[i] of every piece -----------------------------------------------
 */

/* A group begins with piece i. */
static void begin(Wrap *w, int i)
{
    w->group[i] = w->n_groups++;
}

static void join(Wrap *w, int i)
{
    w->group[i] = w->n_groups - 1;
}

static void per_block(Gen *g, Wrap *w)
{
    Ends e = find_ends(g);

    for (int i = 0; i < w->n_pieces; i++) {
        int b = w->piece[i].block;
        bool end = b < e.first || b > e.last;

        if (w->piece[i].piece == 0 && (end || (b - e.first) % g->model.wrap_blocks == 0))
            begin(w, i);
        else
            join(w, i);
    }
}

/* ---- the partition
 * --------------------------------------------------------------------- */

static void list_pieces(Gen *g, Wrap *w)
{
    int n = 0;

    for (int b = 0; b < g->blocks.count; b++)
        w->n_pieces += g->blocks.items[b].cls->pieces.count;
    w->piece = gen_alloc(g, sizeof *w->piece * (size_t)(w->n_pieces + 1));
    w->group = gen_alloc(g, sizeof *w->group * (size_t)(w->n_pieces + 1));
    w->params = gen_alloc(g, sizeof *w->params * (size_t)(w->n_pieces + 1));
    w->name = gen_alloc(g, sizeof *w->name * (size_t)(w->n_pieces + 1));
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *blk = &g->blocks.items[b];
        bool *seen = gen_alloc(g, (size_t)g->params.count + 1);

        for (int k = 0; k < blk->cls->params.count; k++) {
            const Param *p = &g->params.items[blk->param[k]];

            if (p->block != blk || seen[p->id])
                continue;
            seen[p->id] = true; /* one block may name a tied parameter twice */
            w->params[n + blk->cls->params.items[k].piece] += p->elems;
        }
        for (int k = 0; k < blk->cls->pieces.count; k++)
            w->piece[n++] = (PieceRef){b, k};
    }
}

Wrap wrap_partition(Gen *g)
{
    Wrap w = {0};

    list_pieces(g, &w);
    per_block(g, &w);
    return w;
}
