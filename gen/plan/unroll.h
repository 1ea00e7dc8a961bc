/* SPDX-License-Identifier: Apache-2.0 */
/* unroll.h: the working state shared by unroll_order.c (the step's loops and tasks), unroll.c
 * (their instructions, in order), unroll_bufs.c (its buffers), unroll_ins.c (what each instruction
 * accesses) and unroll_end.c. Private to the pass. */
#ifndef UNROLL_H
#define UNROLL_H

#include "plan/plan.h"

/* From runtime/rt.h: RT_CONTROL_BYTES. A test compares. */
enum { SUPERACC_WORDS = 72, CONTROL_EXTRA_BYTES = 4096 };

/* Which weights and scales a span reads and which gradients it writes, by phase; found once. */
typedef struct SpanUse {
    /* Per class parameter; use_of: recomputing reads what the forward reads. */
    bool *reads[2], *scales[2], *writes[2];
} SpanUse;

static inline int use_of(Phase phase)
{
    return phase == PHASE_BACKWARD;
}

/* Recomputing is part of the backward: it shares its gathers and its turn. Evaluation takes the
 * backward's place. */
static inline Phase part_of(Phase phase)
{
    return phase == PHASE_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD;
}

/* One span of the micro-step, in the order the compute stream runs them. */
typedef struct SeqSpan {
    int block;
    int piece; /* -1: all pieces of the block */
    Phase phase;
    int unit; /* the unit of its own parameters; -1: it has none */
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
    SpanUse **use; /* by class id; [0] for the whole block, [1 + piece]; then likewise for what
                    * KEEP_SOME runs again; then for evaluation */
    int n_seq, n_turns, first_backward_turn;
    SeqSpan *seq;
    int *turn_first; /* first position of each turn */
    int n_inst;
    Instance *inst; /* in order of first use */
    /* Per segment: its buffers. */
    int *param_shard, *codes, *master, *moment1, *moment2, *grad_shard, *partials, *grad, *kept;
    int *direction; /* of segments with matrices, else -1; per batch, what ranks own */
    int *owned, *workspace;
    int *last_writer; /* position of the last span that writes its gradients; -1: none */
    int *keep_at;     /* position of the span after which the rank's part is kept; -1: none */
    /* Per block. */
    int *out, *d_out, *saved, *scratch[2];
    /* Of recomputed blocks: what the first forward saves in vain; outputs and scratch of the
     * second. */
    int *dropped, *out_again, *scratch_again;
    int *again; /* for KEEP_SOME: what is computed again; dropped is the first place */
    int *consts, control;
    int largest, scales; /* of codes; -1: there are none */
    int logits, scratch_evaluate; /* -1: nothing evaluates, or needs scratch */
    int staging; /* -1: nothing is reduced over ranks, or not by us */
    int data[N_DATA]; /* -1: starts unless documents are packed, part */
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
/* Buffers of evaluation: logits and scratch; gathers that the forward does not start. */
void unroll_evaluate_buffers(Unroller *u, const Unroller *training);
/* The unit's span as an instruction with all accesses and bindings. pos: in seq. */
void unroll_span(Unroller *u, int pos);
void unroll_gather(Unroller *u, const Instance *inst);
void unroll_keep(Unroller *u, int segment);
void unroll_gather_updated(Unroller *u, int segment);
/* Sums within the ranks of a copy; and across copies. */
void unroll_reduce(Unroller *u, int segment);
void unroll_all_reduce(Unroller *u, int segment);
void unroll_merge(Unroller *u, int segment);

/* Adds a buffer; a flat buffer of a segment; an instruction of the current variant; an access of an
 * instruction. */
int unroll_buffer(Unroller *u, BufKind kind, Space space, const char *name,
                  const char *what, int64_t bytes);
int unroll_flat(Unroller *u, BufKind kind, Space space, const char *prefix,
                const Segment *s, Dtype dtype, int64_t elems, int64_t levels);
Instr *unroll_ins(Unroller *u, InsKind kind);
void unroll_touch(Unroller *u, Instr *i, int buffer, bool write, bool remote);
/* Adds all accesses of its kind (InsRule.uses), once its operands are known. */
void unroll_uses(Unroller *u, Instr *i);
void unroll_directions(Unroller *u, Instr *i, bool write); /* of its batch */

/* unroll_ctas.c: Instr.ctas of the program, once it has all instructions. */
void unroll_ctas(Gen *g);

/* unroll_end.c */
void unroll_matrix_buffers(Unroller *u);
void unroll_end(Unroller *u);

#endif
