/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_state: parameters of simulated ranks, by the plan's map. Comes in: a machine.
 * Goes out: its first weights; the state as a rank sees it, in the order of parameters
 * and of their elements, whoever holds them. */
#include "interpret_machine.h"

#include <string.h>

/* ---- first weights --------------------------------------------------------------- */

typedef struct Init {
    Machine *m;
    const Param *p;
    const Segment *s;
    char *param, *master; /* of the elements of a shard; NULL: another rank has them */
} Init;

/* Depends on parameter and element only. */
static double first_weight(const Param *p, int64_t element)
{
    uint64_t h = interp_mix(((uint64_t)p->id << 32) + (uint64_t)element);
    double v = ((double)(h >> 40) * 0x1p-24 - 0.5) * 0.5;

    return p->decl->n_dims == 1 ? 1 + v : v; /* norms */
}

static void init_run(void *ctx, const Run *run)
{
    const Init *x = ctx;
    const bool has = segment_has_master(&x->m->g->model, x->s);

    for (int64_t k = 0; k < run->elems; k++) {
        const int64_t at = run->offset_elems + k;
        const double v = first_weight(x->p, run->element + k);
        char spare[8], *param = x->param + at * dtype_bytes(x->s->dtype);

        if (x->master)
            interp_store_master(&x->m->g->model, x->s, x->param, x->master, at, v);
        else
            interp_store_master(&x->m->g->model, x->s, param, has ? spare : param, 0, v);
    }
}

/* Its shard, and if it holds them whole the others' weights. */
void interp_init_params(Machine *m, int rank)
{
    for (int i = 0; i < m->g->params.count; i++) {
        Init x = {.m = m, .p = &m->g->params.items[i]};
        const Box box = layout_whole(x.p);
        Coordinate at;
        int master, shard, own;

        x.s = &m->g->segments.items[x.p->segment];
        master = interp_find_buffer(m, BUF_MASTER, x.s->id);
        shard = interp_find_buffer(m, BUF_PARAM_SHARD, x.s->id);
        at = layout_of(x.s, rank);
        own = at.part;
        for (at.part = 0; at.part < x.s->shards; at.part++) {
            if (at.part != own && x.s->param_elems != x.s->elems)
                continue;
            x.param = interp_param_part(m, rank, x.s, shard) +
                      (at.part - own) * x.s->shard_elems * dtype_bytes(x.s->dtype);
            x.master = at.part != own ? NULL
                       : master >= 0  ? interp_at(m, rank, master)
                                      : x.param;
            layout_runs(m->g, x.p, &box, at, init_run, &x);
        }
    }
}

/* ---- the state ------------------------------------------------------------------- */

/* Where each element of a parameter is. */
typedef struct Places {
    Coordinate now, *at;
    int64_t *offset; /* in the shard */
} Places;

static void note_places(void *ctx, const Run *run)
{
    Places *x = ctx;

    for (int64_t k = 0; k < run->elems; k++) {
        x->at[run->element + k] = x->now;
        x->offset[run->element + k] = run->offset_elems + k;
    }
}

static Places find_places(Machine *m, const Param *p)
{
    const Segment *s = &m->g->segments.items[p->segment];
    const Box box = layout_whole(p);
    const size_t n = (size_t)p->elems;
    Places x = {.at = gen_alloc(m->g, sizeof *x.at * n),
                .offset = gen_alloc(m->g, sizeof *x.offset * n)};

    for (int along = 0; along < group_ranks(s->axes); along++)
        for (int part = 0; part < s->shards; part++) {
            x.now = (Coordinate){.along = along, .part = part};
            layout_runs(m->g, p, &box, x.now, note_places, &x);
        }
    return x;
}

static void put_state(Machine *m, size_t *n, int rank, int kind, const Param *p,
                      const Places *x, Dtype d)
{
    const Segment *s = &m->g->segments.items[p->segment];
    const int b = interp_find_buffer(m, (BufKind)kind, p->segment);

    for (int64_t k = 0; b >= 0 && k < p->elems; k++) {
        const int64_t flat = x->at[k].part * s->shard_elems + x->offset[k];
        int64_t at = x->offset[k];
        int owner = group_rank(s->axes, rank, x->at[k].along); /* in its copy */

        if (kind == BUF_PARAM_SHARD && s->param_elems == s->elems)
            at = flat; /* as this rank, or its peer along the axes, has it */
        else
            owner = group_rank(s->cut[HELD_OPTIMIZER], owner, x->at[k].part);
        at = kind == BUF_MOMENT2 ? interp_second_moment(m, s, flat) : at;
        if (at < 0)
            return; /* a matrix */
        memcpy(m->run->state + *n, interp_at(m, owner, b) + at * dtype_bytes(d),
               (size_t)dtype_bytes(d));
        *n += (size_t)dtype_bytes(d);
    }
}

size_t interp_gather_state(Machine *m, int rank)
{
    const Model *mod = &m->g->model;
    const int control = interp_find_buffer(m, BUF_CONTROL, -1);
    size_t n = 0;

    for (int i = 0; i < m->g->params.count; i++) {
        const Param *p = &m->g->params.items[i];
        const Places x = find_places(m, p);

        put_state(m, &n, rank, BUF_PARAM_SHARD, p, &x, p->decl->dtype);
        put_state(m, &n, rank, BUF_MASTER, p, &x, mod->master_dtype);
        put_state(m, &n, rank, BUF_MOMENT1, p, &x, mod->moments_dtype);
        put_state(m, &n, rank, BUF_MOMENT2, p, &x, mod->moments_dtype);
    }
    memcpy(m->run->state + n, interp_at(m, rank, control),
           (size_t)mod->micro_batches * 8);
    return n + (size_t)mod->micro_batches * 8;
}
