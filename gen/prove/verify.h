/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h: the checkers of the plan. They return a text instead of dying, so that tests can plant
 * a fault and see it named; verify_after dies with that text. */
#ifndef VERIFY_H
#define VERIFY_H

#include "plan/plan.h"

/* NULL, or what is wrong. */
const char *verify_split(Gen *g);
const char *verify_legs(Gen *g); /* after span */
const char *verify_shard(Gen *g);
const char *verify_policy(Gen *g);
const char *verify_again(Gen *g);                    /* part of verify_policy */
const char *verify_unroll(Gen *g);
const char *verify_order(Gen *g);                    /* part of verify_unroll */
const char *verify_prefetch(Gen *g);                 /* part of verify_unroll */
const char *verify_saved(Gen *g, const Instr *span); /* likewise */
const char *verify_room(Gen *g, const Instr *span);  /* likewise */
const char *verify_operands(Gen *g);                 /* likewise */
const char *verify_spans(Gen *g);                    /* likewise */
const char *verify_sizes(Gen *g);                    /* likewise */
const char *verify_moves(Gen *g);                    /* likewise */
const char *verify_ctas(Gen *g);                     /* likewise */
const char *verify_matrices(Gen *g);                 /* after shard */
const char *verify_exchange(Gen *g);                 /* of matrices, after unroll */
const char *verify_codes(Gen *g);     /* verify_codes.c: codes of weights */
bool verify_others(const Gen *g, int segment);       /* does it have more than matrices? */
RankBits verify_batch_group(const Gen *g, const Batch *b); /* ranks that together hold its matrices */
const char *verify_schedule(Gen *g);
const char *verify_place(Gen *g);
const char *verify_simulate(Gen *g);
/* The order of events on explicit ranks, two along each part of the mesh, over several turns of the step's loops, derived from
 * the waits alone, by vector clocks; it shares nothing with schedule_closure. */
const char *verify_races(Gen *g,
                         bool bytes); /* check shared bytes too, not only the same buffer */
/* The same on every rank of a small mesh: for tests that two along each part are enough. */
const char *verify_races_of_all(Gen *g, bool bytes);
void verify_graph(Gen *g, const char *pass);              /* verify_graph.c */
void verify_chains(Gen *g, const Class *c); /* verify_chains.c; needs a protected call */
bool ins_touches(const Instr *i, int buffer, bool write); /* verify.c */

#endif
