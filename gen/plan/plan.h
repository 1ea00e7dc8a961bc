/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: what the planning passes (shard .. simulate) share with each other, with what
 * proves and prints them, and with the tests, beyond the passes themselves. */
#ifndef PLAN_H
#define PLAN_H

#include "graph/graph.h"

/* ---- wrap.c ---------------------------------------------------------------------- */

/* All pieces of all blocks in forward order, each in one group; groups become units. */
typedef struct Wrap {
    int n_pieces, n_groups;
    PieceRef *piece;
    int *group;        /* by piece; ids in order of a group's first piece */
    int64_t *params;   /* by piece: elements of the parameters that belong to it */
    const char **name; /* by group: what the description calls it, or NULL */
} Wrap;
Wrap wrap_partition(Gen *g);

/* ---- mesh.c ---------------------------------------------------------------------- */

/* Those of a group that are in one node. */
RankBits mesh_mates(const Gen *g, RankBits group);
/* Its sums go within nodes first, in place, then across: as the runtime's. */
bool mesh_two_hops(const Gen *g, RankBits group);
/* The ranks among which the strategy cuts what a segment has: the same for all segments. */
RankBits mesh_cut(const Model *m, Held what);
/* The two hops of a sum: first among the ranks `near`, of a node, then among those `far`. */
typedef struct Hops {
    RankBits group, near, far;
} Hops;
/* Of the groups over which segments are summed those whose sums take two hops, each once,
 * MAX_GROUPS at most. How many. */
int mesh_hops(const Gen *g, Hops hops[MAX_GROUPS]);
/* Ranks whose leaves of one round are summed at its end; the other data ranks, which are
 * summed after all rounds. Either is a group. */
RankBits mesh_summed_first(const Model *m);
RankBits mesh_summed_last(const Model *m);
/* Fills the segment's cuts, shards and groups; `over`: data ranks that what is cut is cut
 * over. */
void mesh_place(const Gen *g, Segment *s, RankBits over);
/* The part of the segment's state that a rank holds: what it updates. */
static inline int mesh_part(const Segment *s, int rank)
{
    return group_index(s->cut[HELD_OPTIMIZER], rank);
}
/* Where that part begins in the rank's weights at rest, in elements. */
static inline int64_t mesh_param_first(const Segment *s, int rank)
{
    return mesh_part(s, rank) * s->shard_elems -
           group_index(s->cut[HELD_PARAMS], rank) * s->param_elems;
}
/* Does every rank hold all of the weights, and update a part of them? Then the updated
 * parts go to all ranks at the end of a step. */
static inline bool mesh_shares_updates(const Segment *s)
{
    return s->trainable && s->cut[HELD_PARAMS] != s->cut[HELD_OPTIMIZER];
}

/* Weights that are narrower than masters have one each; others are their own. */
static inline bool segment_has_master(const Model *m, const Segment *s)
{
    const Dtype master = m->master_dtype == DT_SPLIT ? DT_F32 : m->master_dtype;
    return s->trainable && dtype_bytes(s->dtype) < dtype_bytes(master);
}

/* ---- shard.c --------------------------------------------------------------------- */

/* Places a segment whose parameters lie in it: cuts, groups, sizes. */
void shard_segment(const Gen *g, Segment *s, RankBits over);

/* ---- layout.c -------------------------------------------------------------------- */

/* Of a parameter: indices from .. to - 1 of each dim. */
typedef struct Box {
    int64_t from[MAX_DIMS], to[MAX_DIMS];
} Box;
Box layout_whole(const Param *p);
Box layout_rows(const Param *p, int64_t first, int64_t rows); /* of dim 0 */

/* A mesh coordinate, as far as a segment knows it. */
typedef struct Coordinate {
    int along; /* the number along the segment's axes */
    int part;  /* the part of the segment's state: mesh_part */
} Coordinate;
Coordinate layout_of(const Segment *s, int rank);
/* Ranks that have the same coordinate. */
RankBits layout_same(const Gen *g, const Segment *s);

/* Elements that are consecutive in their parameter and at their coordinate. */
typedef struct Run {
    int64_t offset_elems; /* in the part of the segment's state */
    int64_t element, elems;
} Run;
typedef void (*RunFn)(void *ctx, const Run *run);
/* (parameter, box) -> (mesh coordinate, segment offset): the runs at one coordinate, in the
 * parameter's order. Over all coordinates they have each element of the box once. */
void layout_runs(const Gen *g, const Param *p, const Box *box, Coordinate at, RunFn fn,
                 void *ctx);

/* Elements of what a coordinate along the axes has of a parameter that lie between elements
 * lo and hi of its segment. */
int64_t layout_between(const Param *p, int64_t lo, int64_t hi);
/* A rank's share of work that each element needs once: its part of the segment, or, where
 * several ranks have the same, some grains of that. */
typedef struct Stretch {
    int64_t lo, hi; /* elements of the segment */
} Stretch;
Stretch layout_share(const Gen *g, const Segment *s, int rank);

/* ---- matrices.c ------------------------------------------------------------------ */

void matrices_deal(Gen *g); /* g->matrices, g->batches */
bool segment_has_matrices(const Gen *g, const Segment *s);
/* Elements of a matrix in a part of its segment; from: the first of them, in the
 * matrix. */
int64_t matrix_part(const Gen *g, const Matrix *m, int part, int64_t *from);
/* Elements that belong to no matrix: of a shard, before element flat of the segment; the
 * most in one shard. Second moments of them lie one parameter after the other, each on a
 * multiple of OTHERS_ALIGN_ELEMS. */
int64_t matrix_others(const Gen *g, const Segment *s, int64_t flat);
int64_t matrix_most_others(const Gen *g, const Segment *s);
/* Of a batch (-1: all) on a rank (-1: all); the most on one rank. */
double matrices_flops(const Gen *g, int batch, int rank);
double matrices_most_flops(const Gen *g, int batch);
/* Bytes that a rank receives: matrices it owns; its parts of the results, from its copy
 * of the model and from others. */
typedef struct Moved {
    int64_t to_owners, from_owners, from_copies;
} Moved;
Moved matrices_moved(const Gen *g, int batch, int rank);

/* ---- unroll.c -------------------------------------------------------------------- */

/* Which weights a phase of a block reads and which gradients it writes: found in the
 * span's nodes, so that nobody has to declare it. Flags per class parameter. */
void span_params_read(const Class *c, const Span *s, bool *reads);
void span_params_written(const Class *c, const Span *s, bool *writes);
/* How many units before its own a gather is issued: depth, order and limit together. */
int64_t plan_units_ahead(const Model *m, Phase phase);
/* Order "post": do the backward's gathers come before the reductions at their place? */
bool plan_gathers_after(const Model *m);
/* Ranks that hold the same gradient sum it by a collective. */
static inline bool plan_collectives(const Gen *g)
{
    return g->model.mesh.world_size > 1;
}

/* The mathematics that an INS_SPAN runs. */
static inline const Span *block_span(const Block *b, int piece, Phase phase)
{
    if (phase == PHASE_RECOMPUTE && b->keep == KEEP_SOME)
        return piece < 0 ? &b->cls->again : &b->cls->pieces.items[piece].again;
    return class_span(b->cls, piece, phase);
}
static inline const Span *ins_span(const Gen *g, const Instr *i)
{
    return block_span(&g->blocks.items[i->block], i->piece, i->phase);
}

/* ---- schedule.c ------------------------------------------------------------------ */

/* Does collective c join all ranks of the group (and perhaps more)? */
bool ins_joins(const Instr *c, RankBits group);
/* Which variants may directly follow v in the endless run of steps: a bit set of 1 <<
 * variant. */
unsigned variant_successors(const Gen *g, int v);
/* The instruction before `id` on its stream, or the last compute instruction of the
 * variant before when it is the first of its stream in its variant (a variant begins when
 * the one before is complete; but END goes on where LAST stopped). Up to two ids into
 * pred; returns how many. */
int ins_implied(const Program *p, int id, int pred[2]);
/* Happens-before of the program with the waits it has now. */
void schedule_closure(Gen *g, Program *p);

/* Remote accesses that may still run when a variant begins (peers lag), against writes in
 * it that no collective of their group separates from them. Calls hit for every (reader,
 * writer) pair. */
typedef void (*OpenHit)(void *ctx, int remote_ins, int write_ins);
void schedule_open_hits(const Gen *g, OpenHit hit, void *ctx);

/* ---- checkpoint.c ---------------------------------------------------------------- */

const char *verify_checkpoint(Gen *g); /* NULL, or what is wrong */
int64_t checkpoint_snapshot_bytes(Gen *g);

/* ---- recompute.c ----------------------------------------------------------------- */

/* What KEEP_SOME means in each class: RECOMPUTE_OPS drops what the description's ops
 * make, all else what cheap ones do. */
void recompute_classes(Gen *g, Recompute what);
void recompute_check_ops(Gen *g); /* names that are no op, or change nothing */
/* Marks the nodes that some choice of ops could run again: the same for every choice. */
bool recompute_any(Gen *g, Class *c, bool *nodes);

/* ---- policy.c -------------------------------------------------------------------- */

typedef struct Cost {
    int64_t bytes;         /* of a rank, libraries included */
    int64_t sharded_bytes; /* of them falling with the ranks of a copy */
    int64_t batch_bytes;   /* and with the sequences of a micro-batch */
    double seconds;
} Cost;
/* Of the program as planned. */
Cost policy_cost(Gen *g);
/* May a block keep less of what its forward makes? */
bool policy_may_recompute(const Gen *g, const Block *b);
bool policy_may_drop_some(const Gen *g, const Block *b); /* KEEP_SOME */
/* With the choices as they stand: what a span may overlap. */
void policy_settle(Gen *g);
/* Every block that may is recomputed. */
void policy_recompute_all(Gen *g);
/* Leaves of one micro-batch each: no rank adds whole gradients before they are reduced. */
int64_t policy_most_leaves(const Gen *g);

/* A plan with some fields changed, and what it costs. */
typedef struct Change {
    const char *with; /* the fields, "" for none */
    int n_fields;
    int64_t leaves;
    Cost cost;
} Change;
/* The error of a plan over the budget, changes[0], with exit code 3: which change fits. */
void policy_over_budget(Gen *g, const Change *changes, int n_changes);

/* ---- search.c -------------------------------------------------------------------- */

/* recompute = "auto": the fastest choices found that fit the budget, or the smallest. */
void search_begin(Gen *g);
/* The next choice to plan stands in g; false: the search is over, and the best one does. */
bool search_next(Gen *g);
void search_answer(Gen *g, const Cost *cost); /* of the choice that search_next set */
void search_print(Gen *g, Text *t);           /* what it chose and why; nothing without auto */

/* ---- warn.c ---------------------------------------------------------------------- */

void warn_plan(Gen *g); /* of a plan with predicted times */

/* ---- traffic.c ------------------------------------------------------------------- */

/* Bytes that rank 0 receives in a step: weights; gradients within its copy; sums from
 * ranks elsewhere along mesh.replicate. */
typedef struct Traffic {
    int64_t gathered, reduced, replicate;
    int64_t matrices; /* to their owners and back, within a copy */
} Traffic;
Traffic plan_traffic(const Gen *g);
int64_t variant_turns(const Gen *g, Variant v); /* how often a step runs it */

/* ---- simulate.c ------------------------------------------------------------------ */

/* Start and end of every instruction, in picoseconds from the start of its variant (END:
 * of LAST). Returns the time of the whole step. */
int64_t simulate_times(const Gen *g, int64_t *start, int64_t *end);
int64_t ins_picoseconds(const Gen *g, const Instr *i); /* how long it runs */
/* The roofline, on the target. */
int64_t math_picoseconds(const Gen *g, double flops, double traffic_bytes);
/* Its operands take longer. */
bool math_is_cheap(const Gen *g, double flops, double traffic_bytes);
int64_t moved_picoseconds(const Gen *g, int64_t bytes); /* of a collective */

/* ---- figures.c ------------------------------------------------------------------- */

typedef struct PlanBytes {
    int64_t params, gradients, optimizer, activations, gather, partials, workspace;
    int64_t by_kind[N_BUF_KINDS]; /* sum of buffer bytes of that kind */
    int64_t arena, library, total;
    int64_t snapshot; /* host memory, beside the total: of saves while training goes on */
} PlanBytes;
PlanBytes plan_bytes(Gen *g);
double plan_flops_per_token(const Gen *g);
int64_t plan_params(const Gen *g);

/* ---- kinds.c --------------------------------------------------------------------- */

const char *buf_kind_name(BufKind k);
const InsRule *ins_rule(InsKind k);
static inline bool ins_is_collective(const Instr *i)
{
    return ins_rule(i->kind)->collective;
}
static inline bool ins_is_closed(const Instr *i)
{
    return ins_rule(i->kind)->closed;
}
const char *ins_place(Gen *g, const Instr *i); /* of a span: "layers.7.mlp_up" */
const char *ins_label(Gen *g, const Instr *i); /* "layers.7 forward" */
const char *ins_done(Gen *g, const Instr *i);  /* "the weights of layers.7 are here" */
const char *stream_name(StreamId s);
const char *prefetch_order_name(PrefetchOrder o);

#endif
