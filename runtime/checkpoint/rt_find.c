/* SPDX-License-Identifier: MIT-0 */
/* rt_find.c: which weights a folder means. In: the folder in --init, or in the
 * --checkpoint of a command that only reads: a run's, a step's, or (--init) a Hugging
 * Face folder. Out: the folder of the weights: for a run's the newest intact step or,
 * with --best, the one that the newest calls the best. Rank 0 says which.
 *
 * All ranks together verify a step, named or found in a run's folder: any folder with a
 * MANIFEST. Nothing is written, because a run may write there at the same time. */
#include "checkpoint/rt_checkpoint.h"
#include "job/rt_out.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- failures that are equal on all ranks ---------------------------------------- */

_Noreturn void rt_refuse(Rt *rt, const char *fmt, ...)
{
    char text[RT_ERROR_BYTES];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (rt->rank != 0)
        rt_leave(rt);
    rt_fail(rt, RT_EXIT_ERROR, "%s", text);
}

void rt_stop_on_error(Rt *rt, const char *what)
{
    const int who = rt_first_error(rt);
    if (who == rt->rank)
        rt_fail(rt, RT_EXIT_ERROR, "%s: %s", what, rt->state->checkpoint->error);
    if (who >= 0)
        rt_leave(rt);
}

/* If a process lacks descriptors, memory or permission, that is not about the
 * checkpoint: falling back to an older one would throw steps away. */
static void stop_on_error_here(Rt *rt, const char *folder)
{
    const int who = rt_first_error_here(rt);
    if (who == rt->rank) {
        rt_fail(rt, RT_EXIT_ERROR,
                "%s: %s; that is not damage, so no older checkpoint is taken for it",
                folder, rt->state->checkpoint->error);
    }
    if (who >= 0)
        rt_leave(rt);
}

int rt_pass_over(Rt *rt, const char *folder)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const int who = rt_first_error(rt);
    if (who >= 0)
        stop_on_error_here(rt, folder);
    if (who == rt->rank)
        rt_say("trainer: warning: [rank %d] %s is skipped: %s", who, folder, c->error);
    c->error[0] = '\0';
    rt_first_error(rt); /* reports it before anything else */
    return who;
}

/* ---- reading a folder ------------------------------------------------------------ */

RtCheckpoint *rt_checkpoint_open(Rt *rt, const char *dir)
{
    RtCheckpoint *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->dir = dir;
        c->folder = c->lock = -1;
        c->saved = -1;
        c->writing = -1;
        c->stage = malloc(RT_STAGE_ELEMS * sizeof(double));
        c->convert = malloc(RT_STAGE_ELEMS * sizeof(double));
        c->chunk = malloc(RT_CHUNK_BYTES);
    }
    if (c == NULL || c->stage == NULL || c->convert == NULL || c->chunk == NULL ||
        !rt_layout_fill(c, rt->trainer))
        rt_fail(rt, RT_EXIT_ERROR, "--checkpoint: out of memory");
    return c;
}

/* For one that was only read. */
static void close_checkpoint(RtCheckpoint *c)
{
    for (int i = 0; i < c->n_files; i++) {
        free(c->files[i].head);
        free(c->files[i].chunks);
    }
    for (RtSet set = 0; set < RT_SETS; set++) {
        free(c->file_of[set]);
        free(c->bytes_at[set]);
    }
    free(c->files);
    free(c->stage);
    free(c->convert);
    free(c->chunk);
    free(c);
}

static bool has(const char *folder, const char *name)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

/* ---- a step ---------------------------------------------------------------------- */

typedef struct Search {
    Rt *rt;
    const char *flag, *dir;
    int64_t *steps;
    int n, looks;
    bool again;                 /* the list is out of date */
    char folder[RT_PATH_BYTES]; /* the result */
} Search;

enum { MOST_LOOKS = 100 };

/* Collective, for a folder that could not be read. A run that trains there may have
 * removed it since it was listed: then there is a newer one. Otherwise reports why. */
static void pass_over(Search *s)
{
    RtCheckpoint *c = s->rt->state->checkpoint;
    uint64_t gone = rt_folder_is_removed(s->folder);
    rt_save_sum(s->rt, &gone, 1);
    s->again = gone > 0 && s->looks < MOST_LOOKS;
    if (s->again)
        c->error[0] = '\0';
    else
        rt_pass_over(s->rt, s->folder);
}

/* Collective: does it verify? If not, reports why. */
static bool is_intact(Search *s)
{
    RtManifest m;
    s->rt->state->checkpoint->error[0] = '\0';
    rt_file_forget_error();
    const bool intact = rt_manifest_verify(s->rt, s->folder, &m);
    rt_manifest_free(&m);
    if (!intact)
        pass_over(s);
    return intact;
}

static void say_found(const Search *s, const char *what)
{
    Rt *rt = s->rt;
    if (rt->rank != 0)
        return;
    fprintf(rt_words(rt), "%s: %s, %s of %s\n", s->flag, s->folder, what, s->dir);
    if (rt_words(rt) == stdout)
        rt_stdout_flush(rt);
}

static void find_newest(Search *s)
{
    bool intact = false;
    for (int i = 0; i < s->n && !intact && !s->again; i++) {
        rt_file_step_path(s->folder, s->dir, "", s->steps[i]);
        intact = is_intact(s);
    }
    if (s->again)
        return;
    if (!intact) {
        rt_refuse(s->rt, "%s %s: %s", s->flag, s->dir,
                  s->n == 0 ? "there is no checkpoint; a folder of Hugging Face's is for "
                              "--init"
                            : "no checkpoint is intact");
    }
    say_found(s, "the newest intact one");
}

/* Collective: the best step according to the newest one with a readable state; 0:
 * none. */
static int64_t best_step(Search *s)
{
    RtTrainState state = {.step = -1};
    bool known = false;
    for (int i = 0; i < s->n && !known && !s->again; i++) {
        RtManifest m;
        rt_file_step_path(s->folder, s->dir, "", s->steps[i]);
        s->rt->state->checkpoint->error[0] = '\0';
        rt_file_forget_error();
        known = rt_manifest_open(s->rt, s->folder, &m) &&
                rt_load_state(s->rt, s->folder, s->steps[i], &m, &state);
        rt_manifest_free(&m);
        rt_record_free(&state.data);
        rt_record_free(&state.eval);
        if (!known)
            pass_over(s);
    }
    return known ? state.best.step : 0;
}

static void find_best(Search *s)
{
    const int64_t best = best_step(s);
    bool there = false;
    if (s->again)
        return;
    for (int i = 0; i < s->n; i++)
        there = there || s->steps[i] == best;
    if (best == 0) {
        rt_refuse(s->rt, "--best: %s %s: %s: leave --best out for the newest", s->flag,
                  s->dir,
                  s->n == 0 ? "there is no checkpoint"
                            : "no evaluation is recorded there; train with --eval, "
                              "--eval-every and --keep-best");
    }
    rt_file_step_path(s->folder, s->dir, "", best);
    const bool intact = there && is_intact(s);
    if (s->again)
        return;
    if (!intact) {
        rt_refuse(s->rt,
                  "--best: step %lld has the lowest loss, but %s is %s: train with "
                  "--keep-best, which keeps it; leave --best out for the newest",
                  (long long)best, s->folder, there ? "not intact" : "not there");
    }
    say_found(s, "the best one");
}

/* Collective: for a run's folder. */
static void find_step(Search *s)
{
    do {
        s->again = false;
        s->looks++;
        s->n = rt_share_steps(s->rt, &s->steps);
        rt_stop_on_error(s->rt, s->flag);
        if (s->rt->state->flags.best)
            find_best(s);
        else
            find_newest(s);
        free(s->steps);
    } while (s->again);
}

/* ---- the named folder ------------------------------------------------------------ */

/* What kind of folder it is, as rank 0 finds it: collective. */
typedef enum { OF_A_MODEL, OF_A_STEP, OF_A_RUN } Kind;

static Kind kind_of(Rt *rt, const char *dir, bool init)
{
    char ignored[RT_ERROR_BYTES];
    uint64_t kind = OF_A_RUN;
    if (rt->rank == 0 && has(dir, "MANIFEST")) {
        kind = OF_A_STEP;
    } else if (rt->rank == 0 && init) {
        int64_t *steps = NULL;
        const bool model =
            has(dir, "model.safetensors") || has(dir, "model.safetensors.index.json");
        if (model || rt_file_steps(dir, &steps, ignored) <= 0)
            kind = OF_A_MODEL; /* if it is neither, reading it reports that */
        free(steps);
    }
    rt_take_first(rt, &kind, 1);
    return (Kind)kind;
}

/* Collective: do all machines find the same checkpoint there? */
static void agree_on_manifest(const Search *s)
{
    RtManifest m;
    char ignored[RT_ERROR_BYTES];
    uint64_t mine = 0;
    rt_manifest_read(&m, s->folder, ignored);
    for (int i = 0; i < m.n_files; i++)
        mine = rt_hash64(&m.files[i].hash, sizeof m.files[i].hash, mine + 1);
    rt_manifest_free(&m);
    uint64_t first = mine;
    rt_take_first(s->rt, &first, 1);
    if (first != mine && mine != 0) {
        rt_fail(s->rt, RT_EXIT_ERROR,
                "%s: %s is another checkpoint for rank %d than for rank 0: all machines "
                "must find the same bytes",
                s->flag, s->folder, s->rt->rank);
    }
}

/* Collective: a step's folder. */
static void find_named(Search *s, bool init)
{
    agree_on_manifest(s);
    if (!is_intact(s)) {
        rt_refuse(
            s->rt, "%s %s: it is not intact; `trainer verify` says what is damaged%s",
            s->flag, s->dir,
            init ? ". To take its weights as they are, copy it without MANIFEST" : "");
    }
}

/* Collective: a checkpoint in a run's folder, or the step's folder itself. */
static void find_intact(Search *s, Kind kind, bool init)
{
    Rt *rt = s->rt;
    RtState *st = rt->state;
    RtCheckpoint *own = st->checkpoint; /* the training run's own, beside --init */
    if (!rt_file_step_path(s->folder, s->dir, ".trash-", INT64_MAX / 2))
        rt_refuse(rt, "%s: the folder's name is too long", s->flag);
    st->checkpoint = rt_checkpoint_open(rt, s->dir);
    snprintf(s->folder, sizeof s->folder, "%s", s->dir);
    s->looks = kind == OF_A_RUN ? 0 : MOST_LOOKS; /* for one step, there is no other */
    if (kind == OF_A_RUN)
        find_step(s);
    else if (st->flags.best)
        rt_refuse(rt, "--best: %s is one step's folder: name the run's", s->dir);
    else
        find_named(s, init);
    close_checkpoint(st->checkpoint);
    st->checkpoint = own;
}

/* The text lives as long as the run. */
static const char *find(Rt *rt, const char *flag, const char *dir, bool init)
{
    Search s = {.rt = rt, .flag = flag, .dir = dir};
    rt_enter(rt, RT_AT_LOAD);
    const Kind kind = kind_of(rt, dir, init);
    rt->state->weights_listed = kind == OF_A_RUN;
    if (kind == OF_A_MODEL)
        return dir;
    find_intact(&s, kind, init);
    char *found = strdup(s.folder);
    if (found == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "%s: out of memory", flag);
    return found;
}

const char *rt_find_init(Rt *rt)
{
    RtState *st = rt->state;
    if (st->weights_from == NULL)
        st->weights_from = find(rt, "--init", st->flags.init, true);
    return st->weights_from;
}

const char *rt_find_weights(Rt *rt)
{
    RtState *st = rt->state;
    if (st->flags.checkpoint == NULL)
        return rt_find_init(rt);
    st->weights_from = find(rt, "--checkpoint", st->flags.checkpoint, false);
    return st->weights_from;
}
