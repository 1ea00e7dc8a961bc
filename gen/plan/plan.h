/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h: what the planning passes (shard .. simulate) share with each other, with the code that
 * proves and prints plans, and with the tests. */
#ifndef PLAN_H
#define PLAN_H

#include "graph/graph.h"

/* ---- wrap.c ---------------------------------------------------------------------- */

/* All pieces of all blocks in forward order, each in one group; groups become units. */
typedef struct Wrap {
    int n_pieces, n_groups;
    PieceRef *piece;
    int *group;        /* by piece; ids in order of a group's first piece */
    int64_t *params;   /* by piece: elements of its own parameters */
    const char **name; /* by group: its name in the description, or NULL */
} Wrap;
Wrap wrap_partition(Gen *g);

/* ---- mesh.c ---------------------------------------------------------------------- */

/* The members of a group on the same node. */
RankBits mesh_mates(const Gen *g, RankBits group);
/* Do its sums go within nodes first, in place, and then across nodes? As in the runtime. */
bool mesh_two_hops(const Gen *g, RankBits group);
/* The ranks over which the strategy cuts this part of a segment; the same for all segments. */
RankBits mesh_cut(const Model *m, Held what);
/* The two hops of a sum: first among the ranks `near`, on one node, then among `far`. */
typedef struct Hops {
    RankBits group, near, far;
} Hops;
/* Collects the hops of all sums over segments that take two, each once, MAX_GROUPS at most. Returns
 * how many. */
int mesh_hops(const Gen *g, Hops hops[MAX_GROUPS]);
/* The group of ranks whose leaves are summed at the end of each round; and the group of the other
 * data ranks, whose sum follows after all rounds. */
RankBits mesh_summed_first(const Model *m);
RankBits mesh_summed_last(const Model *m);
/* Fills the segment's cuts, shards and groups; `over`: the data ranks to cut over. */
void mesh_place(const Gen *g, Segment *s, RankBits over);
/* The part of the segment's state that a rank holds and updates. */
static inline int mesh_part(const Segment *s, int rank)
{
    return group_index(s->cut[HELD_OPTIMIZER], rank);
}
/* Where that part starts in the rank's weights at rest, in elements. */
static inline int64_t mesh_param_first(const Segment *s, int rank)
{
    return mesh_part(s, rank) * s->shard_elems -
           group_index(s->cut[HELD_PARAMS], rank) * s->param_elems;
}
/* Does every rank hold all weights and update only a part? Then the updated parts are sent to all
 * ranks at the end of a step. */
static inline bool mesh_shares_updates(const Segment *s)
{
    return s->trainable && s->cut[HELD_PARAMS] != s->cut[HELD_OPTIMIZER];
}

/* Are its weights gathered as codes? */
static inline bool segment_has_codes(const Segment *s)
{
    return s->gathered != s->dtype;
}

/* Does the segment have separate masters? Weights narrower than masters do; others are their own
 * masters. */
static inline bool segment_has_master(const Model *m, const Segment *s)
{
    const Dtype master = m->master_dtype == DT_SPLIT ? DT_F32 : m->master_dtype;
    return s->trainable && dtype_bytes(s->dtype) < dtype_bytes(master);
}

/* ---- shard.c --------------------------------------------------------------------- */

/* Completes a segment whose parameters have been placed: cuts, groups, sizes. */
void shard_segment(const Gen *g, Segment *s, RankBits over);

/* Parts that a rank computes, along an axis and in all; bytes of a slab for all of them, and from
 * one part's to the next. */
static inline int plan_parts_along(const Gen *g, PartsAxis axis)
{
    return g->in_parts ? (int)(g->model.parts[axis] / parts_ranks(&g->model, axis)) : 1;
}
static inline int plan_parts(const Gen *g)
{
    return plan_parts_along(g, PARTS_TENSOR) * plan_parts_along(g, PARTS_CONTEXT);
}
static inline int64_t plan_part_stride(int64_t bytes)
{
    return round_up(bytes, ARENA_ALIGN_BYTES);
}
static inline int64_t plan_parts_bytes(const Gen *g, int64_t bytes)
{
    return plan_parts(g) > 1 ? plan_parts(g) * plan_part_stride(bytes) : bytes;
}

const char *plan_mesh_text(Gen *g); /* mesh.c: "replicate 1, shard 4, tensor 2" */
/* meet.c */
int64_t plan_calls(const Gen *g, const Node *n);     /* of a node, in a span of one rank */
int64_t plan_lanes(const Gen *g, unsigned axes);     /* parts of a rank that differ along these axes */
int64_t plan_met_bytes(const Gen *g, const Node *n); /* that a rank receives in a meet */
int64_t plan_meeting_bytes(const Gen *g); /* what other ranks' parts have in a meet, at most */
int64_t plan_span_met_bytes(const Gen *g, const Span *s, PartsAxis along);
int64_t cost_meet(const Gen *g, const Node *n);      /* the time of that, in ps */

/* ---- layout.c -------------------------------------------------------------------- */

/* A box of a parameter: indices from .. to - 1 of each dim. */
typedef struct Box {
    int64_t from[MAX_DIMS], to[MAX_DIMS];
} Box;
Box layout_whole(const Param *p);
Box layout_rows(const Param *p, int64_t first, int64_t rows); /* of dim 0 */

/* The part of a mesh coordinate that matters to a segment. */
typedef struct Coordinate {
    int along; /* the number along the segment's axes */
    int part;  /* the part of the segment's state: mesh_part */
} Coordinate;
Coordinate layout_of(const Segment *s, int rank);
/* The ranks with the same coordinate. */
RankBits layout_same(const Gen *g, const Segment *s);

/* Elements that are consecutive in their parameter and at their coordinate. */
typedef struct Run {
    int64_t offset_elems; /* in the part of the segment's state */
    int64_t element, elems;
} Run;
typedef void (*RunFn)(void *ctx, const Run *run);
/* The boxes that a parameter is stored as: of all ranks, of one rank; the elements of one, and the
 * distance from one to the next in a segment. */
int layout_boxes(const Param *p);
int layout_held_boxes(const Param *p);
/* The number of the k-th box of ranks whose number along the parameter's axes is `along`. */
int layout_box(const Gen *g, const Param *p, int along, int k);
int64_t layout_box_elems(const Param *p);
int64_t layout_box_stride(const Param *p);
/* (parameter, box) -> (mesh coordinate, segment offset): the runs at one coordinate, in
 * the order of the stored boxes, and of the parameter in each of their sections. Together,
 * all coordinates have each element of the box once. */
void layout_runs(const Gen *g, const Param *p, const Box *box, Coordinate at, RunFn fn,
                 void *ctx);

/* Elements of a parameter that ranks with this number along its axes have between elements lo and hi of its
 * segment. */
int64_t layout_between(const Gen *g, const Param *p, int along, int64_t lo, int64_t hi);
/* A rank's share of work that is needed once per element: its part of the segment, or some grains
 * of it if several ranks have the same part. */
typedef struct Stretch {
    int64_t lo, hi; /* elements of the segment */
} Stretch;
Stretch layout_share(const Gen *g, const Segment *s, int rank);

/* ---- matrices.c ------------------------------------------------------------------ */

void matrices_deal(Gen *g); /* g->matrices, g->batches */
/* Where a batch's workspace has the matrix that was stored as boxes. */
static inline int64_t matrix_whole_at(const Batch *b)
{
    return b->whole_bytes ? round_up(b->workspace_bytes, ARENA_ALIGN_BYTES) : b->workspace_bytes;
}
bool segment_has_matrices(const Gen *g, const Segment *s);
/* Number of elements of a matrix that ranks at a mesh coordinate have. */
int64_t matrix_held(const Gen *g, const Matrix *m, Coordinate at);
/* Number of elements that belong to no matrix, with what lies between boxes of one parameter: in a
 * shard before element flat of the segment; and the largest number in one shard. Their second
 * moments follow each other, each parameter's starting at a multiple of OTHERS_ALIGN_ELEMS. */
int64_t nonmatrix_elems(const Gen *g, const Segment *s, int64_t flat);
int64_t max_nonmatrix_elems(const Gen *g, const Segment *s);
/* Flops of a batch (-1: all) on a rank (-1: all); the largest on one rank. */
double matrices_flops(const Gen *g, int batch, int rank);
double matrices_max_flops(const Gen *g, int batch);
/* Bytes that a rank receives: the matrices it owns; its parts of the results, from its copy of the
 * model and from others. */
typedef struct Moved {
    int64_t to_owners, from_owners, from_copies;
} Moved;
Moved matrices_moved(const Gen *g, int batch, int rank);

/* ---- unroll.c -------------------------------------------------------------------- */

/* Which weights and scales a phase of a block reads and which gradients it writes, derived from the span's
 * nodes. Flags per class parameter. */
void span_params_read(const Class *c, const Span *s, bool *reads);
void span_scales_read(const Class *c, const Span *s, bool *reads);
void span_params_written(const Class *c, const Span *s, bool *writes);
/* How many units ahead a gather starts: depth, order and limit combined. */
int64_t plan_units_ahead(const Model *m, Phase phase);
/* Order "post": do the backward's gathers come before the reductions at the same place? */
bool plan_gathers_after(const Model *m);
/* Do ranks that hold the same gradient sum it by a collective? */
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
/* Which variants can directly follow v in the endless run of steps: a bit set of 1 << variant. */
unsigned variant_successors(const Gen *g, int v);
/* The instruction before `id` on its stream. If it is the first of its stream in its variant, then
 * the last compute instruction of the previous variant: a variant begins when the previous one is
 * complete, but END continues LAST. Up to two ids into pred; returns how many. */
int ins_implied(const Program *p, int id, int pred[2]);
/* Happens-before of the program with its current waits. */
void schedule_closure(Gen *g, Program *p);

/* Remote accesses that may still run when a variant begins (peers lag), and writes in that
 * variant that no collective of their group separates from them. Calls hit for every (reader,
 * writer) pair. */
typedef void (*OpenHit)(void *ctx, int remote_ins, int write_ins);
void schedule_open_hits(const Gen *g, OpenHit hit, void *ctx);

/* ---- checkpoint.c ---------------------------------------------------------------- */

const char *verify_checkpoint(Gen *g); /* NULL, or what is wrong */
int64_t checkpoint_snapshot_bytes(Gen *g);

/* ---- recompute.c ----------------------------------------------------------------- */

/* The meaning of KEEP_SOME in each class: RECOMPUTE_OPS drops what the description's ops make,
 * other modes what cheap ops make. */
void recompute_classes(Gen *g, Recompute what);
void recompute_check_ops(Gen *g); /* reports names that are not ops or have no effect */
/* Marks the nodes that any choice of ops could run again. */
bool recompute_any(Gen *g, Class *c, bool *nodes);

/* ---- policy.c -------------------------------------------------------------------- */

typedef struct Cost {
    int64_t bytes;         /* per rank, libraries included */
    int64_t sharded_bytes; /* the part that shrinks with more ranks per copy */
    int64_t batch_bytes;   /* the part that shrinks with fewer sequences per micro-batch */
    double seconds;
} Cost;
/* The cost of the current program. */
Cost policy_cost(Gen *g);
/* May a block keep less of its forward? */
bool policy_may_recompute(const Gen *g, const Block *b);
bool policy_may_drop_some(const Gen *g, const Block *b); /* KEEP_SOME */
/* Completes the current choices: decides what a span may overlap. */
void policy_settle(Gen *g);
/* Recomputes every block that may be recomputed. */
void policy_recompute_all(Gen *g);
/* One leaf per micro-batch: then no rank adds whole gradients before they are reduced. */
int64_t policy_most_leaves(const Gen *g);

/* A plan with some fields changed, and its cost. */
typedef struct Change {
    const char *with; /* the changed fields; "" for none */
    int n_fields;
    int64_t leaves;
    Cost cost;
    int64_t ranks; /* of a change of parts: how many there are then */
} Change;
/* Plans again with these fields. Out: an exit code and the cost, if it fits. */
typedef int PlanWith(Gen *g, const char *fields, Cost *cost);
/* Reports a plan over the budget, changes[0], with exit code 3, and which change fits. parts: the
 * changes of parts and their ranks that fit. plan: confirms what is proposed; NULL: estimates do. */
void policy_over_budget(Gen *g, const Change *changes, int n_changes, const Change *parts,
                        int n_parts, PlanWith *plan);

/* ---- search.c -------------------------------------------------------------------- */

/* recompute = "auto": finds the fastest choices that fit the budget, or else the smallest. */
void search_begin(Gen *g);
/* Sets the next choice to plan in g. False: the search is over and g has the best choice. */
bool search_next(Gen *g);
void search_answer(Gen *g, const Cost *cost); /* the cost of the choice that search_next set */
void search_print(Gen *g, Text *t);           /* what it chose and why; empty without "auto" */

/* ---- warn.c ---------------------------------------------------------------------- */

void warn_plan(Gen *g); /* of a plan with predicted times */
/* Of products in fp8 that make a step longer; without: the cost of the plan that has none. */
void warn_fp8(Gen *g, const Cost *without);

/* warn_small.c: of collectives and chunks too small for their rates. */
/* Seconds of a step that computation waits for collectives; 0: too few for a warning. */
double warn_waits(const Gen *g);
void warn_small_units(Gen *g);
void warn_small_chunks(Gen *g);

/* ---- warn_sums.c ----------------------------------------------------------------- */

typedef struct SumChoice {
    int64_t leaves;
    bool sharded; /* accumulate */
} SumChoice;
/* The choice that should keep fewest bytes for sums; false: it saves little. */
bool warn_sums_find(Gen *g, SumChoice *best);
/* Warns of the current choice, if the other one, planned, saves enough. */
void warn_sums(Gen *g, const SumChoice *choice, const Cost *then);

/* ---- traffic.c ------------------------------------------------------------------- */

/* Bytes that rank 0 receives in a step: weights; gradients within its copy; sums from other copies
 * along mesh.replicate. */
typedef struct Traffic {
    int64_t gathered, reduced, replicate;
    int64_t met[N_PARTS_AXES]; /* values of other ranks' parts, in meets along the axis */
    int64_t matrices; /* to their owners and back, within a copy */
} Traffic;
Traffic plan_traffic(const Gen *g);
int64_t variant_turns(const Gen *g, Variant v); /* how often a step runs the variant */
/* And an instruction of it: merges in LOCAL only at the end of a leaf; 0 in EVAL. */
int64_t ins_turns(const Gen *g, const Instr *i);

/* ---- cost.c ---------------------------------------------------------------------- */

/* The longest time, 26 days (show_seconds): legal dimensions could exceed it, and must not overflow. */
#define COST_MOST_PS (INT64_C(1) << 61)
static inline double cost_at_least(double seconds) /* a finite number */
{
    return seconds < (double)COST_MOST_PS * 1e-12 ? seconds : (double)COST_MOST_PS * 1e-12;
}
/* Of times up to COST_MOST_PS: their sum, and n of one; no more than that. */
static inline int64_t cost_sum(int64_t a, int64_t b)
{
    return min_i64(a + b, COST_MOST_PS);
}
static inline int64_t cost_times(int64_t n, int64_t ps)
{
    return ps > 0 && n > COST_MOST_PS / ps ? COST_MOST_PS : n * ps;
}

/* What a kernel is assumed to take alone, and by which rate. */
typedef struct KernelPrice {
    int64_t ps;              /* its launch included */
    CostClass by;            /* the class whose rate decided */
    double rate;             /* flops or bytes in a second; 0: the shape itself was measured */
    bool measured;           /* by --rates; otherwise assumed for the target */
} KernelPrice;
KernelPrice cost_node(const Gen *g, const Node *n);
int64_t cost_products_per_us(const Gen *g, const Node *n); /* flops of its products */
int64_t cost_span(const Gen *g, const Span *s);
KernelPrice cost_traffic(const Gen *g, CostClass c, double bytes); /* of a kernel without a node */
KernelPrice cost_kernel(const Gen *g, const Instr *i); /* neither a span nor a collective */
int64_t cost_instr(const Gen *g, const Instr *i); /* its duration alone */
/* Where the rates are from: "uncalibrated rates", "calibrated by FILE". */
const char *cost_source(const Gen *g);
/* Is it limited by moving its operands, at the rates of products and of memory? */
bool cost_is_cheap(const Gen *g, const Node *n);

/* ---- cost_move.c ----------------------------------------------------------------- */

/* A collective of a group, of so many bytes: everything that is gathered or reduced. */
int64_t cost_move(const Gen *g, MoveKind kind, RankBits group, int64_t bytes);
int64_t cost_collective(const Gen *g, const Instr *i);
/* Of a limited sum, the time in which its exchange and its addition each take the limit's
 * multiprocessors. */
int64_t cost_at_once(const Gen *g, const Instr *i);
/* Blocks of NCCL's kernels that carry the whole rate of a GPU's links, one for each of the 18 NVLinks
 * of an H100; and blocks that add at nearly the rate of its memory (SUM_BLOCKS of rt_norm.c). */
enum { LINK_CTAS = 18, SUM_CTAS = 32 };
bool cost_over_links(const Gen *g, RankBits group); /* do links join all of its ranks? */

/* ---- simulate.c ------------------------------------------------------------------ */

/* Start and end of every instruction, in picoseconds from the start of its variant (for END: of
 * LAST), and what it waits for in between. Returns the time of the whole step. */
int64_t simulate_times(const Gen *g, int64_t *start, int64_t *end, int64_t *waited);
/* How long the compute stream is busy in a step; the rest it waits for collectives. */
int64_t simulate_busy(const Gen *g);

/* ---- figures.c ------------------------------------------------------------------- */

typedef struct PlanBytes {
    int64_t params, gradients, optimizer, activations, gather, partials, workspace;
    int64_t by_kind[N_BUF_KINDS]; /* sum of buffer bytes of that kind */
    int64_t arena, library, total;
    int64_t snapshot; /* host memory, not in the total: for saves during training */
    /* What the kernel counts, 0 on a device: peers' pages of the ranks that read most and
     * least of them, and all bytes of the former. */
    int64_t peers, peers_least, resident;
} PlanBytes;
PlanBytes plan_bytes(Gen *g);
int64_t plan_peers_bytes(Gen *g, int64_t *least); /* resident.c */
/* bound.c: what no placement goes below; needs unroll alone. */
int64_t plan_least_bytes(Gen *g);
double plan_flops_per_token(const Gen *g);
int64_t plan_params(const Gen *g);

/* ---- run_cost.c ------------------------------------------------------------------ */

/* What training on so many tokens takes at a predicted rate. */
typedef struct RunCost {
    double tokens, steps, hours, gpu_hours;
} RunCost;
/* tokens 0: a billion. */
RunCost plan_run_cost(int64_t tokens, int64_t step_tokens, double seconds, int64_t ranks);
const char *show_tokens(Gen *g, int64_t tokens); /* "a billion tokens", "15 T tokens" */

/* ---- kinds.c --------------------------------------------------------------------- */

const char *buf_kind_name(BufKind k);
const InsRule *ins_rule(InsKind k);
/* A span with meets among ranks is one, too: each of its meets begins and ends together. */
static inline bool ins_is_collective(const Instr *i)
{
    return ins_rule(i->kind)->collective || (i->kind == INS_SPAN && i->group);
}
static inline bool ins_is_closed(const Instr *i)
{
    return ins_rule(i->kind)->closed || (i->kind == INS_SPAN && i->group);
}
const char *ins_place(Gen *g, const Instr *i); /* for a span: "layers.7.mlp_up" */
const char *ins_label(Gen *g, const Instr *i); /* "layers.7 forward" */
const char *ins_done(Gen *g, const Instr *i);  /* "the weights of layers.7 are here" */
const char *stream_name(StreamId s);
const char *prefetch_order_name(PrefetchOrder o);

#endif
