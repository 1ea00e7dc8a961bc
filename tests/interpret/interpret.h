/* SPDX-License-Identifier: Apache-2.0 */
/* interpret.h: executes a planned step on simulated ranks; for tests. See interpret.c. */
#ifndef INTERPRET_H
#define INTERPRET_H

#include "plan/plan.h"

/* One call of a span's mathematics: where its operands lie on the calling rank. Arrays
 * are by class parameter, or by index of input, output, constant; entries not used are
 * NULL. */
typedef struct SpanCall {
    Gen *g;
    const Class *cls;
    const Span *span;
    int rank, block;
    const char **weight, **scale;
    char **grad;
    bool *grad_add; /* adds into what is there */
    char *in[MAX_DIMS], *out[MAX_DIMS], *d_in[MAX_DIMS], *d_out[MAX_DIMS];
    const char **constant;
    const int32_t *data[N_DATA]; /* NULL: there is none */
    double *loss;
    char *logits;
    char *saved, *scratch;
    char **saved_at; /* of each of the class's saved values */
    /* In parts: this call's part along each axis, and the rank's call that has what
     * differs along these axes only (a bit each). */
    int32_t part[N_PARTS_AXES];
    const struct SpanCall *has[1 << N_PARTS_AXES];
    const struct SpanCall *parts; /* the calls that meet, of one rank or of all that join */
    int n_parts;                  /* 0: the graph has no parts, and this is the call */
} SpanCall;

typedef const char *(*SpanFn)(void *ctx,
                              const SpanCall *call); /* NULL, or what went wrong */

typedef struct Interpretation {
    uint64_t seed; /* of the order of events among those the schedule allows */
    int steps;
    SpanFn span;
    void *ctx;
    const char *(*setup)(Gen *g,
                         char **out); /* fills each constant; NULL: there are none */
    /* Results. */
    const char *fault; /* NULL; a deadlock, a failed span, replicas that differ */
    unsigned char
        *state; /* parameters, masters, moments in parameter order; then losses */
    size_t state_bytes;
    int64_t events;
} Interpretation;

void interpret_steps(Gen *g, Interpretation *run);
/* Gives every buffer bytes of its own: the plain run that others are compared with. */
void interpret_spread(Gen *g);
/* The mathematics of spans by the ops' references in Lua (interpret_ops.c); ctx unused.
 */
const char *interpret_span(void *ctx, const SpanCall *call);
/* The same for the constants of g->setup: out[i] is constant i, allocated here. */
const char *interpret_setup(Gen *g, char **out);

double interp_load(Dtype d, const void *p, int64_t i);
/* Of master k and the weight that is it, rounded; they may be one. */
double interp_load_master(const Model *m, const Segment *s, const char *param, const char *main, int64_t k);
void interp_store_master(const Model *m, const Segment *s, char *param, char *main, int64_t k, double v);
void interp_store(Dtype d, void *p, int64_t i, double v); /* rounds to nearest, even */

#endif
