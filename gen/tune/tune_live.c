/* SPDX-License-Identifier: Apache-2.0 */
/* tune_live.c: what a person sees on stderr while candidates are built and run. In: the
 * candidates that are measured, and events. Out: on a terminal a table, the best so far
 * first, redrawn in place and cut to the terminal's width; elsewhere a line for each
 * event. The table is gone when the result is printed. */
#include "tune/tune.h"

#include "base/show.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Fewer columns than that leave rates out; lines above the candidates. */
enum { NARROW = 50, HEAD_LINES = 2 };

static int64_t now_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static struct winsize terminal(void)
{
    struct winsize w = {0};

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) != 0 || w.ws_col < 2 || w.ws_row < 2)
        return (struct winsize){.ws_col = 80, .ws_row = 24};
    return w;
}

void tune_live_begin(Tune *t, Candidate *const *picks, int n, int runs)
{
    const char *term = getenv("TERM");

    t->live = (TuneLive){.picks = picks,
                         .n = n,
                         .runs = runs,
                         .begun = now_seconds(),
                         .screen = isatty(STDERR_FILENO) && term && strcmp(term, "dumb")};
}

/* Moves to where the table began. A narrower terminal has folded its lines. */
static void take_back(Tune *t, Text *to)
{
    const int columns = terminal().ws_col;
    int rows = 0;

    for (int i = 0; i < t->live.drawn; i++)
        rows += t->live.length[i] ? (t->live.length[i] + columns - 1) / columns : 1;
    if (rows > 1)
        text_printf(to, "\033[%dA", rows - 1);
    if (rows > 0)
        text_printf(to, "\r\033[J");
    t->live.drawn = 0;
}

static void put(const Text *text)
{
    if (text->len)
        fwrite(text->s, 1, text->len, stderr);
    fflush(stderr);
}

void tune_live_clear(Tune *t)
{
    Text to = {.g = t->g};

    take_back(t, &to);
    put(&to);
}

/* ---- the table ------------------------------------------------------------------- */

static void add_line(Tune *t, Text *to, const char *line)
{
    TuneLive *l = &t->live;
    size_t columns;
    const size_t bytes = printable_fit(line, terminal().ws_col - 1U, &columns);

    text_printf(to, "%s%.*s", l->drawn ? "\n" : "", (int)bytes, line);
    l->length[l->drawn++] = (int)columns;
}

static int runs_done(const Tune *t)
{
    int runs = 0;

    for (int i = 0; i < t->live.n; i++)
        runs += t->live.picks[i]->step_seconds.count;
    return runs;
}

/* "running 7 of 20, 62 s of at most 5 min" */
static const char *status_line(const Tune *t)
{
    const TuneLive *l = &t->live;
    const bool building = !strcmp(l->doing, "building");

    return gen_printf(t->g, "%s %d of %d; %s of at most %lld min", l->doing,
                      building ? l->place : (int)min_i64(runs_done(t) + 1, l->runs),
                      building ? l->n : l->runs,
                      show_seconds(t->g, (double)(now_seconds() - l->begun)),
                      (long long)t->minutes);
}

/* The fastest first; those not measured as they were ranked; those that failed last. */
static int by_speed(const void *pa, const void *pb)
{
    const Candidate *a = *(Candidate *const *)pa, *b = *(Candidate *const *)pb;
    const double ra = tune_rate(a, a->median), rb = tune_rate(b, b->median);

    if (!a->failed != !b->failed)
        return a->failed ? 1 : -1;
    if (ra != rb)
        return ra > rb ? -1 : 1;
    return a->id - b->id;
}

static const char *row_line(const Tune *t, const Candidate *c)
{
    const char *what =
        c->failed ? gen_printf(t->g, "failed: %s", c->failed) : tune_sets_of(t, c);
    const char *rate = c->median > 0 ? show_amount(t->g, tune_rate(c, c->median)) : "-";
    const char *mark = c == t->live.now ? ">" : " ";

    if (terminal().ws_col < NARROW)
        return gen_printf(t->g, "%s %13s  %s", mark, tune_measured_of(t->g, c), what);
    return gen_printf(t->g, "%s %13s  %9s  %s", mark, tune_measured_of(t->g, c), rate,
                      what);
}

static void draw(Tune *t)
{
    TuneLive *l = &t->live;
    void *mark = gen_mark(t->g);
    Text to = {.g = t->g};
    const int most = (int)min_i64(TUNE_LINES, terminal().ws_row - 1) - HEAD_LINES;
    Candidate **order = gen_alloc(t->g, sizeof *order * (size_t)(l->n + 1));

    memcpy(order, l->picks, sizeof *order * (size_t)l->n);
    qsort(order, (size_t)l->n, sizeof *order, by_speed);
    take_back(t, &to);
    add_line(t, &to, status_line(t));
    if (terminal().ws_col < NARROW)
        add_line(t, &to, gen_printf(t->g, "  %13s  %s", "a step", "what it sets"));
    else
        add_line(
            t, &to,
            gen_printf(t->g, "  %13s  %9s  %s", "a step", "tokens/s", "what it sets"));
    for (int i = 0; i < l->n && i < most; i++)
        add_line(t, &to, row_line(t, order[i]));
    put(&to);
    gen_release(t->g, mark);
}

/* ---- events ---------------------------------------------------------------------- */

void tune_live_now(Tune *t, const Candidate *c, const char *doing, int place)
{
    t->live.now = c;
    t->live.doing = doing;
    t->live.place = place;
    if (t->live.screen)
        draw(t);
}

void tune_live_tick(Tune *t)
{
    if (t->live.screen && t->live.drawn)
        draw(t);
}

void tune_live_done(Tune *t, const Candidate *c)
{
    const TuneLive *l = &t->live;
    const int runs = c->step_seconds.count;

    if (l->screen)
        return;
    if (c->failed)
        print_line(stderr, "fsdpgen: ", "%s failed: %s: %s", l->doing, tune_sets_of(t, c),
                   c->failed);
    else if (!strcmp(l->doing, "building"))
        print_line(stderr, "fsdpgen: ", "built %d of %d: %s", l->place, l->n,
                   tune_sets_of(t, c));
    else
        print_line(stderr, "fsdpgen: ", "run %d of %d: %s a step: %s", runs_done(t),
                   l->runs, show_seconds_to(t->g, c->step_seconds.items[runs - 1], 4),
                   tune_sets_of(t, c));
}
