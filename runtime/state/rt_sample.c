/* SPDX-License-Identifier: MIT-0 */
/* rt_sample.c: `trainer sample`: the model continues a prompt. In: weights of a
 * checkpoint or of a Hugging Face folder, the prompt. Out: tokens on stdout, up to an id
 * that ends a text, which is not printed.
 *
 * 1. Every token takes a whole forward of one micro-batch over the last `seq` tokens:
 *    there is no KV cache.
 * 2. All ranks compute the same sequence and draw the same tokens from equal logits, so
 *    only weights travel.
 * 3. Token k (0: the first after the prompt) is drawn by 53 bits of Philox(seed, site
 *    SAMPLE, k, stream 0), words 0 and 1: a uniform number in [0, 1) is compared with the
 *    running sum of probabilities, the likeliest token first, the lower id first among
 *    equals. Temperature 0 takes the first one. */
#include "job/rt_job.h"
#include "job/rt_out.h"
#include "rt_philox.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---- the prompt ------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static int64_t wrong(char *error, const char *fmt,
                                                           ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(error, RT_ERROR_BYTES, fmt, ap);
    va_end(ap);
    return -1;
}

/* Text, with a token per byte; or ids separated by blanks or commas. Returns how many;
 * -1: error has the reason. ids: NULL, or room for them. */
static int64_t read_prompt(const RtTrainer *t, const char *prompt, int32_t *ids,
                           char *error)
{
    int64_t n = 0;
    for (const char *p = prompt; *p != '\0';) {
        long long id = (unsigned char)*p;
        if (rt_is_of_bytes(t)) {
            p++;
        } else {
            char *end;
            p += strspn(p, " ,\t\n");
            if (*p == '\0')
                break;
            errno = 0;
            id = strtoll(p, &end, 10);
            if (end == p || errno != 0 || strchr(" ,\t\n", *end) == NULL) {
                return wrong(error,
                             "--prompt: this model has %lld token ids and no tokenizer: "
                             "give ids, as `fsdpgen tokenize --prompt` prints them",
                             (long long)t->vocab);
            }
            p = end;
        }
        if (id < 0 || id >= t->vocab) {
            return wrong(error, "--prompt: token %lld is not one of the model's %lld ids",
                         id, (long long)t->vocab);
        }
        if (ids != NULL)
            ids[n] = (int32_t)id;
        n++;
    }
    if (n == 0)
        return wrong(error, "--prompt: it is empty: give at least one token");
    if (n > t->seq_tokens) {
        return wrong(error, "--prompt: %lld tokens, but the model's sequences have %lld",
                     (long long)n, (long long)t->seq_tokens);
    }
    return n;
}

/* The ids of --stop, separated by commas, or `none`. Returns how many; -1: error has the
 * reason. */
static int64_t read_stops(const RtTrainer *t, const char *text, int64_t *ids, char *error)
{
    int64_t n = 0;
    if (strcmp(text, "none") == 0)
        return 0;
    for (const char *p = text;; p++) {
        char *end;
        errno = 0;
        const long long id = strtoll(p, &end, 10);
        if (end == p || errno != 0 || (*end != ',' && *end != '\0')) {
            return wrong(error,
                         "--stop: `%s` is not a list of ids: write --stop 2, --stop 2,7 "
                         "or --stop none",
                         text);
        }
        if (id < 0 || id >= t->vocab) {
            return wrong(error, "--stop: token %lld is not one of the model's %lld ids",
                         id, (long long)t->vocab);
        }
        if (n == RT_MAX_STOPS)
            return wrong(error, "--stop: more than %d ids", (int)RT_MAX_STOPS);
        ids[n++] = id;
        p = end;
        if (*p == '\0')
            return n;
    }
}

bool rt_sample_check(const RtTrainer *t, const RtFlags *f, char *error)
{
    if (t->evaluate == NULL) {
        snprintf(error, RT_ERROR_BYTES,
                 "sample: no op tells how to evaluate this model: see `evaluates` of an "
                 "op.lua");
        return false;
    }
    int64_t stops[RT_MAX_STOPS];
    return read_prompt(t, f->prompt, NULL, error) > 0 &&
           (f->stop == NULL || read_stops(t, f->stop, stops, error) >= 0);
}

/* ---- one token ------------------------------------------------------------------- */

typedef struct Candidate {
    double logit, weight;
    int32_t id;
} Candidate;

static int likeliest_first(const void *a, const void *b)
{
    const Candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

static double logit_at(RtDtype d, const void *logits, int64_t i)
{
    return d == RT_F64    ? ((const double *)logits)[i]
           : d == RT_F32  ? ((const float *)logits)[i]
           : d == RT_BF16 ? rt_f32_from_bf16(((const uint16_t *)logits)[i])
                          : rt_f32_from_f16(((const uint16_t *)logits)[i]);
}

/* A prompt starts a document; a token document_end ends it. */
static void begin_documents(const RtTrainer *t, RtStage to)
{
    int32_t start = 0;
    for (int64_t i = 0; i < t->micro_batch * t->seq_tokens; i++) {
        const int32_t at = (int32_t)(i % t->seq_tokens);
        start = at == 0 ? 0 : start;
        to.starts[i] = start;
        if (to.tokens[i] == t->document_end)
            start = at + 1;
    }
}

/* The logits after the last `seq` of n tokens. */
static void forward(Rt *rt, const int32_t *ids, int64_t n, void *logits)
{
    const RtTrainer *t = rt->trainer;
    const RtStage to = rt_stage(rt);
    const int64_t seq = t->seq_tokens, last = n < seq ? n : seq;
    const int32_t row = (int32_t)(last - 1);
    const size_t bytes = (size_t)(t->micro_batch * seq) * sizeof(int32_t);
    memset(to.tokens, 0, bytes);
    memset(to.targets, 0, bytes); /* the loss is not used */
    memcpy(to.tokens, ids + n - last, (size_t)last * sizeof *ids);
    if (t->packed)
        begin_documents(t, to);
    rt_stage_send(rt);
    rt_arena_write(rt, RT_SPACE_LOCAL, t->row_offset, &row, sizeof row);
    rt->state->micro_batch = 0;
    t->evaluate(rt);
    rt_comm_drain(rt);
    rt_loss_take(rt);
    rt_arena_read(rt, RT_SPACE_LOCAL, t->logits_offset, logits,
                  t->vocab * (int64_t)rt_dtype_bytes(t->param_dtype));
}

/* all: the vocabulary, likeliest first. */
static int32_t draw(const RtFlags *f, Candidate *all, int64_t vocab, int64_t index)
{
    const int64_t most = f->top_k > 0 && f->top_k < vocab ? f->top_k : vocab;
    int64_t n = 0;
    double sum = 0, kept = 0;
    for (int64_t i = 0; i < most; i++) {
        all[i].weight = rt_exp((all[i].logit - all[0].logit) / f->temperature);
        sum += all[i].weight;
    }
    while (n < most && (n == 0 || kept < f->top_p * sum))
        kept += all[n++].weight;
    const RtWords r = rt_philox((uint64_t)f->seed, RT_SITE_SAMPLE, (uint64_t)index, 0);
    const double u = (double)(r.w[0] | (uint64_t)(r.w[1] & 0x1FFFFF) << 32) * 0x1p-53;
    double below = 0;
    for (int64_t i = 0; i < n; i++) {
        below += all[i].weight;
        if (u * kept < below)
            return all[i].id;
    }
    return all[n - 1].id;
}

static int32_t choose(Rt *rt, const void *logits, Candidate *all, int64_t index)
{
    const RtTrainer *t = rt->trainer;
    const RtFlags *f = &rt->state->flags;
    for (int64_t i = 0; i < t->vocab; i++) {
        const double x = logit_at(t->param_dtype, logits, i);
        if (!rt_is_finite(x)) {
            rt_fail(rt, RT_EXIT_ERROR,
                    "sample: the logit of token %lld is not finite: the weights are "
                    "damaged",
                    (long long)i);
        }
        all[i] = (Candidate){.logit = x, .id = (int32_t)i};
    }
    qsort(all, (size_t)t->vocab, sizeof *all, likeliest_first);
    return f->temperature == 0 ? all[0].id : draw(f, all, t->vocab, index);
}

/* ---- the run --------------------------------------------------------------------- */

static void send(Rt *rt)
{
    if (!rt_stdout_send(rt))
        rt_fail(rt, RT_EXIT_ERROR, "stdout cannot be written: %s", strerror(errno));
}

static void print_tokens(Rt *rt, const int32_t *ids, int64_t n, bool first)
{
    enum { AT_ONCE = RT_SEND_BYTES / 16 }; /* ids have fewer characters than 16 */
    if (rt->rank != 0)
        return;
    for (int64_t i = 0; i < n; i++) {
        if (rt_is_of_bytes(rt->trainer))
            putchar((int)ids[i]);
        else
            printf(first && i == 0 ? "%d" : " %d", (int)ids[i]);
        if (i % AT_ONCE == AT_ONCE - 1 || i == n - 1)
            send(rt);
    }
}

/* Does the id end a text, according to --stop or the folder of the weights? */
static bool is_stop(const RtState *st, int32_t id)
{
    for (int i = 0; i < st->n_stops; i++)
        if (st->stop[i] == id)
            return true;
    return false;
}

static void say_stopped(const Rt *rt, int32_t id, int64_t tokens)
{
    if (rt->rank == 0) {
        rt_say("trainer: stopped by id %d, after %lld of %lld tokens", (int)id,
               (long long)tokens, (long long)rt->state->flags.sample_tokens);
    }
}

void rt_sample(Rt *rt)
{
    const RtTrainer *t = rt->trainer;
    const RtFlags *f = &rt->state->flags;
    char error[RT_ERROR_BYTES];
    if (!rt_sample_check(t, f, error)) /* a launcher's ranks have not been checked yet */
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
    int64_t n = read_prompt(t, f->prompt, NULL, error);
    int32_t *ids = malloc((size_t)(n + f->sample_tokens) * sizeof *ids);
    void *logits = malloc((size_t)t->vocab * sizeof(double));
    Candidate *all = malloc((size_t)t->vocab * sizeof *all);
    if (ids == NULL || logits == NULL || all == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "sample: out of memory");
    n = read_prompt(t, f->prompt, ids, error);
    if (f->stop != NULL)
        rt->state->n_stops = (int)read_stops(t, f->stop, rt->state->stop, error);
    print_tokens(rt, ids, n, true);
    for (int64_t k = 0; k < f->sample_tokens; k++, n++) {
        forward(rt, ids, n, logits);
        ids[n] = choose(rt, logits, all, k);
        if (is_stop(rt->state, ids[n])) {
            say_stopped(rt, ids[n], k);
            break;
        }
        print_tokens(rt, ids + n, 1, false);
    }
    if (rt->rank == 0) {
        putchar('\n');
        send(rt);
    }
    free(ids);
    free(logits);
    free(all);
}
