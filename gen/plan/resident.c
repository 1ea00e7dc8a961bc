/* SPDX-License-Identifier: Apache-2.0 */
/* resident.c: what the kernel counts as resident in a rank's process: its arena, the
 * pages of its peers' symmetric spaces that it reads, and code, heap and stacks. A peer's
 * page is one page of the machine, which its owner's arena has, but each process that
 * touches it counts it. In: the placed program. Out: the peers' bytes that ranks read:
 * the first and the last, of which one reads most and the other least. */
#include "plan/plan.h"

#include <stdlib.h>

enum { PAGE_BYTES = 4096 };

typedef struct Range {
    int64_t from, to; /* bytes of a symmetric space */
} Range;

typedef struct Ranges {
    Range *items;
    int n;
} Ranges;

static void add_range(Ranges *l, const Buffer *b, int64_t from, int64_t bytes)
{
    const int64_t end = min_i64(from + bytes, b->bytes);
    if (b->space == SPACE_SYMMETRIC && end > from)
        l->items[l->n++] = (Range){(b->offset_bytes + from) / PAGE_BYTES * PAGE_BYTES,
                                   round_up(b->offset_bytes + end, PAGE_BYTES)};
}

/* What `rank` reads of a peer's buffer. A gather: the peer's part, which lies in its
 * place where the buffer has all. A sum: our part of the peer's; where the sum stays on
 * all ranks, also the slice that the peer has summed. */
static void add_read(const Gen *g, Ranges *l, const Instr *i, const Buffer *b, int rank,
                     int peer)
{
    const int64_t elems = i->elems, item = dtype_bytes(i->dtype);
    const int64_t ours = group_index(i->group, rank),
                  theirs = group_index(i->group, peer);
    const int64_t ranks = group_ranks(i->group);
    const bool hops = mesh_two_hops(g, i->group);
    if (i->kind == INS_ALL_GATHER || i->kind == INS_GATHER_UPDATED) {
        const bool all = b->bytes >= ranks * elems * item;
        add_range(l, b, all ? theirs * elems * item : 0, elems * item);
    } else if (i->kind == INS_REDUCE_SCATTER && !hops) {
        add_range(l, b, ours * elems * item, elems * item);
    } else if (i->kind == INS_ALL_REDUCE && !hops) {
        const int64_t slice = round_up((elems + ranks - 1) / ranks, GRAIN_ELEMS) * item;
        add_range(l, b, ours * slice, slice);
        add_range(l, b, theirs * slice, slice);
    } else {
        add_range(l, b, 0, b->bytes);
    }
}

static void add_reads(const Gen *g, Ranges *l, int rank, int peer)
{
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        if (!i->group || !group_joins(i->group, rank, peer))
            continue;
        for (int a = 0; a < i->n_access; a++)
            if (i->access[a].remote)
                add_read(g, l, i, &g->prog.bufs.items[i->access[a].buffer], rank, peer);
    }
}

static int by_start(const void *a, const void *b)
{
    const Range *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static int64_t union_bytes(Ranges *l)
{
    int64_t sum = 0, end = 0;
    qsort(l->items, (size_t)l->n, sizeof *l->items, by_start);
    for (int i = 0; i < l->n; i++) {
        sum += max_i64(0, l->items[i].to - max_i64(end, l->items[i].from));
        end = max_i64(end, l->items[i].to);
    }
    return sum;
}

static int64_t read_by(const Gen *g, Ranges *l, int rank)
{
    int64_t sum = 0;
    for (int peer = 0; peer < g->model.mesh.world_size; peer++) {
        l->n = 0;
        if (peer != rank)
            add_reads(g, l, rank, peer);
        sum += union_bytes(l);
    }
    return sum;
}

int64_t plan_peers_bytes(Gen *g, int64_t *least)
{
    size_t most = 1;
    for (int id = 0; id < g->prog.ins.count; id++)
        most += 2 * (size_t)g->prog.ins.items[id].n_access;
    Ranges l = {gen_alloc(g, sizeof(Range) * most), 0};
    const int64_t first = read_by(g, &l, 0);
    const int64_t last = read_by(g, &l, g->model.mesh.world_size - 1);
    *least = min_i64(first, last);
    return max_i64(first, last);
}
