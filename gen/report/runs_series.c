/* SPDX-License-Identifier: Apache-2.0 */
/* runs_series.c: curves of bounded length, and figures of a whole series. In: rows. Out:
 * the least and the greatest value of each stretch of rows, so that no spike is lost; a
 * smoothed curve, each point a mean of rows around it; medians. Equal rows give equal
 * curves. */
#include "report/runs.h"

#include <math.h>
#include <stdlib.h>

enum { SMOOTH_PARTS = 50, MAX_HALF = 50000 };

static void push(Gen *g, RunCurve *c, const RunLog *r, size_t row, double value)
{
    *gen_push(g, c) = (RunPoint){r->rows[row].step, value};
}

/* ---- unsmoothed curves ----------------------------------------------------------- */

/* The rows of a stretch to draw, in order: the least, the greatest, the first without a
 * value, which ends the line. Returns how many. */
static int choose(const RunLog *r, RunSeries s, size_t from, size_t to, size_t row[3])
{
    size_t least = to, most = to, none = to;
    int n = 0;

    for (size_t i = from; i < to; i++) {
        const double x = r->rows[i].value[s];

        if (!isfinite(x))
            none = none == to ? i : none;
        else {
            least = least == to || x < r->rows[least].value[s] ? i : least;
            most = most == to || x > r->rows[most].value[s] ? i : most;
        }
    }
    for (size_t i = from; i < to; i++)
        if (i == least || i == most || i == none)
            row[n++] = i;
    return n;
}

/* Evaluation happens only now and then, so missing values are not gaps in its curve. */
static bool has_gaps(RunSeries s)
{
    return s != RUN_EVAL;
}

RunCurve runs_curve(Gen *g, const RunLog *r, RunSeries s, int most)
{
    const size_t stretches = (size_t)(most > 6 ? most / 3 : 2);
    RunCurve c = {0};
    size_t from = 0;

    for (size_t k = 0; from < r->n; k++) {
        const size_t to = r->n <= 3 * stretches ? from + 1 : (k + 1) * r->n / stretches;
        size_t row[3];
        const int n = choose(r, s, from, to, row);

        for (int i = 0; i < n; i++) {
            const double x = r->rows[row[i]].value[s];

            if (isfinite(x) || has_gaps(s))
                push(g, &c, r, row[i], isfinite(x) ? x : NAN);
        }
        from = to;
    }
    return c;
}

/* ---- smoothed -------------------------------------------------------------------- */

bool runs_smooths(RunSeries s)
{
    return s == RUN_LOSS || s == RUN_RATE; /* a mean would widen the spikes of a norm */
}

int runs_smooth_steps(const RunLog *r)
{
    const size_t half = r->n / SMOOTH_PARTS / 2;

    return half == 0 ? 0 : half > MAX_HALF ? 2 * MAX_HALF + 1 : (int)(2 * half + 1);
}

/* The mean of the rows around one; NAN: none has a value. At the start, where curves are
 * steep, it takes as many rows before as behind; at the end, those that exist. */
static double mean_around(const RunLog *r, RunSeries s, size_t row, size_t half)
{
    const size_t each = row < half ? row : half;
    const size_t to = row + each < r->n ? row + each : r->n - 1;
    double sum = 0;
    size_t n = 0;

    for (size_t i = row - each; i <= to; i++)
        if (isfinite(r->rows[i].value[s])) {
            sum += r->rows[i].value[s];
            n++;
        }
    return n && isfinite(sum) ? sum / (double)n : NAN;
}

RunCurve runs_smooth(Gen *g, const RunLog *r, RunSeries s, int most)
{
    const size_t half = (size_t)runs_smooth_steps(r) / 2;
    const size_t points = r->n < (size_t)most ? r->n : (size_t)most;
    RunCurve c = {0};

    for (size_t i = 0; i < points && half > 0; i++) {
        const size_t row = points > 1 ? i * (r->n - 1) / (points - 1) : r->n - 1;
        const double x = mean_around(r, s, row, half);

        if (isfinite(x))
            push(g, &c, r, row, x);
    }
    return c;
}

/* ---- figures --------------------------------------------------------------------- */

bool runs_has(const RunLog *r, RunSeries s)
{
    return !isnan(runs_last(r, s));
}

double runs_last(const RunLog *r, RunSeries s)
{
    for (size_t i = r->n; i > 0; i--)
        if (isfinite(r->rows[i - 1].value[s]))
            return r->rows[i - 1].value[s];
    return NAN;
}

double runs_most(const RunLog *r, RunSeries s)
{
    double most = NAN;

    for (size_t i = 0; i < r->n; i++)
        if (isfinite(r->rows[i].value[s]) && !(r->rows[i].value[s] <= most))
            most = r->rows[i].value[s];
    return most;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double runs_median(const RunLog *r, RunSeries s)
{
    double *x = gen_calloc(r->n + 1, sizeof *x), median;
    size_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        if (isfinite(r->rows[i].value[s]))
            x[n++] = r->rows[i].value[s];
    qsort(x, n, sizeof *x, by_value);
    median = n ? x[(n - 1) / 2] / 2 + x[n / 2] / 2 : NAN;
    free(x);
    return median;
}
