/* SPDX-License-Identifier: MIT-0 */
/* rt_dry_folder.c: the part of --dry-run about --checkpoint, --resume and --init. In: the
 * folders. Out: rows of the table: may checkpoints be written there, from which one would
 * the run resume, does the disk have room for the coming ones, do initial weights exist.
 * The folder is read, never created, cleaned or kept locked. */
#include "checkpoint/rt_dry.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

typedef struct Folder {
    RtDry *d;
    const char *dir;
    char above[RT_PATH_BYTES]; /* the folder, or its nearest existing parent */
    int64_t *steps;
    int n;
    int64_t bytes; /* of one checkpoint */
} Folder;

static bool has(const char *folder, const char *name)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    return snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path &&
           access(path, F_OK) == 0;
}

/* ---- may checkpoints be written there? ------------------------------------------- */

static void find_above(Folder *f)
{
    snprintf(f->above, sizeof f->above, "%s", f->dir);
    while (access(f->above, F_OK) != 0 && errno == ENOENT) {
        char *slash = strrchr(f->above, '/');
        if (slash == NULL) {
            strcpy(f->above, ".");
            return;
        }
        slash[slash == f->above] = '\0'; /* of /NAME: / */
    }
}

/* False, and a row, if a run could not start there. */
static bool check_place(Folder *f)
{
    RtDry *d = f->d;
    char path[RT_PATH_BYTES], error[RT_ERROR_BYTES];
    struct stat s;
    const char *why = NULL;
    if (!rt_file_step_path(path, f->dir, ".trash-", d->flags->steps)) {
        rt_dry_add(d, "checkpoints", RT_DRY_PROBLEM, "the folder's name is too long");
        return false;
    }
    find_above(f);
    const bool there = strcmp(f->above, f->dir) == 0;
    if (!there && d->flags->must_resume)
        why = "--resume=must, but there is no such folder; is its disk mounted?";
    else if (stat(f->above, &s) != 0 || !S_ISDIR(s.st_mode))
        why = strerror(ENOTDIR);
    else if (access(f->above, W_OK | X_OK) != 0)
        why = strerror(errno);
    else if (there && has(f->dir, "MANIFEST"))
        why = "it is a checkpoint itself: name the folder that it lies in";
    else if (there && !rt_lock_try(&d->rt))
        why = d->rt.state->checkpoint->error;
    else if (there && (f->n = rt_file_steps(f->dir, &f->steps, error)) < 0)
        why = error;
    if (why != NULL)
        rt_dry_add(d, "checkpoints", RT_DRY_PROBLEM, "%.300s: %.400s", f->dir, why);
    return why == NULL;
}

/* ---- from which one would it resume? --------------------------------------------- */

/* The state of one that verifies; a row if it belongs to another trainer. */
static bool read_state(Folder *f, const char *folder, int64_t step, RtTrainState *s)
{
    RtDry *d = f->d;
    char why[RT_ERROR_BYTES] = "";
    int64_t bytes = 0;
    RtCheckpoint *c = d->rt.state->checkpoint;
    if (!rt_folder_is_intact(d->flags, folder, why)) {
        rt_dry_add(d, "resume", RT_DRY_NOTE, "step %lld is skipped: %.600s",
                   (long long)step, why);
        return false;
    }
    char *text = rt_load_small(&d->rt, folder, "train_state.json", &bytes);
    const bool read = text != NULL && rt_state_read(s, text, bytes);
    free(text);
    if (!read) {
        rt_dry_add(d, "resume", RT_DRY_NOTE, "step %lld is skipped: %.600s",
                   (long long)step,
                   c->error[0] != '\0' ? c->error : "train_state.json cannot be read");
    }
    return read;
}

static void check_state(Folder *f, const char *folder, const RtTrainState *s)
{
    RtDry *d = f->d;
    char why[RT_ERROR_BYTES] = "";
    d->step = s->step;
    if (rt_resume_other_log(&d->rt, folder, s, why) && !d->flags->force)
        rt_dry_add(d, "output", RT_DRY_PROBLEM, "%s", why);
    if (d->rt.state->tokens == NULL) {
        rt_dry_add(
            d, "resume", RT_DRY_NOTE,
            "from %.300s, which is intact; without data it cannot be compared with "
            "this run",
            folder);
    } else if (rt_resume_refuses(&d->rt, folder, s, why)) {
        rt_dry_add(d, "resume", RT_DRY_PROBLEM, "%s", why);
    } else {
        rt_tokens_epochs(d->rt.state->tokens, d->trainer, s->order_step,
                         &d->rt.state->flags, why);
        rt_dry_add(d, "resume", RT_DRY_OK,
                   "from %.300s: step %lld of %lld, every hash agrees", folder,
                   (long long)s->step, (long long)d->flags->steps);
    }
}

static void check_resume(Folder *f)
{
    RtDry *d = f->d;
    char folder[RT_PATH_BYTES];
    bool found = false;
    for (int i = 0; i < f->n && !found; i++) {
        RtTrainState s = {.step = -1};
        rt_file_step_path(folder, f->dir, "", f->steps[i]);
        found = read_state(f, folder, f->steps[i], &s);
        if (found)
            check_state(f, folder, &s);
        rt_record_free(&s.data);
        rt_record_free(&s.eval);
    }
    if (!found) {
        rt_dry_add(d, "resume", RT_DRY_PROBLEM,
                   "none of the %d checkpoints in %.300s is "
                   "intact, and over existing ones no run starts at step 0",
                   f->n, f->dir);
    }
}

static void check_start(Folder *f)
{
    RtDry *d = f->d;
    const RtFlags *flags = d->flags;
    if (f->n > 0 && !flags->resume) {
        rt_dry_add(d, "resume", RT_DRY_PROBLEM,
                   "there are checkpoints in %.300s, the newest of step %lld: --resume "
                   "continues from it; a new run needs a new folder",
                   f->dir, (long long)f->steps[0]);
    } else if (f->n > 0) {
        check_resume(f);
    } else if (flags->must_resume) {
        rt_dry_add(d, "resume", RT_DRY_PROBLEM,
                   "--resume=must: there is no checkpoint in %.300s", f->dir);
    } else {
        rt_dry_add(d, "resume", RT_DRY_OK, "no checkpoint in %.300s yet: from step 0",
                   f->dir);
    }
}

/* ---- is there room for the coming ones? ------------------------------------------ */

static void find_bytes(Folder *f)
{
    const RtTrainer *t = f->d->trainer;
    const RtCheckpoint *c = f->d->rt.state->checkpoint;
    char folder[RT_PATH_BYTES], ignored[RT_ERROR_BYTES];
    RtManifest m;
    enum { SMALL_BYTES = 65536 }; /* train_state.json, MANIFEST, the index */
    f->bytes = SMALL_BYTES + (int64_t)strlen(t->numerics) +
               rt_chunks_text_bytes(c->files, c->n_tensor_files);
    for (int i = 0; i < c->n_files; i++)
        f->bytes += c->files[i].bytes;
    if (f->n == 0)
        return;
    rt_file_step_path(folder, f->dir, "", f->steps[0]);
    if (rt_manifest_read(&m, folder, ignored) && rt_manifest_bytes(&m) > f->bytes)
        f->bytes = rt_manifest_bytes(&m); /* with a tokenizer */
    rt_manifest_free(&m);
}

/* Multiples of n in (from, to]. */
static int64_t multiples(int64_t n, int64_t from, int64_t to)
{
    return n > 0 ? to / n - from / n : 0;
}

/* How many checkpoints the run adds to the existing ones, at most at a time: with --keep
 * an old one is removed when the next is written. */
static int64_t to_come(const Folder *f)
{
    const RtFlags *g = f->d->flags;
    const int64_t from = f->d->step, to = g->steps;
    int64_t n = multiples(g->checkpoint_every, from, to);
    n += g->checkpoint_every == 0 || to % g->checkpoint_every != 0; /* the last step */
    n += g->keep_best ? multiples(g->eval_every, from, to) : 0;
    if (g->keep == 0)
        return n;
    const int64_t most = g->keep + 1 + g->keep_best + multiples(g->keep_every, from, to);
    const int64_t more = most > f->n ? most - f->n : 1;
    return n < more ? n : more;
}

static void check_disk(Folder *f)
{
    RtDry *d = f->d;
    struct statvfs v;
    if (d->flags->steps <= d->step)
        return; /* nothing will be written */
    find_bytes(f);
    const int64_t n = to_come(f);
    const double all = (double)n * (double)f->bytes;
    const double need = all < 9e18 ? all : 9e18; /* what an int64_t holds */
    char a[32], b[32], c[32];
    if (statvfs(f->above, &v) != 0) {
        rt_dry_add(d, "disk", RT_DRY_NOTE, "%.300s: %s: its room is not known", f->above,
                   strerror(errno));
        return;
    }
    const double free_bytes = (double)v.f_bavail * (double)v.f_frsize;
    rt_dry_add(
        d, "disk", need > free_bytes ? RT_DRY_PROBLEM : RT_DRY_OK,
        "a checkpoint takes %s, %lld more at a time %s; %s are free%s%s",
        rt_bytes(a, sizeof a, f->bytes), (long long)n,
        rt_bytes(b, sizeof b, (int64_t)need), rt_bytes(c, sizeof c, (int64_t)free_bytes),
        d->flags->checkpoint_seconds > 0 && d->flags->keep == 0
            ? "; --checkpoint-seconds may write more"
            : "",
        need <= free_bytes    ? ""
        : d->flags->keep == 0 ? ": --keep K removes old ones"
        : d->flags->keep == 1 ? ": free some, or name a folder on another disk"
                              : ": free some, or lower --keep: an old one is removed "
                                "once a new one is complete");
}

/* ---- initial weights ------------------------------------------------------------- */

static void check_init(RtDry *d)
{
    const char *dir = d->flags->init;
    char folder[RT_PATH_BYTES], why[RT_ERROR_BYTES] = "";
    int64_t *steps = NULL;
    if (has(dir, "MANIFEST")) {
        if (rt_folder_is_intact(d->flags, dir, why))
            rt_dry_add(d, "initial weights", RT_DRY_OK, "%.400s, intact", dir);
        else
            rt_dry_add(d, "initial weights", RT_DRY_PROBLEM, "%.300s: %.400s", dir, why);
        return;
    }
    if (has(dir, "model.safetensors") || has(dir, "model.safetensors.index.json")) {
        rt_dry_add(d, "initial weights", RT_DRY_OK, "%.400s", dir);
        return;
    }
    const int n = rt_file_steps(dir, &steps, why);
    bool found = false;
    for (int i = 0; i < n && !found; i++) {
        found = rt_file_step_path(folder, dir, "", steps[i]) &&
                rt_folder_is_intact(d->flags, folder, why);
    }
    free(steps);
    if (found) {
        rt_dry_add(d, "initial weights", RT_DRY_OK,
                   "%.300s, the newest intact one of %.300s", folder, dir);
    } else if (n > 0) {
        rt_dry_add(d, "initial weights", RT_DRY_PROBLEM, "%.300s: %.400s", dir, why);
    } else {
        rt_import_missing(dir, why);
        rt_dry_add(d, "initial weights", RT_DRY_PROBLEM, "--init: %.600s", why);
    }
}

void rt_dry_folder(RtDry *d)
{
    Folder f = {.d = d, .dir = d->flags->checkpoint};
    if (f.dir != NULL) {
        d->rt.state->checkpoint = rt_checkpoint_open(&d->rt, f.dir);
        if (check_place(&f)) {
            check_start(&f);
            check_disk(&f);
        }
        free(f.steps);
    }
    if (d->flags->init != NULL && d->step == 0)
        check_init(d);
}
