/* SPDX-License-Identifier: MIT-0 */
/* rt_matrix.h: where matrices that an optimizer treats whole lie, for rt_matrix.c of both
 * targets. In: tables of matrices, parameters, segments. Out: places in flat segments,
 * and what of a matrix each part of its segment has. */
#ifndef RT_MATRIX_H
#define RT_MATRIX_H

#include "state/rt_state.h"

/* A matrix and where it lies in its flat segment. */
typedef struct RtPlace {
    const RtMatrix *matrix;
    const RtSegment *segment;
    int64_t first, end; /* elements of the segment */
} RtPlace;

static inline RtPlace rt_place_of(const RtTrainer *t, const RtBatch *b, int i)
{
    const RtMatrix *m = &t->matrices[b->first_matrix + i];
    const RtParam *p = &t->params[m->param];
    const int64_t first = p->offset_elems + m->element;
    return (RtPlace){m, &t->segments[p->segment], first, first + m->rows * m->cols};
}

/* The part of a matrix in part k of its segment: of the matrix, elements from .. to - 1;
 * false: none. */
static inline bool rt_part_of(const RtPlace *p, int64_t k, int64_t *from, int64_t *to)
{
    const int64_t lo = k * p->segment->shard_elems, hi = lo + p->segment->shard_elems;
    *from = (p->first > lo ? p->first : lo) - p->first;
    *to = (p->end < hi ? p->end : hi) - p->first;
    return *from < *to;
}

/* Where element `from` of the matrix lies among the directions of who holds part k, and
 * among the matrices of its owner: symmetric offsets. */
static inline int64_t rt_held_at(const RtTrainer *t, const RtPlace *p, int64_t k,
                                 int64_t from)
{
    const int64_t at = p->first + from - k * p->segment->shard_elems;
    return p->segment->direction + at * rt_sum_bytes(t);
}

static inline int64_t rt_owned_at(const RtTrainer *t, const RtBatch *b, const RtPlace *p,
                                  int64_t from)
{
    return b->owned + (p->matrix->owned_elems + from) * rt_sum_bytes(t);
}

#endif
