/* SPDX-License-Identifier: Apache-2.0 */
/* shard: parameters to units and segments, each parameter element to exactly one place.
 *
 * Needs g->blocks, g->params (graph, grad, span) and the mesh. Fills g->units,
 * g->segments, Param.segment, Param.offset_elems. Breaks nothing.
 *
 * A unit is what is gathered and freed together: one block, or wrap_blocks consecutive
 * layers, a layer being a block whose class repeats. So the embedding and the head are
 * units of their own whatever the wrap. A tied parameter lies in the unit of the first
 * block that uses it. A block without parameters of its own makes no unit.
 *
 * In a segment parameters follow each other in block order, each at a multiple of
 * GRAIN_ELEMS, and a shard is a multiple of GRAIN_ELEMS too: a 1024-element chunk of a
 * parameter therefore never straddles a shard boundary, which is what lets norms and
 * updates work shard by shard in an order that does not know the mesh. */
#include "plan.h"

#include <string.h>

/* How many of the leading blocks from b form one unit. */
static int unit_blocks(const Gen *g, const int *class_uses, int b)
{
    int64_t n = 1;
    if (class_uses[g->blocks.items[b].cls->id] < 2) {
        return 1;
    }
    while (b + n < g->blocks.count && n < g->model.wrap_blocks &&
           class_uses[g->blocks.items[b + n].cls->id] > 1) {
        n++;
    }
    return (int)n;
}

static int owned_params(const Gen *g, int first, int n_blocks, int *ids)
{
    int n = 0;
    for (int b = first; b < first + n_blocks; b++) {
        const Block *blk = &g->blocks.items[b];
        for (int p = 0; p < blk->cls->params.count; p++) {
            const Param *param = &g->params.items[blk->param[p]];
            bool seen = false;
            if (param->block->id != blk->id) {
                continue;
            }
            for (int i = 0; i < n; i++) { /* one block may name a tied parameter twice */
                seen = seen || ids[i] == param->id;
            }
            if (!seen) {
                ids[n++] = param->id;
            }
        }
    }
    return n;
}

/* One segment for now; several (by dtype, frozen, reduce dtype) would each take the
 * parameters they select from the unit's list, in order. */
static int add_segment(Gen *g, int unit, const char *name, const char *ident,
                       const int *ids, int n)
{
    Segment *s = gen_push(g, &g->segments);
    int64_t end = 0;
    s->id = g->segments.count - 1;
    s->name = name;
    s->ident = ident;
    s->unit = unit;
    s->shards = g->model.strategy == NO_SHARD ? 1 : (int)g->model.shard;
    s->n_params = n;
    s->params = gen_alloc(g, sizeof(int) * (size_t)n);
    for (int i = 0; i < n; i++) {
        Param *p = &g->params.items[ids[i]];
        s->params[i] = ids[i];
        p->segment = s->id;
        p->offset_elems = end;
        s->used_elems += p->elems;
        end = round_up(end + p->elems, GRAIN_ELEMS);
    }
    /* The last parameter's own rounding is not needed when shards divide evenly without
     * it. */
    end = g->params.items[ids[n - 1]].offset_elems + g->params.items[ids[n - 1]].elems;
    s->shard_elems = round_up((end + s->shards - 1) / s->shards, GRAIN_ELEMS);
    s->elems = s->shard_elems * s->shards;
    return s->id;
}

static void add_unit(Gen *g, int first, int n_blocks, const int *ids, int n)
{
    const Block *a = &g->blocks.items[first], *z = &g->blocks.items[first + n_blocks - 1];
    Unit *u = gen_push(g, &g->units);
    u->id = g->units.count - 1;
    u->first_block = first;
    u->n_blocks = n_blocks;
    u->name = n_blocks == 1 ? a->name : gen_printf(g, "%s..%s", a->name, z->name);
    u->ident = n_blocks == 1 ? a->ident : gen_printf(g, "%s_to_%s", a->ident, z->ident);
    u->n_segments = 1;
    u->segments = gen_alloc(g, sizeof(int));
    u->segments[0] = add_segment(g, u->id, u->name, u->ident, ids, n);
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
            "wrap more blocks in one unit, or use fewer shards",
            "mesh: padding is %.1f %% of the parameters (%lld of %lld elements): shards "
            "lie on a grain of %d elements",
            100.0 * (double)(held - used) / (double)used, (long long)(held - used),
            (long long)used, GRAIN_ELEMS);
    }
}

void shard_params(Gen *g)
{
    int *class_uses = gen_alloc(g, sizeof(int) * (size_t)(g->classes.count + 1));
    int *ids = gen_alloc(g, sizeof(int) * (size_t)(g->params.count + 1));
    for (int b = 0; b < g->blocks.count; b++) {
        class_uses[g->blocks.items[b].cls->id]++;
    }
    for (int b = 0; b < g->blocks.count;) {
        int n_blocks = unit_blocks(g, class_uses, b);
        int n = owned_params(g, b, n_blocks, ids);
        if (n > 0) {
            add_unit(g, b, n_blocks, ids, n);
        }
        b += n_blocks;
    }
    warn_padding(g);
}
