/* SPDX-License-Identifier: MIT-0 */
/* rt_map.h: which elements of which parameters are where (rt_map.c). */
#ifndef RT_MAP_H
#define RT_MAP_H

#include "rt.h"

/* A box of a parameter: indices from .. to - 1 of each dim. */
typedef struct RtBox {
    int64_t from[RT_MAX_DIMS], to[RT_MAX_DIMS];
} RtBox;
RtBox rt_box_rows(const RtParam *p, int64_t first, int64_t rows); /* of dim 0 */

/* The part of a mesh coordinate that matters to a segment: the number along its axes, and that of
 * the shard. */
typedef struct RtCoordinate {
    int along, part;
} RtCoordinate;
RtCoordinate rt_coordinate(const RtSegment *s, int rank);

typedef struct RtRun { /* consecutive elements of one parameter in one shard */
    const RtParam *param;
    int param_id;
    int64_t shard_offset_elems, element, elems;
} RtRun;
typedef void (*RtRunFn)(void *ctx, const RtRun *run);
/* (parameter, box) -> (mesh coordinate, segment offset): calls fn for the runs at one coordinate,
 * in the order of the stored boxes and of their sections. Together, all coordinates have each element
 * of the box once. */
void rt_box_runs(const RtTrainer *t, int param, const RtBox *box, RtCoordinate at,
                 RtRunFn fn, void *ctx);
/* The same at this rank's coordinate. */
void rt_held_runs(const Rt *rt, int param, const RtBox *box, RtRunFn fn, void *ctx);
/* Calls fn for every run of the segment's shard that this rank holds. */
void rt_shard_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx);
/* The same for this rank's share of sums over all ranks: its shard, or some grains of it if several
 * copies hold the shard. */
void rt_share_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx);
/* The same two, with elements numbered in the order of storage, box after box: a run is as long as
 * the shard allows, and starts a chunk, however many ranks hold the boxes. */
void rt_shard_stored(const Rt *rt, int segment, RtRunFn fn, void *ctx);
void rt_share_stored(const Rt *rt, int segment, RtRunFn fn, void *ctx);
/* Calls fn for each parameter of which this rank holds weights of the segment: all that it holds, or
 * those of its shard. at: the first one's place in param_shard, in elements. Zeros may be among them. */
typedef void (*RtRestingFn)(void *ctx, const RtParam *p, int64_t at, int64_t elems);
void rt_resting_runs(const Rt *rt, int segment, bool all, RtRestingFn fn, void *ctx);
/* What is gathered, and where it is in the symmetric space. */
static inline RtDtype rt_gathered_dtype(const RtSegment *s)
{
    return s->encoded ? RT_E4M3 : s->dtype;
}
static inline int64_t rt_gathered_part(const RtSegment *s)
{
    return s->encoded ? s->codes : s->param_shard;
}
/* How many boxes a parameter is stored as. */
int rt_boxes(const RtTrainer *t, const RtParam *p);
/* Of a matrix, which the optimizer treats as a whole: its consecutive elements in a stored box. They
 * are rows of `cols` elements. */
typedef struct RtStretch {
    int along;              /* of the ranks that hold the box */
    int box;                /* its number */
    int64_t at_elems;       /* in their segment */
    int64_t number;         /* of the first one, where each box begins at a grain: numbers do not
                             * depend on who holds a box, and are as far from a multiple of 8 as
                             * the elements are in memory */
    int64_t before_elems;   /* of the matrix, in stretches before this one */
    int64_t elems, row, cols; /* row: the first one, in the matrix */
} RtStretch;
typedef void (*RtStretchFn)(void *ctx, const RtStretch *s);
/* Calls fn for each stretch of all ranks; together they have each element of the matrix once. */
void rt_matrix_stretches(const RtTrainer *t, const RtMatrix *m, RtStretchFn fn, void *ctx);
/* The part of a stretch that ranks at a mesh coordinate have; elems 0: none. The run's element is its
 * number. */
RtRun rt_stretch_run(const RtTrainer *t, const RtMatrix *m, const RtStretch *x, RtCoordinate at);
/* Calls fn for each RT_WINDOW_ELEMS of the run: elements from .. from + n of it. */
typedef void (*RtWindowFn)(void *ctx, const RtRun *run, int64_t from, int64_t n);
void rt_run_windows(void *ctx, const RtRun *run, RtWindowFn fn);
/* Number of elements of a parameter that a rank has in the segment of all shards. */
int64_t rt_held_elems(const RtSegment *s, const RtParam *p);
/* Where this rank's shard of the weights is in the symmetric space. */
int64_t rt_param_part(const Rt *rt, const RtSegment *s);
size_t rt_dtype_bytes(RtDtype d);
/* Where the second moments of element `at` of this rank's shard are in their buffer: at the same
 * place, unless the optimizer treats matrices as a whole, which have none. */
int64_t rt_second_moment(const Rt *rt, int segment, int64_t at);

#endif
