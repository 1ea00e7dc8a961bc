/* SPDX-License-Identifier: Apache-2.0 */
/* compare: compare FIGURES CASE DTYPE GRADIENTS LOG EXACT
 *
 * In: figures.json (PyTorch's, by figures.py), the name of a case, a dtype, what a
 * trainer of that case wrote: --debug-gradients of its first step, --log of all steps,
 * and where one in f64 wrote its gradients, which only figures with a "distance" need.
 * Out: one line of figures; exit 0 when they agree, 1 when not, with every difference on
 * a line.
 *
 * f32 and f64 must agree within a relative bound: losses, the global norm, each
 * parameter's gradient norm; its two signed random projections within the bound times its
 * norm. Learning rates agree to the last digits. bf16 and f16 cannot agree with anybody,
 * so both are measured from f64: the root mean square, over all parameters and
 * projections, of the distance to f64 in units of the gradient's norm. A signed random
 * projection of a difference has that difference's norm as its root mean square. The
 * trainer's may be at most twice PyTorch's. So are figures that say "compare":
 * "distance", and those that give PyTorch's "distance" in place of gradients: the
 * trainer's is to the one in f64. "bound" replaces that of their dtype. Series of loss
 * scales and of skipped updates are equal, and a norm that is not finite (null) is so on
 * both sides. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_PROJECTIONS = 2 };

static int differences;

static _Noreturn void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    exit(2);
}

static json_t *load(const char *path)
{
    json_error_t error;
    json_t *j = json_load_file(path, 0, &error);
    if (j == NULL)
        fail("%s:%d: %s", path, error.line, error.text);
    return j;
}

static double number(const json_t *j, const char *what)
{
    if (!json_is_number(j))
        fail("%s is not a number", what);
    return json_number_value(j);
}

/* How far apart, in units of scale; a difference over the bound is counted and told. */
static double apart(double ours, double theirs, double scale, double bound,
                    const char *what)
{
    double distance = fabs(ours - theirs) / scale;
    if (!(distance <= bound)) {
        printf("differs: %s: %.17g, PyTorch %.17g: %.3g over %.3g\n", what, ours, theirs,
               distance, bound);
        differences++;
    }
    return distance;
}

static const json_t *find_case(const json_t *figures, const char *name)
{
    size_t i;
    json_t *c;
    json_array_foreach(json_object_get(figures, "cases"), i, c)
    {
        if (!strcmp(json_string_value(json_object_get(c, "name")), name))
            return c;
    }
    fail("no case %s in the figures", name);
}

/* One number of a step against its place in a series of the figures. Null is a number
 * too: one that is not finite. */
static double compare_step(const json_t *row, const char *key, const json_t *theirs,
                           const char *series, size_t step, double bound)
{
    char what[64];
    const json_t *their = json_array_get(json_object_get(theirs, series), step);
    const json_t *our = json_object_get(row, key);
    snprintf(what, sizeof what, "%s of step %zu", key, step + 1);
    if (json_is_null(their) || json_is_null(our)) {
        if (!json_is_null(their) || !json_is_null(our)) {
            printf("differs: %s: %s, PyTorch %s\n", what,
                   json_is_null(our) ? "null" : "finite",
                   json_is_null(their) ? "null" : "finite");
            differences++;
        }
        return 0;
    }
    double want = number(their, series);
    return apart(number(our, key), want, want != 0 ? fabs(want) : 1, bound, what);
}

/* Norms are of gradients that low precision has rounded: so much further apart. */
static const double NORM_BOUNDS = 20;

/* Losses, norms and learning rates, from the log: one object a line. Rates are computed
 * in double on both sides. Norms: of all steps where bits suffice, else of the first;
 * with loss scales of all, for there some are not finite. */
static double compare_log(const char *path, const json_t *theirs, double bound)
{
    const json_t *losses = json_object_get(theirs, "losses");
    FILE *f = fopen(path, "r");
    char line[65536];
    const bool scaled = json_object_get(theirs, "loss_scales") != NULL;
    size_t step = 0;
    double worst = 0;
    if (f == NULL)
        fail("cannot read %s", path);
    while (step < json_array_size(losses) && fgets(line, sizeof line, f) != NULL) {
        json_t *row = json_loads(line, 0, NULL);
        if (json_object_get(row, "step") == NULL) { /* what runs */
            json_decref(row);
            continue;
        }
        worst = fmax(worst, compare_step(row, "loss", theirs, "losses", step, bound));
        compare_step(row, "lr", theirs, "lrs", step, 1e-14);
        if (scaled) {
            compare_step(row, "loss_scale", theirs, "loss_scales", step, 0);
            compare_step(row, "skipped", theirs, "skipped", step, 0);
            compare_step(row, "grad_norm", theirs, "grad_norms", step,
                         NORM_BOUNDS * bound);
        } else if (step == 0 || bound < 1e-6) {
            worst = fmax(
                worst, compare_step(row, "grad_norm", theirs, "grad_norms", step, bound));
        }
        step++;
        json_decref(row);
    }
    fclose(f);
    if (step < json_array_size(losses))
        fail("%s has %zu steps, not %zu", path, step, json_array_size(losses));
    return worst;
}

/* A row of the trainer's gradients: {"name", "norm", "projections": [a, b]}. */
static void read_row(const json_t *row, double out[1 + N_PROJECTIONS])
{
    const json_t *p = json_object_get(row, "projections");
    out[0] = number(json_object_get(row, "norm"), "norm");
    for (size_t i = 0; i < N_PROJECTIONS; i++)
        out[1 + i] = number(json_array_get(p, i), "projections");
}

static void read_figures(const json_t *grads, const char *name,
                         double out[1 + N_PROJECTIONS])
{
    const json_t *p = json_object_get(grads, name);
    if (!json_is_array(p))
        fail("the figures have no parameter %s", name);
    for (size_t i = 0; i < 1 + N_PROJECTIONS; i++)
        out[i] = number(json_array_get(p, i), name);
}

static double compare_gradients(const json_t *rows, const json_t *theirs, double bound)
{
    size_t i;
    const json_t *row, *grads = json_object_get(theirs, "grads");
    double ours[1 + N_PROJECTIONS], want[1 + N_PROJECTIONS], worst = 0;
    char what[256];
    if (grads == NULL)
        return 0; /* another case of the same model has them */
    if (json_array_size(rows) != json_object_size(grads))
        fail("%zu gradients, not %zu", json_array_size(rows), json_object_size(grads));
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        read_row(row, ours);
        read_figures(grads, name, want);
        for (int k = 0; k <= N_PROJECTIONS; k++) {
            snprintf(what, sizeof what, "%s %s", name, k == 0 ? "norm" : "projection");
            worst = fmax(worst, apart(ours[k], want[k], want[0], bound, what));
        }
    }
    return worst;
}

/* Root mean square of the distance to a trainer in f64, beside PyTorch's. */
static void compare_distance(const json_t *rows, const json_t *exact, double their_rms)
{
    double ours[1 + N_PROJECTIONS], want[1 + N_PROJECTIONS], sum = 0;
    size_t i, n = json_array_size(rows);
    if (n != json_array_size(exact))
        fail("%zu gradients, %zu in f64", n, json_array_size(exact));
    for (i = 0; i < n; i++) {
        read_row(json_array_get(rows, i), ours);
        read_row(json_array_get(exact, i), want);
        for (int k = 1; k <= N_PROJECTIONS; k++)
            sum += pow((ours[k] - want[k]) / want[0], 2);
    }
    double rms = sqrt(sum / (double)(n * N_PROJECTIONS));
    printf("distance to f64 %.3g, PyTorch's %.3g, ratio %.2f\n", rms, their_rms,
           rms / their_rms);
    if (!(rms <= 2 * their_rms))
        differences++;
}

/* Root mean squares of the distances to f64: the trainer's and PyTorch's. */
static void compare_distances(const json_t *rows, const json_t *theirs,
                              const json_t *exact)
{
    size_t i;
    const json_t *row;
    double ours[1 + N_PROJECTIONS], their[1 + N_PROJECTIONS], want[1 + N_PROJECTIONS];
    double our_sum = 0, their_sum = 0;
    int n = 0;
    json_array_foreach(rows, i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        read_row(row, ours);
        read_figures(json_object_get(theirs, "grads"), name, their);
        read_figures(json_object_get(exact, "grads"), name, want);
        for (int k = 1; k <= N_PROJECTIONS; k++, n++) {
            our_sum += pow((ours[k] - want[k]) / want[0], 2);
            their_sum += pow((their[k] - want[k]) / want[0], 2);
        }
    }
    double our_rms = sqrt(our_sum / n), their_rms = sqrt(their_sum / n);
    printf("distance to f64 %.3g, PyTorch's %.3g, ratio %.2f\n", our_rms, their_rms,
           our_rms / their_rms);
    if (!(our_rms <= 2 * their_rms))
        differences++;
}

int main(int argc, char **argv)
{
    if (argc != 7)
        fail("usage: compare FIGURES CASE f32|f64|bf16|f16 GRADIENTS LOG EXACT");
    json_t *figures = load(argv[1]), *gradients = load(argv[4]);
    const json_t *c = find_case(figures, argv[2]);
    const json_t *theirs = json_object_get(c, argv[3]),
                 *exact = json_object_get(c, "f64");
    const json_t *rows = json_object_get(gradients, "parameters");
    if (theirs == NULL)
        fail("no figures for %s", argv[3]);
    const json_t *distance = json_object_get(theirs, "distance");
    if (distance != NULL) {
        json_t *f64 = load(argv[6]);
        printf("losses within %.2g; ", compare_log(argv[5], theirs, 1e-2));
        compare_distance(rows, json_object_get(f64, "parameters"),
                         number(distance, "distance"));
        json_decref(f64);
    } else if (json_object_get(theirs, "compare") != NULL) {
        if (exact == NULL)
            fail("no figures for f64");
        /* three digits are left of a loss; what matters is the distance */
        double worst = compare_log(argv[5], theirs, 1e-2);
        printf("losses within %.2g; ", worst);
        compare_distances(rows, theirs, exact);
    } else {
        const json_t *given = json_object_get(theirs, "bound");
        double bound = given != NULL             ? json_number_value(given)
                       : !strcmp(argv[3], "f64") ? 1e-9
                                                 : 1e-5;
        double log = compare_log(argv[5], theirs, bound);
        double grads = compare_gradients(rows, theirs, bound);
        printf("losses within %.2g, gradients within %.2g\n", log, grads);
    }
    json_decref(figures);
    json_decref(gradients);
    return differences > 0;
}
