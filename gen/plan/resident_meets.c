/* SPDX-License-Identifier: Apache-2.0 */
/* resident_meets.c: the pages of a peer that a rank reads in the meets of a span. In: a
 * call of a span, the places of its values. Out: pages (resident.c).
 *
 * A rank computes what its own parts get, so it reads of each part of the peer:
 *
 * - of a gather, or of a sum to all parts: all that the part has;
 * - of a turn, or of a sum to pieces: its own parts' pieces, which are rows of what the
 *   part has, a stride apart where the dim that is cut is not the first one.
 *
 * A piece of what all parts have is read of no peer. A value lies at the same place of
 * each part's slab; what parts along an axis share, the first of them has (rt_meet.c,
 * emit_parts.c). */
#include "plan/resident.h"

/* Where the parts of a rank have a value. */
typedef struct Place {
    const Buffer *buffer;
    int64_t at, stride; /* of the first part; from part to part */
} Place;

/* The buffer of a boundary; -1: a slab, or no buffer that peers read. */
static int boundary_of(const Instr *i, const Value *v)
{
    return v->loc == LOC_IN     ? i->in + v->loc_index
           : v->loc == LOC_OUT  ? i->out + v->loc_index
           : v->loc == LOC_DIN  ? i->d_in + v->loc_index
           : v->loc == LOC_DOUT ? i->d_out + v->loc_index
                                : -1;
}

static Place place_of(const Gen *g, const Instr *i, const Value *v)
{
    const Block *block = &g->blocks.items[i->block];
    const Class *c = block->cls;
    int buffer = boundary_of(i, v);
    Place p = {.stride = v->bytes};
    if (v->loc == LOC_SCRATCH) {
        buffer = i->scratch;
        p.at = v->offset_bytes;
        p.stride = class_scratch_bytes(c, i->phase);
    } else if (v->loc == LOC_SAVED) {
        const Saved *s = &c->saved.items[v->loc_index];
        const bool some = block->keep == KEEP_SOME;
        buffer = some && s->dropped ? i->dropped : i->saved;
        p.at = some ? s->some_offset_bytes : s->offset_bytes;
        p.stride = c->saved_bytes;
        if (some)
            p.stride = s->dropped ? c->dropped_bytes : c->kept_bytes;
    }
    gen_require(buffer >= 0, "%s: no peer can read %s", block->name, v->name);
    p.buffer = &g->prog.bufs.items[buffer];
    p.stride = plan_part_stride(p.stride);
    return p;
}

/* The pieces of `here` parts from the first one on. Rows that are less than a page apart
 * have no page between them. */
static void read_pieces(Pages *pages, const Place *p, int64_t at, const Node *n,
                        int64_t parts, int64_t first, int64_t here)
{
    const Value *in = n->in[0];
    const PartState *to = &n->out[0]->part[n->along];
    int64_t rows = 1, row, from = 0, end = 0;
    for (int d = 0; d < to->dim; d++)
        rows *= in->dim[d];
    row = in->bytes / rows;
    for (int64_t o = 0; o < rows; o++) {
        int64_t section = at + o * row;
        for (int s = 0; s < to->sections.n; s++) {
            const int64_t bytes = to->sections.elems[s] * (row / in->dim[to->dim]);
            const int64_t begin = section + first * (bytes / parts);
            if (end == 0 || begin - end >= PAGE_BYTES) {
                pages_read(pages, p->buffer, from, end - from);
                from = begin;
            }
            end = begin + here * (bytes / parts);
            section += bytes;
        }
    }
    pages_read(pages, p->buffer, from, end - from);
}

/* Which of a rank's parts has the value for its part p. */
static int index_of(const Gen *g, const Value *v, int p)
{
    const int context = plan_parts_along(g, PARTS_CONTEXT);
    const unsigned axes = value_differs(v);
    return (axes >> PARTS_TENSOR & 1 ? p / context * context : 0) +
           (axes >> PARTS_CONTEXT & 1 ? p % context : 0);
}

/* Did another block's meet read the same? If not, now one does. */
static bool is_read(Pages *pages, const Node *n, const Place *p)
{
    const int64_t start = p->buffer->offset_bytes;
    const MeetRead now = {n, start + p->at, start + p->buffer->bytes, p->stride};
    for (int k = 0; k < pages->meets.count; k++) {
        const MeetRead *m = &pages->meets.items[k];
        if (m->node == now.node && m->from == now.from && m->end == now.end &&
            m->stride == now.stride)
            return true;
    }
    *gen_push(pages->g, &pages->meets) = now;
    return false;
}

/* Every part of the peer, with those of ours that differ from it along the meet's axis
 * only. */
static void read_meet(const Gen *g, Pages *pages, const Instr *i, const Node *n, int rank)
{
    const int64_t parts = g->model.parts[n->along], here = plan_parts_along(g, n->along);
    const int64_t first = group_index(parts_group(&g->model, n->along), rank) * here;
    const Place place = place_of(g, i, n->in[0]);
    if (place.buffer->space != SPACE_SYMMETRIC || is_read(pages, n, &place))
        return;
    for (int p = 0; p < plan_parts(g); p++) {
        const int64_t at = place.at + index_of(g, n->in[0], p) * place.stride;
        if (n->out[0]->part[n->along].kind == PART_CUT)
            read_pieces(pages, &place, at, n, parts, first, here);
        else
            pages_read(pages, place.buffer, at, n->in[0]->bytes);
    }
}

void pages_read_meets(const Gen *g, Pages *pages, const Instr *i, int rank, int peer)
{
    const Span *s = ins_span(g, i);
    for (int k = 0; k < s->n_nodes; k++) {
        const Node *n = s->nodes[k];
        if (node_joins(n) && group_joins(parts_group(&g->model, n->along), rank, peer))
            read_meet(g, pages, i, n, rank);
    }
}
