/* SPDX-License-Identifier: Apache-2.0 */
/* verify_moves.c: how much each collective carries. In: the instructions of unroll,
 * segments, the mesh. Out: NULL or what is wrong with one.
 *
 * Of E elements in a group of R ranks:
 * - a gather brings rank 0 all but its own part of E / R;
 * - a reduction brings it a part of the same place from each rank: from all of them at
 *   once, or, if the group is on several nodes, first the parts of the ranks on its node
 *   that stand for the other nodes, then one part from each other node;
 * - a sum over copies does that with a slice of E / R in whole grains, then brings the
 *   slices that the others have summed;
 * - integers are read from every other rank;
 * - in a meet, ranks read what their parts need of the parts of others.
 * Matrices travel as verify_matrices.c says. Everything else carries nothing. */
#include "plan/plan.h"
#include "prove/verify.h"

enum { SUM_WORDS = 72 }; /* of an exact sum of squares, of 8 bytes: as in the runtime */

typedef struct Load {
    Dtype dtype;
    int64_t elems, bytes;
} Load;

static int64_t ranks_of(RankBits group)
{
    return INT64_C(1) << __builtin_popcount(group);
}

/* Elements of the group's k-th part of `all`; the last ones may be short or empty. */
static int64_t part_of(int64_t all, int64_t part, int64_t k)
{
    return max_i64(0, min_i64(part, all - k * part));
}

/* What rank 0 reads to sum the first of the group's parts. The k-th rank is the first one
 * on its node if all before it are on others. */
static int64_t summed(const Gen *g, RankBits group, int64_t part, int64_t all)
{
    const int64_t node = g->model.mesh.node_ranks;
    const int ranks = (int)ranks_of(group);
    int64_t mates = 0, nodes = 0, firsts = 0;
    int last = -1;

    for (int k = 0; k < ranks; k++) {
        const int rank = group_rank(group, 0, k);

        mates += rank < node;
        if (rank / node == last)
            continue;
        last = (int)(rank / node);
        nodes++;
        firsts += part_of(all, part, k);
    }
    if (g->model.library_order || mates == 1 || nodes == 1)
        return (ranks - 1) * part;
    return (mates - 1) * firsts + (nodes - 1) * part;
}

/* ---- meets ----------------------------------------------------------------------- */

/* Parts of a rank that differ along the axis; 1: all of them share the value. */
static int64_t times(const Gen *g, const Value *v, int axis)
{
    const int64_t ranks =
        g->model.mesh.axis[axis == PARTS_TENSOR ? AXIS_TENSOR : AXIS_CONTEXT].degree;

    return v->part[axis].kind == PART_WHOLE ? 1 : g->model.parts[axis] / ranks;
}

static int64_t met_bytes(const Gen *g, const Node *n)
{
    const Value *in = n->in[0], *out = n->out[0];
    const int64_t parts = g->model.parts[n->along], here = times(g, in, (int)n->along);
    const bool turn = in->part[n->along].kind == PART_CUT;
    int64_t lanes = 1, read = in->bytes;

    if (!n->op->collective || in->part[n->along].kind == PART_WHOLE)
        return 0;
    for (int a = 0; a < N_PARTS_AXES; a++) /* parts that meet others of their own */
        if (a != (int)n->along)
            lanes *= times(g, out, a);
    if (out->part[n->along].kind != PART_WHOLE) /* a piece for each part, of its dtype */
        read = here * (turn ? out->bytes : in->bytes) / parts;
    return lanes * (parts - here) * read;
}

/* ---- instructions ---------------------------------------------------------------- */

static Load span_load(const Gen *g, const Instr *i)
{
    const Span *s = ins_span(g, i);
    Load l = {0};

    for (int n = 0; g->in_parts && n < s->n_nodes; n++)
        l.bytes += met_bytes(g, s->nodes[n]);
    return l;
}

static Load gather_load(const Instr *i, Dtype dtype, int64_t all)
{
    Load l = {dtype, all / ranks_of(i->group), 0};

    l.bytes = (all - l.elems) * dtype_bytes(dtype);
    return l;
}

static Load sum_load(const Gen *g, const Instr *i, const Segment *s)
{
    const int64_t ranks = ranks_of(i->group), shard = s->shard_elems;
    Load l = {g->model.reduce_dtype, shard, 0};

    if (i->kind == INS_REDUCE_SCATTER) {
        l.bytes = summed(g, i->group, shard, s->elems);
    } else {
        const int64_t grains = (shard + GRAIN_ELEMS - 1) / GRAIN_ELEMS;
        const int64_t slice = (grains + ranks - 1) / ranks * GRAIN_ELEMS;

        l.bytes = summed(g, i->group, slice, shard) + shard - slice;
    }
    l.bytes *= dtype_bytes(l.dtype);
    return l;
}

static int64_t scales_of(const Gen *g)
{
    int64_t n = 0;

    for (int k = 0; k < g->params.count; k++)
        n += g->params.items[k].decl->gathered != g->params.items[k].decl->dtype;
    return n;
}

static Load load_of(const Gen *g, const Instr *i)
{
    const Segment *s = i->segment >= 0 ? &g->segments.items[i->segment] : NULL;
    const int64_t others = g->model.mesh.world_size - 1;
    Load none = {0};

    switch (i->kind) {
    case INS_SPAN:
        return span_load(g, i);
    case INS_ALL_GATHER:
        return gather_load(i, s->gathered, s->elems);
    case INS_GATHER_UPDATED:
        return gather_load(i, s->dtype, s->elems);
    case INS_REDUCE_SCATTER:
    case INS_ALL_REDUCE:
        return sum_load(g, i, s);
    case INS_NORM_REDUCE: /* and a loss of each micro-batch */
        none.bytes = others * (SUM_WORDS + g->model.micro_batches) * 8;
        return none;
    case INS_LARGEST_REDUCE:
        none.bytes = others * scales_of(g) * dtype_bytes(DT_I32);
        return none;
    default:
        return none;
    }
}

const char *verify_moves(Gen *g)
{
    for (int id = 0; id < g->prog.ins.count; id++) {
        const Instr *i = &g->prog.ins.items[id];
        const Load want = load_of(g, i);
        const bool matrices = i->kind == INS_TO_OWNERS || i->kind == INS_FROM_OWNERS;

        if (i->dtype != want.dtype)
            return gen_printf(g, "%s carries another dtype", ins_label(g, i));
        if (i->elems != want.elems)
            return gen_printf(g, "%s carries %lld elements, not %lld", ins_label(g, i),
                              (long long)i->elems, (long long)want.elems);
        if (!matrices && i->moved_bytes != want.bytes)
            return gen_printf(g, "%s brings %lld bytes, not %lld", ins_label(g, i),
                              (long long)i->moved_bytes, (long long)want.bytes);
    }
    return NULL;
}
