/* SPDX-License-Identifier: MIT-0 */
/* rt_dry.c: --dry-run: checks everything that a run needs before it is started. In:
 * the flags of the run. Out: a table on stdout: data, masks, digests, held-out data,
 * memory, files to write, checkpoints, disk, and whether the ranks start and meet;
 * exit code 0, or 1 with all problems at once. No step is computed and no file is
 * written.
 *
 * The process that starts the ranks checks what needs no ranks, with the run's own
 * code. */
#include "checkpoint/rt_dry.h"
#include "data/rt_data.h"
#include "job/rt_out.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void rt_dry_add(RtDry *d, const char *what, RtDryLevel level, const char *fmt, ...)
{
    va_list ap;
    d->problems += level == RT_DRY_PROBLEM;
    if (d->n_rows == RT_DRY_ROWS)
        return;
    RtDryRow *r = &d->row[d->n_rows++];
    r->what = what;
    r->level = level;
    va_start(ap, fmt);
    vsnprintf(r->text, sizeof r->text, fmt, ap);
    va_end(ap);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

/* ---- data ------------------------------------------------------------------------ */

static void check_masks(RtDry *d, const RtTokens *tokens)
{
    if (d->trainer->masked)
        rt_dry_add(d, "masks", RT_DRY_OK, "there is one beside each file");
    if (rt_tokens_unused_mask(tokens)) {
        rt_dry_add(
            d, "masks", RT_DRY_NOTE,
            "there are some, but the trainer was generated with loss.mask = false: "
            "every token is a target");
    }
    if (rt_tokens_bare_mask(tokens) != NULL) {
        rt_dry_add(d, "masks", RT_DRY_NOTE,
                   "%.300s does not say which tokens it was made for: only their number "
                   "was checked",
                   rt_tokens_bare_mask(tokens));
    }
    if (rt_tokens_bytes_of(tokens) != NULL) {
        rt_dry_add(d, "data", RT_DRY_NOTE,
                   "the bytes of %.300s are taken for tokens, 256 of the model's %lld: "
                   "`fsdpgen tokenize` makes tokens of it",
                   rt_tokens_bytes_of(tokens), (long long)d->trainer->vocab);
    }
}

static void check_data(RtDry *d)
{
    const RtTrainer *t = d->trainer;
    const RtFlags *f = d->flags;
    char error[RT_ERROR_BYTES];
    RtTokens *tokens = rt_tokens_open(t, f->data, f->n_data, error);
    int64_t n = 0;
    d->rt.state->tokens = tokens;
    if (tokens == NULL) {
        rt_dry_add(d, "data", RT_DRY_PROBLEM, "%s", error);
        return;
    }
    const int files = rt_tokens_files(tokens);
    for (int i = 0; i < files; i++)
        n += rt_tokens_file(tokens, i)->tokens;
    rt_dry_add(d, "data", RT_DRY_OK, "%d file%s, %lld tokens: %lld sequence%s of %lld",
               files, plural(files), (long long)n, (long long)rt_tokens_samples(tokens),
               plural(rt_tokens_samples(tokens)), (long long)t->seq_tokens);
    check_masks(d, tokens);
    if (!rt_tokens_epochs(tokens, t, 0, &d->rt.state->flags, error))
        rt_dry_add(d, "schedule", RT_DRY_PROBLEM, "%s", error);
}

static void check_held_out(RtDry *d)
{
    const RtFlags *f = d->flags;
    char error[RT_ERROR_BYTES];
    if (f->n_eval == 0)
        return;
    RtTokens *tokens =
        rt_eval_check(d->trainer, f, error)
            ? rt_tokens_open_for(d->trainer, "eval", f->eval, f->n_eval, error)
            : NULL;
    d->rt.state->held_out = tokens;
    if (tokens == NULL) {
        rt_dry_add(d, "held-out data", RT_DRY_PROBLEM, "%s", error);
        return;
    }
    rt_dry_add(d, "held-out data", RT_DRY_OK, "%lld sequence%s",
               (long long)rt_tokens_samples(tokens), plural(rt_tokens_samples(tokens)));
}

static void check_digests(RtDry *d)
{
    RtState *st = d->rt.state;
    if (st->tokens == NULL)
        return;
    st->digests = rt_digest_list(&d->rt);
    st->digests->pending = true; /* a run compares contents when it hashes them */
    const int64_t bytes = rt_digest_unknown_bytes(st->digests);
    const bool at_once = bytes <= RT_AT_ONCE_BYTES || d->flags->check_data;
    if (bytes == 0) {
        rt_dry_add(d, "digests", RT_DRY_OK, "known from an earlier run");
    } else {
        char a[32];
        rt_dry_add(d, "digests", RT_DRY_OK, "%s are hashed %s",
                   rt_bytes(a, sizeof a, bytes),
                   at_once ? "before the first step" : "beside training");
    }
}

/* Are there enough tokens? More than one epoch may be intended. */
static void check_schedule(RtDry *d)
{
    const RtTrainer *t = d->trainer;
    const RtTokens *tokens = d->rt.state->tokens;
    const int64_t steps = d->flags->steps - d->step;
    const int64_t batch = t->micro_batches * t->micro_batch;
    if (steps <= 0) {
        rt_dry_add(d, "schedule", RT_DRY_NOTE,
                   "nothing is to do: step %lld is done, and the run ends at %lld",
                   (long long)d->step, (long long)d->flags->steps);
    } else if (tokens != NULL) {
        const double epochs =
            (double)steps * (double)batch / (double)rt_tokens_samples(tokens);
        rt_dry_add(d, "schedule", epochs > 1 ? RT_DRY_NOTE : RT_DRY_OK,
                   "%lld step%s of %lld sequence%s read %.4g epochs%s", (long long)steps,
                   plural(steps), (long long)batch, plural(batch), epochs,
                   epochs > 1 ? ": the data repeat" : "");
    }
}

/* ---- memory, files --------------------------------------------------------------- */

static void check_memory(RtDry *d)
{
    const RtTrainer *t = d->trainer;
    const RtFlags *f = d->flags;
    const bool copies = f->checkpoint != NULL && !f->wait_for_saves;
    const int64_t saves = copies ? d->ranks * t->snapshot_bytes : 0;
    const int64_t free_bytes = rt_host_free_bytes();
    char a[32], b[32], c[32];
#ifdef RT_CUDA
    const int64_t arenas = 0; /* on the devices, which the ranks check */
    const char *elsewhere = " (the GPUs': see launch)";
#else
    const char *elsewhere = "";
    const int64_t arenas = d->ranks * (t->symmetric_bytes + t->local_bytes);
#endif
    rt_bytes(a, sizeof a, arenas);
    rt_bytes(b, sizeof b, saves);
    rt_bytes(c, sizeof c, free_bytes);
    if (arenas > free_bytes) {
        d->starts = !d->alone;
        rt_dry_add(
            d, "memory", RT_DRY_PROBLEM,
            "the arenas of %d rank%s take %s, but %s are free: fewer ranks on this "
            "machine, a smaller micro_batch or recompute need less",
            d->ranks, plural(d->ranks), a, c);
    } else if (arenas + saves > free_bytes) {
        rt_dry_add(
            d, "memory", RT_DRY_NOTE,
            "%s for arenas; the %s for copies of saves are not free: training will "
            "wait while a checkpoint is written",
            a, b);
    } else {
        rt_dry_add(d, "memory", RT_DRY_OK,
                   "%s for arenas%s, %s for copies of saves; %s are free", a, elsewhere,
                   b, c);
    }
}

/* Once, if it is found in two ways. */
static void add_output(void *ctx, const char *why)
{
    const RtDry *d = ctx;
    for (int i = 0; i < d->n_rows; i++)
        if (strcmp(d->row[i].text, why) == 0)
            return;
    rt_dry_add(ctx, "output", RT_DRY_PROBLEM, "%s", why);
}

static void check_outputs(RtDry *d)
{
    const int n = rt_outputs_try(d->flags, add_output, d);
    if (d->rt.state->digests != NULL)
        rt_data_spare(&d->rt, add_output, d);
    bool good = true;
    for (int i = 0; i < d->n_rows; i++) /* the folder's, too: the log of another run */
        good = good && strcmp(d->row[i].what, "output") != 0;
    if (n > 0 && good)
        rt_dry_add(d, "output", RT_DRY_OK, "%d file%s may be written", n, plural(n));
}

/* ---- the table ------------------------------------------------------------------- */

RtDry *rt_dry_begin(const RtTrainer *t, const RtFlags *f, int ranks, bool alone)
{
    static RtDry d;
    static RtState state;
    state.flags = *f;
    d = (RtDry){.trainer = t,
                .flags = &state.flags,
                .ranks = ranks,
                .alone = alone,
                .starts = true};
    d.rt = (Rt){.world_size = 1, .trainer = t, .state = &state};
    check_data(&d);
    check_held_out(&d);
    check_digests(&d);
    rt_dry_folder(&d);
    check_schedule(&d);
    check_memory(&d);
    check_outputs(&d);
    return &d;
}

bool rt_dry_starts(const RtDry *d)
{
    return d->starts;
}

static void add_launch(RtDry *d, int code)
{
    RtCores cores;
    rt_cores_find(&cores);
    const int threads = rt_cores_threads(&cores, d->flags, d->ranks);
    const bool crowded = threads * d->ranks > cores.quota;
    if (!d->starts) {
        rt_dry_add(d, "launch", RT_DRY_NOTE, "not tried: memory is missing");
    } else if (code != RT_EXIT_OK) {
        rt_dry_add(d, "launch", RT_DRY_PROBLEM,
                   "the ranks did not start, meet and agree: see above (code %d)", code);
    } else {
        rt_dry_add(d, "launch", crowded ? RT_DRY_NOTE : RT_DRY_OK,
                   "%d rank%s met, with equal builds, flags and data; here %d thread%s "
                   "each on %d core%s%s",
                   d->trainer->world_size, plural(d->trainer->world_size), threads,
                   plural(threads), cores.quota, plural(cores.quota),
                   crowded ? ": more threads than cores are slow" : "");
    }
}

int rt_dry_end(RtDry *d, int code, bool prints)
{
    static const char *const levels[] = {"ok", "note", "PROBLEM"};
    add_launch(d, code);
    if (prints) {
        printf("dry run of %s: no step is computed, nothing is written\n",
               d->trainer->name);
    }
    for (int i = 0; i < d->n_rows; i++) {
        const RtDryRow *r = &d->row[i];
        if (prints)
            printf("  %-14s %-8s %s\n", r->what, levels[r->level], r->text);
        else if (r->level == RT_DRY_PROBLEM)
            rt_say("trainer: error: %s: %s", r->what, r->text);
    }
    const int n = d->problems;
    if (prints && n > 0)
        printf("%d problem%s\n", n, plural(n));
    else if (prints)
        printf("the run can start\n");
    return rt_stdout_close(n > 0 ? RT_EXIT_ERROR : RT_EXIT_OK);
}

/* ---- in a rank ------------------------------------------------------------------- */

/* A rank that finds no data does not report it: the table does. */
void rt_dry_rank(Rt *rt)
{
    const RtFlags *f = &rt->state->flags;
    char ignored[RT_ERROR_BYTES];
    const RtTokens *tokens = rt_tokens_open(rt->trainer, f->data, f->n_data, ignored);
    const uint64_t mine = tokens != NULL ? rt_tokens_hash(tokens) : 0;
    uint64_t first = mine;
    rt_take_first(rt, &first, 1);
    if (mine != first && mine != 0 && first != 0) {
        rt_fail(rt, RT_EXIT_ERROR,
                "--data: its files are not those of rank 0: all ranks must find the same "
                "bytes");
    }
}
