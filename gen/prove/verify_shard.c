/* SPDX-License-Identifier: Apache-2.0 */
/* verify_shard.c: the invariants of units, segments and their groups. In: what shard
 * filled. Out: NULL or what is wrong. Shares no code with shard.c and mesh.c: it walks
 * their results parameter by parameter and rank by rank. */
#include "plan/plan.h"
#include "prove/verify.h"

#include <stdlib.h>

static int by_offset(const void *a, const void *b)
{
    const Param *x = *(const Param *const *)a, *y = *(const Param *const *)b;
    return x->offset_elems < y->offset_elems ? -1 : x->offset_elems > y->offset_elems;
}

/* A rank's boxes of a parameter, each at a grain but for the first, which is. */
static bool verify_boxes(const Param *p)
{
    const int64_t ranks = INT64_C(1) << __builtin_popcount(p->axes);
    const int64_t boxes = p->boxes > 1 ? p->boxes : ranks, mine = boxes / ranks;
    const int64_t pad = p->sections.pad,
                  elems = p->elems / p->decl->dim[0] * (p->decl->dim[0] + pad);
    const int64_t grains = (elems / boxes + GRAIN_ELEMS - 1) / GRAIN_ELEMS;
    if (mine < 1 || boxes % ranks || elems % boxes ||
        p->held_elems != (mine - 1) * grains * GRAIN_ELEMS + elems / boxes)
        return false;
    if (boxes == 1)
        return true;
    if (p->cut_dim < 0 || p->cut_dim >= p->decl->n_dims ||
        (p->decl->dim[p->cut_dim] + pad) % boxes != 0)
        return false;
    int64_t whole = 0;
    for (int k = 0; k < p->sections.n; k++) {
        whole += p->sections.elems[k];
        if (p->sections.elems[k] % boxes != 0)
            return false;
    }
    return p->sections.n == 0 || whole - pad == p->decl->dim[p->cut_dim];
}

/* In parts: the boxes are the pieces that each part computes with, on its rank. */
static bool verify_parts(const Gen *g, const Param *p)
{
    const PartState *tensor = &p->decl->mark[PARTS_TENSOR];
    const PartState *context = &p->decl->mark[PARTS_CONTEXT];
    const PartState *mark = tensor->kind == PART_CUT ? tensor : context;
    const int64_t outer = tensor->kind == PART_CUT ? g->model.parts[PARTS_TENSOR] : 1;
    const int64_t inner = context->kind == PART_CUT ? g->model.parts[PARTS_CONTEXT] : 1;
    const Mesh *mesh = &g->model.mesh;
    const RankBits axes = (outer > 1 ? mesh->axis[AXIS_TENSOR].bits : 0) |
                          (inner > 1 ? mesh->axis[AXIS_CONTEXT].bits : 0);
    if (!g->in_parts)
        return true;
    if (outer * inner == 1)
        return p->boxes <= 1 && p->axes == 0;
    if (p->boxes != outer * inner || p->inner_boxes != inner || p->axes != axes ||
        p->cut_dim != mark->dim || p->sections.n != mark->sections.n ||
        p->sections.pad != mark->sections.pad)
        return false;
    for (int k = 0; k < p->sections.n; k++) {
        const int64_t elems = mark->sections.elems[k];
        if (p->sections.elems[k] != elems ||
            (outer > 1 && inner > 1 && context->sections.elems[k] * outer != elems))
            return false;
    }
    return inner == 1 || context->dim == mark->dim;
}

/* All parameters of a segment share its key, and no two segments of a unit do. */
static const char *verify_keys(Gen *g, const Segment *s)
{
    const Mesh *mesh = &g->model.mesh;
    if (s->axes & ~mesh->all || s->axes & mesh->data ||
        s->axes & s->cut[HELD_OPTIMIZER]) {
        return gen_printf(g, "segment %s is cut along axes 0x%x", s->name,
                          (unsigned)s->axes);
    }
    for (int i = 0; i < s->id; i++) {
        const Segment *o = &g->segments.items[i];
        if (o->unit == s->unit && o->trainable == s->trainable && o->dtype == s->dtype &&
            o->gathered == s->gathered && o->axes == s->axes)
            return gen_printf(g, "segments %s and %s have one key", o->name, s->name);
    }
    for (int i = 0; i < s->n_params; i++) {
        const Param *p = &g->params.items[s->params[i]];
        if (p->decl->dtype != s->dtype || p->decl->gathered != s->gathered) {
            return gen_printf(g, "segment %s of %s has %s of %s", s->name,
                              dtype_name(s->dtype), p->name, dtype_name(p->decl->dtype));
        }
        if (p->axes != s->axes || !verify_boxes(p) || !verify_parts(g, p)) {
            return gen_printf(g, "segment %s: %s is not cut as it says", s->name,
                              p->name);
        }
    }
    return NULL;
}

/* Shards are equal and end at grains, and hold all parameters in the fewest grains. */
static const char *check_size(Gen *g, const Segment *s, int64_t end)
{
    const int64_t row = s->shards * GRAIN_ELEMS;
    if (end > s->elems)
        return gen_printf(g, "segment %s: a parameter ends outside", s->name);
    if (s->shard_elems * s->shards != s->elems || s->shard_elems % GRAIN_ELEMS != 0 ||
        s->shard_elems <= 0)
        return gen_printf(g, "segment %s: shards are unequal or off the grain", s->name);
    if (s->elems - end >= row)
        return gen_printf(g, "segment %s has %lld elements for %lld", s->name,
                          (long long)s->elems, (long long)end);
    return NULL;
}

static const char *verify_segment(Gen *g, const Segment *s)
{
    const Param **in = gen_alloc(g, sizeof *in * (size_t)(g->params.count + 1));
    int n = 0;
    int64_t used = 0, end = 0;
    for (int i = 0; i < g->params.count; i++)
        if (g->params.items[i].segment == s->id)
            in[n++] = &g->params.items[i];
    qsort(in, (size_t)n, sizeof *in, by_offset);
    for (int i = 0; i < n; i++) {
        if (in[i]->offset_elems < end)
            return gen_printf(g, "%s overlaps %s", in[i]->name, in[i - 1]->name);
        if (in[i]->offset_elems % GRAIN_ELEMS != 0)
            return gen_printf(g, "%s is not at a grain boundary", in[i]->name);
        if (s->trainable == (in[i]->group && in[i]->group->frozen)) {
            return gen_printf(g, "segment %s: %s is frozen, or the segment is", s->name,
                              in[i]->name);
        }
        end = in[i]->offset_elems + in[i]->held_elems;
        used += (in[i]->elems / in[i]->decl->dim[0] *
                 (in[i]->decl->dim[0] + (in[i]->axes ? in[i]->sections.pad : 0))) /
                (INT64_C(1) << __builtin_popcount(in[i]->axes));
    }
    bool listed = n == s->n_params && used == s->used_elems;
    for (int i = 0; i < n && listed; i++)
        listed = s->params[i] == in[i]->id;
    if (!listed)
        return gen_printf(g, "segment %s lists other parameters than lie in it", s->name);
    return check_size(g, s, end);
}

/* A unit lists the segments that are its own, and all of them. */
static bool lists_segments(const Gen *g, const Unit *u)
{
    int n = 0;
    for (int i = 0; i < g->segments.count; i++)
        if (g->segments.items[i].unit == u->id &&
            (n >= u->n_segments || u->segments[n++] != i))
            return false;
    return n == u->n_segments;
}

/* Every piece is in at most one unit, the unit lists it, and holds its own parameters. */
static const char *verify_units(Gen *g)
{
    int listed = 0, held = 0;
    for (int i = 0; i < g->units.count; i++) {
        const Unit *u = &g->units.items[i];
        listed += u->n_pieces;
        if (!lists_segments(g, u))
            return gen_printf(g, "unit %s lists other segments than its own", u->name);
        for (int k = 0; k < u->n_pieces; k++) {
            const PieceRef *a = &u->pieces[k], *z = &u->pieces[k ? k - 1 : 0];
            if (k && a->block * 64 + a->piece <= z->block * 64 + z->piece)
                return gen_printf(g, "unit %s: pieces out of order", u->name);
            if (g->blocks.items[a->block].unit[a->piece] != i)
                return gen_printf(g, "unit %s: a piece is another unit's", u->name);
        }
    }
    for (int b = 0; b < g->blocks.count; b++) {
        const Block *blk = &g->blocks.items[b];
        bool cut = false;
        for (int k = 0; k < blk->cls->pieces.count; k++) {
            held += blk->unit[k] >= 0;
            cut = cut || blk->unit[k] != blk->unit[0];
        }
        if (cut != blk->cut)
            return gen_printf(g, "block %s: cut or not?", blk->name);
    }
    for (int i = 0; i < g->params.count; i++) {
        const Param *p = &g->params.items[i];
        int piece = -1;
        for (int k = 0; k < p->block->cls->params.count; k++)
            if (p->block->param[k] == i && piece < 0)
                piece = p->block->cls->params.items[k].piece;
        if (piece < 0 || p->block->unit[piece] != g->segments.items[p->segment].unit)
            return gen_printf(g, "%s does not lie in its piece's unit", p->name);
    }
    return listed == held ? NULL : "units list other pieces than they hold";
}

/* Do the groups assign copies and their parts to ranks as the layout says? Walks them
 * rank by rank. */
static const char *verify_groups(Gen *g, const Segment *s)
{
    const Mesh *mesh = &g->model.mesh;
    const struct {
        RankBits bits;
        bool parts; /* its ranks hold different parts, in order; otherwise equal ones */
    } groups[] = {{s->within, true},
                  {s->across, false},
                  {s->between, true},
                  {layout_same(g, s), false}};
    /* Weights at rest are cut like the state, or whole; so are gradients before their
     * sum. */
    const RankBits state = s->cut[HELD_OPTIMIZER], rest = s->cut[HELD_PARAMS];
    if ((rest && rest != state) || (s->cut[HELD_GRADS] && s->cut[HELD_GRADS] != state) ||
        s->cut[HELD_BETWEEN] & ~rest ||
        s->param_elems != (rest ? s->shard_elems : s->elems))
        return gen_printf(g, "segment %s: no pass can execute its placement", s->name);
    if (group_ranks(s->within) != s->shards ||
        (int64_t)s->shards * group_ranks(s->across) != mesh->data_ranks) {
        return gen_printf(g, "segment %s: copies and parts do not make up the mesh",
                          s->name);
    }
    if ((int64_t)s->shards * group_ranks(s->axes) * group_ranks(layout_same(g, s)) !=
        mesh->world_size)
        return gen_printf(g, "segment %s: a rank that no group names holds it", s->name);
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
        for (int r = 0; r < mesh->world_size; r++) {
            if (group_index(groups[i].bits, r) != 0)
                continue; /* checked with the first of its group */
            for (int k = 0; k < group_ranks(groups[i].bits); k++) {
                int member = group_rank(groups[i].bits, r, k);
                if (member >= mesh->world_size ||
                    mesh_part(s, member) != mesh_part(s, r) + (groups[i].parts ? k : 0)) {
                    return gen_printf(g, "segment %s: rank %d is in a wrong group",
                                      s->name, member);
                }
            }
        }
    }
    return NULL;
}

/* Leaves are numbered in the order of the sums: sharded within a copy, over rounds,
 * across copies; unsharded over rounds first. */
const char *verify_policy(Gen *g)
{
    const Model *m = &g->model;
    for (int i = 0; i < g->segments.count; i++) {
        const Segment *s = &g->segments.items[i];
        const RankBits first = m->accumulate_sharded ? s->within : 0;
        if (s->trainable && (mesh_summed_first(m) != first ||
                             mesh_summed_last(m) != ((s->within | s->across) & ~first))) {
            return gen_printf(
                g, "segment %s is summed in another order than leaves are assigned",
                s->name);
        }
    }
    return verify_again(g);
}

/* The two hops of a sum add the ranks' parts in the order of their numbers in the group,
 * so their tree is that of one hop; near ranks are on one node, far ones on several. */
static const char *verify_hops(Gen *g)
{
    const Mesh *mesh = &g->model.mesh;
    Hops hops[MAX_GROUPS];
    const int n = mesh_hops(g, hops);
    for (int i = 0; i < n; i++) {
        const Hops *h = &hops[i];
        for (int r = 0; r < mesh->world_size; r++) {
            const int mate = group_rank(h->near, r, 0), other = group_rank(h->far, r, 0);
            if (group_index(h->group, r) !=
                    group_index(h->far, r) * group_ranks(h->near) +
                        group_index(h->near, r) ||
                r / mesh->node_ranks != mate / mesh->node_ranks ||
                (other != r && r / mesh->node_ranks == other / mesh->node_ranks)) {
                return gen_printf(g, "sums over group 0x%x hop off the tree at rank %d",
                                  (unsigned)h->group, r);
            }
        }
    }
    return NULL;
}

const char *verify_shard(Gen *g)
{
    const char *bad = NULL;
    for (int i = 0; i < g->params.count; i++) {
        int seg = g->params.items[i].segment;
        if (seg < 0 || seg >= g->segments.count)
            return gen_printf(g, "%s lies in no segment", g->params.items[i].name);
    }
    for (int i = 0; i < g->segments.count && !bad; i++) {
        bad = verify_segment(g, &g->segments.items[i]);
        bad = bad ? bad : verify_keys(g, &g->segments.items[i]);
        bad = bad ? bad : verify_groups(g, &g->segments.items[i]);
    }
    bad = bad ? bad : verify_hops(g);
    bad = bad ? bad : verify_matrices(g);
    return bad ? bad : verify_units(g);
}
