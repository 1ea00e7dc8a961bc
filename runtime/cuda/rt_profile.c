/* SPDX-License-Identifier: MIT-0 */
/* rt_profile.c: trainer --profile FILE: where the device's time goes. In: launches and
 * products as they are enqueued, with an event before and after each; the wall clock.
 * Out: FILE, a JSON object: seconds per step of each kernel and product of rank 0, the
 * largest first, and of the whole step. The first step, in which libraries load, is
 * excluded; steps are enqueued call by call. Work that overlaps on two streams counts on
 * both, so the seconds may add up to more than the step's. */
#include "cuda/rt_gpu.h"
#include "job/rt_out.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 1024, NAME_BYTES = 128 };

typedef struct Timed {
    char name[NAME_BYTES];
    double seconds;
    int64_t calls;
    double flops; /* over all calls; 0: not a product */
} Timed;

/* In this step: what was enqueued between two events. */
typedef struct Span {
    cudaEvent_t from, to;
    int name;
    double flops;
} Span;

static Timed *timed;
static int n_timed;
static Span *spans;
static int n_spans, max_spans; /* max_spans events have been created */
static int64_t steps;
static double step_seconds, began;

static bool is_on(const Rt *rt)
{
    return rt->state->flags.profile != NULL && rt->rank == 0;
}

static int name_index(Rt *rt, const char *name)
{
    for (int i = 0; i < n_timed; i++)
        if (strcmp(timed[i].name, name) == 0)
            return i;
    if (timed == NULL)
        timed = calloc(MAX_NAMES, sizeof *timed);
    if (timed == NULL || n_timed == MAX_NAMES) {
        rt_fail(rt, RT_EXIT_ERROR,
                "--profile: more than %d kernels and products, or no "
                "memory",
                MAX_NAMES);
    }
    snprintf(timed[n_timed].name, NAME_BYTES, "%s", name);
    return n_timed++;
}

static Span *next_span(Rt *rt)
{
    if (n_spans == max_spans) {
        const int more = max_spans > 0 ? 2 * max_spans : 1024;
        spans = realloc(spans, (size_t)more * sizeof *spans);
        if (spans == NULL)
            rt_fail(rt, RT_EXIT_ERROR, "--profile: out of memory");
        for (; max_spans < more; max_spans++) {
            RT_CUDA_CALL(rt, cudaEventCreate(&spans[max_spans].from));
            RT_CUDA_CALL(rt, cudaEventCreate(&spans[max_spans].to));
        }
    }
    return &spans[n_spans++];
}

void rt_profile_from(Rt *rt, cudaStream_t stream, const char *name, double flops)
{
    if (!is_on(rt))
        return;
    Span *s = next_span(rt);
    s->name = name_index(rt, name);
    s->flops = flops;
    RT_CUDA_CALL(rt, cudaEventRecord(s->from, stream));
}

void rt_profile_to(Rt *rt, cudaStream_t stream)
{
    if (is_on(rt))
        RT_CUDA_CALL(rt, cudaEventRecord(spans[n_spans - 1].to, stream));
}

/* What ran since the last step, an evaluation or a save, does not belong to a step. */
void rt_profile_begin(const Rt *rt)
{
    if (is_on(rt)) {
        n_spans = 0;
        began = rt_clock();
    }
}

/* After the device has finished the step. `steps` counts from the end of the first
 * one. */
void rt_profile_step(Rt *rt)
{
    if (!is_on(rt))
        return;
    for (int i = 0; i < n_spans && steps > 0; i++) {
        float ms = 0;
        RT_CUDA_CALL(rt, cudaEventElapsedTime(&ms, spans[i].from, spans[i].to));
        timed[spans[i].name].seconds += 1e-3 * (double)ms;
        timed[spans[i].name].flops += spans[i].flops;
        timed[spans[i].name].calls++;
    }
    step_seconds += steps > 0 ? rt_clock() - began : 0;
    steps++;
}

static int longer(const void *a, const void *b)
{
    const double x = ((const Timed *)a)->seconds, y = ((const Timed *)b)->seconds;
    return (x < y) - (x > y);
}

void rt_profile_end(Rt *rt)
{
    const char *path = rt->state->flags.profile;
    const double n = (double)(steps - 1);
    if (!is_on(rt))
        return;
    if (steps < 2) {
        rt_fail(rt, RT_EXIT_ERROR,
                "--profile: the first step does not count; --steps 3 "
                "or more");
    }
    static RtOutput out;
    if (!rt_output_begin(&out, path, rt_output_begins(rt, "profile"))) {
        rt_output_lost(rt, "profile", path);
        return;
    }
    FILE *f = out.f;
    qsort(timed, (size_t)n_timed, sizeof *timed, longer);
    fprintf(f, "{\"steps\": %lld, \"step_seconds\": %.9g, \"kernels\": [",
            (long long)steps - 1, step_seconds / n);
    for (int i = 0; i < n_timed; i++) {
        const Timed *t = &timed[i];
        fprintf(
            f,
            "%s\n{\"name\": \"%s\", \"calls\": %.9g, \"seconds\": %.9g, \"flops\": %.9g}",
            i > 0 ? "," : "", t->name, (double)t->calls / n, t->seconds / n,
            t->flops / n);
    }
    fprintf(f, "\n]}\n");
    if (!rt_output_end(rt, &out))
        rt_output_lost(rt, "profile", path);
}
