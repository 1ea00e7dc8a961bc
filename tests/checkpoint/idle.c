/* SPDX-License-Identifier: Apache-2.0 */
/* idle.c, linked into a trainer (--wrap=rt_main): a step that computes nothing. Its
 * update adds to each master, and writes into its gradient and moments, a small whole
 * number that depends on the parameter and the element alone; so sums of them are exact.
 * Masters and moments are f32, and weights f32 or bf16. */
#include "rt.h"

int __real_rt_main(const RtTrainer *trainer, int argc, char **argv);
int __wrap_rt_main(const RtTrainer *trainer, int argc, char **argv);

static RtTrainer t;

static void touch(const RtUpdate *u, const RtUpdateRun *r)
{
    const RtDtype dtype = t.segments[r->param->segment].dtype;
    float *master = r->master, *moment1 = r->moment1, *moment2 = r->moment2;

    (void)u;
    for (int64_t i = 0; i < r->elems; i++) {
        const float x = (float)((r->element + i + (r->param - t.params)) * 7 % 101);

        master[i] += x;
        ((float *)r->grad)[i] = x;
        moment1[i] = x + 1;
        moment2[i] = x + 2;
        if (dtype == RT_BF16)
            ((rt_bf16 *)r->weights)[i] = rt_bf16_from_master(master[i]);
    }
}

static void step(Rt *rt)
{
    for (int i = 0; i < t.n_segments; i++)
        rt_update_segment(rt, i, touch);
}

int __wrap_rt_main(const RtTrainer *trainer, int argc, char **argv)
{
    t = *trainer;
    t.step = step;
    return __real_rt_main(&t, argc, argv);
}
