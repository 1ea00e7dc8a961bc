/* SPDX-License-Identifier: MIT-0 */
/* rt_machines.c: ranks on several machines. In: each machine's shared page. Out: pages
 * with equal contents.
 *
 * 1. The hosts of ranks communicate through the shared page and the control areas, where
 *    each rank writes only its own part. So it suffices that what a rank writes on its
 *    machine reaches the others in the same order: first the content, then the counter.
 * 2. The first rank's watcher of each machine has a connection to rank 0's (rt_meet.c),
 *    which forwards messages. One thread sends changes whenever the bell rings, one
 *    receives.
 * 3. A rank overwrites its content only after all have read it. So the content present
 *    when the counter is read belongs to that counter.
 * 4. Messages travel in sealed records (rt_door.h), so inserted, changed or repeated
 *    bytes are detected. Each message names its rank, which must be on the side that the
 *    message comes from.
 * 5. A message now and then distinguishes an idle link from a dead one. A connection that
 *    is silent or closed, or delivers anything else, ends the job. */
#define _GNU_SOURCE
#include "cuda/ranks/rt_machines.h"
#include "cuda/rt_arena.h"
#include "rt_target.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 250, BEAT_MS = 500, SILENCE_S = 30, LINGER_MS = 5000 };
enum { BUFFER_BYTES = 1 << 16 }; /* of a record with its seal */

typedef enum { JOB, RANK, CONTROL, MAIL } Kind;
typedef struct Head {
    uint32_t kind, bytes; /* of the data that follow */
    int32_t rank, pad;
} Head;
typedef struct JobWord {
    int32_t abort, signal, again;
} JobWord;

static struct {
    const RtTrainer *trainer;
    RtShared *shared;
    char *control; /* of all ranks */
    RtLink *link;
    int links;
    RtJob *job;
    int64_t silence_ns;
    _Atomic int ending, gone; /* this machine's ranks have ended; so has the receiver */
    pthread_t sender, receiver;
    /* the sender's: what has been sent to all links */
    RtView *told;
    JobWord told_job;
    int64_t beat_ns; /* when everything was last sent, changed or not */
} net;

/* ---- a broken link --------------------------------------------------------------- */

static void lost(RtLink *l, const char *why)
{
    int first = -1;
    for (int r = 0; r < net.trainer->world_size && first < 0; r++)
        first = l->behind[r] && !atomic_load(&net.shared->rank[r].done) ? r : -1;
    if (first >= 0 && atomic_load(&net.ending) == 0 &&
        rt_job_fails(net.job, RT_EXIT_ERROR))
        rt_job_tell("the machine of rank %d is lost: %s", first, why);
}

/* ---- what is sent ---------------------------------------------------------------- */

static void flush(RtLink *l)
{
    size_t at = 0;
    const size_t bytes = l->out_bytes > 0 ? rt_sealed_bytes(l->out_bytes) : 0;
    if (bytes > 0)
        rt_seal(&l->ours, l->out, l->out_bytes);
    while (at < bytes) {
        const ssize_t n = send(l->socket, l->out + at, bytes - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            lost(l, errno == EAGAIN ? "it takes nothing in" : strerror(errno));
            shutdown(l->socket, SHUT_RDWR); /* the receiver closes it */
            break;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    l->out_bytes = 0;
}

static void say(RtLink *l, Kind kind, int rank, const void *what, size_t bytes)
{
    const Head head = {.kind = kind, .bytes = (uint32_t)bytes, .rank = rank};
    if (rt_sealed_bytes(l->out_bytes + sizeof head + bytes) > BUFFER_BYTES)
        flush(l);
    unsigned char *to = l->out + RT_SEAL_HEAD + l->out_bytes;
    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, what, bytes);
    l->out_bytes += sizeof head + bytes;
}

/* Others read the counters last, so this reads them first. */
static RtView view_of(RtRankShared *r)
{
    RtView v = {.finished = atomic_load(&r->finished),
                .mail_read = atomic_load(&r->mail_read),
                .done = atomic_load(&r->done)};
    for (int s = 0; s < RT_STREAMS; s++)
        v.published[s] = atomic_load(&r->published[s]);
    v.waiting_count = atomic_load(&r->waiting_count);
    v.step = atomic_load(&r->step);
    v.moved_ns = atomic_load(&r->moved_ns);
    v.looked_ns = atomic_load(&r->looked_ns);
    v.numerics_hash = r->numerics_hash;
    v.platform_hash = r->platform_hash;
    v.place = atomic_load(&r->place);
    v.waiting = atomic_load(&r->waiting);
    v.waiting_subject = atomic_load(&r->waiting_subject);
    v.waiting_group = atomic_load(&r->waiting_group);
    v.control_bytes = atomic_load(&r->control_bytes);
    v.mail_bytes = atomic_load(&r->mail_bytes);
    return v;
}

static char *control_of(int rank)
{
    return net.control + rank * rt_control_bytes(net.trainer);
}

/* Sends to all links except the one behind which the rank lives: first the content, then
 * the counters. */
static void say_rank(int rank, const RtView *v)
{
    const RtView *told = &net.told[rank];
    const int64_t now = rt_clock_ns();
    RtView on_the_way = *v;
    on_the_way.moved_ns = now - v->moved_ns;
    on_the_way.looked_ns = now - v->looked_ns;
    for (int i = 0; i < net.links; i++) {
        RtLink *l = &net.link[i];
        if (l->behind[rank])
            continue;
        if (v->published[RT_CONTROL] != told->published[RT_CONTROL] &&
            v->control_bytes > 0)
            say(l, CONTROL, rank, control_of(rank), v->control_bytes);
        if (v->published[RT_MAIL] != told->published[RT_MAIL] && v->mail_bytes > 0)
            say(l, MAIL, rank, net.shared->mail[rank], v->mail_bytes);
        say(l, RANK, rank, &on_the_way, sizeof on_the_way);
    }
    net.told[rank] = *v;
}

static void say_all(void)
{
    const int64_t now = rt_clock_ns();
    const bool beat = now - net.beat_ns > BEAT_MS * INT64_C(1000000);
    const size_t bytes = beat ? sizeof(RtView) : offsetof(RtView, moved_ns);
    for (int r = 0; r < net.trainer->world_size; r++) {
        const RtView v = view_of(&net.shared->rank[r]);
        if (memcmp(&v, &net.told[r], bytes) != 0)
            say_rank(r, &v);
    }
    const JobWord job = {atomic_load(&net.shared->abort),
                         atomic_load(&net.shared->signal),
                         atomic_load(&net.shared->again)};
    const bool news = memcmp(&job, &net.told_job, sizeof job) != 0;
    net.told_job = job;
    net.beat_ns = beat ? now : net.beat_ns;
    for (int i = 0; i < net.links; i++) {
        if (news || beat)
            say(&net.link[i], JOB, -1, &job, sizeof job);
        flush(&net.link[i]);
    }
}

/* Waits until the next ring, or briefly: like rt_pause. */
static void listen_for(uint32_t bell)
{
    const struct timespec longest = {0, TICK_MS * 1000000};
    atomic_fetch_add(&net.shared->sleepers, 1);
    syscall(SYS_futex, &net.shared->bell, FUTEX_WAIT, bell, &longest, NULL, 0);
    atomic_fetch_sub(&net.shared->sleepers, 1);
}

static void *send_on(void *unused)
{
    (void)unused;
    for (;;) {
        const uint32_t bell = atomic_load(&net.shared->bell);
        const bool last = atomic_load(&net.ending) != 0;
        say_all();
        if (last)
            break;
        listen_for(bell);
    }
    for (int i = 0; i < net.links; i++)
        shutdown(net.link[i].socket, SHUT_WR);
    return NULL;
}

/* ---- what comes ------------------------------------------------------------------ */

/* True: it is news. */
static bool hear_job(const JobWord *w)
{
    RtShared *shared = net.shared;
    int none = 0, unasked = 0; /* the first word stays: two would go back and forth */
    bool news =
        w->abort != 0 && atomic_compare_exchange_strong(&shared->abort, &none, w->abort);
    if (w->signal != 0)
        news =
            atomic_compare_exchange_strong(&shared->signal, &unasked, w->signal) || news;
    if (w->again != 0)
        news = atomic_exchange(&shared->again, 1) == 0 || news;
    return news;
}

static void hear_rank(RtRankShared *r, const RtView *v)
{
    const int64_t now = rt_clock_ns();
    atomic_store(&r->place, v->place);
    atomic_store(&r->step, v->step);
    atomic_store(&r->moved_ns, now - v->moved_ns);
    atomic_store(&r->looked_ns, now - v->looked_ns);
    atomic_store(&r->waiting_count, v->waiting_count);
    atomic_store(&r->waiting_subject, v->waiting_subject);
    atomic_store(&r->waiting_group, v->waiting_group);
    atomic_store(&r->waiting, v->waiting);
    r->numerics_hash = v->numerics_hash;
    r->platform_hash = v->platform_hash;
    atomic_store(&r->control_bytes, v->control_bytes);
    atomic_store(&r->mail_bytes, v->mail_bytes);
    for (int s = 0; s < RT_STREAMS; s++)
        atomic_store(&r->published[s], v->published[s]);
    atomic_store(&r->finished, v->finished);
    atomic_store(&r->mail_read, v->mail_read);
    atomic_store(&r->done, v->done);
}

/* How long ago; slightly negative if the rank moved while its watcher looked. */
static bool is_age(int64_t ns)
{
    const int64_t most = INT64_C(1000000000000000000); /* 30 years */
    return ns >= -most && ns <= most;
}

/* Checks the indices by which the rank that another one waits for is looked up. */
static bool makes_sense(const RtView *v)
{
    const RtGroup ranks = (RtGroup)net.trainer->world_size;
    return is_age(v->moved_ns) && is_age(v->looked_ns) && v->waiting >= -1 &&
           v->waiting < RT_STREAMS && v->waiting_group < ranks &&
           v->control_bytes <= RT_SUM_WORDS * sizeof(uint64_t) &&
           v->mail_bytes <= RT_SUM_WORDS * sizeof(uint64_t) &&
           v->place < net.trainer->n_places;
}

/* False: not a trainer's message. Sets *news if a sleeping rank may be waiting for it. */
static bool hear(const RtLink *l, const Head *h, const unsigned char *what, bool *news)
{
    JobWord job;
    RtView view;
    if (h->kind == JOB) {
        memcpy(&job, what, sizeof job);
        *news = hear_job(&job) || *news;
        return true;
    }
    *news = true;
    if (h->rank < 0 || h->rank >= net.trainer->world_size || !l->behind[h->rank])
        return false;
    if (h->kind == CONTROL) {
        memcpy(control_of(h->rank), what, h->bytes);
    } else if (h->kind == MAIL) {
        memcpy(net.shared->mail[h->rank], what, h->bytes);
    } else {
        memcpy(&view, what, sizeof view);
        if (!makes_sense(&view))
            return false;
        hear_rank(&net.shared->rank[h->rank], &view);
    }
    return true;
}

static bool has_size(const Head *h)
{
    switch (h->kind) {
    case JOB:
        return h->bytes == sizeof(JobWord);
    case RANK:
        return h->bytes == sizeof(RtView);
    case CONTROL:
    case MAIL:
        return h->bytes <= RT_SUM_WORDS * sizeof(uint64_t);
    default:
        return false;
    }
}

/* The messages of a record; false: not from a trainer. */
static bool hear_record(const RtLink *l, const unsigned char *at, size_t bytes)
{
    bool news = false, good = true;
    Head h;
    while (good && bytes > 0) {
        good = bytes >= sizeof h;
        if (good) {
            memcpy(&h, at, sizeof h);
            good = has_size(&h) && bytes - sizeof h >= h.bytes &&
                   hear(l, &h, at + sizeof h, &news);
        }
        if (good) {
            at += sizeof h + h.bytes;
            bytes -= sizeof h + h.bytes;
        }
    }
    if (news)
        rt_ring(net.shared);
    return good;
}

/* All complete records received; false: one was not sealed by the other machine, or is
 * invalid. */
static bool hear_all(RtLink *l)
{
    size_t at = 0;
    uint32_t bytes;
    while (l->in_bytes - at >= sizeof bytes) {
        memcpy(&bytes, l->in + at, sizeof bytes);
        if (rt_sealed_bytes(bytes) > BUFFER_BYTES)
            return false;
        if (l->in_bytes - at < rt_sealed_bytes(bytes))
            break;
        if (!rt_unseal(&l->theirs, l->in + at, bytes) ||
            !hear_record(l, l->in + at + RT_SEAL_HEAD, bytes))
            return false;
        at += rt_sealed_bytes(bytes);
    }
    memmove(l->in, l->in + at, l->in_bytes - at);
    l->in_bytes -= at;
    return true;
}

static void receive(RtLink *l)
{
    const ssize_t n = recv(l->socket, l->in + l->in_bytes, BUFFER_BYTES - l->in_bytes, 0);
    if (n < 0 && errno == EINTR)
        return;
    if (n <= 0) {
        lost(l, n == 0 ? "it closed the connection" : strerror(errno));
    } else {
        l->heard_ns = rt_clock_ns();
        l->in_bytes += (size_t)n;
        if (hear_all(l))
            return;
        lost(l, "bytes came that no trainer of this job has sent");
    }
    shutdown(l->socket, SHUT_RDWR);
    l->closed = true;
}

/* Waits for any of the links; false: all are closed. */
static bool receive_some(struct pollfd *p)
{
    int open = 0;
    for (int i = 0; i < net.links; i++) {
        const RtLink *l = &net.link[i];
        p[i] = (struct pollfd){.fd = l->closed ? -1 : l->socket, .events = POLLIN};
        open += !l->closed;
    }
    if (open > 0 && poll(p, (nfds_t)net.links, TICK_MS) > 0) {
        for (int i = 0; i < net.links; i++)
            if (p[i].fd >= 0 && p[i].revents != 0)
                receive(&net.link[i]);
    }
    return open > 0;
}

static void *receive_on(void *polls)
{
    int64_t last = rt_clock_ns();
    while (receive_some(polls)) {
        const int64_t now = rt_clock_ns();
        for (int i = 0; i < net.links; i++) {
            RtLink *l = &net.link[i];
            if (now - last > 4 * TICK_MS * INT64_C(1000000))
                l->heard_ns = now; /* this process was stopped: that does not count */
            if (!l->closed && now - l->heard_ns > net.silence_ns) {
                char why[96];
                snprintf(
                    why, sizeof why,
                    "it has said nothing for %.0f s; a longer --deadline allows more",
                    1e-9 * (double)net.silence_ns);
                lost(l, why);
                shutdown(l->socket, SHUT_RDWR);
            }
        }
        last = now;
    }
    atomic_store(&net.gone, 1);
    return NULL;
}

/* ---- start and end --------------------------------------------------------------- */

/* Warns if a machine has more or fewer ranks than the plan's nodes: this only costs
 * time. */
static void check_nodes(void)
{
    const int ranks = net.trainer->world_size, here = rt_ranks_here(net.shared, ranks);
    const int node = ranks / rt_group_ranks(net.trainer->nodes);
    int mine = 0;
    while (net.shared->elsewhere[mine])
        mine++;
    if (here != node) {
        rt_say(
            "trainer: warning: %d rank%s on a machine, and the plan counts on %d: sums "
            "cross between machines more often than they need; generate with --set "
            "mesh.node=%d",
            here, here == 1 ? " is" : "s are", node, here);
        return;
    }
    for (int r = 0; r < ranks; r++) {
        const bool near = ((RtGroup)(r ^ mine) & net.trainer->nodes) == 0;
        if (near == net.shared->elsewhere[r]) {
            rt_say("trainer: warning: ranks %d and %d are %s machine%s, and the plan "
                   "counts on blocks of %d neighbours on each: sums cross between "
                   "machines more often than they need; start ranks in blocks (srun "
                   "--distribution=block)",
                   mine, r, near ? "on different" : "on one", near ? "s" : "", node);
            return;
        }
    }
}

bool rt_machines_meet(const RtTrainer *t, const RtFlags *f, const RtJoin *j,
                      const RtSecret *secret, RtShared *shared, int fd,
                      int64_t patience_ns, char *error)
{
    const int64_t bytes = t->world_size * rt_control_bytes(t);
    /* Earlier than its ranks would be reported as stalled. */
    const double half = f->deadline_seconds / 2;
    const double silence = half <= 0 ? SILENCE_S : half < 2 ? 2 : half;
    net.trainer = t;
    net.shared = shared;
    net.silence_ns = (int64_t)(silence * 1e9);
    net.control = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                       rt_control_offset(t, 0));
    if (net.control == MAP_FAILED) {
        snprintf(error, RT_ERROR_BYTES, "%lld bytes of shared memory: %s",
                 (long long)bytes, rt_limits_map_error("", errno));
        return false;
    }
    if (!rt_meet_links(t, f, j, secret, shared, patience_ns, &net.link, &net.links,
                       error))
        return false;
    net.told = calloc((size_t)t->world_size, sizeof *net.told);
    bool enough = net.told != NULL;
    for (int i = 0; i < net.links; i++) {
        RtLink *l = &net.link[i];
        /* While one link accepts nothing, the others receive nothing either. */
        const struct timeval most = {.tv_sec = (time_t)(silence / 2)};
        setsockopt(l->socket, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
        l->in = malloc(BUFFER_BYTES);
        l->out = malloc(BUFFER_BYTES);
        enough = enough && l->in != NULL && l->out != NULL;
    }
    if (!enough) {
        snprintf(error, RT_ERROR_BYTES, "out of memory");
        return false;
    }
    if (j->rank == 0)
        check_nodes();
    return true;
}

void rt_machines_start(RtJob *job)
{
    if (!job->leads)
        return;
    net.job = job;
    /* They may have arrived long before the last one. */
    for (int i = 0; i < net.links; i++)
        net.link[i].heard_ns = rt_clock_ns();
    struct pollfd *polls = calloc((size_t)net.links, sizeof *polls);
    if (polls == NULL || pthread_create(&net.receiver, NULL, receive_on, polls) != 0 ||
        pthread_create(&net.sender, NULL, send_on, NULL) != 0) {
        rt_say("trainer: error: no thread for the other machines");
        _exit(RT_EXIT_ERROR); /* its rank ends with it, and the others notice */
    }
}

void rt_machines_close(void)
{
    for (int i = 0; i < net.links; i++)
        close(net.link[i].socket);
}

void rt_machines_end(RtJob *job)
{
    if (!job->leads)
        return;
    atomic_store(&net.ending, 1);
    rt_ring(net.shared);
    pthread_join(net.sender, NULL);
    /* The others close after reading everything that was sent. */
    for (int ms = 0; ms < LINGER_MS && atomic_load(&net.gone) == 0; ms += 10) {
        const struct timespec nap = {0, 10000000};
        nanosleep(&nap, NULL);
    }
}
