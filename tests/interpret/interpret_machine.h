/* SPDX-License-Identifier: Apache-2.0 */
/* interpret_machine.h: the simulated ranks, shared by interpret.c (events, lives of
 * buffers) and interpret_do.c (what instructions do to bytes). Private to the
 * interpreter. */
#ifndef INTERPRET_MACHINE_H
#define INTERPRET_MACHINE_H

#include "interpret.h"

typedef struct Turn { /* one run of a variant in the step's loops */
    int variant, base;
    int64_t round, micro; /* of the rank's leaves; micro-batch in its leaf */
    bool leaf_ends;
} Turn;

typedef struct Rank {
    char *space[N_SPACES];
    int next[N_STREAMS];  /* trace element that is next on the stream, -1: none */
    bool *started, *done; /* per trace element */
    uint64_t read_mask[N_STREAMS]; /* ranks that the collective under way has read */
    char *staged[N_STREAMS];       /* what a reduction has read: [member][elems] */
    int weight[N_STREAMS];         /* how likely its events are chosen */
    int compute_of[N_VARIANTS];    /* compute instructions of a turn */
    double eval_loss;              /* of the step's first micro-batch, before it */
    int *turn_left;                /* per turn: compute instructions not done */
    int *pending; /* per transient buffer: accesses of this turn still to come */
} Rank;

typedef struct Machine {
    Gen *g;
    Interpretation *run;
    const Program *p;
    int w;
    int n_turns;
    Turn *turn;
    int n; /* trace elements */
    int *ins, *turn_of;
    int *after; /* next element on the same stream, -1 */
    int stream_first[N_STREAMS];
    Rank *rank;
    uint64_t random;
    char **constants;
    int64_t step;
    int left;
} Machine;

/* interpret_do.c: bytes. */
uint64_t interp_mix(uint64_t x);
char *interp_at(const Machine *m, int rank, int buffer);
/* This rank's part of the weights in the buffer that holds them. */
char *interp_param_part(const Machine *m, int rank, const Segment *s, int buffer);
void interp_poison(const Machine *m, int rank, int buffer);
int interp_find_buffer(const Machine *m, BufKind kind, int segment); /* -1: none */
int64_t interp_micro_batch(const Machine *m, int rank, const Turn *t);
void interp_load_data(Machine *m, int rank, const Turn *t);
void interp_compute(Machine *m, int rank, int e); /* a span, merge, norm or update */
void interp_begin_collective(Machine *m, int rank, int e);
void interp_read_peer(Machine *m, int rank, int e, int peer);
/* The k-th rank of rank's group in a collective. */
int interp_member(const Instr *i, int rank, int k);
bool interp_joins(const Instr *i, int rank, int other);
void interp_end_collective(Machine *m, int rank, int e);

/* interpret_span.c */
void interp_run_span(Machine *m, int rank, int e);
/* interpret_state.c: weights at the start; returns the bytes of the state as rank sees it. */
void interp_init_params(Machine *m, int rank);
size_t interp_gather_state(Machine *m, int rank);

/* interpret_eval.c: after a span: are evaluated and trained losses one? */
void interp_check_evaluation(Machine *m, int rank, const Instr *i, const Turn *t,
                             const SpanCall *c);

/* interpret_matrix.c: the same of what an optimizer treats whole. */
void interp_momentum(Machine *m, int rank, const Instr *i);
/* interpret_codes.c */
double interp_load_fp8(Dtype d, uint8_t x);
uint8_t interp_store_fp8(Dtype d, double v);
void interp_largest(Machine *m, int rank, const Instr *i);
void interp_scales(Machine *m, int rank);
void interp_encode(Machine *m, int rank, const Instr *i);
void interp_encode_all(Machine *m); /* of the first weights */
void interp_matrices(Machine *m, int rank, const Instr *i);
void interp_step(Machine *m, int rank, const Instr *i);
void interp_read_matrices(Machine *m, int rank, const Instr *i, int peer);
/* interpret_do.c: in its shard, of element `flat` of the segment; -1: it has none. */
int64_t interp_second_moment(const Machine *m, const Segment *s, int64_t flat);

#endif
