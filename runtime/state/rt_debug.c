/* SPDX-License-Identifier: MIT-0 */
/* rt_debug.c: --debug-gradients. In: the first step's summed gradient. Out: for each
 * parameter its norm and two signed random projections, of the mean gradient before
 * clipping, as JSON. Another system can compute and compare these numbers: the signs of
 * element e are bits 0 and 1 of the first two words of Philox(seed 0, site PROJECTION, e,
 * stream of the name). */
#include "job/rt_file.h"
#include "job/rt_out.h"
#include "rt_philox.h"
#include "rt_target.h"
#include "state/rt_state.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Sums {
    double squares, projection[2];
} Sums;
typedef struct DebugShard {
    Rt *rt;
    char *grad;
    Sums *sums;
} DebugShard;

static double load(RtDtype d, const char *p, int64_t i)
{
    if (d == RT_F64)
        return ((const double *)p)[i];
    if (d == RT_F32)
        return ((const float *)p)[i];
    return rt_f32_from_bf16(((const rt_bf16 *)p)[i]); /* no gradient is summed in f16 */
}

/* Elements from .. from + n of the run. */
static void debug_slice(void *ctx, const RtRun *run, int64_t from, int64_t n)
{
    const DebugShard *s = ctx;
    const RtDtype dtype = s->rt->trainer->reduce_dtype;
    const int64_t item = (int64_t)rt_dtype_bytes(dtype);
    const uint32_t stream = rt_name_stream(run->param->name);
    const char *grad = rt_window(
        s->rt, 0, s->grad + (run->shard_offset_elems + from) * item, n * item, RT_READ);
    Sums *sum = &s->sums[run->param_id];
    for (int64_t i = 0; i < n; i++) {
        const double g = load(dtype, grad, i);
        const RtWords r =
            rt_philox(0, RT_SITE_PROJECTION, (uint64_t)(run->element + from + i), stream);
        sum->squares += g * g;
        sum->projection[0] += r.w[0] & 1 ? -g : g;
        sum->projection[1] += r.w[1] & 1 ? -g : g;
    }
    rt_window_close(s->rt, 0);
}

static void debug_run(void *ctx, const RtRun *run)
{
    rt_run_windows(ctx, run, debug_slice);
}

static void write_json(Rt *rt, const char *path, const Sums *sums)
{
    const RtTrainer *t = rt->trainer;
    const int64_t targets = rt->state->valid_tokens;
    const double mean = targets > 0 ? (double)targets : 1; /* then all sums are 0 */
    const double tokens = mean * rt_scale(rt);
    static RtOutput out;
    if (!rt_output_begin(&out, path, rt_output_begins(rt, "debug-gradients")))
        rt_fail(rt, RT_EXIT_ERROR, "--debug-gradients %s: %s", path, rt_output_reason());
    FILE *f = out.f;
    fprintf(f, "{\"loss\": ");
    rt_json_number(f, targets > 0 ? rt->state->loss : NAN);
    fprintf(f, ", \"parameters\": [\n");
    const char *before = "";
    for (int i = 0; i < t->n_params; i++) {
        if (t->segments[t->params[i].segment].grad_shard < 0)
            continue;
        const double x[] = {rt_sqrt(sums[i].squares) / tokens,
                            sums[i].projection[0] / tokens,
                            sums[i].projection[1] / tokens};
        static const char *const names[] = {"norm\": ", "projections\": [", ""};
        fprintf(f, "%s  {\"name\": \"%s\"", before, t->params[i].name);
        for (int k = 0; k < 3; k++) { /* null: f16 overflowed */
            fprintf(f, k == 2 ? ", %s" : ", \"%s", names[k]);
            rt_json_number(f, x[k]);
        }
        fprintf(f, "]}");
        before = ",\n";
    }
    fprintf(f, "\n]}\n");
    if (!rt_output_end(rt, &out))
        rt_fail(rt, RT_EXIT_ERROR, "--debug-gradients %s: %s", path, rt_output_reason());
}

/* Collective. Slow, because it is rarely used: the sums travel a few parameters at a
 * time. */
void rt_debug_gradients(Rt *rt, const char *path)
{
    const RtTrainer *t = rt->trainer;
    Sums *sums = calloc((size_t)t->n_params + 1, sizeof *sums);
    if (sums == NULL)
        rt_fail(rt, RT_EXIT_ERROR, "--debug-gradients: out of memory");
    for (int i = 0; i < t->n_segments; i++) {
        if (t->segments[i].grad_shard < 0)
            continue; /* frozen */
        DebugShard s = {rt, rt_grad_shard(rt, i), sums};
        rt_enter(rt, RT_AT_LOG);
        rt_share_runs(rt, i, debug_run, &s);
    }
    enum { BATCH = 16 }; /* fits the control area with any number of micro-batches */
    for (int at = 0; at < t->n_params; at += BATCH) {
        const int n = t->n_params - at < BATCH ? t->n_params - at : BATCH;
        rt_exchange_begin(rt);
        memcpy(rt_control(rt, rt->rank), sums + at, (size_t)n * sizeof *sums);
        rt_exchange_publish(rt, (size_t)n * sizeof *sums);
        for (int i = 0; i < n; i++) {
            Sums total = {0};
            for (int r = 0; r < rt->world_size; r++) {
                const Sums *part = (const Sums *)rt_control(rt, r) + i;
                total.squares += part->squares;
                total.projection[0] += part->projection[0];
                total.projection[1] += part->projection[1];
            }
            sums[at + i] = total;
        }
        rt_exchange_end(rt);
    }
    if (rt->rank == 0)
        write_json(rt, path, sums);
    free(sums);
}
