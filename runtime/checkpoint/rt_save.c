/* SPDX-License-Identifier: MIT-0 */
/* rt_save.c: writes a checkpoint, all ranks together, each its own slices directly into
 * the final files. In: the arena after a step, the run's state. Out: DIR/step-%08d/, or
 * nothing.
 *
 * A folder under its final name is complete and durable, whenever the machine stops:
 * 1. Rank 0 makes .tmp-step-%08d, reserves the files' bytes, and writes headers and small
 *    files.
 * 2. All ranks write their slices, then fsync and close each file they wrote.
 * 3. All ranks read chunks back and hash them, for the MANIFEST: of one set of files,
 *    while the disk takes the next one.
 * 4. Rank 0 writes CHUNKS and MANIFEST, fsyncs them and the folders, renames the folder,
 *    and fsyncs DIR.
 * 5. Only now the checkpoint is announced, and older ones are removed: renamed first, so
 *    that a half removed one does not have a checkpoint's name.
 *
 * Slices come from the arena, or from copies of them, which a thread of each rank writes
 * during training (rt_snapshot.c). After each part all ranks agree that all of them
 * succeeded; a part that failed is never repeated. */
#define _GNU_SOURCE
#include "checkpoint/rt_checkpoint.h"
#include "job/rt_out.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- agreement ------------------------------------------------------------------- */

/* Collective: the first rank where it is true; -1: none. */
static int first_rank(Rt *rt, bool so)
{
    enum { WORDS = RT_MAX_RANKS / 64 }; /* a bit for each */
    _Static_assert((int)WORDS <= (int)RT_SUM_WORDS, "one sum");
    uint64_t bits[WORDS] = {0};
    const int words = (rt->world_size + 63) / 64;
    bits[rt->rank / 64] = so ? UINT64_C(1) << rt->rank % 64 : 0;
    rt_save_sum(rt, bits, words);
    for (int w = 0; w < words; w++)
        if (bits[w] != 0)
            return 64 * w + __builtin_ctzll(bits[w]);
    return -1;
}

int rt_first_error(Rt *rt)
{
    return first_rank(rt, rt->state->checkpoint->error[0] != '\0');
}

int rt_first_error_here(Rt *rt)
{
    return first_rank(rt,
                      rt->state->checkpoint->error[0] != '\0' && rt_file_error_is_here());
}

/* ---- 1: the folder --------------------------------------------------------------- */

static bool add_small(RtCheckpoint *c, const char *name, char *text)
{
    if (text == NULL) {
        snprintf(c->error, sizeof c->error, "%s: out of memory", name);
        return false;
    }
    RtFile *f = &c->files[c->n_files++];
    *f = (RtFile){.head = text, .head_bytes = (int64_t)strlen(text)};
    snprintf(f->name, sizeof f->name, "%s", name);
    f->bytes = f->head_bytes;
    return true;
}

/* Collective. The first rank writes them; if another one's texts were longer, it would
 * still hash what is on disk. */
static void agree_on_small_files(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    uint64_t bytes[RT_SMALL_FILES] = {0};
    for (int i = c->n_lasting_files; rt->rank == 0 && i < c->n_files; i++)
        bytes[i - c->n_lasting_files] = (uint64_t)c->files[i].bytes;
    rt_save_sum(rt, bytes, RT_SMALL_FILES);
    for (int i = c->n_lasting_files; i < c->n_files; i++)
        c->files[i].bytes = (int64_t)bytes[i - c->n_lasting_files];
}

/* Its length is known now; its text when all others are on disk. */
static void add_chunks(RtCheckpoint *c)
{
    const int64_t bytes = rt_chunks_text_bytes(c->files, c->n_tensor_files);
    c->files[c->n_files++] = (RtFile){.name = "CHUNKS", .bytes = bytes};
}

static void add_small_files(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtCheckpoint *c = rt->state->checkpoint;
    const char *config = c->config != NULL ? c->config : t->config;
    (void)((config == NULL || add_small(c, "config.json", strdup(config))) &&
           (t->n_files == 1 ||
            add_small(c, "model.safetensors.index.json", rt_state_index(c, t))) &&
           add_small(c, "numerics.txt", strdup(t->numerics)) &&
           add_small(c, "train_state.json", rt_state_text(rt, &c->state)));
    add_chunks(c);
    agree_on_small_files(rt);
}

static void drop_small_files(RtCheckpoint *c)
{
    while (c->n_files > c->n_lasting_files)
        free(c->files[--c->n_files].head);
}

/* Reserves its bytes before anything is written, so that a full disk is detected at once.
 * On filesystems that cannot reserve, the file only gets its length. */
static int begin_file(RtCheckpoint *c, const char *path, const RtFile *f)
{
    const int fd = rt_file_open(path, O_RDWR | O_CREAT | O_EXCL, c->error);
    if (fd < 0)
        return -1;
    int reserved;
    do {
        reserved = f->bytes > 0 ? fallocate(fd, 0, 0, (off_t)f->bytes) : 0;
    } while (reserved != 0 && errno == EINTR);
    bool ok =
        reserved == 0 || ((errno == EOPNOTSUPP || errno == ENOSYS)
                              ? rt_file_extend(fd, path, f->bytes, c->error)
                              : rt_file_error(c->error, "reserve the bytes of", path));
    ok = ok && rt_file_write(fd, path, f->head, f->head_bytes, 0, c->error);
    if (!ok)
        close(fd);
    return ok ? fd : -1;
}

static bool create_file(RtCheckpoint *c, const char *folder, const RtFile *f)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, f->name);
    const int fd = begin_file(c, path, f);
    return fd >= 0 && rt_file_finish(fd, path, c->error);
}

static bool create_folder(RtCheckpoint *c, const char *folder)
{
    char inner[RT_PATH_BYTES + RT_NAME_BYTES];
    snprintf(inner, sizeof inner, "%s/optimizer", folder);
    if (!rt_file_remove_tree(folder, c->error) ||
        (mkdir(folder, 0777) != 0 && !rt_file_error(c->error, "mkdir", folder)) ||
        (mkdir(inner, 0777) != 0 && !rt_file_error(c->error, "mkdir", inner)))
        return false;
    /* With one writer per file, the writers create those with tensors. */
    for (int i = c->one_writer ? c->n_tensor_files : 0; i < c->n_files; i++)
        if (!create_file(c, folder, &c->files[i]))
            return false;
    return true;
}

/* ---- 2: slices ------------------------------------------------------------------- */

typedef struct Slices {
    Rt *rt;
    const char *folder;
    const RtSegment *segment;
    RtSet set;
    int *fd;          /* of each file; -1: nothing written yet */
    const char *from; /* in writing order; NULL: the arena */
    int64_t taken;    /* bytes consumed */
} Slices;

/* With one writer per file, the writer creates it. */
static int open_slices(const Slices *s, const char *path, const RtFile *f)
{
    RtCheckpoint *c = s->rt->state->checkpoint;
    return c->one_writer ? begin_file(c, path, f)
                         : rt_file_open(path, O_WRONLY, c->error);
}

static void write_run(void *ctx, const RtRun *run)
{
    Slices *s = ctx;
    RtCheckpoint *c = s->rt->state->checkpoint;
    const int index = c->file_of[s->set][run->param_id];
    if (index < 0)
        return; /* matrices have no such moment */
    const RtFile *f = &c->files[index];
    const int64_t item =
        (int64_t)rt_dtype_bytes(rt_layout_dtype(s->rt->trainer, s->segment, s->set));
    const int64_t first =
        f->head_bytes + c->bytes_at[s->set][run->param_id] + run->element * item;
    const char *from = s->from != NULL ? s->from + s->taken : NULL;
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    s->taken += run->elems * item;
    if (c->one_writer && index % s->rt->world_size != s->rt->rank)
        return;
    snprintf(path, sizeof path, "%s/%s", s->folder, f->name);
    if (c->error[0] == '\0' && s->fd[index] < 0)
        s->fd[index] = open_slices(s, path, f);
    for (int64_t i = 0; i < run->elems && c->error[0] == '\0'; i += RT_STAGE_ELEMS) {
        const int64_t left = run->elems - i;
        const int64_t n = left < RT_STAGE_ELEMS ? left : RT_STAGE_ELEMS;
        rt_save_moves(s->rt);
        if (from == NULL) {
            rt_layout_take(s->rt, s->set, s->segment, run->shard_offset_elems + i, n,
                           c->stage, c->convert);
        }
        rt_file_write(s->fd[index], path, from != NULL ? from + i * item : c->stage,
                      n * item, first + i * item, c->error);
    }
    if (c->error[0] == '\0')
        rt_file_write_back(s->fd[index], first, run->elems * item);
}

static void finish_slices(const Slices *s)
{
    RtCheckpoint *c = s->rt->state->checkpoint;
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    for (int i = 0; i < c->n_tensor_files; i++) {
        if (s->fd[i] < 0)
            continue;
        rt_save_moves(s->rt);
        snprintf(path, sizeof path, "%s/%s", s->folder, c->files[i].name);
        if (c->error[0] != '\0')
            close(s->fd[i]);
        else
            rt_file_finish(s->fd[i], path, c->error);
        s->fd[i] = -1;
    }
}

/* Slices of one set of rank `of`; if several ranks hold the same part, each writes its
 * share. */
static void write_slices(Slices *s, int of)
{
    const RtTrainer *t = s->rt->trainer;
    Rt rank = *s->rt;
    rank.rank = of;
    for (int i = 0; i < t->n_segments; i++) {
        s->segment = &t->segments[i];
        if (rt_layout_offset(s->segment, s->set) >= 0)
            rt_share_runs(&rank, i, write_run, s);
    }
}

/* This rank's slices of a set; with one writer per file, all slices of its files. */
static void write_set(Slices *s, RtSet set, int64_t *taken)
{
    const RtCheckpoint *c = s->rt->state->checkpoint;
    const int first = c->one_writer ? 0 : s->rt->rank;
    const int last = c->one_writer ? s->rt->world_size - 1 : s->rt->rank;
    s->set = set;
    for (int r = first; r <= last; r++) {
        s->from = c->snapshots ? c->snapshot[r] : NULL;
        s->taken = taken[r];
        write_slices(s, r);
        taken[r] = s->taken;
    }
}

/* Collective: writes and hashes all sets, one set at a time. So only the files of one set
 * are open; and what is read back was closed by all its writers, as filesystems shared by
 * several machines require. One half of the ranks hashes the previous set while the other
 * half writes, because ranks that write one file at once wait for each other. Returns -1,
 * or the first rank that failed. */
static int write_sets(Rt *rt, const char *folder)
{
    RtCheckpoint *c = rt->state->checkpoint;
    Slices s = {.rt = rt, .folder = folder};
    int64_t taken[RT_MAX_RANKS] = {0};
    s.fd = malloc((size_t)c->n_tensor_files * sizeof *s.fd);
    if (s.fd == NULL)
        snprintf(c->error, sizeof c->error, "out of memory");
    else
        memset(s.fd, -1, (size_t)c->n_tensor_files * sizeof *s.fd);
    const bool hashes_first = rt->rank % 2 == 1;
    int who = rt_first_error(rt);
    for (int set = 0; set <= RT_SETS && who < 0; set++) {
        const int before = set > 0 ? set - 1 : 0;
        RtFile *files = c->files + c->set_files[before];
        const int n = c->set_files[set] - c->set_files[before];
        if (hashes_first)
            rt_manifest_hash_own(rt, folder, files, n);
        if (set < RT_SETS)
            write_set(&s, (RtSet)set, taken);
        if (!hashes_first)
            rt_manifest_hash_own(rt, folder, files, n);
        rt_manifest_hash(rt, files, n);
        finish_slices(&s);
        who = rt_first_error(rt);
    }
    free(s.fd);
    return who;
}

/* ---- 4: the commit --------------------------------------------------------------- */

/* A folder that already has the name did not verify when the run started: it is moved
 * aside. One that is not known was put there since. */
static bool move_aside(RtCheckpoint *c, const char *final, int64_t step)
{
    char aside[RT_PATH_BYTES + 32];
    const RtVerdict *v = rt_prune_verdict(c, step);
    if (access(final, F_OK) != 0)
        return true;
    if (v == NULL || v->intact) {
        snprintf(c->error, sizeof c->error,
                 "%s is there, and this run did not write it: move it away", final);
        return false;
    }
    for (int i = 1; i < 1000; i++) {
        snprintf(aside, sizeof aside, "%s.damaged%d", final, i);
        if (access(aside, F_OK) != 0)
            return rename(final, aside) == 0 || rt_file_error(c->error, "rename", final);
    }
    errno = EEXIST;
    return rt_file_error(c->error, "rename", final);
}

/* Its bytes are reserved. */
static bool write_chunks(RtCheckpoint *c, const char *folder)
{
    char path[RT_PATH_BYTES + RT_NAME_BYTES];
    snprintf(path, sizeof path, "%s/CHUNKS", folder);
    char *text = rt_chunks_text(c->files, c->n_tensor_files);
    if (text == NULL) {
        snprintf(c->error, sizeof c->error, "CHUNKS: out of memory");
        return false;
    }
    const int fd = rt_file_open(path, O_WRONLY, c->error);
    bool ok = fd >= 0;
    if (ok && !rt_file_write(fd, path, text, (int64_t)strlen(text), 0, c->error)) {
        close(fd);
        ok = false;
    }
    free(text);
    return ok && rt_file_finish(fd, path, c->error);
}

static bool write_manifest(RtCheckpoint *c, const char *folder, int64_t step)
{
    RtFile f = {.name = "MANIFEST"};
    f.head = rt_manifest_text(c->files, c->n_files, step);
    if (f.head == NULL) {
        snprintf(c->error, sizeof c->error, "MANIFEST: out of memory");
        return false;
    }
    f.bytes = f.head_bytes = (int64_t)strlen(f.head);
    const bool ok = create_file(c, folder, &f);
    free(f.head);
    return ok;
}

static bool commit(RtCheckpoint *c, const char *folder, int64_t step)
{
    char inner[RT_PATH_BYTES + RT_NAME_BYTES], final[RT_PATH_BYTES];
    snprintf(inner, sizeof inner, "%s/optimizer", folder);
    rt_file_step_path(final, c->dir, "", step);
    return write_manifest(c, folder, step) && rt_file_sync_folder(inner, c->error) &&
           rt_file_sync_folder(folder, c->error) && rt_lock_holds(c) &&
           move_aside(c, final, step) &&
           (rename(folder, final) == 0 || rt_file_error(c->error, "rename", folder)) &&
           rt_file_sync_folder(c->dir, c->error);
}

/* ---- all of it ------------------------------------------------------------------- */

/* Collective, after a part that failed on rank `who`: removes everything. */
static bool give_up(Rt *rt, int64_t step, const char *folder, int who)
{
    RtCheckpoint *c = rt->state->checkpoint;
    char why[RT_ERROR_BYTES], ignored[RT_ERROR_BYTES];
    memcpy(why, c->error, sizeof why);
    if (rt->rank == 0 && rt_lock_holds(c))
        rt_file_remove_tree(folder, ignored);
    c->error[0] = '\0';
    drop_small_files(c);
    rt_due_fails(rt);
    rt_first_error(rt); /* it is removed */
    if (rt->state->flags.keep_going && step < rt->state->flags.steps) {
        if (rt->rank == who) {
            rt_say("trainer: warning: [rank %d] no checkpoint of step %lld: %s; "
                   "training goes on, earlier checkpoints are intact",
                   who, (long long)step, why);
        }
        return false;
    }
    if (rt->rank != who)
        rt_leave(rt);
    rt_fail(rt, RT_EXIT_ERROR, "no checkpoint of step %lld: %s; %s", (long long)step, why,
            c->saved >= 0
                ? "earlier checkpoints are intact: --resume continues from the newest"
                : "there is no earlier one");
}

bool rt_save_write(Rt *rt, int64_t step)
{
    RtCheckpoint *c = rt->state->checkpoint;
    char folder[RT_PATH_BYTES];
    int who;
    rt_file_step_path(folder, c->dir, ".tmp-", step);
    if (c->snapshots)
        rt_first_error(rt); /* all have made their copies: any file may be written */
    rt_digest_settle(rt);
    const double begin = rt_clock(); /* a later save does not wait for digests */
    rt_due_writes(rt);
    add_small_files(rt);
    if (rt->rank == 0 && c->error[0] == '\0' && rt_lock_holds(c))
        create_folder(c, folder);
    if ((who = rt_first_error(rt)) >= 0)
        return give_up(rt, step, folder, who);
    if ((who = write_sets(rt, folder)) >= 0)
        return give_up(rt, step, folder, who);
    if (rt->rank == 0)
        write_chunks(c, folder);
    if ((who = rt_first_error(rt)) >= 0)
        return give_up(rt, step, folder, who);
    RtFile *others = c->files + c->n_tensor_files;
    rt_manifest_hash_own(rt, folder, others, c->n_files - c->n_tensor_files);
    if (rt_manifest_hash(rt, others, c->n_files - c->n_tensor_files) && rt->rank == 0)
        commit(c, folder, step);
    if ((who = rt_first_error(rt)) >= 0)
        return give_up(rt, step, folder, who);
    drop_small_files(c);
    c->saved = step;
    if (c->state.best.step == step)
        c->best = c->state.best;
    rt_due_saved(rt);
    if (rt->rank == 0) {
        rt_file_step_path(folder, c->dir, "", step);
        printf("checkpoint: %s, %.2f s\n", folder, rt_clock() - begin);
        rt_stdout_flush(rt);
    }
    rt_prune_note(rt, step, true);
    rt_prune(rt);
    return true;
}

bool rt_save(Rt *rt, int64_t step, bool apart)
{
    RtCheckpoint *c = rt->state->checkpoint;
    rt_snapshot_join(rt);
    rt_enter(rt, RT_AT_SAVE);
    c->error[0] = '\0';
    rt_best_saves(rt, step);
    rt_state_take(rt, step, &c->state);
    if (c->snapshots)
        rt_snapshot_take(rt);
    return (apart && rt_snapshot_start(rt, step)) || rt_save_write(rt, step);
}
