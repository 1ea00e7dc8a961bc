/* SPDX-License-Identifier: Apache-2.0 */
/* synth.h: models without mathematics, for tests of the planning passes. See synth.c. */
#ifndef SYNTH_H
#define SYNTH_H

#include "interpret.h"
#include "prove/verify.h"

typedef struct SynthShape {
    int layers, kinds; /* kinds: how many different layer classes alternate */
    int pieces;        /* of a layer */
    bool tied, head_forward, idle_block, constant, two_outputs;
    bool two_dtypes; /* where weights are bf16, vectors are f32 */
    bool codes; /* matrices are gathered in fp8 */
    int64_t width; /* scales all sizes */
    uint64_t seed;
} SynthShape;

/* Ranks of any bits, whatever axes own them. */
typedef struct SynthMasks {
    bool set;
    int64_t degree[N_AXES], node_ranks;
    RankBits data; /* compute leaves */
    RankBits over; /* of them: segments are cut over these */
    uint64_t cuts; /* not 0: each segment over some of those, from this seed */
} SynthMasks;

typedef struct SynthMesh {
    int64_t size; /* of a unit; 0: `wrap` blocks each */
    bool embed_joins, head_joins;
    int64_t beside[N_AXES]; /* degrees along axes whose ranks all do the same; 0: 1 */
    int64_t ranks, replicate, reshard_ranks, micro_batches, leaves, wrap,
        prefetch_forward, prefetch_backward, in_flight,
        every; /* one block in so many is recomputed, 0: none */
    PrefetchOrder order;
    Strategy strategy;
    bool sharded;
    Dtype param, reduce, master;
    SynthMasks masks; /* else ranks, replicate and beside say where ranks stand */
} SynthMesh;

Gen *synth_new(void);
void synth_free(Gen *g);
SynthShape synth_shape(uint64_t seed); /* a random small one */
SynthMesh synth_mesh(uint64_t seed,
                     SynthMesh numerics); /* random choices outside the hash */
/* So many ranks, in a random mesh with a strategy that fits it. */
void synth_ranks(SynthMesh *m, int64_t ranks, uint64_t seed);
/* Ranks beside them along other axes: `most` of all together. */
void synth_beside(SynthMesh *m, int64_t most, uint64_t seed);
/* Up to `most` ranks on five axes of random degrees, and masks of their bits. */
void synth_masks(SynthMesh *m, int64_t most, uint64_t seed);
SynthMesh synth_numerics(uint64_t seed); /* random ones inside, on one rank */
void synth_build(Gen *g, const SynthShape *s, const SynthMesh *mesh);
/* A Llama of real dimensions, as the passes after span see it. */
void synth_llama(Gen *g, int layers, int64_t dim, int64_t ffn, int64_t kv_dim,
                 int64_t vocab, int64_t seq, bool tied, const SynthMesh *mesh);
/* shard .. simulate, no checks. */
void synth_plan(Gen *g, const SynthMesh *mesh);
const char *synth_check(Gen *g); /* all checkers */
/* SpanFn: every output is a hash of every byte of every input. */
const char *synth_span(void *ctx, const SpanCall *c);
const char *synth_setup(Gen *g, char **out);
void synth_cut(Gen *g, const SynthMasks *masks); /* segments, after shard */
uint64_t synth_random(uint64_t *state);

#endif
