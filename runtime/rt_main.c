/* SPDX-License-Identifier: MIT-0 */
/* rt_main.c: the life of a trainer. In: the emitted RtTrainer, the command line. Out: a run.
 * rt_main → rt_join or rt_launch → rt_rank_main, once in each rank. */
#define _GNU_SOURCE
#include "rt_private.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static void one_step(Rt *rt)
{
    RtState *st = rt->state;
    const double begin = rt_clock();
    atomic_store(&st->shared->rank[rt->rank].step, st->step + 1);
    rt->trainer->step(rt);
    rt_comm_step_end(rt);
    st->beta1_power *= rt->trainer->optimizer.beta1;
    st->beta2_power *= rt->trainer->optimizer.beta2;
    st->updates++;
    if (st->step == 0 && st->flags.debug_gradients)
        rt_debug_gradients(rt, st->flags.debug_gradients);
    rt_log_step(rt, rt_clock() - begin);
}

static void open_data(Rt *rt)
{
    char error[640];
    rt->state->tokens = rt_tokens_open(rt->trainer, &rt->state->flags, error, sizeof error);
    if (!rt->state->tokens)
        rt_fail(rt, RT_EXIT_ERROR, "%s", error);
}

int rt_rank_main(const RtTrainer *t, const RtFlags *f, int fd, int rank, int threads)
{
    static RtState state;
    static Rt rt;
    rt = (Rt){.rank = rank, .world_size = t->world_size, .threads = threads, .trainer = t,
              .state = &state};
    state.flags = *f;
    state.beta1_power = state.beta2_power = 1.0;
    state.losses = calloc((size_t)t->micro_batches, sizeof *state.losses);
    state.shared = mmap(NULL, sizeof(RtShared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (state.shared == MAP_FAILED || !state.losses) {
        fprintf(stderr, "[rank %d] error: out of memory\n", rank);
        return RT_EXIT_ERROR;
    }
#ifdef _OPENMP
    omp_set_num_threads(threads);
    omp_set_dynamic(0);
#endif
    char error[256];
    if (!rt_arena_map(&rt, fd, f->guard, error, sizeof error))
        rt_fail(&rt, RT_EXIT_ERROR, "%s", error);
    open_data(&rt);
    rt_init_weights(&rt);
    t->setup(&rt);
    rt_log_start(&rt);
    for (state.step = 0; state.step < f->steps; state.step++)
        one_step(&rt);
    rt_log_end(&rt);
    if (f->weights_hash) {
        const uint64_t hash = rt_weights_hash(&rt);
        if (rank == 0)
            printf("weights %016llx\n", (unsigned long long)hash);
    }
    const bool failed = rank == 0 && (fflush(stdout) != 0 || ferror(stdout));
    if (failed)
        rt_fail(&rt, RT_EXIT_ERROR, "stdout cannot be written");
    atomic_store(&state.shared->rank[rank].done, 1);
    return RT_EXIT_OK;
}

int rt_main(const RtTrainer *trainer, int argc, char **argv)
{
    RtFlags flags;
    const int rc = rt_flags_parse(&flags, trainer, argc, argv);
    if (rc >= 0)
        return rc;
    if (flags.numerics_hash) {
        char text[512];
        const uint64_t platform = rt_platform_hash(trainer, text, sizeof text);
        printf("numerics %016llx\nplatform %016llx %s\n",
               (unsigned long long)trainer->numerics_hash, (unsigned long long)platform, text);
        return RT_EXIT_OK;
    }
    /* A mistake in the data is told once, before any rank starts. */
    char error[640];
    if (!rt_tokens_open(trainer, &flags, error, sizeof error)) {
        fprintf(stderr, "trainer: error: %s\n", error);
        return RT_EXIT_ERROR;
    }
    const int joined = rt_join(trainer, &flags);
    return joined >= 0 ? joined : rt_launch(trainer, &flags);
}
