/* SPDX-License-Identifier: Apache-2.0 */
/* test_faults_spans.c: plants of faults in calls of spans, for test_faults.c: what they
 * read and write, and where they add. In: a plan. Out: the same plan, wrong. */
#include "test_faults.h"

/* ---- gradients of parameters ----------------------------------------------------- */

/* A gradient that is added to, or not. */
static struct Binding *find_grad(Gen *g, uint64_t *r, bool add)
{
    const int n = g->prog.n_bindings, from = choose(r, n);
    for (int k = 0; k < n; k++) {
        struct Binding *b = &g->prog.bindings[(from + k) % n];
        if (b->of == BIND_GRAD && b->add == add)
            return b;
    }
    return NULL;
}

/* The first gradient of a micro-step is added to what the last one left. */
bool plant_first_adds(Gen *g, uint64_t *r)
{
    struct Binding *b = find_grad(g, r, false);
    if (b)
        b->add = true;
    return b != NULL;
}

/* The second use of a tied parameter overwrites the gradient of the first. */
bool plant_later_stores(Gen *g, uint64_t *r)
{
    struct Binding *b = find_grad(g, r, true);
    if (b)
        b->add = false;
    return b != NULL;
}

/* ---- accesses -------------------------------------------------------------------- */

static Access *find_access(Gen *g, uint64_t *r, Instr **of)
{
    *of = find_ins(g, r, INS_SPAN);
    return (*of)->n_access ? &(*of)->access[choose(r, (*of)->n_access)] : NULL;
}

/* A constant, data, or the place of the loss: what no binding names. */
bool plant_span_access_lost(Gen *g, uint64_t *r)
{
    for (int tries = 0; tries < 200; tries++) {
        Instr *i;
        Access *a = find_access(g, r, &i);
        const BufKind kind = a ? g->prog.bufs.items[a->buffer].kind : BUF_GATHERED;
        if (kind == BUF_CONST || kind == BUF_DATA || kind == BUF_CONTROL) {
            *a = i->access[--i->n_access];
            return true;
        }
    }
    return false;
}

bool plant_span_access_other(Gen *g, uint64_t *r)
{
    Instr *i;
    Access *a = find_access(g, r, &i);
    if (a)
        a->write = !a->write;
    return a != NULL;
}

/* As if peers read it, which no meet of the span asks for. */
bool plant_span_peers(Gen *g, uint64_t *r)
{
    Instr *i;
    Access *a = find_access(g, r, &i);
    if (a)
        a->remote = true;
    return a != NULL;
}

/* A call of another phase of the block has a larger slab for temporaries. */
bool plant_other_scratch(Gen *g, uint64_t *r)
{
    const Program *p = &g->prog;
    Instr *i = find_ins(g, r, INS_SPAN);
    for (int b = 0; i->scratch >= 0 && b < p->bufs.count; b++) {
        const Buffer *buf = &p->bufs.items[b];
        if (buf->kind == BUF_SCRATCH && b != i->scratch &&
            buf->bytes >= p->bufs.items[i->scratch].bytes) {
            i->scratch = b;
            return true;
        }
    }
    return false;
}

static void move_access(Instr *i, int from, int to)
{
    for (int a = 0; a < i->n_access; a++)
        i->access[a].buffer = i->access[a].buffer == from ? to : i->access[a].buffer;
}

/* A backward reads the gradient of a later boundary than its own. */
bool plant_grad_from_elsewhere(Gen *g, uint64_t *r)
{
    const Program *p = &g->prog;
    const int from = choose(r, p->ins.count);
    for (int k = 0; k < p->ins.count; k++) {
        Instr *i = &p->ins.items[(from + k) % p->ins.count];
        const int own = i->kind == INS_SPAN ? i->d_out : -1;
        for (int b = 0; own >= 0 && b < p->bufs.count; b++) {
            const Buffer *buf = &p->bufs.items[b];
            if (buf->kind == BUF_D_BOUNDARY && buf->block > i->block &&
                buf->bytes == p->bufs.items[own].bytes) {
                move_access(i, own, b);
                i->d_out = b;
                return true;
            }
        }
    }
    return false;
}

/* Weights are read where the segment's gradient is, which has as many bytes. */
bool plant_weights_of_gradient(Gen *g, uint64_t *r)
{
    const Program *p = &g->prog;
    const int from = choose(r, p->n_bindings);
    for (int k = 0; k < p->n_bindings; k++) {
        struct Binding *b = &p->bindings[(from + k) % p->n_bindings];
        const Buffer *was = &p->bufs.items[b->buffer];
        for (int to = 0; b->of == BIND_WEIGHT && to < p->bufs.count; to++) {
            const Buffer *buf = &p->bufs.items[to];
            if (buf->segment == was->segment && buf->bytes == was->bytes &&
                buf->kind == BUF_GRAD_ACCUM) {
                move_access(&p->ins.items[b->ins], b->buffer, to);
                b->buffer = to;
                return true;
            }
        }
    }
    return false;
}
