/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults_shard.c: plants of faults in segments, for test_faults.c: which parameters
 * they have, where, and on which ranks. In: a plan. Out: the same plan, wrong. */
#include "test_faults.h"

/* ---- shard ----------------------------------------------------------------------- */

bool plant_param_overlap(Gen *g, uint64_t *r)
{
    for (int tries = 0; tries < 20; tries++) {
        Segment *s = &g->segments.items[choose(r, g->segments.count)];
        if (s->n_params > 1) {
            g->params.items[s->params[1]].offset_elems = 0;
            return true;
        }
    }
    return false;
}

bool plant_param_off_grain(Gen *g, uint64_t *r)
{
    g->params.items[choose(r, g->params.count)].offset_elems += 8;
    return true;
}

bool plant_unequal_shards(Gen *g, uint64_t *r)
{
    g->segments.items[choose(r, g->segments.count)].elems += GRAIN_ELEMS;
    return true;
}

bool plant_param_lost(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    s->n_params--;
    return true;
}

bool plant_frozen(Gen *g, uint64_t *r)
{
    g->segments.items[choose(r, g->segments.count)].trainable = false;
    return true;
}

bool plant_other_dtype(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    s->dtype = s->dtype == DT_F32 ? DT_BF16 : DT_F32;
    return true;
}

/* Two segments of a unit, said to be alike. */
bool plant_one_key(Gen *g, uint64_t *r)
{
    (void)r;
    for (int i = 1; i < g->segments.count; i++) {
        Segment *a = &g->segments.items[i - 1], *b = &g->segments.items[i];
        if (a->unit == b->unit && a->trainable == b->trainable) {
            b->dtype = a->dtype;
            b->gathered = a->gathered;
            for (int k = 0; k < b->n_params; k++) {
                g->params.items[b->params[k]].decl->dtype = a->dtype;
                g->params.items[b->params[k]].decl->gathered = a->gathered;
            }
            return true;
        }
    }
    return false;
}

/* Parts along an axis whose ranks compute leaves of their own. */
bool plant_cut_along_data(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    s->axes = g->model.mesh.data;
    for (int k = 0; k < s->n_params; k++)
        g->params.items[s->params[k]].axes = s->axes;
    return s->axes != 0;
}

bool plant_half_held(Gen *g, uint64_t *r)
{
    Param *p = &g->params.items[choose(r, g->params.count)];
    p->held_elems /= 2;
    g->segments.items[p->segment].used_elems -= p->elems - p->held_elems;
    return true;
}

/* The copies' groups are those of one copy. */
bool plant_copies_mixed(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    bool mixed = s->across && s->within;
    s->across = mixed ? s->within : s->across;
    return mixed;
}

/* One of them twice, another not at all. */
bool plant_param_twice(Gen *g, uint64_t *r)
{
    for (int tries = 0; tries < 20; tries++) {
        Segment *s = &g->segments.items[choose(r, g->segments.count)];
        if (s->n_params > 1) {
            s->params[1] = s->params[0];
            return true;
        }
    }
    return false;
}

/* A unit gathers another unit's segment. */
bool plant_other_segment(Gen *g, uint64_t *r)
{
    Unit *u = &g->units.items[choose(r, g->units.count)];
    u->segments[0] = (u->segments[0] + 1) % g->segments.count;
    return g->segments.count > 1;
}

/* Shards of a grain more than the parameters need. */
bool plant_larger_shards(Gen *g, uint64_t *r)
{
    Segment *s = &g->segments.items[choose(r, g->segments.count)];
    s->shard_elems += GRAIN_ELEMS;
    s->elems += GRAIN_ELEMS * s->shards;
    s->param_elems = s->cut[HELD_PARAMS] ? s->shard_elems : s->elems;
    return true;
}
