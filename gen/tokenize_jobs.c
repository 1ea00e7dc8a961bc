/* SPDX-License-Identifier: Apache-2.0 */
/* tokenize_jobs.c: jobs done by threads, their ids written in order. In: a reader of
 * jobs. Out: the same bytes whatever the number of threads: who writes takes the jobs in
 * their order, and has those done again that began where no piece begins. */
#include "tokenize.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 256, JOBS_A_THREAD = 4 };

typedef struct Pool {
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    const Tokenizer *tok;
    const TokOptions *o;
    TokJob *ring; /* job k lies at k % size */
    uint64_t size, added, taken, written;
    bool stop;
} Pool;

/* By one thread: Lua states take memory from the generator's own. */
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

/* ---- progress -------------------------------------------------------------------------
 */

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

/* ---- in order -------------------------------------------------------------------------
 */

typedef struct Order {
    size_t expected; /* where the text of the job before ended */
    TokWorker *own;  /* for what is done again */
} Order;

static bool write_job(Pool *p, Order *order, TokJob *job, TokWriter *out, TokTotals *t,
                      char *error)
{
    if (job->chained && job->good && job->from != order->expected) {
        job->from = order->expected;
        tok_job_run(order->own, p->o, job);
    }
    if (!job->good) {
        snprintf(error, TOK_ERROR_BYTES, "%s", job->error);
        return false;
    }
    order->expected = job->end;
    t->tokens += (int64_t)job->ids.n;
    t->documents += job->documents;
    t->empty_lines += job->skipped;
    for (size_t i = 0; job->ids.target && i < job->ids.n; i++)
        t->targets += job->ids.target[i];
    return tok_writer_add(out, &job->ids, error);
}

/* The oldest job, once it is done; its place is free then. */
static bool take_oldest(Pool *p, Order *order, TokWriter *out, TokTotals *t, char *error)
{
    TokJob *job = &p->ring[p->written % p->size];
    bool good;

    pthread_mutex_lock(&p->lock);
    while (!job->done)
        pthread_cond_wait(&p->finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
    good = write_job(p, order, job, out, t, error);
    tok_input_release(job->input);
    free(job->owned);
    job->owned = NULL;
    job->input = NULL;
    p->written++;
    return good;
}

/* The place of a job keeps the memory of its ids. */
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

static bool run_all(Pool *p, TokWorker *own, TokReader *r, TokWriter *out, TokTotals *t,
                    char *error)
{
    Order order = {.own = own};
    Progress progress = {.shown = isatty(STDERR_FILENO)};
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
    if (good && read_error[0]) { /* what came before it was without fault */
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
        tok_input_release(p->ring[k].input);
        free(p->ring[k].owned);
        free(p->ring[k].ids.id);
        free(p->ring[k].ids.target);
    }
    free(p->ring);
}

bool tok_run(const Tokenizer *tok, const TokOptions *o, TokWriter *out, TokTotals *t,
             char *error)
{
    const int want = (int)min_i64(o->threads, MAX_THREADS);
    Pool p = {.lock = PTHREAD_MUTEX_INITIALIZER,
              .work = PTHREAD_COND_INITIALIZER,
              .finished = PTHREAD_COND_INITIALIZER,
              .tok = tok,
              .o = o,
              .size = (uint64_t)(want * JOBS_A_THREAD)};
    Thread *thread = calloc((size_t)want + 1, sizeof *thread); /* the last is our own */
    TokReader *r = tok_reader_open(tok, o);
    int opened = 0, threads = 0;
    bool good = true;

    *t = (TokTotals){0};
    p.ring = calloc(p.size, sizeof *p.ring);
    gen_require(p.ring && thread, "out of memory");
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
    while (opened > 0)
        worker_close(&thread[--opened].worker);
    free(thread);
    tok_reader_close(r);
    return good;
}
