/* SPDX-License-Identifier: Apache-2.0 */
/* test_plan: the planning passes on random synthetic models.
 *
 *   test_plan [models] [seed]
 *
 * For each model: a plain run on one rank with no bytes shared is the reference; random
 * choices of mesh, wrap, prefetch, reshard and accumulation must pass all checkers and
 * give the same bits under random legal orders. Then: every wait removed in turn, planted
 * faults, happens-before against a plain search over all ranks of a mesh, groups of any
 * masks, and placement of models of real size. Prints 'N passed, N failed'. */
#include "test_plan.h"

#include "rt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int tests_passed, tests_failed, test_tally[TALLY];

void test_that(bool ok, const char *fmt, ...)
{
    va_list ap;
    if (ok) {
        tests_passed++;
        return;
    }
    tests_failed++;
    printf("FAIL ");
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

typedef struct Counts {
    int passed, failed, tally[TALLY];
} Counts;

void test_forked(void (*fn)(uint64_t arg), uint64_t arg)
{
    int ends[2], status = 0;
    pid_t child;
    Counts c = {0, 0, {0}};
    gen_require(pipe(ends) == 0, "no pipe");
    fflush(stdout);
    child = fork();
    gen_require(child >= 0, "no process");
    if (child == 0) {
        tests_passed = tests_failed = 0;
        memset(test_tally, 0, sizeof test_tally);
        fn(arg);
        c.passed = tests_passed;
        c.failed = tests_failed;
        memcpy(c.tally, test_tally, sizeof c.tally);
        fflush(stdout);
        _exit(write(ends[1], &c, sizeof c) == sizeof c ? 0 : 1);
    }
    close(ends[1]);
    if (read(ends[0], &c, sizeof c) != sizeof c)
        memset(&c, 0, sizeof c);
    close(ends[0]);
    waitpid(child, &status, 0);
    tests_passed += c.passed;
    tests_failed += c.failed;
    for (int i = 0; i < TALLY; i++)
        test_tally[i] += c.tally[i];
    test_that(WIFEXITED(status) && WEXITSTATUS(status) == 0, "model %llu: crashed",
              (unsigned long long)arg);
}

Gen *plan_model(const SynthShape *s, const SynthMesh *m)
{
    Gen *g = synth_new();
    synth_build(g, s, m);
    synth_plan(g, m);
    return g;
}

Interpretation run_model(Gen *g, uint64_t seed)
{
    Interpretation run = {
        .seed = seed, .steps = 2, .span = synth_span, .setup = synth_setup};
    interpret_steps(g, &run);
    return run;
}

bool same_state(const Interpretation *a, const Interpretation *b)
{
    return !a->fault && !b->fault && a->state_bytes == b->state_bytes &&
           !memcmp(a->state, b->state, a->state_bytes);
}

static void test_model(uint64_t seed)
{
    SynthShape shape = synth_shape(seed);
    SynthMesh base = synth_numerics(seed);
    Gen *plain = plan_model(&shape, &base);
    Interpretation want;
    interpret_spread(plain);
    want = run_model(plain, 0);
    test_that(!want.fault, "model %llu: plain run: %s", (unsigned long long)seed,
              want.fault);
    for (uint64_t k = 0; k < 6; k++) {
        SynthMesh mesh = synth_mesh(seed * 10 + k, base);
        Gen *g = plan_model(&shape, &mesh);
        const char *bad = synth_check(g);
        bad = bad ? bad : verify_policy(g);
        test_that(!bad, "model %llu choice %llu: %s", (unsigned long long)seed,
                  (unsigned long long)k, bad);
        for (uint64_t order = 0; order < 3; order++) {
            Interpretation got = run_model(g, order);
            test_that(same_state(&want, &got), "model %llu choice %llu order %llu: %s",
                      (unsigned long long)seed, (unsigned long long)k,
                      (unsigned long long)order, got.fault ? got.fault : "other bits");
        }
        synth_free(g);
    }
    synth_free(plain);
}

/* The shape of the models that we ship, without their mathematics. Times are figures, not
   checks: a busy machine and the sanitizers take longer. */
static void test_size(const char *name, int layers, int64_t dim, int64_t ffn, int64_t kv,
                      int64_t vocab, int64_t seq, bool tied, int64_t ranks)
{
    SynthMesh m = {.ranks = ranks,
                   .replicate = 1,
                   .reshard_ranks = ranks,
                   .micro_batches = ranks,
                   .leaves = ranks,
                   .wrap = 1,
                   .prefetch_forward = 1,
                   .prefetch_backward = 1,
                   .in_flight = 2,
                   .strategy = FULL_SHARD,
                   .sharded = true,
                   .param = DT_BF16,
                   .reduce = DT_F32,
                   .master = DT_F32};
    Gen *g = synth_new();
    clock_t t0, t1, t2;
    double live, ideal, place_s, check_s;
    const char *bad;
    synth_llama(g, layers, dim, ffn, kv, vocab, seq, tied, &m);
    shard_params(g);
    policy_choose(g);
    unroll_step(g);
    schedule_step(g);
    t0 = clock();
    place_buffers(g);
    t1 = clock();
    bad = synth_check(g);
    t2 = clock();
    place_s = (double)(t1 - t0) / CLOCKS_PER_SEC;
    check_s = (double)(t2 - t1) / CLOCKS_PER_SEC;
    live = (double)g->prog.arena_bytes / (double)g->prog.max_live_bytes;
    ideal = (double)g->prog.arena_bytes / (double)g->prog.ideal_live_bytes;
    printf(
        "figure: %s at %lld ranks, %d instructions, %d buffers: %.3f GiB, %.4f of most "
        "live, %.4f of one stream; placed in %.3f s, checked in %.3f s of a processor\n",
        name, (long long)ranks, g->prog.ins.count, g->prog.bufs.count,
        (double)g->prog.arena_bytes / 0x1p30, live, ideal, place_s, check_s);
    test_that(!bad, "%s: %s", name, bad);
    test_that(live <= 1.02 && ideal <= 1.05, "%s: %.4f of most live, %.4f of one stream",
              name, live, ideal);
    synth_free(g);
}

/* The exchange area of the plan is the one that the runtime's header asks for. */
static void test_control(void)
{
    for (uint64_t k = 0; k < 20; k++) {
        SynthShape shape = synth_shape(k);
        SynthMesh mesh = synth_numerics(k);
        Gen *g = plan_model(&shape, &mesh);
        for (int b = 0; b < g->prog.bufs.count; b++) {
            const Buffer *buf = &g->prog.bufs.items[b];
            test_that(buf->kind != BUF_CONTROL ||
                          buf->bytes == RT_CONTROL_BYTES(g->model.micro_batches),
                      "the control area has %lld bytes", (long long)buf->bytes);
        }
        synth_free(g);
    }
}

int main(int argc, char **argv)
{
    int models = argc > 1 ? atoi(argv[1]) : 40;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    for (int i = 0; i < models; i++)
        test_forked(test_model, seed + (uint64_t)i);
    test_control();
    test_mesh(seed);
    test_layout(seed);
    test_orders(seed);
    test_masks(seed, models < 60 ? models / 4 : models / 2);
    test_waits(seed, models < 60 ? models : 60);
    test_symmetry(seed, 2 * models);
    test_faults(seed);
    test_size("llama3.2_1b", 16, 2048, 8192, 512, 128256, 2048, true, 2);
    test_size("llama8b", 32, 4096, 14336, 1024, 128256, 8192, false, 8);
    test_size("llama70b", 80, 8192, 28672, 1024, 128256, 8192, false, 64);
    test_size("llama405b", 126, 16384, 53248, 1024, 128256, 8192, false, 512);
    test_size("llama405b", 126, 16384, 53248, 1024, 128256, 8192, false, 4096);
    printf("%d passed, %d failed\n", tests_passed, tests_failed);
    return tests_failed ? 1 : 0;
}
