/* SPDX-License-Identifier: MIT-0 */
/* rt_map.h: which elements of which parameters lie where (rt_map.c). */
#ifndef RT_MAP_H
#define RT_MAP_H

#include "rt.h"

/* Of a parameter: indices from .. to - 1 of each dim. */
typedef struct RtBox {
    int64_t from[RT_MAX_DIMS], to[RT_MAX_DIMS];
} RtBox;
RtBox rt_box_rows(const RtParam *p, int64_t first, int64_t rows); /* of dim 0 */

/* A mesh coordinate, as far as a segment knows it: the number along its axes, and that
 * of the shard. */
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
/* (parameter, box) -> (mesh coordinate, segment offset): calls fn for the runs at one
 * coordinate, in the parameter's order; over all coordinates they have each element of
 * the box once. */
void rt_box_runs(const RtTrainer *t, int param, const RtBox *box, RtCoordinate at,
                 RtRunFn fn, void *ctx);
/* The same at this rank's. */
void rt_held_runs(const Rt *rt, int param, const RtBox *box, RtRunFn fn, void *ctx);
/* Calls fn for every run of the segment's shard that this rank holds. */
void rt_shard_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx);
/* The same for this rank's share of sums over all ranks: its shard, or where several
 * copies hold the shard, its part of the shard's grains. */
void rt_share_runs(const Rt *rt, int segment, RtRunFn fn, void *ctx);
/* A matrix that the optimizer treats whole: rows of its parameter. */
RtBox rt_matrix_box(const RtTrainer *t, const RtMatrix *m);
/* Calls fn for each RT_WINDOW_ELEMS of the run: elements from .. from + n of it. */
typedef void (*RtWindowFn)(void *ctx, const RtRun *run, int64_t from, int64_t n);
void rt_run_windows(void *ctx, const RtRun *run, RtWindowFn fn);
/* Of a parameter, what a rank has in the segment of all shards. */
int64_t rt_held_elems(const RtSegment *s, const RtParam *p);
/* Where this rank's shard of the weights lies, in the symmetric space. */
int64_t rt_param_part(const Rt *rt, const RtSegment *s);
size_t rt_dtype_bytes(RtDtype d);
/* Where in their buffer the second moments of element `at` of this rank's shard lie:
 * there, or, where the optimizer treats matrices as a whole, without room for those. */
int64_t rt_second_moment(const Rt *rt, int segment, int64_t at);

#endif
