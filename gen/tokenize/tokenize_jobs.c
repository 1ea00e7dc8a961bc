/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_jobs.c: runs jobs on threads and passes their ids on in order. In: a reader of
 * jobs. Out: the same ids whatever the number of threads, because they are passed on in
 * the order of the jobs. A stretch that started in the middle of a piece is encoded
 * again; one that could not see the end of a piece is continued, with as much text as
 * needed. */
#include "tokenize/tokenize.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 256, JOBS_A_THREAD = 4, WINDOW_BYTES = 1 << 16 };

typedef struct Pool {
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    const Tokenizer *tok;
    const TokOptions *o;
    TokJob *ring; /* job k lies at k % size */
    uint64_t size, added, taken, written;
    bool stop;
} Pool;

/* On one thread, because Lua states use the generator's memory. */
static bool worker_open(TokWorker *w, const Tokenizer *t, const TokOptions *o,
                        char *error)
{
    *w = (TokWorker){.tok = t, .match = tok_match_open(), .bpe = tok_bpe_open()};
    if (o->template)
        w->chat = tok_chat_open(w, o->template, error);
    return !o->template || w->chat;
}

static void worker_close(TokWorker *w)
{
    tok_match_close(w->match);
    tok_bpe_close(w->bpe);
    tok_chat_close(w->chat);
    free(w->scratch.s);
}

typedef struct Thread {
    pthread_t id;
    Pool *pool;
    TokWorker worker;
} Thread;

static void *work(void *arg)
{
    Thread *t = arg;
    Pool *p = t->pool;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        TokJob *job;

        while (!p->stop && p->taken == p->added)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->stop)
            break;
        job = &p->ring[p->taken++ % p->size];
        pthread_mutex_unlock(&p->lock);
        tok_job_run(&t->worker, p->o, job);
        pthread_mutex_lock(&p->lock);
        job->done = true;
        pthread_cond_signal(&p->finished);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- progress -------------------------------------------------------------------- */

typedef struct Progress {
    bool shown;
    struct timespec last;
} Progress;

static void show(Progress *p, const TokReader *r, const TokTotals *t)
{
    struct timespec now;
    int64_t total, at;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!p->shown ||
        (now.tv_sec - p->last.tv_sec) * 1000 + (now.tv_nsec - p->last.tv_nsec) / 1000000 <
            250)
        return;
    p->last = now;
    at = tok_reader_bytes(r, &total);
    fprintf(stderr, "\r%5.1f %% of %.1f MB, %.3f M tokens ",
            100.0 * (double)at / (double)(total ? total : 1), (double)total / 1e6,
            (double)t->tokens / 1e6);
    fflush(stderr);
}

/* ---- in order -------------------------------------------------------------------- */

typedef struct Order {
    int64_t expected; /* where the previous stretch ended */
    TokWorker *own;   /* for work in the ordering thread */
    TokReader *reader;
    TokText window;
} Order;

/* The text from `at` on, `need` bytes or all of it: from the oldest job, the jobs after
 * it and what is not yet in jobs. Other threads may read them, too. */
static bool fill_window(Pool *p, Order *order, int64_t at, size_t need, bool *last,
                        char *error)
{
    TokText *w = &order->window;
    const char *more;
    size_t n;

    w->n = 0;
    for (uint64_t k = p->written; k < p->added && w->n < need; k++) {
        const TokJob *job = &p->ring[k % p->size];
        const size_t from = at > job->at ? (size_t)(at - job->at) : 0;
        const size_t to = job->last ? job->n : job->to;

        *last = job->last;
        if (from < to)
            tok_append(w, job->s + from, to - from);
        if (*last)
            return true;
    }
    *last = false;
    if (w->n >= need)
        return true;
    if (!tok_reader_peek(order->reader, need - w->n, &more, &n, last, error))
        return false;
    tok_append(w, more, n);
    return true;
}

/* Encodes from where the previous stretch ended to the end of this one. */
static bool settle(Pool *p, Order *order, TokJob *job, char *error)
{
    const int64_t to = job->at + (int64_t)job->to;
    int64_t at = job->at + (int64_t)job->end;
    size_t end = 0, need = WINDOW_BYTES;
    bool last;

    if (job->chained && job->at != order->expected) {
        job->ids.n = 0;
        job->good = true;
        at = order->expected;
    }
    while (job->good && at < to) {
        if (!fill_window(p, order, at, need, &last, error))
            return false;
        job->good = tok_encode_stretch(order->own, order->window.s, order->window.n, last,
                                       (size_t)(to - at), &end, &job->ids) ||
                    tok_job_fails(job, order->own->error);
        at += (int64_t)end;
        need = end > 0 ? WINDOW_BYTES : 2 * order->window.n;
    }
    order->expected = at;
    if (job->good && job->ends)
        tok_end_document(order->own, p->o, job);
    return true;
}

static bool hand_on(Pool *p, Order *order, TokJob *job, const TokSink *out, TokTotals *t,
                    char *error)
{
    if (job->kind == TOK_JOB_STRETCH && !settle(p, order, job, error))
        return false;
    if (!job->good) {
        snprintf(error, TOK_ERROR_BYTES, "%s", job->error);
        return false;
    }
    t->tokens += (int64_t)job->ids.n;
    t->documents += job->documents;
    t->empty_lines += job->skipped;
    t->left_out += job->left_out;
    for (size_t i = 0; job->ids.target && i < job->ids.n; i++)
        t->targets += job->ids.target[i];
    return out->take(out->with, &job->ids, error);
}

/* Takes the oldest job when it is done; its place becomes free. */
static bool take_oldest(Pool *p, Order *order, const TokSink *out, TokTotals *t,
                        char *error)
{
    TokJob *job = &p->ring[p->written % p->size];
    bool good;

    pthread_mutex_lock(&p->lock);
    while (!job->done)
        pthread_cond_wait(&p->finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
    good = hand_on(p, order, job, out, t, error);
    free(job->s);
    job->s = NULL;
    p->written++;
    return good;
}

/* A job's place keeps the memory of its ids. */
static bool add_job(Pool *p, TokReader *r, char *error)
{
    TokJob *place = &p->ring[p->added % p->size], job = {0};

    if (!tok_reader_next(r, &job, error))
        return false;
    job.ids = place->ids;
    *place = job;
    pthread_mutex_lock(&p->lock);
    p->added++;
    pthread_cond_signal(&p->work);
    pthread_mutex_unlock(&p->lock);
    return true;
}

static bool run_all(Pool *p, TokWorker *own, TokReader *r, const TokSink *out,
                    TokTotals *t, char *error)
{
    Order order = {.own = own, .reader = r};
    Progress progress = {.shown = p->o->progress};
    char read_error[TOK_ERROR_BYTES] = "";
    bool more = true, good = true;

    while (good && (more || p->written < p->added)) {
        while (more && p->added - p->written < p->size)
            more = add_job(p, r, read_error);
        if (p->written < p->added)
            good = take_oldest(p, &order, out, t, error);
        show(&progress, r, t);
    }
    if (progress.shown && progress.last.tv_sec)
        fprintf(stderr, "\r%60s\r", "");
    free(order.window.s);
    if (good && read_error[0]) { /* everything before it was correct */
        snprintf(error, TOK_ERROR_BYTES, "%s", read_error);
        good = false;
    }
    return good;
}

static void finish(Pool *p, Thread *thread, int threads)
{
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < threads; i++)
        pthread_join(thread[i].id, NULL);
    for (uint64_t k = 0; k < p->size; k++) {
        free(p->ring[k].s);
        free(p->ring[k].ids.id);
        free(p->ring[k].ids.target);
    }
    free(p->ring);
}

bool tok_run(const Tokenizer *tok, const TokOptions *o, const TokSink *out, TokTotals *t,
             char *error)
{
    const int want = (int)min_i64(o->threads, MAX_THREADS);
    Pool p = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .work = PTHREAD_COND_INITIALIZER,
              .finished = PTHREAD_COND_INITIALIZER,
              .tok = tok,
              .o = o,
              .size = (uint64_t)(want * JOBS_A_THREAD)};
    Thread *thread =
        gen_calloc((size_t)want + 1, sizeof *thread); /* the last one is this thread's */
    TokReader *r = tok_reader_open(tok, o);
    int opened = 0, threads = 0;
    bool good = true;

    *t = (TokTotals){0};
    p.ring = gen_calloc(p.size, sizeof *p.ring);
    while (good && opened <= want) {
        thread[opened].pool = &p;
        good = worker_open(&thread[opened++].worker, tok, o, error);
    }
    while (good && threads < want &&
           pthread_create(&thread[threads].id, NULL, work, &thread[threads]) == 0)
        threads++;
    if (good && threads == 0) {
        snprintf(error, TOK_ERROR_BYTES, "no thread can be started");
        good = false;
    }
    good = good && run_all(&p, &thread[want].worker, r, out, t, error);
    tok_reader_bytes(r, &t->bytes);
    finish(&p, thread, threads);
    while (opened > 0) {
        t->steps += tok_bpe_steps(thread[--opened].worker.bpe);
        worker_close(&thread[opened].worker);
    }
    free(thread);
    tok_reader_close(r);
    return good;
}
