/* SPDX-License-Identifier: MIT-0 */
/* rt_resume.c: the start of a run with checkpoints. In: their folder. Out: weights,
 * masters, moments and the state of the newest intact one; or step 0, only in an empty
 * folder.
 *
 * All ranks verify a checkpoint together, and each reads its own slices, whatever mesh
 * wrote them. One that does not verify is reported and skipped: an older one overwrites
 * what it left in the arena, or the run ends. One with different mathematics is refused.
 * No pointer file says which is the newest: names and manifests do. */
#define _GNU_SOURCE
#include "checkpoint/rt_checkpoint.h"
#include "job/rt_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the folder ------------------------------------------------------------------ */

/* Refuses a checkpoint given instead of the folder that contains it: a run would start at
 * step 0 there. */
static void refuse_checkpoint(RtCheckpoint *c)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/MANIFEST", c->dir);
    if (c->error[0] == '\0' && access(path, F_OK) == 0) {
        snprintf(c->error, sizeof c->error,
                 "%s is a checkpoint itself: name the folder that it lies in", c->dir);
    }
}

/* A folder that must have a checkpoint is never created: its disk may not be mounted. */
static bool find_folder(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    if (!rt->state->flags.must_resume)
        return rt_file_make_folder(c->dir, c->error);
    if (access(c->dir, F_OK) != 0 && errno == ENOENT) {
        snprintf(c->error, sizeof c->error,
                 "--resume=must, but there is no folder %.500s; is its disk mounted?",
                 c->dir);
        return false;
    }
    return true;
}

/* Locks and cleans the folder; returns the steps of its checkpoints, largest first, the
 * same on all ranks. */
static int64_t *open_folder(Rt *rt, int *count)
{
    RtCheckpoint *c = rt->state->checkpoint;
    int64_t *steps;
    if (rt->rank == 0)
        refuse_checkpoint(c);
    if (rt->rank == 0 && c->error[0] == '\0' && find_folder(rt) && rt_lock_folder(rt))
        rt_file_clean(c->dir, c->error);
    *count = rt_share_steps(rt, &steps);
    rt_stop_on_error(rt, "--checkpoint");
    return steps;
}

/* ---- does it belong to this trainer? --------------------------------------------- */

static bool is_plain(const char *line, int n)
{
    for (int i = 0; i < n; i++)
        if (line[i] < ' ' || line[i] > '~')
            return false;
    return true;
}

static bool has_line(const char *text, const char *line, size_t n)
{
    for (const char *p = text; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n')
        if (rt_text_same(p, strcspn(p, "\n"), line, n))
            return true;
    return false;
}

/* Lines of a that are missing in b. */
static int tell_lines(const char *a, const char *b, const char *whose)
{
    int told = 0;
    for (const char *p = a; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n') {
        const int n = (int)strcspn(p, "\n");
        if (!is_plain(p, n))
            continue; /* a foreign file, shown on a terminal */
        if (n > 0 && !has_line(b, p, (size_t)n)) {
            rt_say("  %s  %.*s", whose, n, p);
            told++;
        }
    }
    return told;
}

/* theirs: NULL: unknown. */
static int tell_differences(const Rt *rt, const char *theirs)
{
    const char *ours = rt->trainer->numerics;
    return theirs == NULL ? 0
                          : tell_lines(theirs, ours, "checkpoint:  ") +
                                tell_lines(ours, theirs, "this trainer:");
}

static void numerics_differ(Rt *rt, const char *folder, uint64_t hash, char *error)
{
    const RtTrainer *t = rt->trainer;
    int64_t bytes;
    char *theirs =
        rt->rank == 0 ? rt_load_small(rt, folder, "numerics.txt", &bytes) : NULL;
    const int told = tell_differences(rt, theirs);
    free(theirs);
    snprintf(error, RT_ERROR_BYTES,
             "%s is of other mathematics: its numerics hash is %016llx, this trainer's "
             "%016llx; %s. To continue with its weights and step: --accept-numerics; to "
             "start a new run with its weights: --init, without --resume",
             folder, (unsigned long long)hash, (unsigned long long)t->numerics_hash,
             told > 0 ? "what differs is listed above"
                      : "the descriptions are equal, but the architecture, an op or the "
                        "generator is another");
}

/* Unless it is the last one already; drops the oldest if the list is full. */
static void add_since(RtSince *list, int *n, int64_t step, uint64_t hash)
{
    if (list[*n - 1].hash == hash)
        return;
    if (*n == RT_MAX_PLATFORMS) {
        memmove(list, list + 1, (RT_MAX_PLATFORMS - 1) * sizeof *list);
        --*n;
    }
    list[(*n)++] = (RtSince){step, hash};
}

static void take_platforms(Rt *rt, const RtTrainState *s)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const RtSince mine = {s->step, c->here};
    memcpy(c->platform, s->platform, sizeof c->platform);
    c->n_platforms = s->n_platforms;
    const uint64_t last = c->platform[c->n_platforms - 1].hash;
    if (last == mine.hash)
        return;
    if (rt->rank == 0) {
        rt_say("trainer: warning: steps up to %lld were computed on another platform "
               "(hash %016llx, here %016llx): the run goes on, but its bits may differ "
               "from those of a run on one platform",
               (long long)s->step, (unsigned long long)last,
               (unsigned long long)mine.hash);
    }
    add_since(c->platform, &c->n_platforms, mine.from_step, mine.hash);
}

/* The numerics hashes that earlier steps were computed with, and this one's. */
static void take_lineage(Rt *rt, const RtTrainState *s)
{
    RtCheckpoint *c = rt->state->checkpoint;
    if (s->n_lineage > 0) {
        memcpy(c->lineage, s->lineage, sizeof c->lineage);
        c->n_lineage = s->n_lineage;
    } else {
        c->lineage[0] = (RtSince){0, s->numerics_hash};
        c->n_lineage = 1;
    }
    add_since(c->lineage, &c->n_lineage, s->step, rt->trainer->numerics_hash);
}

static bool has_other_numerics(const Rt *rt, const RtTrainState *s)
{
    return s->numerics_hash != rt->trainer->numerics_hash;
}

/* Do the data differ, as far as is known? Then error says how. Ranks that know all
 * digests agree; the others compare later. */
static bool has_other_data(const Rt *rt, const RtTrainState *s, char *error)
{
    const RtState *st = rt->state;
    const int64_t samples = rt_tokens_samples(st->tokens);
    if (rt_record_differs(rt, "data", &s->data, !st->digests->pending, error))
        return true;
    if (has_other_numerics(rt, s))
        return false; /* the trainer may cut other samples from the same tokens */
    if (s->data_samples != samples) {
        snprintf(error, RT_ERROR_BYTES, "there are %lld samples, and there were %lld",
                 (long long)samples, (long long)s->data_samples);
        return true;
    }
    snprintf(error, RT_ERROR_BYTES, "the beginnings or ends of files differ");
    return s->data_hash != 0 && s->data_mix == rt_tokens_mix(st->tokens) &&
           s->data_hash != rt_tokens_hash(st->tokens);
}

/* No run of this trainer can resume from it. */
static bool is_other(const Rt *rt, const RtTrainState *s)
{
    const RtFlags *f = &rt->state->flags;
    char ignored[RT_ERROR_BYTES];
    return (!f->accept_numerics && has_other_numerics(rt, s)) ||
           (f->seed_given && f->seed != s->seed) ||
           (!f->accept_data && has_other_data(rt, s, ignored));
}

bool rt_resume_refuses(Rt *rt, const char *folder, const RtTrainState *s, char *error)
{
    const RtFlags *f = &rt->state->flags;
    char why[RT_ERROR_BYTES / 2];
    if (!is_other(rt, s))
        return false;
    if (!f->accept_numerics && has_other_numerics(rt, s)) {
        numerics_differ(rt, folder, s->numerics_hash, error);
    } else if (f->seed_given && f->seed != s->seed) {
        snprintf(error, RT_ERROR_BYTES,
                 "--seed %lld, but %s was trained with seed %lld: leave it out",
                 (long long)f->seed, folder, (long long)s->seed);
    } else {
        has_other_data(rt, s, error);
        snprintf(why, sizeof why, "%s", error);
        snprintf(error, RT_ERROR_BYTES,
                 "--resume: the data differ from those of %s: %s; restore them, or "
                 "continue with the new ones by --accept-data",
                 folder, why);
    }
    return true;
}

bool rt_resume_other_log(const Rt *rt, const char *folder, const RtTrainState *s,
                         char *error)
{
    const char *log = rt->state->flags.log;
    int64_t seed = 0;
    uint64_t hash = 0;
    if (log == NULL || !rt_log_whose(log, &seed, &hash))
        return false;
    bool known = hash == rt->trainer->numerics_hash || hash == s->numerics_hash ||
                 s->n_lineage == RT_MAX_PLATFORMS; /* the oldest may be missing */
    for (int i = 0; i < s->n_lineage; i++)
        known = known || hash == s->lineage[i].hash;
    if (known && seed == s->seed)
        return false;
    const int n =
        snprintf(error, RT_ERROR_BYTES, "--log %.250s: the log of another run: ", log);
    if (known)
        snprintf(error + n, RT_ERROR_BYTES - (size_t)n,
                 "its seed is %lld, that of %.250s %lld", (long long)seed, folder,
                 (long long)s->seed);
    else
        snprintf(error + n, RT_ERROR_BYTES - (size_t)n,
                 "its numerics hash is %016llx, that of %.250s %016llx",
                 (unsigned long long)hash, folder, (unsigned long long)s->numerics_hash);
    strcat(error, "; name another file, or replace it with --force");
    return true;
}

/* On rank 0. */
static void check_log(Rt *rt, const char *folder, const RtTrainState *s)
{
    char error[RT_ERROR_BYTES];
    RtState *st = rt->state;
    st->replaces_log = rt_resume_other_log(rt, folder, s, error);
    if (st->replaces_log && !st->flags.force)
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
}

static _Noreturn void refuse_other(Rt *rt, const char *folder, const RtTrainState *s)
{
    char error[RT_ERROR_BYTES] = "";
    rt_resume_refuses(rt, folder, s, error);
    rt_refuse(rt, "%s", error);
}

static void keep_record(RtRecords *to, RtRecords *from)
{
    rt_record_free(to);
    *to = *from;
    *from = (RtRecords){NULL, 0};
}

static void warn_unverified(const Rt *rt, const char *flag, const char *folder,
                            const RtRecords *was)
{
    const char *name = rt_record_doubts(rt, flag, was);
    if (name != NULL) {
        rt_say("trainer: warning: %s was saved before --%s %s was hashed, and that file "
               "was changed, moved or copied since: whether it had the same content for "
               "the steps before cannot be checked. If it may have had another, move "
               "that checkpoint away and --resume from an older one, or start again",
               folder, flag, name);
    }
}

/* Compares the data with those of the checkpoint, or arranges that they are compared when
 * all are hashed. */
static void take_data(Rt *rt, const char *folder, RtTrainState *s)
{
    RtDigests *d = rt->state->digests;
    char error[RT_ERROR_BYTES];
    if (rt->rank != 0)
        return;
    if (has_other_data(rt, s, error)) {
        rt_say("trainer: warning: the data differ from those of %s: %s; from here on "
               "samples are not those of a run that was never stopped",
               folder, error);
    } else if (!has_other_numerics(rt, s) &&
               s->data_mix != rt_tokens_mix(rt->state->tokens)) {
        rt_say("trainer: warning: --data has other weights, or sources of other sizes, "
               "than when %s was written: samples come in another order than in a run "
               "that was never stopped",
               folder);
    }
    if (rt_record_lacks(&s->data)) {
        rt_say("trainer: note: %s has no digests of its data (an earlier version wrote "
               "it): only sizes, beginnings and ends of files were compared",
               folder);
    }
    if (!rt->state->flags.accept_data)
        warn_unverified(rt, "data", folder, &s->data);
    warn_unverified(rt, "eval", folder, &s->eval);
    if (rt_record_differs(rt, "eval", &s->eval, !d->pending, error))
        rt_record_warn_eval(error, folder);
    else if (d->pending)
        keep_record(&d->was_eval, &s->eval);
    if (d->pending && !rt->state->flags.accept_data)
        keep_record(&d->was_data, &s->data);
    snprintf(d->was_in, sizeof d->was_in, "step %lld", (long long)s->step);
}

/* --keep-best may be new: then the best step may have been pruned, or never saved. */
static void take_best(Rt *rt, const RtTrainState *s, const int64_t *steps, int n)
{
    RtState *st = rt->state;
    char ignored[RT_ERROR_BYTES];
    bool on_disk = false;
    st->best = s->best;
    if (rt_record_differs(rt, "eval", &s->eval, !st->digests->pending, ignored))
        rt_best_forget(rt);
    for (int i = 0; i < n; i++)
        on_disk = on_disk || steps[i] == st->best.step;
    st->checkpoint->best = on_disk ? st->best : (RtBest){0};
    rt_best_saves(rt, s->step);
}

static void take_state(Rt *rt, const char *folder, RtTrainState *s)
{
    RtState *st = rt->state;
    char ignored[RT_ERROR_BYTES];
    take_data(rt, folder, s);
    take_platforms(rt, s);
    take_lineage(rt, s);
    st->order_step = s->order_step;
    st->order_samples = s->order_samples;
    st->order_tokens = s->order_tokens;
    rt_tokens_epochs(st->tokens, rt->trainer, s->order_step, &st->flags, ignored);
    st->flags.seed = s->seed;
    st->step = st->first_step = s->step;
    st->skipped = s->skipped;
    st->skipped_in_a_row = s->skipped_in_a_row;
    st->scaled_updates = s->scaled_updates;
    st->beta1_power = s->beta1_power;
    st->beta2_power = s->beta2_power;
    st->loss_scale = s->loss_scale;
}

/* ---- one checkpoint -------------------------------------------------------------- */

static bool load_sets(Rt *rt, const char *folder, RtManifest *m)
{
    bool ok = true;
    for (RtSet set = 0; set < RT_SETS && ok; set++)
        ok = rt_load_set(rt, set, folder, m);
    return ok;
}

/* Collective: continues with different mathematics; rank 0 reports what differs. */
static bool accept(Rt *rt, const char *folder, RtManifest *m, RtTrainState *s)
{
    RtCheckpoint *c = rt->state->checkpoint;
    char ignored[RT_ERROR_BYTES];
    int64_t bytes;
    char *theirs =
        rt->rank == 0 ? rt_load_small(rt, folder, "numerics.txt", &bytes) : NULL;
    c->error[0] = '\0';
    if (rt->rank == 0) {
        rt_say("trainer: note: --accept-numerics: step %lld and its weights were "
               "computed with other mathematics, hash %016llx, here %016llx",
               (long long)s->step, (unsigned long long)s->numerics_hash,
               (unsigned long long)rt->trainer->numerics_hash);
        tell_differences(rt, theirs);
    }
    const bool other_data =
        has_other_data(rt, s, ignored) || s->data_mix != rt_tokens_mix(rt->state->tokens);
    const bool ok = rt_accept(rt, folder, m, other_data, theirs != NULL ? theirs : "", s);
    free(theirs);
    return ok;
}

/* Collective: reads the folder of steps[at], of the n that are there; false: it is
 * damaged, and this was reported. */
static bool load(Rt *rt, const int64_t *steps, int n, int at)
{
    const int64_t step = steps[at];
    RtCheckpoint *c = rt->state->checkpoint;
    char folder[RT_PATH_BYTES];
    RtManifest m;
    RtTrainState s = {.step = -1};
    const double begin = rt_clock();
    rt_file_step_path(folder, c->dir, "", step);
    c->error[0] = '\0';
    rt_file_forget_error();
    bool ok = rt_manifest_open(rt, folder, &m) && rt_load_state(rt, folder, step, &m, &s);
    if (ok && is_other(rt, &s)) {
        rt_chunks_until(rt, &m.chunks, m.n_files, 0);
        if (rt_manifest_agree(rt, &m, m.set_files[0], m.n_files))
            refuse_other(rt, folder, &s);
        ok = false;
    }
    if (ok && rt->rank == 0)
        check_log(rt, folder, &s);
    ok = ok && (has_other_numerics(rt, &s) ? accept(rt, folder, &m, &s)
                                           : load_sets(rt, folder, &m));
    if (ok && rt_carry_read(rt, folder)) {
        take_best(rt, &s, steps, n);
        take_state(rt, folder, &s);
    }
    const int who = rt_pass_over(rt, folder);
    rt_record_free(&s.data);
    rt_record_free(&s.eval);
    rt_manifest_free(&m);
    rt_prune_note(rt, step, who < 0);
    if (who < 0 && rt->rank == 0) {
        printf("resumed from %s: step %lld of %lld, %.2f s\n", folder, (long long)step,
               (long long)rt->state->flags.steps, rt_clock() - begin);
        if (step >= rt->state->flags.steps) {
            printf(
                "nothing is to do: step %lld is done, and the run ends at step %lld; a "
                "larger --steps goes on\n",
                (long long)step, (long long)rt->state->flags.steps);
        }
        rt_stdout_flush(rt);
    }
    return who < 0;
}

/* ---- the start ------------------------------------------------------------------- */

/* The hashes of steps from 0 on, unless a checkpoint says otherwise. */
static void begin_history(const Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    char text[1024];
    c->here = rt_platform_hash(rt->trainer, text, sizeof text);
    c->platform[0].hash = c->here;
    c->n_platforms = 1;
    c->lineage[0].hash = rt->trainer->numerics_hash;
    c->n_lineage = 1;
}

bool rt_checkpoint_begin(Rt *rt)
{
    const RtFlags *f = &rt->state->flags;
    char path[RT_PATH_BYTES];
    int n = 0;
    if (f->checkpoint == NULL)
        return false;
    if (!rt_file_step_path(path, f->checkpoint, ".trash-", f->steps))
        rt_refuse(rt, "--checkpoint: the folder's name is too long");
    rt_enter(rt, RT_AT_LOAD);
    rt->state->checkpoint = rt_checkpoint_open(rt, f->checkpoint);
    begin_history(rt);
    rt_due_begin(rt);
    int64_t *steps = open_folder(rt, &n);
    if (n > 0 && !f->resume) {
        rt_refuse(rt,
                  "--checkpoint %s: there are checkpoints, the newest of step %lld: "
                  "--resume continues from it; a new run needs a new folder",
                  f->checkpoint, (long long)steps[0]);
    }
    if (n == 0 && f->must_resume) {
        rt_refuse(rt,
                  "--resume=must: there is no checkpoint in %s; is its disk mounted? "
                  "--resume alone starts at step 0 there",
                  f->checkpoint);
    }
    bool loaded = false;
    for (int i = 0; i < n && !loaded; i++) {
        loaded = load(rt, steps, n, i);
        if (loaded)
            rt->state->checkpoint->saved = steps[i];
    }
    free(steps);
    if (n > 0 && !loaded) {
        rt_refuse(
            rt,
            "--resume: no checkpoint in %s is intact (%d tried), and a run does not "
            "start at step 0 over existing ones",
            f->checkpoint, n);
    }
    if (!loaded && f->init != NULL && !rt_carry_read(rt, rt_find_init(rt)))
        rt_stop_on_error(rt, "--init");
    rt_best_resumed(rt);
    if (rt->state->step < f->steps) { /* a finished run writes nothing */
        rt->state->checkpoint->one_writer = rt_writers_try(rt);
        rt_snapshot_open(rt);
    }
    if (n == 0 && f->resume && rt->rank == 0) {
        printf("no checkpoint in %s yet: starting at step 0\n", f->checkpoint);
        rt_stdout_flush(rt);
    }
    return loaded;
}
