/* SPDX-License-Identifier: MIT-0 */
/* rt_mail.c: sums of a few words over all ranks, used to agree. In: this rank's words.
 * Out: the sums, on all ranks.
 *
 * The threads that compute the step add through the control areas. Those that read or
 * write checkpoints, which may be different ones, add by mail: in a part of the shared
 * page that the step does not use. */
#include "job/rt_job.h"
#include "rt_target.h"

#include <string.h>

void rt_sum_words(Rt *rt, uint64_t *words, int n)
{
    rt_exchange_begin(rt);
    memcpy(rt_control(rt, rt->rank), words, (size_t)n * sizeof *words);
    rt_exchange_publish(rt, (size_t)n * sizeof *words);
    for (int i = 0; i < n; i++) {
        words[i] = 0;
        for (int r = 0; r < rt->world_size; r++)
            words[i] += ((const uint64_t *)(const void *)rt_control(rt, r))[i];
    }
    rt_exchange_end(rt);
}

/* ---- by mail --------------------------------------------------------------------- */

static _Thread_local bool is_writer;
static _Atomic uint64_t moves, waits; /* of the writer; sums it waits for, or 0 */
static uint64_t mails;                /* this rank's sums so far */

typedef struct Mail {
    const Rt *rt;
    bool read; /* have all read (or sent)? */
    uint64_t count;
} Mail;

static bool mail_ready(const void *ctx)
{
    const Mail *m = ctx;
    for (int r = 0; r < m->rt->world_size; r++) {
        const RtRankShared *p = &m->rt->state->shared->rank[r];
        if (atomic_load(m->read ? &p->mail_read : &p->published[RT_MAIL]) < m->count)
            return false;
    }
    return true;
}

/* Shows in the page what this rank waits for; for the writer, only while the run waits
 * for it. */
static void mail_shows(Rt *rt, uint64_t count)
{
    RtRankShared *me = &rt->state->shared->rank[rt->rank];
    atomic_store(&me->waiting_group, rt->trainer->all);
    atomic_store(&me->waiting_subject, -1);
    atomic_store(&me->waiting_count, count);
    atomic_store(&me->waiting, count > 0 ? RT_MAIL : -1);
}

static void mail_wait(Rt *rt, bool read, uint64_t count)
{
    const Mail m = {rt, read, count};
    if (mail_ready(&m))
        return;
    atomic_store(&waits, count);
    if (!is_writer)
        mail_shows(rt, count);
    for (int tries = 0; !mail_ready(&m); tries++)
        rt_pause(rt, tries, mail_ready, &m);
    atomic_store(&waits, 0);
    if (!is_writer)
        mail_shows(rt, 0);
    rt_save_moves(rt);
}

void rt_save_sum(Rt *rt, uint64_t *words, int n)
{
    RtShared *shared = rt->state->shared;
    RtRankShared *me = &shared->rank[rt->rank];
    mail_wait(rt, true, mails);
    memcpy(shared->mail[rt->rank], words, (size_t)n * sizeof *words);
    atomic_store(&me->mail_bytes, (uint32_t)((size_t)n * sizeof *words));
    atomic_store(&me->published[RT_MAIL], ++mails);
    rt_ring(shared);
    mail_wait(rt, false, mails);
    for (int i = 0; i < n; i++) {
        words[i] = 0;
        for (int r = 0; r < rt->world_size; r++)
            words[i] += shared->mail[r][i];
    }
    atomic_store(&me->mail_read, mails);
    rt_ring(shared);
}

/* The writer's progress is not the step's. */
void rt_save_moves(Rt *rt)
{
    if (!is_writer) {
        rt_enter(rt, atomic_load(&rt->state->shared->rank[rt->rank].place));
        return;
    }
    atomic_fetch_add(&moves, 1);
    if (atomic_load(&rt->state->shared->abort) != 0)
        rt_leave(rt);
}

void rt_save_apart(void)
{
    is_writer = true;
}

void rt_save_await(Rt *rt, uint64_t *seen)
{
    if (atomic_load(&moves) != *seen) {
        *seen = atomic_load(&moves);
        rt_enter(rt, RT_AT_SAVE);
    }
    mail_shows(rt, atomic_load(&waits));
}

void rt_save_awaited(Rt *rt)
{
    mail_shows(rt, 0);
}
