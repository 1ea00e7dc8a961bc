/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.h: where the matrices are that an optimizer treats as a whole, for rt_matrix.c of both
 * targets. In: tables of matrices, parameters, segments. Out: places in flat segments, and the
 * elements of a matrix in each part of its segment. */
#ifndef RT_MATRIX_H
#define RT_MATRIX_H

#include "state/rt_state.h"

/* A matrix, its segment, and its rows in its parameter. */
typedef struct RtPlace {
    const RtTrainer *trainer;
    const RtMatrix *matrix;
    const RtSegment *segment;
    RtBox rows;
} RtPlace;

static inline RtPlace rt_place_of(const RtTrainer *t, const RtBatch *b, int i)
{
    const RtMatrix *m = &t->matrices[b->first_matrix + i];
    return (RtPlace){t, m, &t->segments[t->params[m->param].segment],
                     rt_matrix_box(t, m)};
}

static inline void rt_take_run(void *ctx, const RtRun *run)
{
    *(RtRun *)ctx = *run;
}

/* The elements of the matrix in part k of its segment; elems 0: none. No axes cut a matrix, so they
 * are at most one run. */
static inline RtRun rt_run_of(const RtPlace *p, int64_t k)
{
    RtRun run = {.elems = 0};
    rt_box_runs(p->trainer, p->matrix->param, &p->rows, (RtCoordinate){0, (int)k},
                rt_take_run, &run);
    return run;
}

/* The part of a matrix in part k of its segment: elements from .. to - 1 of the matrix; false:
 * none. */
static inline bool rt_part_of(const RtPlace *p, int64_t k, int64_t *from, int64_t *to)
{
    const RtRun run = rt_run_of(p, k);
    *from = run.element - p->matrix->element;
    *to = *from + run.elems;
    return run.elems > 0;
}

/* Where element `from` of the matrix is: among the directions of the rank that holds part k, and
 * among the matrices of its owner. Symmetric offsets. */
static inline int64_t rt_held_at(const RtTrainer *t, const RtPlace *p, int64_t k,
                                 int64_t from)
{
    const RtRun run = rt_run_of(p, k);
    const int64_t at = run.shard_offset_elems + from + p->matrix->element - run.element;
    return p->segment->direction + at * rt_sum_bytes(t);
}

static inline int64_t rt_owned_at(const RtTrainer *t, const RtBatch *b, const RtPlace *p,
                                  int64_t from)
{
    return b->owned + (p->matrix->owned_elems + from) * rt_sum_bytes(t);
}

#endif
