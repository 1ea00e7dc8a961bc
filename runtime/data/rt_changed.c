/* SPDX-License-Identifier: MIT-0 */
/* rt_changed.c: data that change during a run. In: the identity of the files when their
 * content was last known to be the run's. Out: nothing; or the end of the run, with the
 * reason.
 *
 * 1. One of the ranks that share files checks them when an epoch begins, before an
 *    evaluation and before each checkpoint. A file that was touched since is hashed
 *    again.
 * 2. If its content differs, the run ends and no checkpoint is written: the existing ones
 *    are of steps whose data had the content that they record.
 * 3. If a name leads to another file now, nothing changes for this run, which keeps
 *    reading the file that it has mapped. */
#define _GNU_SOURCE
#include "data/rt_digest.h"
#include "job/rt_out.h"

#include <signal.h>
#include <time.h>

/* ---- truncated files ------------------------------------------------------------- */

static const Rt *watched;

/* Code that reads tokens holds no lock and is not in a library, so a message may be
 * written here. For any other address the access is repeated and ends the process, as
 * without a handler. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    const RtState *st = watched->state;
    const uintptr_t at = (uintptr_t)info->si_addr;
    const char *name = NULL;
    if (st->tokens != NULL)
        name = rt_tokens_holding(st->tokens, at);
    if (name == NULL && st->held_out != NULL)
        name = rt_tokens_holding(st->held_out, at);
    if (name != NULL) {
        rt_fail(watched, RT_EXIT_ERROR,
                "%s was truncated during the run, or its disk cannot be read", name);
    }
}

void rt_changed_watch(const Rt *rt)
{
    const struct sigaction act = {.sa_sigaction = on_bus_error,
                                  .sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER};
    watched = rt;
    sigaction(SIGBUS, &act, NULL);
}

/* ---- files with other content ---------------------------------------------------- */

static void tell_replaced(RtDataPart *p)
{
    if (!p->replaced) {
        p->replaced = true;
        rt_say("trainer: warning: %s was removed or replaced: this run goes on with the "
               "file that it opened; --resume needs that content again",
               p->map->name);
    }
}

static _Noreturn void fail_changed(const RtDigests *d, const RtDataPart *p,
                                   const RtIdentity *is)
{
    char when[64] = "?";
    const time_t seconds = (time_t)(is->modified_ns / 1000000000);
    struct tm t;
    if (gmtime_r(&seconds, &t) != NULL)
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &t);
    rt_fail(
        d->rt, RT_EXIT_ERROR,
        "--%s: %s %s during the run (last modified %s). The checkpoints on disk are "
        "from before: restore the file and --resume, or accept it as it is by --resume "
        "--accept-data",
        p->flag, p->map->name, is->bytes < p->map->is.bytes ? "was truncated" : "changed",
        when);
}

static void check_part(RtDigests *d, int i)
{
    RtDataPart *p = &d->part[i];
    RtIdentity is;
    if (!rt_identity_of(-1, p->map->name, &is) || is.device != p->now.device ||
        is.inode != p->now.inode) {
        tell_replaced(p);
        return;
    }
    if (is.bytes < p->map->is.bytes)
        fail_changed(d, p, &is);
    if (rt_identity_equal(&is, &p->now) || !rt_digest_known(d, i))
        return; /* it is checked when it is read next */
    uint64_t digest;
    const bool hashed = rt_digest_again(d, p, &digest);
    atomic_store(&p->unsure, !hashed);
    if (!hashed)
        return; /* a signal asks to end: no time for that */
    if (digest != atomic_load(&d->table->entry[i].sum))
        fail_changed(d, p, &is);
    p->now = is;
}

void rt_changed_check(Rt *rt)
{
    RtDigests *d = rt->state->digests;
    if (d == NULL)
        return; /* `trainer eval`: it will be read only briefly */
    const struct timespec nap = {0, 10000000};
    while (pthread_mutex_trylock(&d->checks) != 0) { /* the other may be hashing */
        rt_save_moves(rt);
        nanosleep(&nap, NULL);
    }
    for (int i = 0; d->lead == rt->rank && i < d->n_parts; i++)
        if (d->part[i].map->at != NULL)
            check_part(d, i);
    pthread_mutex_unlock(&d->checks);
}

void rt_changed_epoch(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    RtState *st = rt->state;
    RtDigests *d = st->digests;
    const int64_t samples =
        (st->step - st->order_step + 1) * t->micro_batches * t->micro_batch;
    const int64_t epoch = samples / rt_tokens_samples(st->tokens);
    if (epoch != d->epoch) {
        d->epoch = epoch;
        rt_changed_check(rt);
    }
}

void rt_data_spare(const Rt *rt, RtTell *tell, void *ctx)
{
    const RtDigests *d = rt->state->digests;
    for (int i = 0; i < d->n_parts; i++) {
        const RtIdentity *is = &d->part[i].map->is;
        rt_outputs_spare(&rt->state->flags, d->part[i].flag, is->device, is->inode, tell,
                         ctx);
    }
}
