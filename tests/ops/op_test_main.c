/* SPDX-License-Identifier: Apache-2.0 */
/* op_test_main.c: the test of op folders (gen/op_test) as a program of this repository's
 * own tests. In: op folders, built in or from --ops DIR; the runtime that it links. Out:
 * failures on stdout, exit code 1 if any. */
#include "op_test/op_test.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The runtime's symbols, so that the linker keeps them for the shared objects. */
const void *const op_test_keeps[] = {
    (const void *)rt_gemm, (const void *)rt_gemm_bias, (const void *)rt_gemm_prepare,
    (const void *)rt_noise, (const void *)omp_set_num_threads};

typedef struct Flags {
    const char *work, *only, *ops, *share, *cc, *flags, *cases, *seed, *digests, *golden,
        *bytes, *target, *formulas;
    const char *device, *nvcc, *jobs, *root;
} Flags;

static bool parse(int argc, char **argv, Flags *o)
{
    const struct {
        const char *flag;
        const char **value;
    } known[] = {
        {"--work", &o->work},         {"--only", &o->only},   {"--ops", &o->ops},
        {"--share", &o->share},       {"--cc", &o->cc},       {"--flags", &o->flags},
        {"--cases", &o->cases},       {"--seed", &o->seed},   {"--digests", &o->digests},
        {"--target", &o->target},     {"--nvcc", &o->nvcc},   {"--device", &o->device},
        {"--jobs", &o->jobs},         {"--root", &o->root},   {"--golden", &o->golden},
        {"--formulas", &o->formulas}, {"--bytes", &o->bytes},
    };

    for (int i = 1; i < argc; i += 2) {
        bool found = false;

        for (size_t k = 0; k < sizeof known / sizeof *known && i + 1 < argc; k++)
            if (!strcmp(argv[i], known[k].flag)) {
                *known[k].value = argv[i + 1];
                found = true;
            }
        if (!found)
            return false;
    }
    return o->work != NULL && (!strcmp(o->target, "cpu") || !strcmp(o->target, "cuda")) &&
           (!o->device || (o->nvcc && !strcmp(o->target, "cuda")));
}

static int run(const Flags *f)
{
    static Gen g;
    const int jobs = atoi(f->jobs);
    const OpTestOptions o = {
        .ops = f->ops,
        .only = f->only,
        .target = f->target,
        .root = f->root,
        .work = f->work,
        .cc = f->cc,
        .flags = gen_printf(&g, "%s %s", OP_TEST_NUMERIC_FLAGS, f->flags),
        .device = f->device,
        .nvcc = f->nvcc,
        .cases = atoll(f->cases),
        .seed = atoll(f->seed),
        .jobs = jobs > 0 ? jobs : 1,
        .digests = f->digests != NULL,
        .golden = f->golden != NULL,
        .bytes = f->bytes != NULL,
        .formulas = f->formulas != NULL,
    };
    int failures;

    printf("op_test: seed %s, %s cases for each op and dtype\n", f->seed, f->cases);
    failures = op_test(&g, &o);
    if (failures >= 0)
        printf("op_test: %d failures\n", failures);
    return failures ? 1 : 0;
}

int main(int argc, char **argv)
{
    Flags o = {.cc = OP_TEST_CC,
               .flags = OP_TEST_FLAGS,
               .cases = "2",
               .seed = "1",
               .target = "cpu",
               .jobs = "2",
               .root = OP_TEST_ROOT};

    /* waiting threads that spin would starve the others: here there are more than cores.
     * OpenMP reads its environment before main. */
    if (!getenv("OMP_WAIT_POLICY") && setenv("OMP_WAIT_POLICY", "passive", 1) == 0)
        execv("/proc/self/exe", argv);
    if (!parse(argc, argv, &o)) {
        fprintf(stderr,
                "usage: op_test --work DIR [--only OP,OP] [--cases N] [--seed N]\n"
                "               [--ops DIR] [--share DIR] [--cc CC] [--flags FLAGS]\n"
                "               [--digests yes] [--golden yes] [--jobs N] [--target "
                "cpu|cuda]\n"
                "               [--device SO --nvcc FILE]: of cuda, on a real GPU\n"
                "               [--root DIR]: of the sources, where they were moved\n"
                "               [--bytes yes]: only what kernels of cuda.cu move\n"
                "               [--formulas yes]: ops f1, f2, ... of formulas.awk\n");
        return 2;
    }
    if (o.share)
        embed_share(o.share);
    return run(&o);
}
