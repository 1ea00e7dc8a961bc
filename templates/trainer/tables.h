//@ -- SPDX-License-Identifier: Apache-2.0
//@ -- tables.h: names for the numbers of the plan, and what trainer.c, step.c, tables.c share.
/* SPDX-License-Identifier: MIT-0 */
/* tables.h: the plan's numbers under their names: segments, places, and the offset of
 * every buffer in this rank's two spaces.
 *
 * Peers access the symmetric space, and only this rank the local one. Buffers that do not
 * persist share bytes with others: the planner proved that no two of them are in use at
 * once, on any rank.
 *
 * ${generated}
 * ${regenerate} */
#ifndef TRAINER_TABLES_H
#define TRAINER_TABLES_H

#include "rt.h"

/* The hash of the description and the files of its plan: trainer.c, step.c, bind.c, bind.h,
 * tables.c, tables.h and checkpoint.c. Files of another plan neither compile nor link with
 * these. */
#define TRAINER_IDENTITY 0x${identity}
#define trainer_segments trainer_segments_${identity} /* tables.c */
#define trainer_numerics trainer_numerics_${identity} /* checkpoint.c */
#define trainer_step     trainer_step_${identity}     /* step.c */
#define trainer_setup    trainer_setup_${identity}    /* bind.c */
//@ if scales_buffer then
#define trainer_encode   trainer_encode_${identity}   /* step.c */
//@ end
#define trainer_timed    trainer_timed_${identity}    /* calibrate.c */
//@ if #sites > 0 then
#define trainer_sites    trainer_sites_${identity}
//@ end

/* Segments: flat buffers, each one collective. Shape and size: tables.c. */
enum {
//@ for _, s in ipairs(segments) do
    ${s.macro},
//@ end
    N_SEGMENTS
};

enum { N_PARAMS = ${#params}, N_MEMORY = ${#memory} };
//@ if #hops > 0 then
enum { N_HOPS = ${#hops} }; /* groups whose sums take two hops */
//@ end

/* Places of the step: what the launcher names when a rank dies or stalls. */
enum {
//@ for _, p in ipairs(places) do
    ${p.macro},
//@ end
    AT_NORM,
    AT_UPDATE,
//@ if #batches > 0 then
    AT_MATRICES,
//@ end
    N_PLACES
};

//@ if #batches > 0 then
/* Batches of matrices: the optimizer computes each matrix as a whole, on one rank. */
enum {
//@ for _, b in ipairs(batches) do
    ${b.macro},
//@ end
    N_BATCHES
};

enum { N_MATRICES = ${#matrices} };

//@ end
//@ local width = widest(buffers, function(b) return b.macro end)
//@ local shapes = widest(buffers, function(b) return b.what end)
//@ local offsets = widest(buffers, function(b) return b.offset end)
//@ local function table_of(space, persistent)
//@ for _, b in ipairs(buffers) do
//@ if b.space == space and b.persistent == persistent then
#define ${left(b.macro, width)} INT64_C(${right(b.offset, offsets)}) /* ${left(b.what, shapes)} ${right(b.human, 10)} */
//@ end
//@ end
//@ end
/* The symmetric space, ${symmetric_bytes} bytes: what persists. */
//@ table_of("symmetric", true)

/* The symmetric space: what shares bytes over the step. */
//@ table_of("symmetric", false)

/* The local space, ${local_bytes} bytes: what persists. */
//@ table_of("local", true)

/* The local space: what shares bytes over the step. */
//@ table_of("local", false)

extern const RtParam trainer_params[N_PARAMS];
extern const RtSegment trainer_segments[N_SEGMENTS];
extern const int trainer_segment_params[N_PARAMS];
//@ if #hops > 0 then
extern const RtHops trainer_hops[N_HOPS];
//@ end
//@ if #batches > 0 then
extern const RtMatrix trainer_matrices[N_MATRICES];
extern const RtBatch trainer_batches[N_BATCHES];
//@ end
extern const RtMemory trainer_memory[N_MEMORY];
extern const char *const trainer_places[N_PLACES];

/* checkpoint.c */
//@ if config_lines then
extern const char trainer_config[];
//@ end
extern const char trainer_numerics[];

/* bind.c */
void trainer_setup(Rt *rt); /* constants of the model; once */

/* calibrate.c */
extern const RtTimed trainer_timed[]; /* kernels alone, to be measured */
//@ if #sites > 0 then
extern const RtSite trainer_sites[]; /* attention by both kernels, likewise */
//@ end

/* step.c */
void trainer_step(Rt *rt);  /* one step of the optimizer */
//@ if scales_buffer then
void trainer_encode(Rt *rt); /* codes of all weights, before the first step */
//@ end
//@ if logits_buffer then
void trainer_evaluate(Rt *rt); /* the loss of a micro-batch, the logits of one token */
//@ end

#endif
