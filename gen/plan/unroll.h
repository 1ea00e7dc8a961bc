/* SPDX-License-Identifier: Apache-2.0 */
/* unroll.h: the working state shared by unroll_order.c (the step's loops and tasks),
 * unroll.c (their instructions, in order), unroll_bufs.c (its buffers) and unroll_ins.c
 * (what each instruction touches). Private to the pass. */
#ifndef UNROLL_H
#define UNROLL_H

#include "plan/plan.h"

/* Of runtime/rt.h: RT_CONTROL_BYTES. A test compares. */
enum { SUPERACC_WORDS = 72, CONTROL_EXTRA_BYTES = 4096 };

/* Which weights a span reads and which gradients it writes, by phase; found once. */
typedef struct SpanUse {
    /* Per class parameter; use_of: recomputing reads what the forward reads. */
    bool *reads[2], *writes[2];
} SpanUse;

static inline int use_of(Phase phase)
{
    return phase == PHASE_BACKWARD;
}

/* Recomputing is a part of the backward: it shares its gathers and its turn. Evaluation
 * stands in its place. */
static inline Phase part_of(Phase phase)
{
    return phase == PHASE_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD;
}

/* One span of the micro-step, in the order the compute stream runs them. */
typedef struct SeqSpan {
    int block;
    int piece; /* -1: all of the block's */
    Phase phase;
    int unit; /* of its own parameters, -1 if there are none */
    int turn; /* consecutive spans of one unit and phase */
} SeqSpan;

/* One gather of a segment: from its first reading span to its last. */
typedef struct Instance {
    int segment, first, last; /* positions in seq */
    int issue_turn;
    bool from_kept; /* gathers what a smaller group has kept since the forward */
    int buffer;
} Instance;

typedef struct Unroller {
    Gen *g;
    Program *p;
    SpanUse **use; /* by class id; [0] of the whole block, [1 + piece]; then likewise of
                      what KEEP_SOME runs again; then of evaluation */
    int n_seq, n_turns, first_backward_turn;
    SeqSpan *seq;
    int *turn_first; /* first position of each turn */
    int n_inst;
    Instance *inst; /* in order of first use */
    /* Per segment: its buffers. */
    int *param_shard, *master, *moment1, *moment2, *grad_shard, *partials, *grad, *kept;
    int *direction; /* of segments with matrices, -1; per batch, what ranks own */
    int *owned, *workspace;
    int *last_writer; /* position of the last span that writes its gradients, -1 */
    int *keep_at;     /* position of the span after which the rank's part is kept, -1 */
    /* Per block. */
    int *out, *d_out, *saved, *scratch[2];
    /* Of recomputed blocks: what the first forward saves for nobody; outputs and scratch
     * of the second. */
    int *dropped, *out_again, *scratch_again;
    int *again; /* of KEEP_SOME: what is computed again; dropped is its first place */
    int *consts, control;
    int logits, scratch_evaluate; /* -1 where nothing evaluates, or needs scratch */
    int staging; /* -1 where nothing is reduced over ranks, or not by us */
    int data[N_DATA]; /* starts: -1 where sequences are whole */
    /* While one variant is written: */
    Variant variant;
    bool *param_written; /* by global parameter: its gradient has a first contribution */
    int n_reduces;       /* issued in this variant */
    int *reduce_order;   /* segments in order of reduction */
    int n_merged;
} Unroller;

static inline const SpanUse *seq_use(const Unroller *u, const SeqSpan *s)
{
    const Block *b = &u->g->blocks.items[s->block];
    const SpanUse *use = u->use[b->cls->id];
    if (s->phase == PHASE_EVALUATE)
        return &use[2 * (1 + b->cls->pieces.count)];
    return s->phase == PHASE_RECOMPUTE && b->keep == KEEP_SOME
               ? &use[1 + b->cls->pieces.count + 1 + s->piece]
               : &use[1 + s->piece];
}

void unroll_order(Gen *g);
void unroll_buffers(Unroller *u);
/* Of evaluation: its logits and scratch; gathers that the forward does not begin. */
void unroll_evaluate_buffers(Unroller *u, const Unroller *training);
/* The unit's span as an instruction with every access and binding. pos: in seq. */
void unroll_span(Unroller *u, int pos);
void unroll_gather(Unroller *u, const Instance *inst);
void unroll_keep(Unroller *u, int segment);
void unroll_gather_updated(Unroller *u, int segment);
/* Sums within the ranks of a copy; across copies. */
void unroll_reduce(Unroller *u, int segment);
void unroll_all_reduce(Unroller *u, int segment);
void unroll_merge(Unroller *u, int segment);

/* A buffer; one of a segment, flat; an instruction of the variant at hand, and what it
 * touches. */
int unroll_buffer(Unroller *u, BufKind kind, Space space, const char *name,
                  const char *what, int64_t bytes);
int unroll_flat(Unroller *u, BufKind kind, Space space, const char *prefix,
                const Segment *s, Dtype dtype, int64_t elems, int64_t levels);
Instr *unroll_ins(Unroller *u, InsKind kind);
void unroll_touch(Unroller *u, Instr *i, int buffer, bool write, bool remote);
/* All that its kind says (InsRule.uses), when its operands are known. */
void unroll_uses(Unroller *u, Instr *i);
void unroll_directions(Unroller *u, Instr *i, bool write); /* of its batch */

/* unroll_end.c */
void unroll_matrix_buffers(Unroller *u);
void unroll_end(Unroller *u);

#endif
