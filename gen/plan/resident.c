/* SPDX-License-Identifier: Apache-2.0 */
/* resident.c: what the kernel counts as resident in a rank's process: its arena, the
 * pages of its peers' symmetric spaces that it reads, and code, heap and stacks. A peer's
 * page is one page of the machine, which its owner's arena has, but each process that
 * touches it counts it. In: the placed program. Out: the peers' bytes that ranks read:
 * the first and the last, of which one reads most and the other least.
 *
 * What a collective reads is what rt_pull.c reads, and what a meet reads is what the
 * kernels of its op do. Two things are not known here, so the most has them and the least
 * does not: steps of evaluation, which a run may never make, and which matrices travel
 * between ranks. */
#include "plan/resident.h"

#include <stdlib.h>
#include <string.h>

static int by_start(const void *a, const void *b)
{
    const PageRange *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* Ranges that touch become one. */
static void pages_merge(Pages *pages)
{
    int n = 0;
    qsort(pages->items, (size_t)pages->n, sizeof *pages->items, by_start);
    for (int k = 0; k < pages->n; k++) {
        const PageRange *r = &pages->items[k];
        if (n > 0 && r->from <= pages->items[n - 1].to)
            pages->items[n - 1].to = max_i64(pages->items[n - 1].to, r->to);
        else
            pages->items[n++] = *r;
    }
    pages->n = n;
}

/* Most ranges touch others, so there are seldom many. */
static void pages_make_room(Pages *pages)
{
    const PageRange *old = pages->items;
    pages_merge(pages);
    if (pages->n < pages->cap / 2)
        return;
    pages->cap *= 2;
    pages->items = gen_alloc(pages->g, sizeof *old * (size_t)pages->cap);
    memcpy(pages->items, old, sizeof *old * (size_t)pages->n);
}

void pages_read(Pages *pages, const Buffer *b, int64_t from, int64_t bytes)
{
    const int64_t end = min_i64(from + bytes, b->bytes);
    if (b->space != SPACE_SYMMETRIC || end <= from)
        return;
    if (pages->n == pages->cap)
        pages_make_room(pages);
    pages->items[pages->n++] =
        (PageRange){(b->offset_bytes + from) / PAGE_BYTES * PAGE_BYTES,
                    round_up(b->offset_bytes + end, PAGE_BYTES)};
}

/* The bytes of all pages that were read of a peer; forgets them. */
static int64_t pages_take(Pages *pages)
{
    int64_t bytes = 0;
    pages_merge(pages);
    for (int k = 0; k < pages->n; k++)
        bytes += pages->items[k].to - pages->items[k].from;
    pages->n = pages->meets.count = 0;
    return bytes;
}

/* ---- collectives ----------------------------------------------------------------- */

/* A sum of the group's parts, of elems in all: what `rank` reads of a peer to sum its
 * part. Over several nodes, first of a peer in its node the parts that it sums for all
 * nodes, then of a peer in the same place of another node its own. */
static void read_part(const Gen *g, Pages *pages, const Instr *i, const Buffer *b,
                      int64_t part, int64_t elems, int rank, int peer)
{
    const int64_t item = dtype_bytes(i->dtype);
    const bool hops = mesh_two_hops(g, i->group);
    const RankBits near = mesh_mates(g, i->group);
    const int64_t ours = group_index(i->group, rank);
    if (!hops || group_joins(i->group & ~near, rank, peer)) {
        pages_read(pages, b, ours * part * item,
                   min_i64(part, elems - ours * part) * item);
        return;
    }
    if (!group_joins(near, rank, peer))
        return;
    for (int64_t k = group_index(near, rank); k * part < elems; k += group_ranks(near))
        pages_read(pages, b, k * part * item, min_i64(part, elems - k * part) * item);
}

/* What `rank` reads of a peer's buffer. A gather: the peer's part, which lies in its
 * place where the buffer has all. A sum: our part of the peer's; where the sum stays on
 * all ranks, also the slice that the peer has summed. False: not known, at most all. */
static bool read_buffer(const Gen *g, Pages *pages, const Instr *i, const Buffer *b,
                        int rank, int peer)
{
    const int64_t elems = i->elems, item = dtype_bytes(i->dtype);
    const int64_t theirs = group_index(i->group, peer);
    const int64_t ranks = group_ranks(i->group);
    if (i->kind == INS_ALL_GATHER || i->kind == INS_GATHER_UPDATED) {
        const bool all = b->bytes >= ranks * elems * item;
        pages_read(pages, b, all ? theirs * elems * item : 0, elems * item);
    } else if (i->kind == INS_REDUCE_SCATTER) {
        read_part(g, pages, i, b, elems, elems * ranks, rank, peer);
    } else if (i->kind == INS_ALL_REDUCE) {
        const int64_t slice = round_up((elems + ranks - 1) / ranks, GRAIN_ELEMS);
        read_part(g, pages, i, b, slice, elems, rank, peer);
        pages_read(pages, b, theirs * slice * item,
                   min_i64(slice, elems - theirs * slice) * item);
    } else {
        return false;
    }
    return true;
}

/* ---- ranks ----------------------------------------------------------------------- */

static void read_peer(const Gen *g, Pages *pages, int rank, int peer, bool most)
{
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        if (!i->group || !group_joins(i->group, rank, peer) ||
            (i->variant == VARIANT_EVAL && !most))
            continue;
        if (i->kind == INS_SPAN)
            pages_read_meets(g, pages, i, rank, peer);
        for (int a = 0; a < i->n_access && i->kind != INS_SPAN; a++) {
            const Buffer *b = &g->prog.bufs.items[i->access[a].buffer];
            if (i->access[a].remote && !read_buffer(g, pages, i, b, rank, peer) && most)
                pages_read(pages, b, 0, b->bytes);
        }
    }
}

static int64_t read_by(const Gen *g, Pages *pages, int rank, bool most)
{
    int64_t sum = 0;
    for (int peer = 0; peer < g->model.mesh.world_size; peer++) {
        if (peer != rank)
            read_peer(g, pages, rank, peer, most);
        sum += pages_take(pages);
    }
    return sum;
}

int64_t plan_peers_bytes(Gen *g, int64_t *least)
{
    const int last = g->model.mesh.world_size - 1;
    Pages pages = {.g = g, .cap = 256};
    pages.items = gen_alloc(g, sizeof *pages.items * (size_t)pages.cap);
    *least = min_i64(read_by(g, &pages, 0, false), read_by(g, &pages, last, false));
    return max_i64(read_by(g, &pages, 0, true), read_by(g, &pages, last, true));
}
