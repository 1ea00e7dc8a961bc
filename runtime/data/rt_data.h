/* SPDX-License-Identifier: MIT-0 */
/* rt_data.h: what a run reads: sequences of tokens, held-out ones, and what their files
 * hold. */
#ifndef RT_DATA_H
#define RT_DATA_H

#include "rt_private.h"

/* ---- rt_data.c, rt_tokens.c ------------------------------------------------------ */

/* Files as the trainer reads them: its sequences, vocabulary, masks. */
RtTokens *rt_tokens_open(const RtTrainer *t, const char *const *patterns, int n_patterns,
                         char *error);
/* The same of held-out data, without weights; flag: who names them. */
RtTokens *rt_tokens_open_for(const RtTrainer *t, const char *flag,
                             const char *const *patterns, int n_patterns, char *error);
void rt_tokens_close(RtTokens *d);
int64_t rt_tokens_samples(const RtTokens *d);
bool rt_tokens_unused_mask(const RtTokens *d); /* masks lie there, the trainer has none */
/* A mask that says nothing of its tokens; or NULL. */
const char *rt_tokens_bare_mask(const RtTokens *d);
/* A file whose bytes are tokens of a large vocabulary, though nobody said so; or NULL. */
const char *rt_tokens_bytes_of(const RtTokens *d);
/* The mapped file in which an address lies; NULL: in none. */
const char *rt_tokens_holding(const RtTokens *d, uintptr_t address);
/* Place in the data of global sample `index` (0, 1, ...): a bijection in each epoch, of
 * all or, with weights, of each source. */
int64_t rt_tokens_place(const RtTokens *d, uint64_t seed, int64_t index);
/* With weights: a line for each source; what of them decides the order, or 0. */
void rt_tokens_print_mix(const RtTokens *d, FILE *out);
uint64_t rt_tokens_mix(const RtTokens *d);
/* Of all files in their order: what they hold, by sizes and by what lies at their ends;
 * not what they are called. */
uint64_t rt_tokens_hash(const RtTokens *d);
/* Fills tokens and targets of a sample, -1 where masked; false with error set when an id
 * is no token. */
bool rt_tokens_read(const RtTokens *d, int64_t sample, int32_t *tokens, int32_t *targets,
                    char *error);

/* ---- rt_digest.c, rt_changed.c, rt_record.c: what the data hold ------------------ */

/* Collective. open: hashes what is little, begins with the rest; step: after each step,
 * until all is known; settle: before a checkpoint is written, waits for it unless a
 * signal came. Whatever is not as it should be ends the run. */
void rt_digest_open(Rt *rt);
void rt_digest_step(Rt *rt);
void rt_digest_settle(Rt *rt);
void rt_digest_close(Rt *rt);
void rt_digest_print(const Rt *rt, FILE *out);
/* Do the files still hold what they did? Now; and where an epoch ends with the step. */
void rt_changed_check(Rt *rt);
void rt_changed_epoch(Rt *rt);
/* A file that is cut short under the run is named. */
void rt_changed_watch(const Rt *rt);
/* Ends the run when one of its outputs is a file that it reads, with --force either. */
void rt_data_spare(const Rt *rt);
/* Collective: a rank that has other files than rank 0 fails. */
void rt_agree_data(Rt *rt, const char *flag, const RtTokens *d);

/* ---- rt_eval.c ------------------------------------------------------------------- */

/* False, and why: what the flags ask for cannot be. */
bool rt_eval_check(const RtTrainer *t, const RtFlags *f, char *error);
void rt_eval_open(Rt *rt);
void rt_eval_print(const Rt *rt);
bool rt_eval_due(const Rt *rt); /* after the step at hand */
void rt_evaluate(Rt *rt);       /* collective */

#endif
