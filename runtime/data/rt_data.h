/* SPDX-License-Identifier: MIT-0 */
/* rt_data.h: the data of a run: sequences of tokens, held-out ones, and what their files
 * contain. */
#ifndef RT_DATA_H
#define RT_DATA_H

#include "job/rt_out.h"
#include "rt_private.h"

/* ---- rt_data.c, rt_tokens.c ------------------------------------------------------ */

/* Files as the trainer reads them: with its sequences, vocabulary, masks. */
RtTokens *rt_tokens_open(const RtTrainer *t, const char *const *patterns, int n_patterns,
                         char *error);
/* The same for held-out data, without weights; flag: the flag that names them. */
RtTokens *rt_tokens_open_for(const RtTrainer *t, const char *flag,
                             const char *const *patterns, int n_patterns, char *error);
void rt_tokens_close(RtTokens *d);
int64_t rt_tokens_samples(const RtTokens *d);
/* With --epochs: the steps of the run, in f->steps, where the order of data began after
 * step order_step; false with error set. */
bool rt_tokens_epochs(const RtTokens *d, const RtTrainer *t, int64_t order_step,
                      RtFlags *f, char *error);
bool rt_tokens_unused_mask(const RtTokens *d); /* there are masks, but no loss.mask */
/* A mask without a trailer about its tokens; or NULL. */
const char *rt_tokens_bare_mask(const RtTokens *d);
/* A file read as bytes for a large vocabulary, without being asked for; or NULL. */
const char *rt_tokens_bytes_of(const RtTokens *d);
/* The mapped file that contains an address; NULL: none. */
const char *rt_tokens_holding(const RtTokens *d, uintptr_t address);
/* Place in the data of global sample `index` (0, 1, ...): a bijection in each epoch, of
 * all or, with weights, of each source. */
int64_t rt_tokens_place(const RtTokens *d, uint64_t seed, int64_t index);
/* With weights: prints a line per source; and the hash of what in them decides the order,
 * or 0. */
void rt_tokens_print_mix(const RtTokens *d, FILE *out);
uint64_t rt_tokens_mix(const RtTokens *d);
/* A hash of all files in order: of their sizes and the bytes at their ends, not of their
 * names. */
uint64_t rt_tokens_hash(const RtTokens *d);
/* Fills tokens and targets of a sample, -1 if masked; false with error set if an id is
 * not a token. */
bool rt_tokens_read(const RtTokens *d, int64_t sample, int32_t *tokens, int32_t *targets,
                    char *error);

/* ---- rt_digest.c, rt_changed.c, rt_record.c: the content of the data ------------- */

/* Collective. open: hashes small data, starts on the rest. step: after each step, until
 * all is known; true: the held-out data are not those of the checkpoint that the run resumed
 * from. settle: before a checkpoint is written, waits for the digests unless a signal came. close:
 * does not wait. Any other mismatch ends the run. */
void rt_digest_open(Rt *rt);
bool rt_digest_step(Rt *rt);
void rt_digest_settle(Rt *rt);
void rt_digest_close(Rt *rt);
void rt_digest_print(const Rt *rt, FILE *out);
/* Do the files still have the same content? Now; and if an epoch ends with the step. */
void rt_changed_check(Rt *rt);
void rt_changed_epoch(Rt *rt);
/* If a file is truncated during the run, names it. */
void rt_changed_watch(const Rt *rt);
/* Reports each output that is a file of the data, even with --force. */
void rt_data_spare(const Rt *rt, RtTell *tell, void *ctx);
/* Collective: a rank with other files than rank 0 fails. */
void rt_agree_data(Rt *rt, const char *flag, const RtTokens *d);

/* ---- rt_eval.c ------------------------------------------------------------------- */

/* False, with the reason: the flags ask for something impossible. */
bool rt_eval_check(const RtTrainer *t, const RtFlags *f, char *error);
void rt_eval_open(Rt *rt);
void rt_eval_print(const Rt *rt);
bool rt_eval_due(const Rt *rt); /* after the current step */
void rt_evaluate(Rt *rt);       /* collective */

#endif
