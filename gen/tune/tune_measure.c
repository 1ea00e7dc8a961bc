/* SPDX-License-Identifier: Apache-2.0 */
/* tune_measure.c: the best candidates, built and run on this machine. In: the ranked
 * candidates. Out: for each one the seconds of its steps and the hash of its weights.
 *
 * Runs are short and take turns, each round beginning with another candidate, so that
 * other load on the machine affects all of them. A few runs seldom tell apart what
 * differs by a few percent, so candidates that are not clearly slower than the fastest
 * run on while there is time. Runs of one numerics hash on one platform must end with
 * equal weights; checking this promise here costs nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memrchr */
#endif
#include "tune/tune.h"

#include "base/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* All run FIRST_ROUNDS times, those that may still be the fastest MAX_ROUNDS times. */
enum {
    FIRST_ROUNDS = 5,
    MAX_ROUNDS = 20,
    BUILD_MINUTES = 60,
    MAX_LOG_BYTES = 16 << 20,
    MAX_TOKENS = 16 << 20
};

typedef struct Picks {
    Candidate **items;
    int count, cap;
} Picks;

static int64_t now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static int complain(Tune *t, const char *file, const char *help, const char *text)
{
    diag_add(t->g, DIAG_ERROR, (Pos){.file = file}, help, "%s", text);
    return diag_finish(t->g);
}

/* ---- where, and with which data -------------------------------------------------- */

static int make_work(Tune *t)
{
    const char *under = getenv("TMPDIR");
    char *own =
        gen_printf(t->g, "%s/fsdpgen-tune-XXXXXX", under && *under ? under : "/tmp");

    t->own_work = t->work == NULL;
    if (t->own_work)
        t->work = mkdtemp(own);
    else
        mkdir(t->work, 0777);
    t->work = t->work ? realpath(t->work, NULL) : NULL; /* runs change their folder */
    if (t->work)
        return EXIT_DONE;
    return complain(t, t->g->opt.work ? t->g->opt.work : own, "--work DIR",
                    "the folder of the trainers cannot be made");
}

enum { HEAD_WORDS = 256 }; /* of a token file of llm.c's */

static void make_head(uint32_t head[HEAD_WORDS], bool wide, int64_t n)
{
    memset(head, 0, sizeof(uint32_t[HEAD_WORDS]));
    head[0] = wide ? 20240801 : 20240520;
    head[1] = wide ? 7 : 1;
    head[2] = (uint32_t)n;
}

static void put_tokens(FILE *f, const TunePlan *p, int64_t n)
{
    const bool wide = p->vocab > 65536;
    uint32_t head[HEAD_WORDS];
    uint64_t state = 1;

    make_head(head, wide, n);
    fwrite(head, sizeof head, 1, f);
    for (int64_t i = 0; i < n; i++) {
        uint32_t id;

        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        id = (uint32_t)((state >> 33) % (uint64_t)p->vocab);
        fwrite(&id, wide ? 4 : 2, 1, f);
    }
}

/* Is that the file of an earlier search in the same --work folder? */
static bool has_tokens(const char *path, const TunePlan *p, int64_t n)
{
    const bool wide = p->vocab > 65536;
    uint32_t head[HEAD_WORDS], there[HEAD_WORDS];
    FILE *f = fopen(path, "rb");
    struct stat st;
    bool same;

    make_head(head, wide, n);
    same = f && fread(there, sizeof there, 1, f) == 1 &&
           !memcmp(head, there, sizeof head) && fstat(fileno(f), &st) == 0 &&
           st.st_size == (off_t)sizeof head + n * (wide ? 4 : 2);
    if (f)
        fclose(f);
    return same;
}

/* Random tokens: what a step costs does not depend on them. */
static int make_data(Tune *t)
{
    const TunePlan *p = &t->base;
    const int64_t wanted = t->steps * p->step_tokens + p->seq_tokens + 1;
    const int64_t n = max_i64(min_i64(wanted, MAX_TOKENS), 2 * p->seq_tokens + 2);
    const char *path = gen_printf(t->g, "%s/random-%lld-%lld.bin", t->work,
                                  (long long)p->vocab, (long long)n);
    struct stat st;
    FILE *f;
    bool good;

    if (t->data) {
        t->data = realpath(t->data, NULL);
        if (t->data && stat(t->data, &st) == 0 && S_ISDIR(st.st_mode))
            return complain(t, t->g->opt.data, "--data FILE", "it is a folder");
        return t->data ? EXIT_DONE
                       : complain(
                             t, t->g->opt.data, NULL,
                             gen_printf(t->g, "cannot be read: %s", file_problem(errno)));
    }
    if (p->masked)
        return complain(
            t, NULL, "--data FILE, or --plan-only",
            "the description has a loss mask, which random tokens do not have");
    t->data = path;
    if (has_tokens(path, p, n))
        return EXIT_DONE;
    f = fopen(path, "wbx"); /* never replaces a file */
    if (f)
        put_tokens(f, p, n);
    good = f && !ferror(f);
    good = (!f || fclose(f) == 0) && good;
    return good ? EXIT_DONE
                : complain(t, path, "take another --work DIR, or --data FILE",
                           "cannot be written, or exists with other contents");
}

/* ---- one candidate --------------------------------------------------------------- */

static const char *last_line(Gen *g, const char *path)
{
    const char *text = NULL, *line;
    size_t n;

    if (file_read(path, MAX_LOG_BYTES, &text, &n) != 0)
        return "it printed nothing";
    while (n && text[n - 1] == '\n')
        n--;
    line = memrchr(text, '\n', n);
    line = line ? line + 1 : text;
    return printable_text(g, line, (size_t)min_i64(text + n - line, 200));
}

static const char *folder_of(const Tune *t, const Candidate *c)
{
    return gen_printf(t->g, "%s/%016" PRIx64, t->work, c->plan.resolved);
}

static void build(Tune *t, Candidate *c)
{
    const char *folder = folder_of(t, c);
    const char *log = gen_printf(t->g, "%s.build", folder);
    const char *const argv[] = {"make", "-j", NULL};
    int code = tune_generate(t->g, &c->sets, folder);

    if (code != EXIT_DONE) {
        c->failed = gen_printf(t->g, "generate ended with %d", code);
        return;
    }
    code = tune_run(t, argv, folder, log, BUILD_MINUTES * 60);
    tune_live_clear(t);
    if (code > 0)
        c->failed = gen_printf(t->g, "make failed: %s", last_line(t->g, log));
    else if (code < 0 && !tune_signalled())
        c->failed = gen_printf(t->g, "make took over %d minutes", BUILD_MINUTES);
    c->built = code == 0;
}

static int by_value(const void *pa, const void *pb)
{
    const double a = *(const double *)pa, b = *(const double *)pb;

    return (a > b) - (a < b);
}

static double median_of(Gen *g, const double *list, int n)
{
    double *sorted = gen_alloc(g, sizeof *sorted * (size_t)n);

    memcpy(sorted, list, sizeof *sorted * (size_t)n);
    qsort(sorted, (size_t)n, sizeof *sorted, by_value);
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void tune_settle(Tune *t, Candidate *c)
{
    c->median = median_of(t->g, c->step_seconds.items, c->step_seconds.count);
}

/* As the log's first line has it; "": that has none. */
static const char *platform_of(Tune *t, const char *log)
{
    static const char key[] = "\"platform\": \"";
    const char *text = NULL, *at, *platform = "";
    size_t bytes;

    if (file_read(log, MAX_LOG_BYTES, &text, &bytes) != 0)
        return "";
    at = strstr(text, key);
    if (at && strspn(at + sizeof key - 1, "0123456789abcdef") == 16)
        platform = gen_strndup(t->g, at + sizeof key - 1, 16);
    free((char *)text);
    return platform;
}

/* The median of a run's steps after the first, which warms up; 0: the log has none. */
static double step_seconds(Tune *t, const char *path)
{
    const char *text = NULL, *at;
    struct {
        double *items;
        int count, cap;
    } list = {0};
    size_t bytes;

    if (file_read(path, MAX_LOG_BYTES, &text, &bytes) != 0)
        return 0;
    for (at = text; (at = strstr(at, "\"step_seconds\": ")) != NULL;) {
        at += strlen("\"step_seconds\": ");
        *gen_push(t->g, &list) = strtod(at, NULL);
    }
    free((char *)text);
    if (list.count > 1)
        return median_of(t->g, list.items + 1, list.count - 1);
    return list.count ? list.items[0] : 0;
}

/* The hash that --weights-hash prints last; NULL: there is none. */
static const char *weights_of(Tune *t, const char *log)
{
    const char *line = last_line(t->g, log);

    return strncmp(line, "weights ", 8) ? NULL : line + 8;
}

/* One numerics hash and platform, one result: also of a candidate's runs before this
 * one. */
static int compare_weights(Tune *t, const Picks *picks, const Candidate *c,
                           const char *weights)
{
    for (int i = 0; i < picks->count; i++) {
        const Candidate *o = picks->items[i];

        if (o->weights && o->plan.numerics == c->plan.numerics &&
            !strcmp(o->platform, c->platform) && strcmp(o->weights, weights) != 0) {
            print_line(stderr, "fsdpgen: bug: ",
                       "candidates %d and %d have the numerics hash %016" PRIx64
                       ", and weights %s and %s after %lld steps; please report it",
                       o->id, c->id, c->plan.numerics, o->weights, weights,
                       (long long)t->steps);
            return EXIT_BUG;
        }
    }
    return EXIT_DONE;
}

/* Its trainer runs; false: c->failed says why, or a signal came. */
static bool run_trainer(Tune *t, Candidate *c, int64_t n_steps, const char *log,
                        const char *out)
{
    const char *steps = gen_printf(t->g, "%lld", (long long)n_steps);
    const char *const argv[] = {"./trainer", "--data",         t->data, "--steps",
                                steps,       "--log",          log,     "--local",
                                "--quiet",   "--weights-hash", NULL};
    int code;

    unlink(log);
    code = tune_run(t, argv, folder_of(t, c), out, t->minutes * 60);
    tune_live_clear(t);
    if (code != 0 && !tune_signalled())
        c->failed =
            code < 0 ? gen_printf(t->g, "%lld step%s took over %lld minutes",
                                  (long long)n_steps, n_steps == 1 ? "" : "s",
                                  (long long)t->minutes)
                     : gen_printf(t->g, "ended with %d: %s", code, last_line(t->g, out));
    return code == 0 && !tune_signalled();
}

static int run_once(Tune *t, const Picks *picks, Candidate *c)
{
    const char *folder = folder_of(t, c);
    const char *log = gen_printf(t->g, "%s.log", folder);
    const char *out = gen_printf(t->g, "%s.out", folder);
    const char *weights;
    double seconds;
    int code;

    if (!run_trainer(t, c, t->steps, log, out))
        return EXIT_DONE;
    seconds = step_seconds(t, log);
    weights = weights_of(t, out);
    if (seconds <= 0 || !weights) {
        c->failed = "its log has no steps";
        return EXIT_DONE;
    }
    *gen_push(t->g, &c->step_seconds) = seconds;
    tune_settle(t, c);
    c->platform = platform_of(t, log);
    code = compare_weights(t, picks, c, weights);
    c->weights = weights;
    return code == EXIT_DONE && t->wisdom ? tune_wisdom_add(t, c, seconds) : code;
}

/* ---- the platform ---------------------------------------------------------------- */

/* What the platform's hash covers of a trainer follows from these. */
static bool same_platform(const Candidate *a, const Candidate *b)
{
    return a->plan.numerics == b->plan.numerics && a->plan.target == b->plan.target;
}

/* A run of one step says it: of CUDA's trainers no shorter one does. Candidate c stands
 * for all that share its platform, and so does one of those that are built anyway. */
const char *tune_platform(Tune *t, Candidate *c)
{
    const char *log;
    int place = 0;

    for (int i = t->live.n - 1; i >= 0 && !c->platform; i--)
        if (same_platform(t->live.picks[i], c) && !t->live.picks[i]->failed) {
            c = t->live.picks[i];
            place = i + 1;
        }
    if (c->platform || c->failed || tune_signalled())
        return c->platform;
    log = gen_printf(t->g, "%s.platform", folder_of(t, c));
    tune_live_now(t, c, "building", place);
    if (!c->built)
        build(t, c);
    if (c->built && run_trainer(t, c, 1, log, gen_printf(t->g, "%s.out", log)))
        c->platform = platform_of(t, log);
    if (!tune_signalled())
        tune_live_done(t, c);
    for (int i = 0; i < t->ranked.count && c->platform; i++)
        if (same_platform(t->ranked.items[i], c))
            t->ranked.items[i]->platform = c->platform;
    return c->platform;
}

/* ---- all of them ----------------------------------------------------------------- */

static void pick(Tune *t, Picks *picks)
{
    Candidate *own = &t->all.items[0];

    for (int i = 0; i < t->ranked.count && i < t->measure; i++)
        *gen_push(t->g, picks) = t->ranked.items[i];
    for (int i = 0; i < picks->count; i++)
        if (picks->items[i] == own)
            return;
    if (!own->left_out)
        *gen_push(t->g, picks) = own;
}

static void build_all(Tune *t, const Picks *picks, int rounds)
{
    for (int i = 0; i < picks->count && !tune_signalled(); i++) {
        Candidate *c = picks->items[i];

        if (c->built || c->failed || c->step_seconds.count >= rounds)
            continue;
        tune_live_now(t, c, "building", i + 1);
        build(t, c);
        if (c->built || c->failed)
            tune_live_done(t, c);
    }
}

/* Builds those of `some` that lack runs, and runs them up to that many rounds, until
 * `end`. */
static int turns(Tune *t, const Picks *picks, const Picks *some, int rounds, int64_t end)
{
    int code = EXIT_DONE;

    build_all(t, some, rounds);
    for (int round = 0; round < rounds && code == EXIT_DONE; round++) {
        for (int k = 0; k < some->count && code == EXIT_DONE; k++) {
            Candidate *c = some->items[(k + round) % some->count];

            if (tune_signalled() || (round && now_seconds() >= end))
                return code;
            if (!c->built || c->failed || c->step_seconds.count > round)
                continue;
            tune_live_now(t, c, "running", 0);
            code = run_once(t, picks, c);
            if (code == EXIT_DONE && !tune_signalled())
                tune_live_done(t, c);
        }
    }
    return code;
}

/* Chosen once, after the first rounds: a verdict that stops when it likes what it sees
 * would be wrong more often. */
static int all_turns(Tune *t, const Picks *picks)
{
    const int64_t end = now_seconds() + t->minutes * 60;
    Picks open = {0};
    int code = turns(t, picks, picks, FIRST_ROUNDS, end);

    for (int i = 0; i < picks->count; i++)
        if (tune_is_open(t, picks->items[i]))
            *gen_push(t->g, &open) = picks->items[i];
    if (code != EXIT_DONE || tune_signalled() || now_seconds() >= end)
        return code;
    t->live.runs += open.count * (MAX_ROUNDS - FIRST_ROUNDS);
    return turns(t, picks, &open, MAX_ROUNDS, end);
}

int tune_measure(Tune *t)
{
    Picks picks = {0};
    int code = make_work(t);

    if (code == EXIT_DONE)
        code = make_data(t);
    if (code == EXIT_DONE) {
        tune_signals();
        pick(t, &picks);
        tune_live_begin(t, picks.items, picks.count, picks.count * FIRST_ROUNDS);
    }
    if (code == EXIT_DONE && t->wisdom)
        code = tune_wisdom_read(t); /* knows the data */
    if (code == EXIT_DONE) {
        t->broke = all_turns(t, &picks);
        t->stopped = tune_signalled();
    }
    tune_live_clear(t);
    if (t->own_work && t->work)
        tune_remove(t->work);
    return code;
}
