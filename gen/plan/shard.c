/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c: assigns parameters to units and segments: each element to exactly one place of
 * each copy.
 *
 * In: g->blocks and g->params (graph, grad, span), and the mesh. Out: g->units,
 * g->segments, Block.unit, Block.cut, Param.segment, Param.held_elems,
 * Param.offset_elems. Breaks: nothing.
 *
 * 1. A unit is gathered and freed together: the pieces of one group of wrap.c. A tied
 *    parameter belongs to the unit of the first block that uses it. A group without
 *    parameters makes no unit.
 * 2. A unit has a segment for each key of its parameters: (trainable, dtype of the
 *    weights, dtype in which they are gathered, axes along which ranks hold parts).
 *    Trainable ones come first.
 * 3. In a segment parameters follow each other in block order, each at a multiple of
 *    GRAIN_ELEMS, and a shard is a multiple of GRAIN_ELEMS too. So a chunk of 1024
 *    elements of a parameter never crosses a shard boundary. This lets norms and updates
 *    work shard by shard in an order that does not depend on the mesh. */
#include "base/names.h"
#include "plan/plan.h"
#include "base/show.h"

#include <string.h>

/* The parameters that belong to a piece; a tied one belongs to the first block and the
 * first piece that read it. Appends to ids, which has n. */
static int owned_params(const Gen *g, PieceRef at, int *ids, int n)
{
    const Block *blk = &g->blocks.items[at.block];
    for (int p = 0; p < blk->cls->params.count; p++) {
        const Param *param = &g->params.items[blk->param[p]];
        bool seen = false;
        if (param->block->id != blk->id || blk->cls->params.items[p].piece != at.piece)
            continue;
        for (int i = 0; i < n; i++) /* one block may use a tied parameter twice */
            seen = seen || ids[i] == param->id;
        if (!seen)
            ids[n++] = param->id;
    }
    return n;
}

static bool same_key(const Param *a, const Param *b)
{
    return a->decl->frozen == b->decl->frozen && a->decl->dtype == b->decl->dtype &&
           a->decl->gathered == b->decl->gathered && a->axes == b->axes;
}

/* Where the first n parameters of the segment end. */
static int64_t end_of(const Gen *g, const Segment *s, int n)
{
    const Param *last = n > 0 ? &g->params.items[s->params[n - 1]] : NULL;
    return last ? last->offset_elems + last->held_elems : 0;
}

void shard_segment(const Gen *g, Segment *s, RankBits over)
{
    /* The last parameter is not rounded up, because shards may divide evenly without
     * it. */
    const int64_t end = end_of(g, s, s->n_params);
    mesh_place(g, s, over);
    s->shard_elems = round_up((end + s->shards - 1) / s->shards, GRAIN_ELEMS);
    s->elems = s->shard_elems * s->shards;
    s->param_elems = s->elems / group_ranks(s->cut[HELD_PARAMS]);
}

/* Takes the parameters of the unit's list that share this one's key, in order. */
static void add_segment(Gen *g, Unit *u, const Param *like, const int *ids, int n)
{
    Segment *s = gen_push(g, &g->segments);
    s->id = g->segments.count - 1;
    s->unit = u->id;
    s->trainable = !like->decl->frozen;
    s->dtype = like->decl->dtype;
    s->gathered = like->decl->gathered;
    s->axes = like->axes;
    u->segments[u->n_segments++] = s->id;
    s->params = gen_alloc(g, sizeof(int) * (size_t)n);
    for (int i = 0; i < n; i++) {
        Param *p = &g->params.items[ids[i]];
        if (!same_key(p, like))
            continue;
        s->params[s->n_params++] = ids[i];
        p->segment = s->id;
        p->held_elems =
            (layout_held_boxes(p) - 1) * layout_box_stride(p) + layout_box_elems(p);
        p->offset_elems = round_up(end_of(g, s, s->n_params - 1), GRAIN_ELEMS);
        s->used_elems += p->axes ? layout_held_boxes(p) * layout_box_elems(p) : p->elems;
    }
    shard_segment(g, s, g->model.mesh.axis[AXIS_SHARD].bits);
}

/* Are the unit's pieces consecutive in the model? */
static bool is_run(const Gen *g, const Unit *u)
{
    for (int k = 1; k < u->n_pieces; k++) {
        PieceRef a = u->pieces[k - 1], b = u->pieces[k];
        bool next = a.block == b.block
                        ? b.piece == a.piece + 1
                        : b.block == a.block + 1 && b.piece == 0 &&
                              a.piece == g->blocks.items[a.block].cls->pieces.count - 1;
        if (!next)
            return false;
    }
    return true;
}

/* "layers.0", "layers.0.mlp_up", or the first and the last: "layers.0..layers.3",
 * "layers.0.qkv..attention"; "embed+head" if they are not consecutive. */
static const char *unit_text(Gen *g, const Unit *u, bool ident)
{
    bool run = is_run(g, u);
    const char *end[2];
    for (int k = 0; k < 2; k++) {
        PieceRef at = u->pieces[k ? u->n_pieces - 1 : 0];
        const Block *b = &g->blocks.items[at.block];
        const char *name = ident ? b->ident : b->name;
        end[k] = b->cut ? gen_printf(g, ident ? "%s_%s" : "%s.%s", name,
                                     b->cls->pieces.items[at.piece].name)
                        : name;
    }
    if (!strcmp(end[0], end[1]))
        return end[0];
    if (run && u->pieces[0].block == u->pieces[u->n_pieces - 1].block) {
        end[1] = g->blocks.items[u->pieces[0].block]
                     .cls->pieces.items[u->pieces[u->n_pieces - 1].piece]
                     .name;
    }
    return gen_printf(g, "%s%s%s", end[0],
                      ident ? (run ? "_to_" : "_and_") : (run ? ".." : "+"), end[1]);
}

static int group_params(const Gen *g, const Wrap *w, int group, int *ids)
{
    int n = 0;
    for (int i = 0; i < w->n_pieces; i++)
        if (w->group[i] == group)
            n = owned_params(g, w->piece[i], ids, n);
    return n;
}

/* Adds a segment for each key, in the order of their first parameters. */
static void add_segments(Gen *g, Unit *u, bool trainable, const int *ids, int n)
{
    for (int i = 0; i < n; i++) {
        const Param *p = &g->params.items[ids[i]];
        bool seen = p->decl->frozen == trainable;
        for (int k = 0; k < i && !seen; k++)
            seen = same_key(p, &g->params.items[ids[k]]);
        if (!seen)
            add_segment(g, u, p, ids, n);
    }
}

/* Numbers what has a scale. */
static void number_scales(Gen *g)
{
    int n = 0;
    for (int i = 0; i < g->params.count; i++) {
        Param *p = &g->params.items[i];
        p->scale = p->decl->gathered == p->decl->dtype ? -1 : n++;
    }
}

static void add_unit(Gen *g, const Wrap *w, int group, int *ids)
{
    int pieces = 0, n = group_params(g, w, group, ids);
    Unit *u;
    for (int i = 0; i < w->n_pieces; i++)
        pieces += w->group[i] == group;
    if (n == 0)
        return;
    u = gen_push(g, &g->units);
    u->id = g->units.count - 1;
    u->pieces = gen_alloc(g, sizeof *u->pieces * (size_t)pieces);
    for (int i = 0; i < w->n_pieces; i++) {
        if (w->group[i] == group) {
            u->pieces[u->n_pieces++] = w->piece[i];
            g->blocks.items[w->piece[i].block].unit[w->piece[i].piece] = u->id;
        }
    }
    u->name = w->name[group];
    u->segments = gen_alloc(g, sizeof(int) * (size_t)n);
    add_segments(g, u, true, ids, n);
    add_segments(g, u, false, ids, n);
}

static const char *axes_text(Gen *g, RankBits axes)
{
    const char *text = "";
    for (int a = 0; a < N_AXES; a++) {
        const MeshAxis *axis = &g->model.mesh.axis[a];
        if (axis->bits & axes)
            text = gen_printf(g, "%s%s%s", text, *text ? "_" : "", axis->name);
    }
    return axes ? text : "whole";
}

/* The first segment of a unit has the unit's name; others add how their key differs. */
static const char *segment_name(Gen *g, const Unit *u, const Segment *s, const char *dot)
{
    const Segment *first = &g->segments.items[u->segments[0]];
    const char *name = *dot == '.' ? u->name : u->ident;
    if (s->trainable != first->trainable)
        name = gen_printf(g, "%s%sfrozen", name, dot);
    if (s->dtype != first->dtype)
        name = gen_printf(g, "%s%s%s", name, dot, dtype_name(s->dtype));
    if (s->gathered != first->gathered)
        name = gen_printf(g, "%s%s%s", name, dot, dtype_name(s->gathered));
    if (s->axes != first->axes)
        name = gen_printf(g, "%s%s%s", name, dot, axes_text(g, s->axes));
    return name;
}

/* Units are named last, because names depend on which blocks are cut. */
static void name_units(Gen *g)
{
    for (int b = 0; b < g->blocks.count; b++) {
        Block *blk = &g->blocks.items[b];
        for (int k = 0; k < blk->cls->pieces.count; k++)
            blk->cut = blk->cut || blk->unit[k] != blk->unit[0];
    }
    for (int i = 0; i < g->units.count; i++) {
        Unit *u = &g->units.items[i];
        u->ident = u->name ? name_ident(g, u->name) : unit_text(g, u, true);
        u->name = u->name ? u->name : unit_text(g, u, false);
        for (int k = 0; k < i; k++) {
            if (!strcmp(g->units.items[k].ident, u->ident)) {
                diag_add(g, DIAG_ERROR, model_pos(g, "wrap"),
                         "name one of them otherwise",
                         "wrap: units %s and %s have one name in C, %s",
                         g->units.items[k].name, u->name, u->ident);
            }
        }
        for (int k = 0; k < u->n_segments; k++) {
            Segment *s = &g->segments.items[u->segments[k]];
            s->name = segment_name(g, u, s, ".");
            s->ident = segment_name(g, u, s, "_");
        }
    }
}

static void warn_padding(Gen *g)
{
    int64_t used = 0, held = 0;
    for (int i = 0; i < g->segments.count; i++) {
        used += g->segments.items[i].used_elems;
        held += g->segments.items[i].elems;
    }
    if ((held - used) * 20 > used) {
        diag_add(
            g, DIAG_WARNING, model_pos(g, "mesh"),
            g->model.mesh.axis[AXIS_SHARD].degree > 1
                ? "wrap more blocks in one unit, or use fewer shards"
                : "wrap more blocks in one unit",
            "mesh: padding is %.1f %% of the parameters (%lld of %lld elements): shards "
            "lie on a grain of %d elements",
            100.0 * (double)(held - used) / (double)used, (long long)(held - used),
            (long long)used, GRAIN_ELEMS);
    }
}

/* The parameters of the largest block, of each unit, and of all; the blocks of a unit. */
typedef struct UnitSizes {
    int64_t block, all, unit;
    int largest, blocks; /* the largest unit: a piece with parameters, how many blocks */
} UnitSizes;

static UnitSizes unit_sizes(const Wrap *w)
{
    UnitSizes s = {0};

    for (int u = 0; u < w->n_groups; u++) {
        int64_t params = 0;
        int blocks = 0, piece = 0;

        for (int i = 0; i < w->n_pieces; i++) {
            params += w->group[i] == u ? w->params[i] : 0;
            blocks += w->group[i] == u && w->piece[i].piece == 0;
            piece = w->group[i] == u && w->params[i] > 0 ? i : piece;
        }
        if (params > s.unit) {
            s.unit = params;
            s.largest = piece;
            s.blocks = blocks;
        }
        s.all += params;
    }
    for (int i = 0, at = 0; i < w->n_pieces; i++) {
        int64_t params = 0;

        at = w->piece[i].piece == 0 ? i : at;
        for (int k = at; k <= i; k++)
            params += w->params[k];
        s.block = max_i64(s.block, params);
    }
    return s;
}

/* Warns if one unit holds the whole model or nearly so, so that its collectives have
 * little to overlap with. */
static void warn_large_unit(Gen *g, const Wrap *w)
{
    const Model *m = &g->model;
    const UnitSizes s = unit_sizes(w);
    const bool one = g->units.count == 1;
    const PieceRef *in = &w->piece[s.largest];
    const char *what;

    if (m->mesh.world_size == 1 || g->blocks.count < 3 || s.blocks < 3 ||
        s.unit * 4 < s.all * 3)
        return;
    what =
        one ? "the whole model is one unit"
            : gen_printf(g, "unit %s is %.0f %% of the model",
                         g->units.items[g->blocks.items[in->block].unit[in->piece]].name,
                         100.0 * (double)s.unit / (double)s.all);
    if (!strategy_rule(m->strategy)->cut[HELD_PARAMS]) {
        diag_add(
            g, DIAG_WARNING, model_pos(g, "wrap"), "write wrap = per_block(1)",
            "wrap: %s: its gradients, %s, are summed when the backward is over, beside "
            "nothing",
            what, show_bytes(g, s.unit * dtype_bytes(m->reduce_dtype)));
        return;
    }
    diag_add(g, DIAG_WARNING, model_pos(g, "wrap"),
             gen_printf(g,
                        "wrap = per_block(1) gathers at most %s at once, beside the "
                        "mathematics of the block before",
                        show_bytes(g, s.block * dtype_bytes(m->param_dtype))),
             "wrap: %s: each rank gathers all %s of weights and holds all %s of "
             "gradients, and no collective runs beside the mathematics",
             what, show_bytes(g, s.unit * dtype_bytes(m->param_dtype)),
             show_bytes(g, s.unit * dtype_bytes(m->reduce_dtype)));
}

/* A parameter that parts cut is stored as a box for each part; ranks along the axes hold
 * equal shares of them. Boxes of both axes are pieces along one dim: part c of part t has
 * number t * C + c (split.c: mark_for_storage). */
static void place_boxes_of(Gen *g, Param *p)
{
    const Model *m = &g->model;
    const PartState *mark = p->decl->mark;
    p->boxes = p->inner_boxes = 1;
    /* tensor last: its sections are whole */
    for (int a = N_PARTS_AXES - 1; a >= 0; a--) {
        if (mark[a].kind != PART_CUT)
            continue;
        p->axes |= parts_group(m, a);
        p->boxes *= (int)m->parts[a];
        p->inner_boxes = a == PARTS_CONTEXT ? (int)m->parts[a] : p->inner_boxes;
        p->cut_dim = mark[a].dim;
        p->sections = mark[a].sections;
    }
}

static void place_boxes(Gen *g)
{
    for (int i = 0; g->in_parts && i < g->params.count; i++)
        place_boxes_of(g, &g->params.items[i]);
}

void shard_params(Gen *g)
{
    Wrap w = wrap_partition(g);
    int *ids = gen_alloc(g, sizeof(int) * (size_t)(g->params.count + 1));
    if (diag_errors(g))
        return;
    place_boxes(g);
    number_scales(g);
    for (int b = 0; b < g->blocks.count; b++) {
        Block *blk = &g->blocks.items[b];
        blk->unit = gen_alloc(g, sizeof(int) * (size_t)(blk->cls->pieces.count + 1));
        memset(blk->unit, -1, sizeof(int) * (size_t)blk->cls->pieces.count);
        blk->cut = false;
    }
    for (int i = 0; i < w.n_groups; i++)
        add_unit(g, &w, i, ids);
    name_units(g);
    if (diag_errors(g))
        return;
    matrices_deal(g);
    warn_padding(g);
    warn_large_unit(g, &w);
}
