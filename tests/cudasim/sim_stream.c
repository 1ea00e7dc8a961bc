/* SPDX-License-Identifier: Apache-2.0 */
/* sim_stream.c: in: what the host enqueues. Out: it done, in an order that streams and
 * events allow. Operations have numbers from 1; those of one epoch, SIM_WINDOW of them,
 * know by a bit each which others are ordered before them. At the end of an epoch
 * everything is waited for. */
#include "sim_stream.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    SimOp *ops; /* [SIM_WINDOW]: of this epoch */
    uint32_t next, first_undone;
    uint64_t host[SIM_WINDOW / 64]; /* the host has waited for these */
    SimStream legacy, *streams;
    SimGraph *graphs;
    SimGraph *capture; /* under way */
    bool spoilt;
    int64_t captures;
    uint64_t random;
    int64_t waits; /* sim_event_await so far */
    int64_t dropped_wait;
} q = {.next = 1, .first_undone = 1, .dropped_wait = -1};

static pthread_mutex_t lock;

static void *resized(void *p, size_t bytes)
{
    p = realloc(p, bytes);
    if (!p) {
        fprintf(stderr, "simulated device: out of memory\n");
        exit(70);
    }
    return p;
}

static void push(SimIds *ids, uint32_t id)
{
    if (ids->count == ids->cap) {
        ids->cap = ids->cap ? 2 * ids->cap : 8;
        ids->items = resized(ids->items, (size_t)ids->cap * sizeof *ids->items);
    }
    ids->items[ids->count++] = id;
}

static int64_t setting(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);

    return text && *text ? atoll(text) : otherwise;
}

static void open_once(void)
{
    pthread_mutexattr_t a;

    if (q.ops)
        return;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &a);
    q.ops = resized(NULL, SIM_WINDOW * sizeof *q.ops);
    memset(q.ops, 0, SIM_WINDOW * sizeof *q.ops);
    q.legacy.blocking = true;
    q.dropped_wait = setting("CUDASIM_DROP_WAIT", -1);
    q.random = (uint64_t)setting("CUDASIM_SEED", 1);
    sim_seed(q.random);
}

void sim_lock(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, open_once);
    pthread_mutex_lock(&lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

static uint64_t draw(uint64_t below)
{
    q.random = q.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (q.random >> 33) % below;
}

/* ---- what is ordered ------------------------------------------------------------- */

static uint32_t index_of(uint32_t id)
{
    return id - sim_order.first;
}

static SimOp *op_of(uint32_t id) /* NULL: of an earlier epoch, so done */
{
    return id >= sim_order.first ? &q.ops[index_of(id)] : NULL;
}

bool sim_is_done(uint32_t id)
{
    const SimOp *op = id ? op_of(id) : NULL;

    return !op || op->done;
}

static void order_after(uint64_t *before, uint32_t id)
{
    const SimOp *op = id ? op_of(id) : NULL;

    if (!op)
        return;
    for (int i = 0; i < SIM_WINDOW / 64; i++)
        before[i] |= op->before[i];
    before[index_of(id) / 64] |= UINT64_C(1) << index_of(id) % 64;
}

const char *sim_op_what(uint32_t id)
{
    const SimOp *op = op_of(id);

    return op ? op->work.what : "an operation";
}

void sim_touch_rows(const void *p, int64_t rows, int64_t bytes, int64_t stride,
                    bool write)
{
    for (int64_t i = 0; i < rows; i++)
        sim_touch((const char *)p + i * stride, bytes, write, NULL);
}

/* ---- running --------------------------------------------------------------------- */

static bool may_run(const SimOp *op)
{
    for (int i = 0; i < op->n_deps; i++)
        if (!sim_is_done(op->dep[i]))
            return false;
    return true;
}

static SimResult run_op(SimOp *op)
{
    SimResult result = SIM_OP_DONE;

    sim_order.now = op->id;
    sim_order.before = op->before;
    if (!sim_problem())
        result = op->work.run(op);
    sim_order.now = 0;
    if (result == SIM_OP_LATER)
        return result;
    op->done = true;
    if (op->owns_payload)
        free(op->work.payload);
    while (q.first_undone < q.next && op_of(q.first_undone)->done)
        q.first_undone++;
    return result;
}

/* Runs one operation, any of those that may run. False: none could. */
static bool progress(void)
{
    uint32_t ready[256];
    int n = 0;

    for (uint32_t id = q.first_undone; id < q.next && n < 256; id++)
        if (!op_of(id)->done && may_run(op_of(id)))
            ready[n++] = id;
    while (n > 0) {
        int i = (int)draw((uint64_t)n);

        if (run_op(op_of(ready[i])) == SIM_OP_DONE)
            return true;
        ready[i] = ready[--n];
    }
    return false;
}

/* Other ranks must go on, or another thread of the host. */
static void rest(void)
{
    const struct timespec t = {.tv_nsec = 100 * 1000};

    sim_unlock();
    nanosleep(&t, NULL);
    sim_lock();
}

void sim_wait(uint32_t id)
{
    while (!sim_is_done(id))
        if (!progress())
            rest();
    order_after(q.host, id);
}

void sim_wait_all(void)
{
    while (q.first_undone < q.next)
        if (!progress())
            rest();
    for (uint32_t id = sim_order.first; id < q.next; id++)
        q.host[index_of(id) / 64] |= UINT64_C(1) << index_of(id) % 64;
}

void sim_progress_some(void)
{
    for (uint64_t n = draw(4); n > 0 && progress(); n--)
        ;
}

static void make_room(int n)
{
    if (q.next + (uint32_t)n - sim_order.first < SIM_WINDOW)
        return;
    if (n >= SIM_WINDOW) {
        fprintf(stderr, "simulated device: a graph of %d nodes is too large\n", n);
        exit(70);
    }
    sim_wait_all();
    for (uint32_t i = 0; i < SIM_WINDOW; i++)
        free(q.ops[i].dep);
    memset(q.ops, 0, SIM_WINDOW * sizeof *q.ops);
    memset(q.host, 0, sizeof q.host);
    sim_order.first = q.next;
}

/* ---- operations ------------------------------------------------------------------ */

static SimOp *new_op(const SimWork *work, bool owns_payload, const SimIds *deps)
{
    SimOp *op = &q.ops[index_of(q.next)];

    *op = (SimOp){.work = *work, .owns_payload = owns_payload, .id = q.next++};
    memcpy(op->before, q.host, sizeof q.host);
    op->n_deps = deps->count;
    op->dep = resized(NULL, (size_t)(deps->count + 1) * sizeof *op->dep);
    for (int i = 0; i < deps->count; i++) {
        op->dep[i] = deps->items[i];
        order_after(op->before, deps->items[i]);
    }
    if (work->begin)
        work->begin(op);
    return op;
}

/* What the next operation of the stream waits for; the list is empty again. */
static SimIds take_deps(SimStream *s)
{
    SimIds deps = s->waits;

    s->waits = (SimIds){0};
    if (s->last)
        push(&deps, s->last);
    if (s->capture || !s->blocking)
        return deps;
    if (s != &q.legacy) {
        if (q.legacy.last)
            push(&deps, q.legacy.last);
        return deps;
    }
    for (SimStream *other = q.streams; other; other = other->next)
        if (other->blocking && other->last)
            push(&deps, other->last);
    return deps;
}

static void capture_node(SimStream *s, const SimWork *work)
{
    SimGraph *g = s->capture;
    SimNode *n;

    if (g->count == g->cap) {
        g->cap = g->cap ? 2 * g->cap : 64;
        g->items = resized(g->items, (size_t)g->cap * sizeof *g->items);
    }
    n = &g->items[g->count++];
    *n = (SimNode){.work = *work, .deps = take_deps(s)};
    for (int i = 0; i < n->deps.count; i++)
        g->items[n->deps.items[i] - 1].awaited = true;
    s->last = (uint32_t)g->count;
}

void sim_enqueue(SimStream *s, const SimWork *given)
{
    SimWork work = *given;
    SimIds deps;

    if (work.payload_bytes > 0) {
        work.payload = resized(NULL, work.payload_bytes);
        memcpy(work.payload, given->payload, work.payload_bytes);
    }
    s->used = true;
    if (s->capture) {
        capture_node(s, &work);
        return;
    }
    make_room(1);
    deps = take_deps(s);
    s->last = new_op(&work, work.payload_bytes > 0, &deps)->id;
    free(deps.items);
    sim_progress_some();
}

static SimResult run_nothing(SimOp *op)
{
    (void)op;
    return SIM_OP_DONE;
}

/* ---- streams and events ---------------------------------------------------------- */

SimStream *sim_stream_create(bool blocking)
{
    SimStream *s = resized(NULL, sizeof *s);

    *s = (SimStream){.blocking = blocking, .next = q.streams};
    q.streams = s;
    return s;
}

void sim_stream_destroy(SimStream *s)
{
    SimStream **at = &q.streams;

    while (*at && *at != s)
        at = &(*at)->next;
    if (!*at)
        return;
    *at = s->next;
    free(s->waits.items);
    free(s);
}

SimStream *sim_stream(void *handle)
{
    return handle == NULL || handle == (void *)1 ? &q.legacy : handle;
}

double sim_clock_us;
bool sim_cache_cold;

static SimResult run_record(SimOp *op)
{
    SimEvent *e = *(SimEvent **)op->work.payload;

    e->seconds = 1e-6 * sim_clock_us;
    return SIM_OP_DONE;
}

void sim_event_record(SimEvent *e, SimStream *s)
{
    const SimWork work = {.run = run_record,
                          .payload = &e,
                          .payload_bytes = sizeof e,
                          .what = "the record of an event"};

    sim_enqueue(s, &work);
    e->capture = s->capture ? s->capture->serial : 0;
    e->op = s->capture ? 0 : s->last;
    e->node = s->capture ? s->last : 0;
}

/* What the stream waits for when it joins a capture is no part of the graph. */
static void leave_waits_outside(SimStream *s)
{
    const SimWork nothing = {.run = run_nothing, .what = "waits before a capture"};

    if (s->waits.count > 0)
        sim_enqueue(s, &nothing);
    s->outside = s->last;
    s->last = 0;
}

bool sim_event_await(SimStream *s, const SimEvent *e)
{
    if (e->capture ? !q.capture || q.capture->serial != e->capture : s->capture != NULL)
        return false;
    if (q.waits++ == q.dropped_wait)
        return true; /* a planted fault */
    if (e->capture) {
        if (!s->capture) {
            leave_waits_outside(s);
            s->capture = q.capture;
        }
        push(&s->waits, e->node);
    } else if (e->op) {
        push(&s->waits, e->op);
    }
    return true;
}

/* ---- graphs ---------------------------------------------------------------------- */

bool sim_capture_begin(SimStream *s)
{
    if (q.capture || s == &q.legacy)
        return false;
    leave_waits_outside(s);
    s->capture = resized(NULL, sizeof *s->capture);
    *s->capture = (SimGraph){.users = 1, .serial = ++q.captures, .next = q.graphs};
    q.graphs = q.capture = s->capture;
    q.spoilt = false;
    s->origin = true;
    return true;
}

/* Every node but those that the origin's last one waits for must be waited for. */
static bool joined(const SimGraph *g, uint32_t last, const SimIds *waits)
{
    for (int i = 0; i < g->count; i++) {
        bool tail = (uint32_t)i + 1 == last;

        for (int k = 0; k < waits->count; k++)
            tail = tail || waits->items[k] == (uint32_t)i + 1;
        if (!g->items[i].awaited && !tail)
            return false;
    }
    return true;
}

bool sim_capture_spoilt(void)
{
    q.spoilt = q.spoilt || q.capture != NULL;
    return q.capture != NULL;
}

SimGraph *sim_capture_end(SimStream *s, bool *spoilt)
{
    SimGraph *g = s->capture;
    bool ok = g && s->origin && !q.spoilt && joined(g, s->last, &s->waits);

    *spoilt = q.spoilt;
    if (!g)
        return NULL;
    q.capture = NULL;
    for (SimStream *other = q.streams; other; other = other->next)
        if (other->capture == g) {
            other->capture = NULL;
            other->last = other->outside;
            other->waits.count = 0;
        }
    s->origin = false;
    if (ok)
        return g;
    sim_graph_release(g);
    return NULL;
}

void sim_graph_launch(SimGraph *g, SimStream *s)
{
    const SimWork end = {.run = run_nothing, .what = "the end of a graph"};
    SimIds before, deps = {0}, tails = {0};
    uint32_t first;

    make_room(g->count + 1);
    before = take_deps(s);
    first = q.next;
    for (int i = 0; i < g->count; i++) {
        const SimNode *n = &g->items[i];

        deps.count = 0;
        for (int k = 0; k < n->deps.count; k++)
            push(&deps, first + n->deps.items[k] - 1);
        for (int k = 0; k < before.count && n->deps.count == 0; k++)
            push(&deps, before.items[k]);
        new_op(&n->work, false, &deps);
        if (!n->awaited)
            push(&tails, first + (uint32_t)i);
    }
    for (int k = 0; k < before.count && g->count == 0; k++)
        push(&tails, before.items[k]);
    s->last = new_op(&end, false, &tails)->id;
    free(before.items);
    free(deps.items);
    free(tails.items);
    sim_progress_some();
}

bool sim_graphs_hold(bool (*holds)(const SimWork *work, const void *what),
                     const void *what)
{
    for (const SimGraph *g = q.graphs; g; g = g->next)
        for (int i = 0; i < g->count; i++)
            if (holds(&g->items[i].work, what))
                return true;
    return false;
}

void sim_graph_release(SimGraph *g)
{
    SimGraph **at = &q.graphs;

    if (--g->users > 0)
        return;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    for (int i = 0; i < g->count; i++) {
        free(g->items[i].work.payload);
        free(g->items[i].deps.items);
    }
    free(g->items);
    free(g);
}
