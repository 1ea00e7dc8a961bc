/* SPDX-License-Identifier: MIT-0 */
/* rt_prune.c: which checkpoints are kept. In: the folder, --keep, --keep-every,
 * --keep-best, what this run knows of older ones. Out: superfluous ones are removed.
 *
 * Only intact ones count. This run knows that of those it wrote or read; for others, all
 * ranks verify the hashes, once in a run, before they count among the newest K. Only
 * complete ones are removed: what did not verify stays for a person to look at. A run
 * that is to end soon takes no time for that: then those that are complete count. */
#include "checkpoint/rt_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is known --------------------------------------------------------------- */

static RtVerdict *find(const RtCheckpoint *c, int64_t step)
{
    for (int i = 0; i < c->n_verdicts; i++)
        if (c->verdicts[i].step == step)
            return &c->verdicts[i];
    return NULL;
}

const RtVerdict *rt_prune_verdict(const RtCheckpoint *c, int64_t step)
{
    return find(c, step);
}

void rt_prune_note(const Rt *rt, int64_t step, bool intact)
{
    RtCheckpoint *c = rt->state->checkpoint;
    RtVerdict *v = find(c, step);
    if (v != NULL) {
        v->intact = intact;
        return;
    }
    v = realloc(c->verdicts, (size_t)(c->n_verdicts + 1) * sizeof *v);
    if (v == NULL) /* ranks verify a checkpoint together */
        rt_fail(rt, RT_EXIT_ERROR, "verdicts on checkpoints: out of memory");
    c->verdicts = v;
    v[c->n_verdicts++] = (RtVerdict){step, intact};
}

int rt_share_steps(Rt *rt, int64_t **steps)
{
    RtCheckpoint *c = rt->state->checkpoint;
    int64_t *mine = NULL;
    int count = 0;
    *steps = NULL;
    if (rt->rank == 0 && c->error[0] == '\0' && rt_lock_holds(c))
        count = rt_file_steps(c->dir, &mine, c->error);
    if (rt_first_error(rt) >= 0) {
        free(mine);
        return -1;
    }
    uint64_t n = (uint64_t)count;
    rt_save_sum(rt, &n, 1); /* only rank 0 has any */
    uint64_t *all = calloc(n + 1, sizeof *all);
    if (all == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "out of memory");
    for (uint64_t at = 0; at < n; at += RT_SUM_WORDS) {
        const uint64_t some = n - at < RT_SUM_WORDS ? n - at : RT_SUM_WORDS;
        if (rt->rank == 0)
            memcpy(all + at, mine + at, some * sizeof *all);
        rt_save_sum(rt, all + at, (int)some);
    }
    free(mine);
    *steps = (int64_t *)all;
    return (int)n;
}

/* ---- old ones -------------------------------------------------------------------- */

/* Renames first: a half removed folder must not have a checkpoint's name. */
static bool remove_one(RtCheckpoint *c, const char *path, int64_t step)
{
    char trash[RT_PATH_BYTES];
    rt_file_step_path(trash, c->dir, ".trash-", step);
    return rt_lock_holds(c) && rt_file_remove_tree(trash, c->error) &&
           (rename(path, trash) == 0 || rt_file_error(c->error, "rename", path)) &&
           rt_file_sync_folder(c->dir, c->error) && rt_file_remove_tree(trash, c->error);
}

/* Is there a MANIFEST, with files of its sizes? */
static bool is_whole(const char *path)
{
    char why[RT_ERROR_BYTES];
    RtManifest m;
    const bool whole =
        rt_manifest_read(&m, path, why) && rt_manifest_sizes(&m, path, why);
    rt_manifest_free(&m);
    return whole;
}

/* Collective: hashes its files, unless the run is to end before that is done. */
static bool verify_in_time(Rt *rt, const char *path, bool *in_time)
{
    RtManifest m = {0};
    uint64_t late = rt_due_soon(rt);
    rt_save_sum(rt, &late, 1);
    bool intact = late == 0 && rt_manifest_open(rt, path, &m);
    if (intact) {
        m.chunks.gives_way = true;
        rt_chunks_until(rt, &m.chunks, m.n_files, 0);
        late = rt->state->checkpoint->error[0] == '\0' && m.chunks.next.file < m.n_files;
        rt_save_sum(rt, &late, 1);
        intact = late == 0 && rt_manifest_agree(rt, &m, 0, m.n_files);
    }
    rt_manifest_free(&m);
    *in_time = late == 0;
    return intact;
}

/* Collective: is this one intact? An error that is not damage stays in c->error. */
static bool is_intact(Rt *rt, const char *path, int64_t step, bool *in_time)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const RtVerdict *v = find(c, step);
    if (v != NULL)
        return v->intact;
    rt_file_forget_error();
    const bool intact = verify_in_time(rt, path, in_time);
    if (rt_first_error_here(rt) >= 0 || !*in_time)
        return false;
    if (!intact && c->error[0] != '\0') {
        rt_say("trainer: warning: %s is damaged and does not count for --keep: %s", path,
               c->error);
    }
    c->error[0] = '\0';
    rt_prune_note(rt, step, intact);
    return intact;
}

/* All ranks count alike, as long as there is time to verify; rank 0 removes. */
static void prune_steps(Rt *rt, const int64_t *steps, int n)
{
    RtCheckpoint *c = rt->state->checkpoint;
    const RtFlags *f = &rt->state->flags;
    char path[RT_PATH_BYTES];
    int64_t kept = 0;
    bool in_time = true;
    for (int i = 0; i < n; i++) {
        if (steps[i] > c->saved)
            continue; /* skipped when the run started */
        rt_save_moves(rt);
        rt_file_step_path(path, c->dir, "", steps[i]);
        if (kept < f->keep && in_time) {
            kept += is_intact(rt, path, steps[i], &in_time);
            if (rt_first_error(rt) >= 0)
                return;
            if (in_time)
                continue;
        }
        const RtVerdict *v = find(c, steps[i]);
        const bool counts = v != NULL ? v->intact : is_whole(path);
        if (kept < f->keep) { /* not in time: ranks need not agree any more */
            kept += counts;
            continue;
        }
        const bool periodic = f->keep_every > 0 && steps[i] % f->keep_every == 0;
        const bool best = f->keep_best && steps[i] == c->state.best.step;
        if (rt->rank == 0 && c->error[0] == '\0' && !periodic && !best && counts)
            remove_one(c, path, steps[i]);
    }
}

void rt_prune(Rt *rt)
{
    RtCheckpoint *c = rt->state->checkpoint;
    int64_t *steps;
    if (rt->state->flags.keep == 0)
        return;
    const int n = rt_share_steps(rt, &steps);
    if (n > 0)
        prune_steps(rt, steps, n);
    free(steps);
    if (c->error[0] != '\0') {
        rt_say("trainer: warning: old checkpoints stay: %s", c->error);
        c->error[0] = '\0';
    }
    rt_first_error(rt); /* reports it before the run continues */
}
