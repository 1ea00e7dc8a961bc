/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_matrix: what the instructions of matrices do to the bytes of simulated ranks.
 * The optimizer's op on a whole matrix is stood in for by one in which every element
 * depends on every other, and on its place: a part that comes from a wrong rank, too
 * early, twice or not at all changes all of it. Comes in: a machine, one of its
 * instructions. Goes out: changed bytes. */
#include "interpret_machine.h"
#include "ops/ops.h"

#include <string.h>

static const Segment *segment_of(const Machine *m, const Matrix *x)
{
    return &m->g->segments.items[m->g->params.items[x->param].segment];
}

static char *direction_of(const Machine *m, int rank, const Matrix *x)
{
    return interp_at(m, rank, interp_find_buffer(m, BUF_DIRECTION, segment_of(m, x)->id));
}

/* The matrix's element `first` in the flat shard of rank's part. */
static int64_t shard_place(const Machine *m, const Matrix *x, int part, int64_t first)
{
    const Segment *s = segment_of(m, x);
    return m->g->params.items[x->param].offset_elems + x->element + first -
           part * s->shard_elems;
}

static double update_norm(const Machine *m, int rank)
{
    const double *control =
        (const double *)interp_at(m, rank, interp_find_buffer(m, BUF_CONTROL, -1));
    return control[round_up(m->g->model.micro_batches * 8, 256) / 8 + 4];
}

/* Calls do_element for each element of the segment's matrices in this rank's shard: its
 * place in the shard. */
typedef void (*ElementFn)(Machine *m, int rank, const Instr *i, int64_t at);
static void for_elements(Machine *m, int rank, const Instr *i, ElementFn do_element)
{
    const Gen *g = m->g;
    for (int k = 0; k < g->matrices.count; k++) {
        const Matrix *x = &g->matrices.items[k];
        const Segment *s = segment_of(m, x);
        int part = mesh_part(s, rank);
        int64_t from, n = s->id == i->segment ? matrix_part(g, x, part, &from) : 0;
        for (int64_t q = 0; q < n; q++)
            do_element(m, rank, i, shard_place(m, x, part, from + q));
    }
}

static void momentum(Machine *m, int rank, const Instr *i, int64_t at)
{
    const Model *mod = &m->g->model;
    char *moment = interp_at(m, rank, interp_find_buffer(m, BUF_MOMENT1, i->segment));
    double g = interp_load(mod->reduce_dtype, interp_at(m, rank, i->from), at) /
               (1 + update_norm(m, rank));
    double v = 0.9 * interp_load(mod->moments_dtype, moment, at) + 0.1 * g;
    interp_store(mod->moments_dtype, moment, at, v);
    interp_store(ops_acc_dtype(m->g), interp_at(m, rank, i->to), at,
                 0.5 * interp_load(mod->moments_dtype, moment, at) + 0.5 * g);
}

void interp_momentum(Machine *m, int rank, const Instr *i)
{
    for_elements(m, rank, i, momentum);
}

static void step(Machine *m, int rank, const Instr *i, int64_t at)
{
    const Model *mod = &m->g->model;
    const Segment *s = &m->g->segments.items[i->segment];
    int master = interp_find_buffer(m, BUF_MASTER, i->segment);
    char *param = interp_param_part(m, rank, s, i->to);
    char *main = master >= 0 ? interp_at(m, rank, master) : param;
    double v = interp_load_master(mod, s, param, main, at);
    double d = interp_load(ops_acc_dtype(m->g), interp_at(m, rank, i->from), at);
    interp_store_master(mod, s, param, main, at, v - 0.01 * d);
}

void interp_step(Machine *m, int rank, const Instr *i)
{
    for_elements(m, rank, i, step);
}

/* Each element becomes itself, less a part of a sum in which all have other weights. */
static void compute(const Matrix *x, Dtype d, const char *from, char *to)
{
    int64_t n = x->rows * x->cols;
    double sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum += interp_load(d, from, k) * (double)(1 + k % 7) / (double)n;
    for (int64_t k = 0; k < n; k++)
        interp_store(d, to, k, interp_load(d, from, k) + sum * (double)(k % 5 - 2));
}

void interp_matrices(Machine *m, int rank, const Instr *i)
{
    Dtype d = ops_acc_dtype(m->g);
    interp_poison(m, rank, i->with);
    for (int k = 0; k < m->g->matrices.count; k++) {
        const Matrix *x = &m->g->matrices.items[k];
        char *whole = direction_of(m, rank, x), *owned = whole;
        if (x->batch != i->batch || x->owner != rank)
            continue;
        whole += shard_place(m, x, 0, 0) * dtype_bytes(d);
        owned = i->to < 0 ? whole
                          : interp_at(m, rank, i->to) + x->owned_elems * dtype_bytes(d);
        compute(x, d, segment_of(m, x)->shards > 1 ? owned : whole, owned);
    }
}

/* To its owner a peer's part of a matrix; from its owner this rank's. */
void interp_read_matrices(Machine *m, int rank, const Instr *i, int peer)
{
    const Gen *g = m->g;
    size_t item = (size_t)dtype_bytes(ops_acc_dtype(g));
    bool to_owners = i->kind == INS_TO_OWNERS;
    for (int k = 0; k < g->matrices.count; k++) {
        const Matrix *x = &g->matrices.items[k];
        int holder = to_owners ? peer : rank, owner = to_owners ? rank : peer;
        int part = mesh_part(segment_of(m, x), holder);
        char *held, *owned;
        int64_t from, n;
        if (x->batch != i->batch || x->owner != owner)
            continue;
        n = matrix_part(g, x, part, &from);
        if (n == 0)
            continue;
        held = direction_of(m, holder, x);
        held += shard_place(m, x, part, from) * (int64_t)item;
        owned = interp_at(m, owner, to_owners ? i->to : i->from) +
                (x->owned_elems + from) * (int64_t)item;
        memcpy(to_owners ? owned : held, to_owners ? held : owned, (size_t)n * item);
    }
}
