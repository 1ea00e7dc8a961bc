/* SPDX-License-Identifier: Apache-2.0 */
/* toy_trainer.c: a trainer written by hand, for tests of the runtime alone. In: WORLD,
 * UNSHARDED, COPIES, COMM_THREAD and DTYPE from the compiler. Out: a program as fsdpgen
 * would emit one, for a "model" whose loss is the sum of (w[token] - target)^2 / 2 over
 * two tables in two segments. TOY_FAULT=KIND:RANK:STEP[-LAST] plants a fault in the
 * middle of a step, or of several. */
#include "faults.h"

#ifndef WORLD
#define WORLD 2
#endif
#ifndef UNSHARDED
#define UNSHARDED 0 /* accumulation */
#endif
#ifndef COPIES
#define COPIES 1 /* of the weights; WORLD: NO_SHARD, in between: HYBRID_SHARD */
#endif
#ifndef COMM_THREAD
#define COMM_THREAD 0
#endif
#ifndef DTYPE
#define DTYPE 0 /* 0: f32, 1: f64, 2: bf16 parameters and reduction */
#endif
#ifndef MAX_SKIPPED
#define MAX_SKIPPED 0
#endif
#ifndef EXTRA_BYTES
#define EXTRA_BYTES 0 /* of the local space */
#endif
#ifndef NUMERICS
#define NUMERICS DTYPE
#endif

#if DTYPE == 1
typedef double Real;
#define REAL RT_F64
#define LOAD(x) (x)
#define STORE(x) (x)
#elif DTYPE == 2
typedef rt_bf16 Real;
#define REAL RT_BF16
#define LOAD(x) rt_f32_from_bf16(x)
#define STORE(x) rt_bf16_from_f32(x)
#else
typedef float Real;
#define REAL RT_F32
#define LOAD(x) (x)
#define STORE(x) (x)
#endif
#if DTYPE == 1
typedef double Master;
#define MASTER RT_F64
#else
typedef float Master;
#define MASTER RT_F32
#endif

enum {
    VOCAB = 250,
    SEQ = 64,
    MICRO_BATCH = 2,
    TOKENS = SEQ * MICRO_BATCH,
    MICRO_BATCHES = 16,
    LEAVES = 8,
    LEAF = MICRO_BATCHES / LEAVES,
    ROUNDS = LEAVES / WORLD,
    SHARDS = WORLD / COPIES,
    /* segment 0: table [250, 41] and bias [7]; segment 1: other [250, 13], ones [3] */
    TABLE = VOCAB * 41,
    BIAS_AT = 11 * 1024,
    BIAS = 7,
    OTHER = VOCAB * 13,
    ONES_AT = 4 * 1024,
    ONES = 3,
    ALIGN_SHARD = 1024,
#define SHARD_OF(end) (((end) + SHARDS * 1024 - 1) / (SHARDS * 1024) * 1024)
    SHARD0 = SHARD_OF(BIAS_AT + BIAS),
    ELEMS0 = SHARD0 * SHARDS,
    SHARD1 = SHARD_OF(ONES_AT + ONES),
    ELEMS1 = SHARD1 * SHARDS,
    PARTIAL0 = UNSHARDED ? ELEMS0 : SHARD0,
    PARTIAL1 = UNSHARDED ? ELEMS1 : SHARD1,
    LEVELS = 4,
    /* symmetric space */
    S_PARAM0 = 0,
    S_PARAM1 = S_PARAM0 + SHARD0 * (int)sizeof(Real),
    S_GRAD0 = S_PARAM1 + SHARD1 * (int)sizeof(Real),
    S_GRAD1 = S_GRAD0 + ELEMS0 * (int)sizeof(Real),
    S_SUM0 = S_GRAD1 + ELEMS1 * (int)sizeof(Real),
    S_SUM1 = S_SUM0 + SHARD0 * (int)sizeof(Real),
    S_CONTROL = S_SUM1 + SHARD1 * (int)sizeof(Real),
    S_BYTES = S_CONTROL + (int)RT_CONTROL_BYTES(MICRO_BATCHES),
    /* local space */
    L_MASTER0 = 0,
    L_MASTER1 = L_MASTER0 + SHARD0 * (int)sizeof(Master),
    L_M0 = L_MASTER1 + SHARD1 * (int)sizeof(Master),
    L_M1 = L_M0 + SHARD0 * (int)sizeof(Master),
    L_V0 = L_M1 + SHARD1 * (int)sizeof(Master),
    L_V1 = L_V0 + SHARD0 * (int)sizeof(Master),
    L_SUM0 = L_V1 + SHARD1 * (int)sizeof(Master),
    L_SUM1 = L_SUM0 + SHARD0 * (int)sizeof(Real),
    L_PARTIAL0 = L_SUM1 + SHARD1 * (int)sizeof(Real),
    L_PARTIAL1 = L_PARTIAL0 + LEVELS * PARTIAL0 * (int)sizeof(Real),
    L_GATHERED0 = L_PARTIAL1 + LEVELS * PARTIAL1 * (int)sizeof(Real),
    L_GATHERED1 = L_GATHERED0 + ELEMS0 * (int)sizeof(Real),
    L_TOKENS = L_GATHERED1 + ELEMS1 * (int)sizeof(Real),
    L_TARGETS = L_TOKENS + TOKENS * 4,
    L_BYTES = L_TARGETS + TOKENS * 4,
};

enum { AT_FORWARD, AT_BACKWARD, AT_REDUCE, AT_UPDATE, N_PLACES };
static const char *const places[N_PLACES] = {"table forward", "table backward", "merge",
                                             "update"};

static const RtParam params[] = {
    {.name = "table.weight",
     .segment = 0,
     .offset_elems = 0,
     .elems = TABLE,
     .n_dims = 2,
     .dim = {VOCAB, 41},
     .init = RT_INIT_NORMAL,
     .init_std = 0.02,
     .weight_decay = 0.1},
    {.name = "table.bias",
     .segment = 0,
     .offset_elems = BIAS_AT,
     .elems = BIAS,
     .n_dims = 1,
     .dim = {BIAS},
     .init = RT_INIT_ZEROS},
    {.name = "other.weight",
     .segment = 1,
     .offset_elems = 0,
     .elems = OTHER,
     .n_dims = 2,
     .dim = {VOCAB, 13},
     .init = RT_INIT_NORMAL,
     .init_std = 0.1,
     .weight_decay = 0.1},
    {.name = "other.ones",
     .segment = 1,
     .offset_elems = ONES_AT,
     .elems = ONES,
     .n_dims = 1,
     .dim = {ONES},
     .init = RT_INIT_ONES},
};
static const int segment_params[] = {0, 1, 2, 3};
static const RtSegment segments[] = {
    {.name = "table",
     .dtype = REAL,
     .elems = ELEMS0,
     .shard_elems = SHARD0,
     .shards = SHARDS,
     .within = SHARDS - 1,
     .across = (WORLD - 1) & ~(SHARDS - 1),
     .same = (WORLD - 1) & ~(SHARDS - 1),
     .first_param = 0,
     .n_params = 2,
     .param_shard = S_PARAM0,
     .master = DTYPE == 1 ? -1 : L_MASTER0,
     .moment1 = L_M0,
     .moment2 = L_V0,
     .grad_shard = COPIES > 1 ? S_SUM0 : L_SUM0,
     .grad_accum = UNSHARDED && (SHARDS > 1 || COPIES == 1) ? S_GRAD0 : -1,
     .partials = L_PARTIAL0,
     .partial_elems = PARTIAL0},
    {.name = "other",
     .dtype = REAL,
     .elems = ELEMS1,
     .shard_elems = SHARD1,
     .shards = SHARDS,
     .within = SHARDS - 1,
     .across = (WORLD - 1) & ~(SHARDS - 1),
     .same = (WORLD - 1) & ~(SHARDS - 1),
     .first_param = 2,
     .n_params = 2,
     .param_shard = S_PARAM1,
     .master = DTYPE == 1 ? -1 : L_MASTER1,
     .moment1 = L_M1,
     .moment2 = L_V1,
     .grad_shard = COPIES > 1 ? S_SUM1 : L_SUM1,
     .grad_accum = UNSHARDED && (SHARDS > 1 || COPIES == 1) ? S_GRAD1 : -1,
     .partials = L_PARTIAL1,
     .partial_elems = PARTIAL1},
};
/* Where the ranks of a copy are one rank, its gradient lies where copies sum it. */
static const int64_t grad_at[] = {SHARDS == 1 && COPIES > 1 ? S_SUM0 : S_GRAD0,
                                  SHARDS == 1 && COPIES > 1 ? S_SUM1 : S_GRAD1};

static const int64_t gathered_at[] = {L_GATHERED0, L_GATHERED1};
static const int64_t width_of[] = {41, 13};

/* ---- faults ---------------------------------------------------------------------- */

static int steps_begun;

static void plant_fault(Rt *rt)
{
    plant_any_fault(rt, steps_begun);
    if (fault(rt, "nan", steps_begun))
        *(Real *)rt_symmetric(rt, grad_at[0]) = STORE(__builtin_nanf(""));
    else if (fault(rt, "inf", steps_begun))
        *(Real *)rt_symmetric(rt, grad_at[1]) = STORE(__builtin_inff());
    else if (fault(rt, "nanloss", steps_begun))
        *rt_loss_slot(rt) = __builtin_nan("");
}

/* ---- the mathematics ------------------------------------------------------------- */

static double micro_step(Rt *rt, int segment, const Real *w, Real *grad, bool add)
{
    const int32_t *token = rt_local(rt, L_TOKENS), *target = rt_local(rt, L_TARGETS);
    const int64_t width = width_of[segment];
    double loss = 0;
    if (!add)
        memset(grad, 0, (size_t)segments[segment].elems * sizeof *grad);
    for (int t = 0; t < TOKENS; t++) {
        for (int64_t i = 0; i < width; i++) {
            const int64_t at = token[t] * width + i;
            const Master d = LOAD(w[at]) - (Master)target[t] / VOCAB;
            grad[at] = STORE((Master)LOAD(grad[at]) + d);
            loss += 0.5 * (double)d * (double)d;
        }
    }
    const int64_t small = segment == 0 ? BIAS_AT : ONES_AT;
    for (int64_t i = 0; i < params[2 * segment + 1].elems; i++) {
        grad[small + i] = STORE((Master)LOAD(grad[small + i]) +
                                (Master)LOAD(w[small + i]) + (Master)token[i] / 7);
    }
    return loss;
}

static void adamw(const RtUpdate *u, const RtUpdateRun *run)
{
    Master *p = run->master, *m = run->moment1, *v = run->moment2;
    const Real *g = run->grad;
    Real *out = run->weights;
    for (int64_t i = 0; i < run->elems; i++) {
        const Master x = (Master)LOAD(g[i]) * (Master)u->scale64;
        m[i] += (x - m[i]) * (Master)0.1;
        v[i] = v[i] * (Master)0.95 + (Master)0.05 * x * x;
        p[i] = p[i] * (Master)(1 - u->lr64 * run->weight_decay) -
               (Master)(u->lr64 / u->bias1_64) * m[i] /
                   ((Master)rt_sqrt((double)v[i] / u->bias2_64) + (Master)1e-8);
        out[i] = STORE(p[i]);
    }
}

/* ---- the step -------------------------------------------------------------------- */

static const Real *weights(Rt *rt, int segment)
{
    if (SHARDS == 1)
        return rt_symmetric(rt, segments[segment].param_shard);
    return rt_local(rt, gathered_at[segment]);
}

static void one_micro_batch(Rt *rt, int64_t index, bool add)
{
    rt_load_micro_batch(rt, index);
    if (SHARDS > 1) {
        rt_all_gather_start(rt, 0, L_GATHERED0);
        rt_all_gather_start(rt, 1, L_GATHERED1);
    }
    rt_at(rt, AT_FORWARD);
    double loss = 0;
    for (int s = 0; s < 2; s++) {
        if (SHARDS > 1)
            rt_wait_gather(rt, s);
        rt_at(rt, AT_BACKWARD);
        loss += micro_step(rt, s, weights(rt, s), rt_symmetric(rt, grad_at[s]), add);
    }
    *rt_loss_slot(rt) = loss;
}

/* Within a copy (WORLD 1: a reduction among one), over rounds, across copies; unsharded:
 * over rounds first. */
static void finish_leaf(Rt *rt, int64_t round)
{
    const bool last = round == ROUNDS - 1, within = SHARDS > 1 || COPIES == 1;
    rt_at(rt, AT_REDUCE);
    rt_round(rt, round);
    for (int s = 0; UNSHARDED && s < 2; s++)
        rt_merge_segment(rt, s);
    for (int s = 0; within && (last || !UNSHARDED) && s < 2; s++)
        rt_reduce_scatter_start(rt, s, grad_at[s], segments[s].grad_shard);
    for (int s = 0; (last || !UNSHARDED) && s < 2; s++) {
        if (within)
            rt_wait_reduce(rt, s);
        if (!UNSHARDED)
            rt_merge_segment(rt, s);
    }
    for (int s = 0; COPIES > 1 && last && s < 2; s++) {
        rt_all_reduce_start(rt, s, segments[s].grad_shard);
        rt_wait_reduce(rt, s);
    }
}

static void step(Rt *rt)
{
    steps_begun++;
    for (int64_t round = 0; round < ROUNDS; round++) {
        const int64_t leaf = rt_leaf(rt, round);
        for (int64_t i = 0; i < LEAF; i++)
            one_micro_batch(rt, leaf * LEAF + i, i > 0);
        if (round == 0)
            plant_fault(rt);
        finish_leaf(rt, round);
    }
    rt_norm_add(rt, 0);
    rt_norm_add(rt, 1);
    rt_norm_reduce(rt);
    rt_at(rt, AT_UPDATE);
    rt_update_segment(rt, 0, adamw);
    rt_update_segment(rt, 1, adamw);
}

static void setup(Rt *rt)
{
    (void)rt;
}

static const RtMemory memory[] = {{"everything", S_BYTES + L_BYTES}};

static const RtTrainer trainer = {
    .name = "toy",
    .generator = "by hand",
    .numerics_hash = NUMERICS,
    .world_size = WORLD,
    .all = WORLD - 1,
    .data = WORLD - 1,
    .replicate = (WORLD - 1) & ~(SHARDS - 1),
    .param_dtype = REAL,
    .reduce_dtype = REAL,
    .master_dtype = MASTER,
    .moments_dtype = MASTER,
    .seq_tokens = SEQ,
    .vocab = VOCAB,
    .micro_batch = MICRO_BATCH,
    .micro_batches = MICRO_BATCHES,
    .leaves = LEAVES,
    .rounds = ROUNDS,
    .summed_first = UNSHARDED ? 0 : SHARDS - 1,
    .summed_last = (WORLD - 1) & ~(UNSHARDED ? 0 : SHARDS - 1),
    .comm_thread = COMM_THREAD,
    .seed = 1,
    .max_skipped = MAX_SKIPPED,
    .optimizer = {.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .clip = 1.0},
    .schedule = {.ratio = rt_lr_cosine, .warmup_steps = 2, .steps = 5, .min_ratio = 0.1},
    .flops_per_token = 100,
    .planned_step_seconds = 0.01,
    .params_elems = TABLE + BIAS + OTHER + ONES,
    .symmetric_bytes = S_BYTES,
    .local_bytes = L_BYTES + EXTRA_BYTES,
    .n_params = 4,
    .params = params,
    .n_segments = 2,
    .segments = segments,
    .segment_params = segment_params,
    .n_memory = 1,
    .memory = memory,
    .tokens_offset = L_TOKENS,
    .targets_offset = L_TARGETS,
    .control_offset = S_CONTROL,
    .places = places,
    .n_places = N_PLACES,
    .build_flags = "test",
    .arithmetic = "toy",
    .setup = setup,
    .step = step,
};

int main(int argc, char **argv)
{
    return rt_main(&trainer, argc, argv);
}
