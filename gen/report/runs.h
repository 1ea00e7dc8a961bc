/* SPDX-License-Identifier: Apache-2.0 */
/* runs.h: what the files of `fsdpgen report RUN...` share: runs.c (the command), runs_find.c (which
 * file a RUN is), runs_log.c (its lines), runs_series.c (curves of bounded length), runs_summary.c
 * (the figures), runs_page.c (the HTML page), page_write.c (its file).
 *
 * Logs may come from others: their text is made printable, and escaped for HTML and for a script.
 * Equal logs give equal bytes: nothing in a report depends on this machine or moment. */
#ifndef RUNS_H
#define RUNS_H

#include "base/child.h"

#include <jansson.h>

/* The curves over the steps, in the order of the page; a name is that of a member in --log. */
typedef enum {
    RUN_LOSS, RUN_EVAL, RUN_GRAD_NORM, RUN_LR, RUN_RATE, RUN_MFU, RUN_MEMORY, RUN_SCALE, RUN_SKIPPED,
    RUN_SERIES
} RunSeries;
typedef struct RunSeriesName { const char *key, *title, *unit; } RunSeriesName;
extern const RunSeriesName run_series[RUN_SERIES];

enum {
    MAX_RUNS = 32,            /* eight colours, four kinds of lines */
    MAX_ROWS = 10000000,      /* over all runs: a gigabyte */
    MAX_LINE_BYTES = 1 << 20,
    MAX_PAGE_POINTS = 48000   /* over all curves: a page stays below two megabytes */
};

/* A step; missing and null values are NAN. */
typedef struct RunRow {
    int64_t step;
    double tokens, seconds; /* since the run began; seconds of training only */
    double value[RUN_SERIES];
} RunRow;

/* A later {"run": {...}}: a resume. */
typedef struct RunAgain { json_t *record; int64_t step; } RunAgain; /* its first step */

typedef struct RunLog {
    const char *path, *label; /* printable */
    RunRow *rows;             /* in increasing order of steps; malloc'ed */
    size_t n, cap;
    json_t *record;           /* the first {"run": {...}}; NULL: none */
    struct { RunAgain *items; int count, cap; } again; /* in increasing order of steps */
    int64_t plan_bytes;       /* per rank; 0: unknown */
    size_t resumes, replaced; /* counted by records, else by steps that do not increase; rows that
                               * were computed again */
    size_t other_lines;       /* objects of neither kind */
    bool cut;                 /* the last line is incomplete: still written, or killed */
} RunLog;

typedef struct RunList { RunLog *items; int count, cap; } RunList;

/* runs_find.c: the file of a RUN: of a folder, its log.jsonl or its only *.jsonl; NULL: the folder
 * has neither, but *n other *.jsonl. */
const char *runs_file(Gen *g, const char *word, int *n);
/* Opens all RUNs; problems become diagnostics. */
void runs_open(Gen *g, RunList *runs, const char *const *words, int count);
/* runs_log.c: the lines of the file. */
void runs_read(Gen *g, RunLog *r, const char *file, size_t max_rows);

/* Of the member: did a resume change it? Not of members that every resume changes. */
bool runs_changed(const json_t *before, const json_t *after, const char *key);

/* ---- runs_series.c --------------------------------------------------------------- */

/* A point of a curve; NAN ends a stretch. */
typedef struct RunPoint { int64_t step; double value; } RunPoint;
typedef struct RunCurve { RunPoint *items; int count, cap; } RunCurve;
/* At most about `most` points: the least and the greatest value of each of equally many rows. */
RunCurve runs_curve(Gen *g, const RunLog *r, RunSeries s, int most);
/* Means over runs_smooth_steps: a fiftieth of the run, an odd number; 0: too few steps. */
RunCurve runs_smooth(Gen *g, const RunLog *r, RunSeries s, int most);
int runs_smooth_steps(const RunLog *r);
bool runs_smooths(RunSeries s); /* is there a smoothed curve, too? */
bool runs_has(const RunLog *r, RunSeries s);
double runs_median(const RunLog *r, RunSeries s); /* NAN: no step has a value */
double runs_last(const RunLog *r, RunSeries s);
double runs_most(const RunLog *r, RunSeries s);

/* ---- runs_summary.c -------------------------------------------------------------- */

/* NAN: unknown. Losses are compared with all the digits in the log. */
typedef struct RunSummary {
    int64_t steps;            /* of the last row */
    double tokens, seconds;
    double loss, smooth_loss; /* at the end */
    double eval, best_eval;
    int64_t best_eval_step;
    double grad_norm, rate, mfu; /* medians */
    double memory, skipped;
    int64_t not_finite;          /* steps without a finite loss */
    int64_t common, differs;     /* steps that the first run has too; the first of these with
                                  * another loss, 0: none */
} RunSummary;
RunSummary runs_summary(Gen *g, const RunLog *r, const RunLog *first);
json_t *runs_json(Gen *g, const RunList *runs); /* of --json */

/* ---- runs_page.c, runs.c ------------------------------------------------------ */

void runs_page(Gen *g, const RunList *runs, Text *t);

typedef struct RunOptions {
    const char *const *words;
    int count;
    const char *output; /* NULL: stdout */
    bool json, force;
} RunOptions;
int runs_command(Gen *g, const RunOptions *o); /* the whole command; returns an exit code */

#endif
