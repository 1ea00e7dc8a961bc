/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h: what the files of `fsdpgen report RUN...` share: runs.c (the command), runs_find.c (which
 * file a RUN is), runs_log.c (its lines), runs_series.c (curves of bounded length), runs_summary.c
 * (the figures), runs_page.c (the HTML page), runs_write.c (its file).
 *
 * Logs come from strangers: what is written of them is printable, and escaped for HTML and for a
 * script. Equal logs give equal bytes: nothing of a report is of this machine or moment. */
#ifndef RUNS_H
#define RUNS_H

#include "base/child.h"

#include <jansson.h>

/* What is drawn over the steps, in the order of the page; a name is that of a member in --log. */
typedef enum {
    RUN_LOSS, RUN_EVAL, RUN_GRAD_NORM, RUN_LR, RUN_RATE, RUN_MFU, RUN_MEMORY, RUN_SCALE, RUN_SKIPPED,
    RUN_SERIES
} RunSeries;
typedef struct RunSeriesName { const char *key, *title, *unit; } RunSeriesName;
extern const RunSeriesName run_series[RUN_SERIES];

enum {
    MAX_RUNS = 32,            /* eight colours, four kinds of lines */
    MAX_ROWS = 10000000,      /* of all runs: a gigabyte */
    MAX_LINE_BYTES = 1 << 20,
    MAX_PAGE_POINTS = 48000   /* of all curves: a page stays below two megabytes */
};

/* A step; what it lacks, or is null, is NAN. */
typedef struct RunRow {
    int64_t step;
    double tokens, seconds; /* since the run began; seconds of training alone */
    double value[RUN_SERIES];
} RunRow;

typedef struct RunLog {
    const char *path, *label; /* printable */
    RunRow *rows;             /* steps rise; malloc's */
    size_t n, cap;
    json_t *record;           /* {"run": {...}}: the first; NULL: it has none */
    int64_t plan_bytes;       /* of a rank; 0: unknown */
    size_t resumes, replaced; /* lines whose step is not above the last; rows that they replace */
    size_t other_lines;       /* objects of neither kind */
    bool cut;                 /* the last line has no end: the run writes it, or was killed */
} RunLog;

typedef struct RunList { RunLog *items; int count, cap; } RunList;

/* runs_find.c: opens all RUNs; complaints are diagnostics. */
void runs_open(Gen *g, RunList *runs, const char *const *words, int count);
/* runs_log.c: the lines of the file. */
void runs_read(Gen *g, RunLog *r, const char *file, size_t max_rows);

/* ---- runs_series.c --------------------------------------------------------------- */

/* A curve: NAN ends a stretch of it. */
typedef struct RunPoint { int64_t step; double value; } RunPoint;
typedef struct RunCurve { RunPoint *items; int count, cap; } RunCurve;
/* At most about `most` points: the least and the greatest value of each of equally many rows. */
RunCurve runs_curve(Gen *g, const RunLog *r, RunSeries s, int most);
/* Means over runs_smooth_steps: a fiftieth of the run, an odd number; 0: too few to smooth. */
RunCurve runs_smooth(Gen *g, const RunLog *r, RunSeries s, int most);
int runs_smooth_steps(const RunLog *r);
bool runs_smooths(RunSeries s); /* is it drawn so, too? */
bool runs_has(const RunLog *r, RunSeries s);
double runs_median(const RunLog *r, RunSeries s); /* NAN: no step has it */
double runs_last(const RunLog *r, RunSeries s);
double runs_most(const RunLog *r, RunSeries s);

/* ---- runs_summary.c -------------------------------------------------------------- */

/* NAN: unknown. Losses are compared as they are logged: all digits. */
typedef struct RunSummary {
    int64_t steps;            /* of the last row */
    double tokens, seconds;
    double loss, smooth_loss; /* at the end */
    double eval, best_eval;
    int64_t best_eval_step;
    double grad_norm, rate, mfu; /* medians */
    double memory, skipped;
    int64_t not_finite;          /* steps without a finite loss */
    int64_t common, differs;     /* steps that the first run has, too; of these the first whose loss
                                    is another, 0: none */
} RunSummary;
RunSummary runs_summary(Gen *g, const RunLog *r, const RunLog *first);
json_t *runs_json(Gen *g, const RunList *runs); /* of --json */

/* ---- runs_page.c, runs_write.c, runs.c ------------------------------------------- */

#define RUNS_PAGE_BEGINS "<!doctype html>\n<!-- fsdpgen report "
void runs_page(Gen *g, const RunList *runs, Text *t);
/* In the parent; an exit code. */
int runs_write(Gen *g, const char *path, const char *page, size_t bytes, bool force);

typedef struct RunOptions {
    const char *const *words;
    int count;
    const char *output; /* NULL: stdout */
    bool json, force;
} RunOptions;
int runs_command(Gen *g, const RunOptions *o); /* all of it; an exit code */

#endif
