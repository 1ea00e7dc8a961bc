/* SPDX-License-Identifier: Apache-2.0 */
/* plant.c, linked into an emitted trainer (--wrap=rt_at, rt_norm_add, rt_merge_segment,
 * rt_reduce_scatter_start): one number of a step is not finite, on one rank. In: the
 * trainer's own tables.h; PLANT=SITE:KIND:RANK:STEP:MICRO, KIND nan or inf, STEP 1-based,
 * MICRO the rank's micro-step; PLANT=list prints the sites. Out: that number, and
 * `planted` on stderr.
 *
 * Sites are buffers that the next part of the step reads: what a block's forward left
 * (OUT_*, SAVED_*), gradients on their way back (D_OUT_*), parameters' gradients before
 * ranks and micro-steps are summed, after each sum, and when all are, and the loss. */
#include "rt_private.h"
#include "state/rt_state.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

void __real_rt_at(Rt *rt, int place);
void __wrap_rt_at(Rt *rt, int place);
void __real_rt_norm_add(Rt *rt, int segment);
void __wrap_rt_norm_add(Rt *rt, int segment);
void __real_rt_merge_segment(Rt *rt, int segment);
void __wrap_rt_merge_segment(Rt *rt, int segment);
void __real_rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result);
void __wrap_rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result);

/* Buffers in the local space, and the place whose work reads them. */
static const struct Site {
    const char *name;
    int place;
    int64_t at;
} sites[] = {
    {"out_embed", AT_LAYERS_0_FORWARD, OUT_EMBED},
    {"out_layers_0", AT_LAYERS_1_FORWARD, OUT_LAYERS_0},
    {"out_layers_1", AT_LAYERS_2_FORWARD, OUT_LAYERS_1},
    {"out_layers_2", AT_HEAD_FORWARD, OUT_LAYERS_2},
    {"saved_layers_0", AT_LAYERS_0_BACKWARD, SAVED_LAYERS_0},
    {"saved_layers_1", AT_LAYERS_1_BACKWARD, SAVED_LAYERS_1},
    {"saved_layers_2", AT_LAYERS_2_BACKWARD, SAVED_LAYERS_2},
    {"saved_head", AT_HEAD_BACKWARD, SAVED_HEAD},
    {"d_out_layers_2", AT_LAYERS_2_BACKWARD, D_OUT_LAYERS_2},
    {"d_out_layers_1", AT_LAYERS_1_BACKWARD, D_OUT_LAYERS_1},
    {"d_out_layers_0", AT_LAYERS_0_BACKWARD, D_OUT_LAYERS_0},
    {"d_out_embed", AT_EMBED_BACKWARD, D_OUT_EMBED},
};
enum { N_SITES = sizeof sites / sizeof *sites };

static struct Plan {
    char site[64];
    double value;
    int rank, micro;
    long long step;
} plan;

static bool asked(void)
{
    const char *text = getenv("PLANT");
    char kind[8];

    if (!plan.site[0] && text)
        if (sscanf(text, "%63[^:]:%7[^:]:%d:%lld:%d", plan.site, kind, &plan.rank,
                   &plan.step, &plan.micro) == 5)
            plan.value = strcmp(kind, "inf") ? __builtin_nan("") : __builtin_inf();
    return plan.site[0] != '\0';
}

/* Micro-steps of this rank in the step at hand: each begins with the embedding. */
static int64_t step_now;
static int micro_now;

static bool is_now(const Rt *rt, bool any_micro)
{
    return asked() && rt->rank == plan.rank && rt->state->step + 1 == plan.step &&
           (any_micro || micro_now == plan.micro);
}

static void put(RtDtype d, void *at)
{
    static bool done;

    if (done)
        return;
    done = true;
    rt_store(d, at, 0, plan.value, false);
    fprintf(stderr, "planted: %s\n", plan.site);
}

/* "grad:SEGMENT" and the like: is the plan of this segment? */
static bool names(const char *kind, const char *segment)
{
    const size_t n = strlen(kind);

    return !strncmp(plan.site, kind, n) && plan.site[n] == '.' &&
           !strcmp(plan.site + n + 1, segment);
}

/* ---- the step's calls ------------------------------------------------------------ */

static void put_first(void *ctx, const RtRun *run)
{
    Rt *rt = ctx;
    const RtDtype d = rt->trainer->reduce_dtype;

    put(d, rt_grad_shard(rt, run->param->segment) +
               (run->shard_offset_elems + run->elems / 2) * (int64_t)rt_dtype_bytes(d));
}

static void list_sites(void)
{
    static const char *const kinds[] = {"grad", "node", "sum"};

    for (int i = 0; i < N_SITES; i++)
        printf("%s\n", sites[i].name);
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < N_SEGMENTS; s++)
            printf("%s.%s\n", kinds[k], trainer_segments[s].name);
    printf("loss\n");
    exit(0);
}

void __wrap_rt_at(Rt *rt, int place)
{
    const RtTrainer *t = rt->trainer;

    __real_rt_at(rt, place);
    if (getenv("PLANT") && !strcmp(getenv("PLANT"), "list") && rt->rank == 0)
        list_sites();
    if (step_now != rt->state->step + 1) {
        step_now = rt->state->step + 1;
        micro_now = -1;
    }
    micro_now += place == AT_EMBED_FORWARD;
    for (int i = 0; i < N_SITES && is_now(rt, false); i++)
        if (place == sites[i].place && !strcmp(plan.site, sites[i].name))
            put(t->param_dtype, rt_local(rt, sites[i].at));
    if (place == AT_NORM && is_now(rt, true) && !strcmp(plan.site, "loss"))
        put(RT_F64, rt_loss_slot(rt));
}

/* The sum over everything, which the norm and the optimizer read next. */
void __wrap_rt_norm_add(Rt *rt, int segment)
{
    if (is_now(rt, true) && names("sum", rt->trainer->segments[segment].name))
        rt_share_runs(rt, segment, put_first, rt);
    __real_rt_norm_add(rt, segment);
}

/* A gradient of one rank and micro-step, before it is summed with others'. */
static void plant_gradient(Rt *rt, int segment, void *grad)
{
    if (is_now(rt, false) && names("grad", rt->trainer->segments[segment].name))
        put(rt->trainer->reduce_dtype, grad);
}

void __wrap_rt_reduce_scatter_start(Rt *rt, int segment, int64_t grad, int64_t result)
{
    plant_gradient(rt, segment, rt_symmetric(rt, grad));
    __real_rt_reduce_scatter_start(rt, segment, grad, result);
}

/* A sum on its way into the tree over leaves. */
void __wrap_rt_merge_segment(Rt *rt, int segment)
{
    const RtTrainer *t = rt->trainer;
    const RtSegment *s = &t->segments[segment];
    void *node = s->grad_accum >= 0 ? rt_symmetric(rt, s->grad_accum)
                 : s->across        ? rt_symmetric(rt, s->grad_shard)
                                    : rt_local(rt, s->grad_shard);

    if (s->shards == 1 || t->summed_first == 0)
        plant_gradient(rt, segment, node);
    if (is_now(rt, false) && names("node", s->name))
        put(t->reduce_dtype, node);
    __real_rt_merge_segment(rt, segment);
}
