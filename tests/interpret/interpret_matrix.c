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

/* Calls fn for the runs of the matrix in the shard of a rank. */
static void for_runs(const Machine *m, const Matrix *x, int rank, RunFn fn, void *ctx)
{
    const Param *p = &m->g->params.items[x->param];
    const Box rows = layout_rows(p, x->element / x->cols, x->rows);
    layout_runs(m->g, p, &rows, layout_of(segment_of(m, x), rank), fn, ctx);
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
typedef struct Elements {
    Machine *m;
    int rank;
    const Instr *i;
    ElementFn do_element;
} Elements;

static void run_elements(void *ctx, const Run *run)
{
    const Elements *e = ctx;
    for (int64_t k = 0; k < run->elems; k++)
        e->do_element(e->m, e->rank, e->i, run->offset_elems + k);
}

static void for_elements(Machine *m, int rank, const Instr *i, ElementFn do_element)
{
    Elements e = {m, rank, i, do_element};
    for (int k = 0; k < m->g->matrices.count; k++) {
        const Matrix *x = &m->g->matrices.items[k];
        if (segment_of(m, x)->id == i->segment)
            for_runs(m, x, rank, run_elements, &e);
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

/* Copies runs of a rank's directions to the whole matrix, or back. */
typedef struct Moving {
    const Matrix *matrix;
    char *held, *whole;
    int64_t item;
    bool back;
} Moving;

static void move_run(void *ctx, const Run *run)
{
    const Moving *v = ctx;
    char *whole = v->whole + (run->element - v->matrix->element) * v->item;
    char *held = v->held + run->offset_elems * v->item;
    memcpy(v->back ? held : whole, v->back ? whole : held,
           (size_t)(run->elems * v->item));
}

void interp_matrices(Machine *m, int rank, const Instr *i)
{
    const Dtype d = ops_acc_dtype(m->g);
    const Batch *b = &m->g->batches.items[i->batch];
    interp_poison(m, rank, i->with);
    for (int k = 0; k < m->g->matrices.count; k++) {
        const Matrix *x = &m->g->matrices.items[k];
        Moving v = {
            .matrix = x, .held = direction_of(m, rank, x), .item = dtype_bytes(d)};
        char *whole;
        if (x->batch != i->batch || x->owner != rank)
            continue;
        whole = i->to < 0 ? NULL
                          : interp_at(m, rank, i->to) + x->owned_elems * dtype_bytes(d);
        v.whole =
            whole ? whole : gen_alloc(m->g, (size_t)(x->rows * x->cols * dtype_bytes(d)));
        if (!b->group) /* this rank has all of it */
            for_runs(m, x, rank, move_run, &v);
        compute(x, d, v.whole, v.whole);
        v.back = true;
        if (!whole)
            for_runs(m, x, rank, move_run, &v);
    }
}

/* To its owner a peer's part of a matrix; from its owner this rank's. Ranks that differ
 * along axes that do not cut the matrix have the same: an owner takes what the rank with
 * its own number along those has. */
void interp_read_matrices(Machine *m, int rank, const Instr *i, int peer)
{
    const Gen *g = m->g;
    const bool to_owners = i->kind == INS_TO_OWNERS;
    const int holder = to_owners ? peer : rank, owner = to_owners ? rank : peer;
    for (int k = 0; k < g->matrices.count; k++) {
        const Matrix *x = &g->matrices.items[k];
        const Segment *s = segment_of(m, x);
        Moving v = {.matrix = x,
                    .held = direction_of(m, holder, x),
                    .item = dtype_bytes(ops_acc_dtype(g)),
                    .back = !to_owners};
        if (x->batch != i->batch || x->owner != owner ||
            (to_owners && (RankBits)(holder ^ owner) & ~(s->within | s->axes)))
            continue;
        v.whole =
            interp_at(m, owner, to_owners ? i->to : i->from) + x->owned_elems * v.item;
        for_runs(m, x, holder, move_run, &v);
    }
}
